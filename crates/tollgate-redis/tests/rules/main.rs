//! Rules of a file whose counts a store keeps.

mod limits;
mod runtime;
