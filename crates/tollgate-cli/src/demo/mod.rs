//! `--demo`: a day of traffic that nobody had to record.
//!
//! The day is made up from a seed, request by request in the order of time, and is the same on every
//! machine. Its characters are those a limit is made for, and [`story`] introduces them:
//!
//! ```text
//!   requests |                                              flash crowd
//!            |                                                   |
//!            |                  .-- crawler ---.         .--.    |
//!            |  brute force     |              |      .-'    '-. |
//!            |  | | |   | |   .-|              |-----'   people '-.
//!            +--------------------------------------------------------
//!             0 h             8 h             14 h              20 h
//! ```
//!
//! Every address is from a range reserved for documentation (RFC 5737, RFC 3849).

mod cast;
mod day;
mod dice;

use std::fmt;
use std::net::IpAddr;

pub(crate) use cast::story;
pub(crate) use day::day;

/// One request of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// Nanoseconds since the epoch.
    pub(crate) t_ns: u64,
    /// Who asks. An IPv6 client keeps its /64 and changes the rest from visit to visit.
    pub(crate) client: IpAddr,
    pub(crate) method: &'static str,
    pub(crate) path: Path,
}

/// What a request asks for: a path, perhaps one of many that end in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    stem: &'static str,
    number: Option<u32>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.stem)?;
        self.number.map_or(Ok(()), |number| write!(f, "{number}"))
    }
}
