//! What the reader of rules accepts, a store can keep.

use proptest::prelude::*;
use tollgate::TscClock;
use tollgate_redis::Redis;
use tollgate_redis::rules::Stores;
use tollgate_rules::{Limit, Limits, RuleSet};
use tollgate_rules_file::{Memory, read};

/// The quotas of a rule with a store and this limit, if the reader takes it.
fn accepted(limit: &str) -> Option<Vec<tollgate::Quota>> {
    let rule = format!("{{ name = 'r', key = 'client', limits = '{limit}', store = 'redis://h' }}");
    let text = format!("version = 1\nrule = [{rule}]");
    let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().ok()?;
    let Limits::Each(limits) = &rules.rules[0].limits else { return None };
    let quota = |limit: &Limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None };
    Some(limits.iter().filter_map(quota).collect())
}

/// Why a store cannot keep these quotas.
fn wrong(quotas: &[tollgate::Quota]) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let redis = Redis::builder("redis://127.0.0.1:1").open().unwrap();
    redis.limiter("r", quotas.iter().copied()).build().err().map(|error| error.to_string())
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![1..100_u64, 1..100_000_u64, (0..50_u32, 0..100_u64).prop_map(|(bits, off)| (1 << bits) + off)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_store_keeps_every_limit_that_the_reader_accepts(
        algorithm in prop::sample::select(&["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"][..]),
        (count, periods, room) in (number(), 1..5_000_u64, number()),
        unit in prop::sample::select(&["us", "ms", "s", "min", "h", "d", "w"][..]),
        has_room in any::<bool>(),
    ) {
        let room = match algorithm {
            "token-bucket" if has_room => format!(",burst={room}"),
            "leaky-bucket" => format!(",capacity={room}"),
            _ => String::new(),
        };
        let limit = format!("{algorithm}:{count}/{periods}{unit}{room}");
        if let Some(quotas) = accepted(&limit) {
            prop_assert_eq!(wrong(&quotas), None, "{}", limit);
        }
    }
}

#[test]
fn the_reader_accepts_what_people_write() {
    for limit in [
        "10/s,burst=20",
        "60/min",
        "5000/h,burst=10000",
        "1000000/s",
        "1/30d,burst=100",
        "leaky-bucket:5/s,capacity=30",
        "fixed-window:100000/d",
        "fixed-window:1000000000/d",
        "sliding-window:1000000000/d",
        "sliding-window:100/min",
        "sliding-log:10000/w",
    ] {
        let quotas = accepted(limit).unwrap_or_else(|| panic!("{limit} is refused"));
        assert_eq!(wrong(&quotas), None, "{limit}");
    }
}

#[test]
fn outside_of_a_runtime_every_rule_refuses() {
    let text = "version = 1\nrule = [{ name = 'r', key = 'everyone', limits = '1/s', store = 'redis://h', \
        on_failure = 'allow' }]";
    let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    let set = RuleSet::new(rules, TscClock::default()).unwrap();
    let (request, mut scratch) =
        (tollgate_rules::PlainRequest::default(), tollgate_rules::Scratch::default());
    let asks = set.check(&request, &mut scratch).unasked();
    let stores = Stores::default().of(&set).unwrap();
    let mut asking = std::pin::pin!(stores.ask(asks));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(mut answers) = asking.as_mut().poll(&mut context) else { panic!("it waits") };
    let verdict = set.ask_answered(&request, tollgate_rules::Ask::default(), &mut answers, &mut scratch);
    assert_eq!(verdict.outcome(), tollgate_rules::Ruling::Unavailable);
}
