//! What is saved, and restored at the start.
