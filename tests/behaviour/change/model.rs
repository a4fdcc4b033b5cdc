//! Random checks, peeks, resets and changes of every limit that can change, compared with the
//! model.

use proptest::prelude::*;
use std::time::Duration;
use tollgate::{Inherit, Limiter, Quota, Receipt, Timestamp};
use tollgate_model::{Algorithm, Answer, Booking, Inherit as Told, Model};
use tollgate_testing::clocks::UnixSet;
use tollgate_testing::limits::{self, Kind, Precision};

/// A limit with exact decisions: its rate is in lowest terms with a small numerator. So the
/// engine's grain, to which a change rounds, equals the model's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    count: u64,
    period: u64,
    burst: u64,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Check(usize, u64),
    Peek(usize, u64),
    Reset(usize),
    Advance(u64),
    Change(Limit, Inherit),
    /// The Unix time was set, by so many nanoseconds.
    Realign(i64),
    /// One of the requests since the last change comes back.
    Refund(usize),
    Reserve(usize, u64, u64),
    Restart,
}

pub(crate) const KEYS: [&str; 3] = ["alice", "bob", "carol"];
/// The shortest window whose number leaves room for the counts.
const SHORTEST: u64 = 1_000;
pub(crate) const ORIGIN: u64 = 1_700_000_000_123_456_789;

impl Limit {
    fn described(self, kind: Kind) -> limits::Limit {
        if kind == Kind::Fixed {
            return kind.limit(self.burst, self.period.max(SHORTEST));
        }
        kind.limit(self.count, self.period).burst(self.burst)
    }

    pub(crate) fn quota(self, kind: Kind) -> Quota {
        self.described(kind).quota()
    }

    pub(crate) fn model(self, kind: Kind, origin: u64) -> Algorithm {
        self.described(kind).algorithm(Precision::EXACT, origin)
    }
}

pub(crate) fn told(inherit: Inherit) -> Told {
    match inherit {
        Inherit::AsIs => Told::AsIs,
        Inherit::Proportional => Told::Proportional,
        Inherit::Additive => Told::Additive,
        Inherit::Reset => Told::Reset,
        other => unreachable!("{other:?}"),
    }
}

pub(crate) fn limit() -> impl Strategy<Value = Limit> {
    let period = prop_oneof![1_u64..2_000, Just(1_000_000_000), Just(60_000_000_000)];
    (1_u64..8, period, prop_oneof![1_u64..6, 1_u64..200]).prop_map(|(count, period, burst)| {
        let common = (1..=count).rfind(|by| count % by == 0 && period % by == 0).unwrap_or(1);
        Limit { count: count / common, period: period / common, burst }
    })
}

pub(crate) fn inherit() -> impl Strategy<Value = Inherit> {
    prop_oneof![
        Just(Inherit::AsIs),
        Just(Inherit::Proportional),
        Just(Inherit::Additive),
        Just(Inherit::Reset)
    ]
}

/// By how much the Unix time is set.
pub(crate) fn set_by() -> impl Strategy<Value = i64> {
    prop_oneof![-10_i64..10, -3_000_i64..3_000, -100_000_000_000_i64..100_000_000_000]
}

