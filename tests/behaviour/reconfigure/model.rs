//! Random checks, peeks, resets and changes of every limit that can change, compared with the
//! model.

use proptest::prelude::*;
use std::time::Duration;
use tollgate::{
    FixedWindow, Inherit, LeakyBucket, Limiter, ManualClock, Quota, Rate, Timestamp, TokenBucket,
};
use tollgate_model::{Algorithm, Answer, CountPolicy, Inherit as Told, Model};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Bucket,
    Meter,
    Queue,
    Fixed,
    Intervals,
}

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
}

pub(crate) const KEYS: [&str; 3] = ["alice", "bob", "carol"];
/// The shortest window whose number leaves room for the counts.
const SHORTEST: u64 = 1_000;
pub(crate) const ORIGIN: u64 = 1_700_000_000_123_456_789;

impl Limit {
    pub(crate) fn quota(self, kind: Kind) -> Quota {
        let Self { count, period, burst } = self;
        let (rate, window) = (Rate::new(count, Duration::from_nanos(period)), period.max(SHORTEST));
        match kind {
            Kind::Bucket => TokenBucket::new(rate).burst(burst).into(),
            Kind::Intervals => TokenBucket::new(rate).burst(burst).by_intervals().into(),
            Kind::Meter => LeakyBucket::meter(rate).capacity(burst).into(),
            Kind::Queue => LeakyBucket::queue(rate).capacity(burst).into(),
            Kind::Fixed => FixedWindow::new(Rate::new(burst, Duration::from_nanos(window))).into(),
        }
    }

    pub(crate) fn model(self, kind: Kind) -> Algorithm {
        let Self { count, period: period_ns, burst } = self;
        match kind {
            Kind::Bucket => Algorithm::TokenBucket { count, period_ns, burst, initial: burst, grains: None },
            Kind::Intervals => {
                Algorithm::IntervalBucket { count, period_ns, origin_ns: ORIGIN, burst, initial: burst }
            }
            Kind::Meter => Algorithm::LeakyMeter { count, period_ns, capacity: burst, grains: None },
            Kind::Queue => Algorithm::LeakyQueue { count, period_ns, capacity: burst, grains: None },
            Kind::Fixed => Algorithm::FixedWindow {
                limit: burst,
                window_ns: period_ns.max(SHORTEST),
                origin_ns: ORIGIN,
                count: CountPolicy::Allowed,
                ceiling: u64::MAX,
            },
        }
    }
}

pub(crate) fn told(inherit: Inherit) -> Told {
    match inherit {
        Inherit::AsIs => Told::AsIs,
        Inherit::Proportional => Told::Proportional,
        Inherit::Additive => Told::Additive,
        Inherit::Reset => Told::Reset,
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

fn op() -> impl Strategy<Value = Op> {
    let cost = || prop_oneof![0_u64..4, 1_u64..210];
    prop_oneof![
        6 => (0..KEYS.len(), cost()).prop_map(|(key, cost)| Op::Check(key, cost)),
        2 => (0..KEYS.len(), cost()).prop_map(|(key, cost)| Op::Peek(key, cost)),
        1 => (0..KEYS.len()).prop_map(Op::Reset),
        3 => prop_oneof![0_u64..5, 0_u64..3_000, 0_u64..5_000_000_000].prop_map(Op::Advance),
        2 => (limit(), inherit()).prop_map(|(limit, inherit)| Op::Change(limit, inherit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_500 } else { 60_000 })
    })]

    #[test]
    fn a_reconfigured_limiter_decides_as_the_model_does(
        kind in prop::sample::select(vec![
            Kind::Bucket, Kind::Meter, Kind::Queue, Kind::Fixed, Kind::Intervals,
        ]),
        first in limit(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let clock = ManualClock::starting_at(Duration::from_nanos(ORIGIN));
        let builder = Limiter::<str, Quota>::builder(first.quota(kind)).clock(clock.clone());
        let limiter = builder.build().unwrap();
        let mut model = Model::new(first.model(kind));
        let mut now = 0;
        for op in ops {
            let (decision, answer): (_, Answer) = match op {
                Op::Advance(by) => {
                    now += by;
                    clock.set(Timestamp::from_nanos(now));
                    continue;
                }
                Op::Change(limit, inherit) => {
                    prop_assert_eq!(limiter.reconfigure(limit.quota(kind), inherit), Ok(()));
                    model.reconfigure(limit.model(kind), told(inherit), now);
                    continue;
                }
                Op::Reset(key) => {
                    limiter.prepare(KEYS[key]).reset();
                    model.reset(KEYS[key]);
                    continue;
                }
                Op::Check(key, cost) => (limiter.check_n(KEYS[key], cost), model.check(KEYS[key], now, cost)),
                Op::Peek(key, cost) => {
                    (limiter.at(limiter.now()).peek_n(KEYS[key], cost), model.peek(KEYS[key], now, cost))
                }
            };
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
            prop_assert_eq!(decision.is_allowed(), answer.allowed, "{:?} at {}", op, now);
            prop_assert_eq!(decision.is_never(), answer.never);
            prop_assert_eq!((decision.limit(), decision.remaining()), (answer.limit, answer.remaining), "{:?}", op);
            prop_assert_eq!(decision.retry_after().map(nanos), answer.retry_after_ns, "{:?} at {}", op, now);
            prop_assert_eq!(nanos(decision.delay()), answer.delay_ns);
            prop_assert_eq!(nanos(decision.reset_after()), answer.reset_after_ns);
        }
    }
}
