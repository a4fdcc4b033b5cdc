//! Random calls against a naive model: maps of counts.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::proto::{Code, Entry, RateLimitDescriptor, RateLimitRequest};
use super::{Client, client, short, start};

/// Windows of a day: none ends while the test runs, but at midnight.
const RULES: &str = "rule = [\
    { name = 'all', key = 'everyone', limits = 'fixed-window:40/d' },\
    { name = 'a', match.entry.a = '*', key = 'entry.a', limits = 'fixed-window:6/d' },\
    { name = 'ab', match.entry = { a = '*', b = '*' }, key = ['entry.a', 'entry.b'], limits = 'fixed-window:4/d' }]";

/// What the rules are.
const LIMITS: [u64; 3] = [40, 6, 4];

#[derive(Clone, Debug)]
struct Asked {
    a: Option<u8>,
    b: Option<u8>,
    hits: Option<u64>,
}

type Counts = HashMap<(usize, Vec<u8>), u64>;

impl Asked {
    /// The rules that concern it, with their keys.
    fn keys(&self) -> Vec<(usize, Vec<u8>)> {
        let mut keys = vec![(0, vec![])];
        keys.extend(self.a.map(|a| (1, vec![a])));
        keys.extend(self.a.zip(self.b).map(|(a, b)| (2, vec![a, b])));
        keys
    }

    /// The least that is left.
    fn left(&self, counts: &Counts) -> u64 {
        let left = self.keys().into_iter().map(|key| LIMITS[key.0] - counts.get(&key).unwrap_or(&0));
        left.min().unwrap()
    }

    fn descriptor(&self) -> RateLimitDescriptor {
        let entry = |(key, value): (&str, Option<u8>)| {
            value.map(|value| Entry { key: key.into(), value: value.to_string() })
        };
        RateLimitDescriptor {
            entries: [("a", self.a), ("b", self.b)].into_iter().filter_map(entry).collect(),
            limit: None,
            hits_addend: self.hits,
        }
    }
}

/// The answer to a call, and the counts after it.
fn decide(counts: &mut Counts, asked: &[Asked], addend: u32) -> Vec<(Code, u32)> {
    let hits = |one: &Asked| one.hits.unwrap_or(addend.max(1).into());
    let ok = |left: u64| (Code::Ok, u32::try_from(left).unwrap());
    let passes: Vec<bool> = asked.iter().map(|one| hits(one) <= one.left(counts)).collect();
    let mut late = None;
    if passes.iter().all(|passes| *passes) {
        let (mut charged, mut statuses) = (counts.clone(), Vec::new());
        for (index, one) in asked.iter().enumerate() {
            if hits(one) > one.left(&charged) {
                late = Some(index);
                break;
            }
            one.keys().into_iter().for_each(|key| *charged.entry(key).or_default() += hits(one));
            statuses.push(ok(one.left(&charged)));
        }
        if late.is_none() {
            *counts = charged;
            return statuses;
        }
    }
    let refused = |index: usize| late == Some(index) || !passes[index];
    let status = |(index, one): (usize, &Asked)| {
        if refused(index) { (Code::OverLimit, 0) } else { ok(one.left(counts)) }
    };
    asked.iter().enumerate().map(status).collect()
}

async fn agrees(client: &mut Client, calls: &[(Vec<Asked>, u32)]) {
    let mut counts = Counts::new();
    for (asked, hits_addend) in calls {
        let call = RateLimitRequest {
            domain: "d".into(),
            descriptors: asked.iter().map(Asked::descriptor).collect(),
            hits_addend: *hits_addend,
        };
        let statuses = client.statuses(call).await;
        assert_eq!(short(&statuses), decide(&mut counts, asked, *hits_addend), "{asked:?} {hits_addend}");
    }
}

#[test]
fn random_calls_are_answered_as_by_maps_of_counts() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let some = || proptest::option::weighted(0.7, 0..3_u8);
    let hits = proptest::option::weighted(0.4, 0..5_u64);
    let asked = (some(), some(), hits).prop_map(|(a, b, hits)| Asked { a, b, hits });
    let calls = prop::collection::vec((prop::collection::vec(asked, 1..4), 0..3_u32), 1..40);
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    runner
        .run(&calls, |calls| {
            runtime.block_on(async {
                let server = start(RULES).await;
                agrees(&mut client(&server).await, &calls).await;
            });
            Ok(())
        })
        .unwrap();
}
