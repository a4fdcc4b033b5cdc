//! The counts of a listener, where it counts them: the server prints them.
//!
//! | file | what |
//! |------|------|
//! | `listener` | connections, times of requests, unfinished bytes |
//! | `protocol_errors` | input that was refused: counted, and told in the log |
//! | `histogram` | counts between fixed bounds |

mod histogram;
mod listener;
mod protocol_errors;

pub use histogram::{Buckets, Histogram};
pub use listener::{ListenerCounts, OpenConnection, TIMES};
