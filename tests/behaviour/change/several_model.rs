//! Random checks and changes of several limits, together or one alone, compared with the model.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Inherit, Limiter, Quota, Timestamp};
use tollgate_model::{Algorithm, MultiModel};
use tollgate_testing::clocks::UnixSet;
use tollgate_testing::limits::Kind;

use super::model::{KEYS, Limit, ORIGIN, inherit, limit, set_by, told};

#[derive(Clone, Debug)]
enum Op {
    Check(usize, u64),
    Peek(usize, u64),
    Advance(u64),
    All(Vec<Limit>, Inherit),
    One(usize, Limit, Inherit),
    Realign(i64),
    Restart,
}

/// The most limits of a case.
const MOST: usize = 4;

fn op() -> impl Strategy<Value = Op> {
    let cost = || prop_oneof![0_u64..4, 1_u64..210];
    prop_oneof![
        6 => (0..KEYS.len(), cost()).prop_map(|(key, cost)| Op::Check(key, cost)),
        1 => (0..KEYS.len(), cost()).prop_map(|(key, cost)| Op::Peek(key, cost)),
        3 => prop_oneof![0_u64..5, 0_u64..3_000, 0_u64..5_000_000_000].prop_map(Op::Advance),
        1 => (prop::collection::vec(limit(), MOST), inherit()).prop_map(|(limits, inherit)| Op::All(limits, inherit)),
        1 => (0..MOST, limit(), inherit()).prop_map(|(number, limit, inherit)| Op::One(number, limit, inherit)),
        1 => set_by().prop_map(Op::Realign),
        1 => Just(Op::Restart),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Bucket, Kind::Meter, Kind::Queue, Kind::Fixed, Kind::Intervals])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_limits_that_change_decide_as_the_model_does(
        first in prop::collection::vec((kind(), limit()), 1..=MOST),
        ops in prop::collection::vec(op(), 1..100),
    ) {
        let kinds: Vec<Kind> = first.iter().map(|(kind, _)| *kind).collect();
        let mut clock = UnixSet::new(ORIGIN);
        let builder = |quotas: &[Quota], clock: &UnixSet| {
            Limiter::builder(quotas.to_vec()).per::<str>().clock(clock.clone()).max_keys(100)
        };
        let mut quotas: Vec<Quota> = first.iter().map(|(kind, limit)| limit.quota(*kind)).collect();
        let mut limiter = builder(&quotas, &clock).build().unwrap();
        let models: Vec<Algorithm> = first.iter().map(|(kind, limit)| limit.model(*kind, ORIGIN)).collect();
        let mut model = MultiModel::new(&models);
        let (mut now, mut origin) = (0, ORIGIN);
        for op in ops {
            match &op {
                Op::Advance(by) => {
                    now += by;
                    clock.manual.set(Timestamp::from_nanos(now));
                }
                Op::All(limits, inherit) => {
                    quotas = limits.iter().zip(&kinds).map(|(limit, kind)| limit.quota(*kind)).collect();
                    prop_assert_eq!(limiter.change().to(quotas.clone()).inherit(*inherit).apply(), Ok(()));
                    for (number, (limit, kind)) in limits.iter().zip(&kinds).enumerate() {
                        model.change(number, limit.model(*kind, origin), told(*inherit), now);
                    }
                }
                Op::One(number, limit, inherit) => {
                    let Some(kind) = kinds.get(*number) else { continue };
                    quotas[*number] = limit.quota(*kind);
                    prop_assert_eq!(limiter.change().limit(*number, quotas[*number]).inherit(*inherit).apply(), Ok(()));
                    model.change(*number, limit.model(*kind, origin), told(*inherit), now);
                }
                Op::Realign(by) => {
                    origin = origin.saturating_add_signed(*by);
                    clock.set_unix_at_zero(origin);
                    prop_assert_eq!(limiter.realign(Duration::from_nanos(origin)), Ok(()));
                    model.realign(origin, now);
                }
                Op::Restart => {
                    let mut file = Vec::new();
                    limiter.save(&mut file).unwrap();
                    clock = clock.restarted();
                    limiter = builder(&quotas, &clock).restore(&file[..]).unwrap();
                }
                Op::Peek(key, cost) => {
                    let seen = limiter.account(KEYS[*key]).at(limiter.now()).peek_n(*cost);
                    let parts = model.limits().iter().map(|limit| limit.peek(KEYS[*key], now, *cost));
                    let allowed = parts.clone().all(|answer| answer.allowed);
                    prop_assert_eq!(seen.is_allowed(), allowed, "{:?} at {}", op, now);
                    prop_assert_eq!(seen.is_never(), parts.clone().any(|answer| answer.never));
                    let limits: Vec<u64> = seen.parts().map(|part| part.limit()).collect();
                    prop_assert_eq!(limits, parts.map(|answer| answer.limit).collect::<Vec<_>>());
                }
                Op::Check(key, cost) => {
                    let (decision, joint) =
                        (limiter.check_n(KEYS[*key], *cost), model.check(KEYS[*key], now, *cost));
                    let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap();
                    prop_assert_eq!(decision.is_allowed(), joint.allowed(), "{:?} at {}", op, now);
                    prop_assert_eq!(decision.refused_by(), joint.refusal.map(|refusal| refusal.limit));
                    let wait = joint.refusal.and_then(|refusal| refusal.retry_after_ns);
                    prop_assert_eq!(decision.retry_after().map(nanos), wait, "{:?} at {}", op, now);
                    prop_assert_eq!(decision.remaining(), joint.remaining, "{:?} at {}", op, now);
                    let left: Vec<u64> = decision.parts().map(|part| part.remaining()).collect();
                    let peeks = model.limits().iter().map(|limit| limit.peek(KEYS[*key], now, 0).remaining);
                    prop_assert_eq!(left, peeks.collect::<Vec<_>>(), "{:?} at {}", op, now);
                }
            }
        }
    }
}
