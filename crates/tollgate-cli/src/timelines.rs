//! A whole log in memory, request by request, key by key: for commands that try it many times.
//!
//! ```text
//!   asks    | key 0: t t t t | key 1: t t | key 2: t t t ...     in the order of the log within each key
//!   starts  ^ 0              ^ 4          ^ 6
//! ```

use std::collections::HashMap;
use std::ops::ControlFlow;

use tollgate::Timestamp;

use crate::failure::{Failure, say};
use crate::ingest::Op;
use crate::reading::{LogTime, Reading};

/// One request of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    /// When it is decided, from the log's first record on.
    pub(crate) at: Timestamp,
    pub(crate) cost: u64,
}

/// All requests of a log.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    /// Unix time of the first record.
    pub(crate) zero: u64,
    /// The last record's time, from the first one on.
    pub(crate) span: u64,
    starts: Vec<usize>,
    asks: Vec<Ask>,
}

impl Timelines {
    /// Reads all requests and says on standard error what could not be read. Of a trace only checks are
    /// requests.
    ///
    /// # Errors
    ///
    /// When the sources cannot be read to their end, or hold no request.
    pub(crate) fn read(reading: &Reading) -> Result<Self, Failure> {
        let mut numbers = HashMap::<Box<[u8]>, u32, ahash::RandomState>::default();
        let mut time = LogTime::default();
        let mut asks = Vec::new();
        let (mut too_many, mut passed_over) = (false, 0_u64);
        let read = reading.each(|record| {
            if record.op != Op::Check {
                passed_over += u64::from(!matches!(record.op, Op::Peek | Op::Reset));
                return ControlFlow::Continue(());
            }
            let t_ns = time.decided_at(record.t_ns);
            let zero = time.span().map_or(t_ns, |(first, _)| first);
            let ask = Ask { at: Timestamp::from_nanos(t_ns - zero), cost: record.cost };
            let number = match numbers.get(record.key) {
                Some(number) => *number,
                None => {
                    let Ok(number) = u32::try_from(numbers.len()) else {
                        too_many = true;
                        return ControlFlow::Break(());
                    };
                    numbers.insert(record.key.into(), number);
                    number
                }
            };
            asks.push((number, ask));
            ControlFlow::Continue(())
        })?;
        read.troubles(&reading.names()).iter().for_each(|trouble| say(trouble));
        if passed_over > 0 {
            say(&format!(
                "lines that reserve or give back are passed over ({passed_over}): only checks are tried here. \
                 `tollgate replay` follows them."
            ));
        }
        if let Some(why) = read.stopped {
            return Err(Failure::Usage(why));
        }
        if too_many {
            return Err(Failure::Usage("the log has more than 4,294,967,295 keys".to_owned()));
        }
        let Some((first, last)) = time.span() else {
            return Err(Failure::Usage("no request could be read".to_owned()));
        };
        Ok(Self::by_key(first, last - first, numbers.len(), &asks))
    }

    /// Sorts requests, each with the number of its key, by key.
    pub(crate) fn by_key(zero: u64, span: u64, keys: usize, asks: &[(u32, Ask)]) -> Self {
        let mut starts = vec![0; keys + 1];
        for (key, _) in asks {
            starts[*key as usize + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut next = starts.clone();
        let mut sorted = vec![Ask { at: Timestamp::ZERO, cost: 0 }; asks.len()];
        for (key, ask) in asks {
            let place = &mut next[*key as usize];
            sorted[*place] = *ask;
            *place += 1;
        }
        Self { zero, span, starts, asks: sorted }
    }

    /// How many requests there are.
    pub(crate) fn requests(&self) -> u64 {
        self.asks.len() as u64
    }

    /// How many keys there are.
    pub(crate) fn keys(&self) -> usize {
        self.starts.len() - 1
    }

    /// The requests of each key.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[Ask]> {
        self.starts.windows(2).map(|ends| &self.asks[ends[0]..ends[1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_sorted_by_key_and_keep_their_order() {
        let ask = |t: u64| Ask { at: Timestamp::from_nanos(t), cost: 1 };
        let asks = [(1, ask(0)), (0, ask(1)), (1, ask(2)), (2, ask(3)), (0, ask(4))];
        let timelines = Timelines::by_key(0, 4, 3, &asks);
        let by_key: Vec<Vec<Ask>> = timelines.each().map(<[Ask]>::to_vec).collect();
        assert_eq!(by_key, [vec![ask(1), ask(4)], vec![ask(0), ask(2)], vec![ask(3)]]);
        assert_eq!((timelines.requests(), timelines.keys()), (5, 3));
    }
}