fn op() -> impl Strategy<Value = Op> {
    let cost = || prop_oneof![0_u64..4, 1_u64..210];
    prop_oneof![
        6 => (0..KEYS.len(), cost()).prop_map(|(key, cost)| Op::Check(key, cost)),
        2 => (0..KEYS.len(), cost()).prop_map(|(key, cost)| Op::Peek(key, cost)),
        1 => (0..KEYS.len()).prop_map(Op::Reset),
        3 => prop_oneof![0_u64..5, 0_u64..3_000, 0_u64..5_000_000_000].prop_map(Op::Advance),
        2 => (limit(), inherit()).prop_map(|(limit, inherit)| Op::Change(limit, inherit)),
        2 => set_by().prop_map(Op::Realign),
        2 => (0..8_usize).prop_map(Op::Refund),
        1 => (0..KEYS.len(), cost(), 0_u64..5_000_000_000).prop_map(|(key, cost, wait)| Op::Reserve(key, cost, wait)),
        1 => Just(Op::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_500 } else { 60_000 })
    })]

    #[test]
    fn a_changed_limiter_decides_as_the_model_does(
        kind in prop::sample::select(vec![
            Kind::Bucket, Kind::Meter, Kind::Queue, Kind::Fixed, Kind::Intervals,
        ]),
        first in limit(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut clock = UnixSet::new(ORIGIN);
        let builder = |quota, clock: &UnixSet| Limiter::builder(quota).per::<str>().max_keys(8).clock(clock.clone());
        let mut quota = first.quota(kind);
        let mut limiter = builder(quota, &clock).build().unwrap();
        let mut receipts: Vec<(Receipt, tollgate_model::Receipt)> = Vec::new();
        // Of which no file tells.
        let (mut has_reserved, mut came_back) = (false, None);
        let mut model = Model::new(first.model(kind, ORIGIN));
        let (mut now, mut origin) = (0, ORIGIN);
        for op in ops {
            let (decision, (answer, receipt)): (_, (Answer, _)) = match op {
                Op::Advance(by) => {
                    now += by;
                    clock.manual.set(Timestamp::from_nanos(now));
                    continue;
                }
                Op::Change(limit, inherit) => {
                    quota = limit.quota(kind);
                    receipts.clear();
                    prop_assert_eq!(limiter.change().to(quota).inherit(inherit).apply(), Ok(()));
                    model.change(limit.model(kind, origin), told(inherit), now);
                    continue;
                }
                Op::Realign(by) => {
                    origin = origin.saturating_add_signed(by);
                    clock.set_unix_at_zero(origin);
                    receipts.clear();
                    prop_assert_eq!(limiter.realign(Duration::from_nanos(origin)), Ok(()));
                    model.realign(origin, now);
                    continue;
                }
                Op::Refund(pick) => {
                    if receipts.is_empty() {
                        continue;
                    }
                    came_back = Some(now);
                    let (receipt, right) = receipts.remove(pick % receipts.len());
                    let (back, right) = (limiter.refund(receipt), model.refund(right, now));
                    prop_assert!(back <= right, "{back} came back, and {right} by the model");
                    // A bucket may remember less of its refunds.
                    if back < right {
                        return Ok(());
                    }
                    continue;
                }
                Op::Reserve(key, cost, wait) => {
                    let turn = limiter.account(KEYS[key]).reserve(cost, Duration::from_nanos(wait));
                    let departs = turn.ok().map(|turn| turn.departure().as_nanos());
                    let right = match model.reserve(KEYS[key], now, cost, wait) {
                        Ok(Booking::Booked(turn)) => Some(turn.departs_at_ns()),
                        _ => None,
                    };
                    prop_assert_eq!(departs, right, "{:?} at {}", op, now);
                    has_reserved = true;
                    continue;
                }
                Op::Restart => {
                    if has_reserved || came_back == Some(now) {
                        continue;
                    }
                    let mut file = Vec::new();
                    limiter.save(&mut file).unwrap();
                    clock = clock.restarted();
                    limiter = builder(quota, &clock).restore(&file[..]).unwrap();
                    receipts.clear();
                    continue;
                }
                Op::Reset(key) => {
                    receipts.clear();
                    limiter.account(KEYS[key]).reset();
                    model.reset(KEYS[key]);
                    continue;
                }
                Op::Check(key, cost) => (limiter.check_n(KEYS[key], cost), model.admit(KEYS[key], now, cost)),
                Op::Peek(key, cost) => {
                    (limiter.account(KEYS[key]).at(limiter.now()).peek_n(cost), (model.peek(KEYS[key], now, cost), None))
                }
            };
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
            prop_assert_eq!(decision.is_allowed(), answer.allowed, "{:?} at {}", op, now);
            prop_assert_eq!(decision.is_never(), answer.never);
            prop_assert_eq!((decision.limit(), decision.remaining()), (answer.limit, answer.remaining), "{:?}", op);
            prop_assert_eq!(decision.retry_after().map(nanos), answer.retry_after_ns, "{:?} at {}", op, now);
            prop_assert_eq!(nanos(decision.delay()), answer.delay_ns);
            prop_assert_eq!(nanos(decision.reset_after()), answer.reset_after_ns);
            receipts.extend(receipt.map(|right| (decision.receipt(), right)));
        }
    }
}
