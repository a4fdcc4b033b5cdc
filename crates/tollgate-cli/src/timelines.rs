//! A whole log in memory, sorted by key, for commands that replay it many times.
//!
//! ```text
//!   requests | key 0: t t t t | key 1: t t | key 2: t t t ...    within a key in the log's order
//!   starts   ^ 0              ^ 4          ^ 6
//! ```

use std::collections::HashMap;

use tollgate::Timestamp;
use tollgate_logs::Op;

use crate::failure::Failure;
use crate::note::print_note;
use crate::reading::{LogTime, Reading};
use crate::report::figures::counted;

/// One request of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// When it is decided, counted from the log's first record.
    pub(crate) at: Timestamp,
    pub(crate) cost: u64,
}

/// All requests of a log.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    /// Unix time of the first record.
    pub(crate) start_ns: u64,
    /// How long after the first record the last one is.
    pub(crate) span: u64,
    starts: Vec<usize>,
    requests: Vec<Request>,
}

impl Timelines {
    /// Reads all requests, and notes on standard error what could not be read. In a trace only
    /// checks are requests.
    ///
    /// # Errors
    ///
    /// When a source cannot be read to its end, or the sources hold no request.
    pub(crate) fn read(reading: &Reading) -> Result<Self, Failure> {
        let mut numbers = HashMap::<Box<[u8]>, u32, ahash::RandomState>::default();
        let mut time = LogTime::default();
        let mut requests = Vec::new();
        let mut skipped = 0_u64;
        let read = reading.each(|record| {
            if record.op != Op::Check || record.quota.is_some() {
                skipped += u64::from(!matches!(record.op, Op::Peek | Op::Reset));
                return Ok(());
            }
            let t_ns = time.decided_at(record.t_ns);
            let start_ns = time.span().map_or(t_ns, |(first, _)| first);
            let request = Request { at: Timestamp::from_nanos(t_ns - start_ns), cost: record.cost };
            let number = match numbers.get(record.key) {
                Some(number) => *number,
                None => {
                    let number = u32::try_from(numbers.len())
                        .map_err(|_| Failure::Usage("the log has more than 4,294,967,295 keys".to_owned()))?;
                    numbers.insert(record.key.into(), number);
                    number
                }
            };
            requests.push((number, request));
            Ok(())
        })?;
        read.problems(&reading.names()).iter().for_each(|problem| print_note(problem));
        if skipped > 0 {
            print_note(&format!(
                "skipped {} with reservations, refunds, cancels or quotas: only checks are tried here. \
                 `tollgate replay` follows them.",
                counted(skipped, "line")
            ));
        }
        if let Some(why) = read.stopped {
            return Err(Failure::Usage(why));
        }
        let Some((first, last)) = time.span() else {
            return Err(Failure::Usage("no request could be read".to_owned()));
        };
        Ok(Self::by_key(first, last - first, numbers.len(), &requests))
    }

    /// Sorts requests, each with the number of its key, by key.
    pub(crate) fn by_key(start_ns: u64, span: u64, keys: usize, requests: &[(u32, Request)]) -> Self {
        let mut starts = vec![0; keys + 1];
        for (key, _) in requests {
            starts[*key as usize + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut next = starts.clone();
        let mut sorted = vec![Request { at: Timestamp::ZERO, cost: 0 }; requests.len()];
        for (key, request) in requests {
            let index = &mut next[*key as usize];
            sorted[*index] = *request;
            *index += 1;
        }
        Self { start_ns, span, starts, requests: sorted }
    }

    /// How many requests there are.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// How many keys there are.
    pub(crate) fn keys(&self) -> usize {
        self.starts.len() - 1
    }

    /// The requests of each key.
    pub(crate) fn each_key(&self) -> impl Iterator<Item = &[Request]> {
        self.starts.windows(2).map(|ends| &self.requests[ends[0]..ends[1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_sorted_by_key_and_keep_their_order() {
        let request = |t: u64| Request { at: Timestamp::from_nanos(t), cost: 1 };
        let requests = [(1, request(0)), (0, request(1)), (1, request(2)), (2, request(3)), (0, request(4))];
        let timelines = Timelines::by_key(0, 4, 3, &requests);
        let by_key: Vec<Vec<Request>> = timelines.each_key().map(<[Request]>::to_vec).collect();
        assert_eq!(by_key, [vec![request(1), request(4)], vec![request(0), request(2)], vec![request(3)]]);
        assert_eq!((timelines.requests(), timelines.keys()), (5, 3));
    }
}
