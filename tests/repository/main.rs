//! The repository itself: its shape, and the pages that name its tests.

mod promises;
mod tidy;
