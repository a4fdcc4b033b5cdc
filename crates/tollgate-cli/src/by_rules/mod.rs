//! Decides a log by a rules file, for `replay --rules`, `rules diff` and `tune --rules`.
//!
//! ```text
//!   rules file -> needs -> wanted parts -> ingest -> record -> request, time -> judge -> judgement
//!                   +-- which rules the log can decide ---------------------------^
//! ```
//!
//! | file | what |
//! |------|------|
//! | `load` | reads a rules file |
//! | `map` | `--map ATTRIBUTE=FIELD` |
//! | `needs` | the parts of a request that rules need, and why a log cannot decide a rule |
//! | `clients` | the clients of a log: numbers, and addresses for host names |
//! | `request`, `log` | a record as a request; all records |
//! | `judge` | decides requests |
//! | `side_by_side` | decides requests by two files, each on its thread |
//! | `key_text`, `limits_text` | keys and limits as texts |

mod clients;
mod judge;
mod key_text;
mod limits_text;
mod load;
mod log;
mod map;
mod needs;
mod request;
mod side_by_side;

pub(crate) use clients::{Client, Clients};
pub(crate) use judge::{Judge, Judgement};
pub(crate) use limits_text::{limits_text, mode_text, time_text};
pub(crate) use load::{load, path};
pub(crate) use log::{Logged, RequestLog};
pub(crate) use map::Map;
pub(crate) use needs::WantedParts;
pub(crate) use side_by_side::{At, Decided, SideBySide};

use crate::failure::Failure;
use crate::ingest::{KeyBy, KeyWriter, PrefixLen, Record};
use crate::reading::Reading;
use tollgate_rules::Rules;

/// A log and the rules files that decide it.
pub(crate) struct Trial<const N: usize> {
    pub(crate) log: RequestLog,
    pub(crate) judges: [Judge; N],
}

impl<const N: usize> Trial<N> {
    /// # Errors
    ///
    /// Attributes that are mapped twice.
    pub(crate) fn new(rules: [Rules; N], maps: &[Map], reading: &Reading) -> Result<Self, Failure> {
        map::validate(maps)?;
        let mut wanted = WantedParts::new(maps);
        let ipv6_prefix = rules.last().and_then(|rules| PrefixLen::new(rules.clients.ipv6_prefix));
        let clients = KeyWriter { by: KeyBy::Client, ipv6_prefix: ipv6_prefix.unwrap_or_default() };
        let judges = rules.map(|rules| Judge::new(rules, &mut wanted));
        Ok(Self { log: RequestLog::new(wanted, reading.names(), Clients::new(clients)), judges })
    }

    /// Reads the request that a record is, and builds the limiters at the first one.
    ///
    /// # Errors
    ///
    /// Those of [`RequestLog::request`] and [`Judge::open`].
    #[inline]
    pub(crate) fn step<'l>(
        &'l mut self,
        record: &Record<'l>,
    ) -> Result<(Logged<'l>, &'l mut [Judge; N]), Failure> {
        let Self { log, judges } = self;
        for judge in &mut *judges {
            if !judge.is_open() {
                judge.open(record.parts.found(), log.wanted().as_slice(), record.t_ns)?;
            }
        }
        Ok((log.request(record)?, judges))
    }
}
