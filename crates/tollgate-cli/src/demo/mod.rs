//! `--demo`: a made-up day of traffic.
//!
//! A seed determines every request; the day is the same on every machine. Its personas are the
//! clients that limits are made for ([`introductions`]):
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

mod day;
mod personas;

use std::fmt;
use std::net::IpAddr;

pub(crate) use day::day;
pub(crate) use personas::introductions;

/// One request of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// Nanoseconds since the epoch.
    pub(crate) t_ns: u64,
    /// An IPv6 client keeps its /64 and changes the rest from visit to visit.
    pub(crate) client: IpAddr,
    pub(crate) method: &'static str,
    pub(crate) path: Path,
}

/// A path, perhaps one of many that end in a number.
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
