//! Calls of `CL.THROTTLE` that came together: their keys are looked for in memory at the same time,
//! and they are decided at one reading of the clock.

use tollgate::{BuildError, ByClock, CallQuota, Decision, Timestamp};

use super::parse::Arguments;
use super::reply::Reply;
use super::throttle::{Five, Throttle, Wrong};
use crate::core::{CallKey, Full, Room};
use crate::metrics::Metrics;

/// How many keys are looked for at the same time.
const SIZE: usize = 16;

/// A call that is to be decided.
#[derive(Clone, Copy)]
struct Pending<'l> {
    throttle: Throttle,
    key: CallKey<'l, ByClock>,
}

/// Calls that are to be decided, in their order.
pub(super) struct Batch<'l> {
    room: &'l Room,
    metrics: &'l Metrics,
    pending: [Option<Pending<'l>>; SIZE],
    len: usize,
    /// The time of the decisions; `None`: the clock is read for the next one.
    now: Option<Timestamp>,
}

impl<'l> Batch<'l> {
    pub(super) fn new(room: &'l Room, metrics: &'l Metrics) -> Self {
        Self { room, metrics, pending: [None; SIZE], len: 0, now: None }
    }

    /// Adds a call. Its answer is written by the next [`finish`](Self::finish), or before.
    pub(super) fn add(&mut self, arguments: Arguments<'_>, reply: &mut Reply<'_>) {
        match read(arguments) {
            Ok(throttle) => {
                if self.len == SIZE {
                    self.finish(reply);
                }
                let key = self.room.account(arguments.get(1));
                self.pending[self.len] = Some(Pending { throttle, key });
                self.len += 1;
            }
            Err(mistake) => {
                self.finish(reply);
                mistake.write(reply);
            }
        }
    }

    /// Decides the calls and writes their answers.
    #[inline]
    pub(super) fn finish(&mut self, reply: &mut Reply<'_>) {
        let len = std::mem::take(&mut self.len);
        if len == 0 {
            return;
        }
        let now = *self.now.get_or_insert_with(|| self.room.now());
        for Pending { throttle, key } in self.pending[..len].iter().flatten() {
            match decide(self.room, *throttle, key.at(now)) {
                Ok((is_admitted, five)) => {
                    self.metrics.decided_call(is_admitted);
                    reply.five(five);
                }
                Err(Undecided::Full(Full { keys })) => {
                    reply.error(format_args!("OOM tollgate: {keys} keys owe something (--resp-max-keys)"));
                }
                Err(Undecided::OutOfRange) => reply.error(OUT_OF_RANGE),
            }
        }
    }

    /// Reads the clock for the next call: a key was changed at a later time than that of the batch.
    pub(super) fn reread_clock(&mut self) {
        self.now = None;
    }
}

/// What a number says that cannot be computed with.
const OUT_OF_RANGE: &str = "ERR value is out of range";

/// Why a call has no numbers.
enum Mistake<'b> {
    Usage,
    NoInteger(&'b [u8]),
    Numbers(Wrong),
}

impl Mistake<'_> {
    #[cold]
    fn write(self, reply: &mut Reply<'_>) {
        match self {
            Self::Usage => reply.error(
                "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> \
                 <period> [<quantity>]",
            ),
            Self::NoInteger(text) => {
                reply.error_about("Cell error: Store error: Couldn't parse as integer: ", text);
            }
            Self::Numbers(Wrong::ZeroRate) => {
                reply.error("Cell error: Store error: Zero rates are not supported");
            }
            Self::Numbers(Wrong::OutOfRange) => reply.error(OUT_OF_RANGE),
        }
    }
}

fn read(arguments: Arguments<'_>) -> Result<Throttle, Mistake<'_>> {
    if !(5..=6).contains(&arguments.len()) {
        return Err(Mistake::Usage);
    }
    let number = |index| integer(arguments.get(index));
    let (max_burst, count, period) = (number(2)?, number(3)?, number(4)?);
    let quantity = if arguments.len() == 6 { number(5)? } else { 1 };
    Throttle::new(max_burst, count, period, quantity).map_err(Mistake::Numbers)
}

/// An integer as Rust reads it, which redis-cell is written in: `+5` is one, `5.0` and ` 5` are
/// not.
#[inline]
fn integer(text: &[u8]) -> Result<i64, Mistake<'_>> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or(Mistake::NoInteger(text))
}

/// Why a call is not decided. Nothing is charged then.
enum Undecided {
    Full(Full),
    /// The engine does not count so long a time.
    OutOfRange,
}

impl From<Full> for Undecided {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl From<BuildError> for Undecided {
    fn from(_: BuildError) -> Self {
        Self::OutOfRange
    }
}

/// Decides a call: whether it is admitted, and the answer.
#[inline]
fn decide(room: &Room, throttle: Throttle, key: CallKey<'_>) -> Result<(bool, Five), Undecided> {
    let Some((charge, tolerance)) = throttle.charge() else { return decide_unusual(room, throttle, key) };
    // The charge as an emission interval of its own: a quantity need not be positive.
    let quota = CallQuota::from_nanos(charge, tolerance)?.lend();
    let decision = room.decide(key, &quota, charge)?;
    let (debt, is_admitted) = (debt(&decision), decision.is_allowed());
    Ok((is_admitted, if is_admitted { throttle.admitted(debt) } else { throttle.refused(debt) }))
}

/// Decides a call that charges nothing: it looks, gives back, or asks for more than a whole limit.
#[cold]
#[inline(never)]
fn decide_unusual(room: &Room, throttle: Throttle, key: CallKey<'_>) -> Result<(bool, Five), Undecided> {
    let quota = CallQuota::from_nanos(1, throttle.tolerance_to_look())?.lend();
    let key = key.under(&quota);
    let (is_admitted, five) = throttle.answer(debt(&room.found(key.peek_n(0))?));
    if is_admitted && throttle.gives_back() > 0 {
        key.credit(throttle.gives_back());
    }
    Ok((is_admitted, five))
}

/// A key's TAT less the time of the decision, in nanoseconds.
#[inline]
fn debt(decision: &Decision<'_>) -> i64 {
    // At the end of the clock's time it is 584 years.
    i64::try_from(decision.reset_after().as_nanos()).unwrap_or(i64::MAX)
}
