//! A log that rules files decide.

use std::thread;
use std::time::Instant;

use tollgate_logs::{KeyBy, KeyWriter, PrefixLen};
use tollgate_rules::Rules;

use super::args::LogArgs;
use super::clients::Clients;
use super::deciders::Deciders;
use super::judge::Judge;
use super::log::{RequestLog, Requests};
use super::map;
use super::needs::WantedParts;
use crate::failure::Failure;
use crate::reading::{ReadSummary, Reading};

/// A log and the rules files that decide it.
pub(crate) struct Trial<const N: usize> {
    pub(crate) log: RequestLog,
    pub(crate) judges: [Judge; N],
}

impl<const N: usize> Trial<N> {
    /// # Errors
    ///
    /// Attributes that are mapped twice.
    pub(crate) fn new(rules: [Rules; N], args: &LogArgs, reading: &Reading) -> Result<Self, Failure> {
        map::validate(&args.maps)?;
        let mut wanted = WantedParts::new(&args.maps, args.lasts.is_some());
        let ipv6_prefix = rules.last().and_then(|rules| PrefixLen::new(rules.clients.ipv6_prefix));
        let clients = KeyWriter { by: KeyBy::Client, ipv6_prefix: ipv6_prefix.unwrap_or_default() };
        let judges = rules.map(|rules| Judge::new(rules, &mut wanted));
        Ok(Self { log: RequestLog::new(wanted, reading.names(), Clients::new(clients), args), judges })
    }

    /// Reads the log. Each judge decides all requests by its `decide`, on a thread of its own.
    /// `each` gets what they decide of a batch, in the order of their arrivals, on this thread.
    ///
    /// # Errors
    ///
    /// Those of [`Reading::batches_with_parts`] and [`RequestLog::requests`], and what `each` makes
    /// of those of [`Judge::open`] and of `decide`.
    pub(crate) fn read<D: Send>(
        &mut self,
        reading: &Reading,
        decide: [impl FnMut(&mut Judge, &Requests) -> Result<D, Failure> + Send; N],
        mut each: impl FnMut(&Requests, [Result<D, Failure>; N]) -> Result<(), Failure>,
    ) -> Result<ReadSummary, Failure> {
        let Self { log, judges } = self;
        let wanted = log.wanted().as_slice().to_vec();
        let start = Instant::now();
        let mut read = thread::scope(|scope| {
            let mut deciders = Deciders::start(scope, judges, decide, &wanted);
            let read = reading.batches_with_parts(wanted.clone(), |batch, before| {
                match log.requests(batch, before) {
                    Ok(requests) => deciders.give(requests),
                    Err(error) => {
                        // What comes before the error in the log is decided, and its errors count.
                        deciders.give(log.rest());
                        deciders.finish(&mut each)?;
                        return Err(error);
                    }
                }
                deciders.next_free(&mut each)
            })?;
            deciders.give(log.rest());
            deciders.finish(&mut each)?;
            Ok::<_, Failure>(read)
        })?;
        read.elapsed = start.elapsed();
        Ok(read)
    }
}
