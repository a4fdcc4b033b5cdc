//! Several requests that are decided together.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{Ask, Asked, PlainRequest, RuleSet, Ruling, Scratch, Together};
use tollgate_testing::random::Random;

use crate::{Desk, SECOND, X, Y, from, header, rules};

fn of(client: &str, cost: u64) -> Asked<PlainRequest> {
    Asked::new(from(client), Ask { cost, ..Ask::default() })
}

/// Decides requests of these clients and costs: whether all are admitted, what becomes of each by
/// its own rules, and what its first rule has left.
fn decide(set: &RuleSet<ManualClock>, batch: &[(&str, u64)]) -> (bool, Vec<(Ruling, u64)>) {
    let mut asked: Vec<_> = batch.iter().map(|(client, cost)| of(client, *cost)).collect();
    let mut scratches = Vec::new();
    let mut together = set.ask_together(&mut asked, false, &mut scratches);
    (together.is_admitted(), said(&mut together, batch.len()))
}

fn said(together: &mut Together<'_, ManualClock>, count: usize) -> Vec<(Ruling, u64)> {
    let one = |index| {
        let verdict = together.verdict(index);
        (verdict.outcome(), verdict.lines()[0].remaining)
    };
    (0..count).map(one).collect()
}

const OK: Ruling = Ruling::Admitted;
const NO: Ruling = Ruling::Refused;

#[test]
fn a_key_named_twice_is_decided_exactly() {
    for limit in ["5/h", "fixed-window:5/h", "sliding-window:5/h", "sliding-log:5/h", "leaky-bucket:5/h"] {
        let mut desk =
            Desk::new(&format!("rule = [{{ name = 'each', key = 'client', limits = '{limit}' }}]"));
        let (admitted, said) = decide(&desk.set, &[(X, 3), (Y, 5), (X, 3)]);
        assert!(!admitted, "{limit}");
        assert_eq!(said, [(OK, 5), (OK, 5), (NO, 2)], "{limit}: the third sees the first");
        assert_eq!((desk.left(&from(X)), desk.left(&from(Y))), (vec![5], vec![5]), "{limit}");
        let (admitted, said) = decide(&desk.set, &[(X, 3), (Y, 5), (X, 2)]);
        assert!(admitted, "{limit}");
        assert_eq!(said, [(OK, 2), (OK, 0), (OK, 0)], "{limit}");
        assert_eq!((desk.left(&from(X)), desk.left(&from(Y))), (vec![0], vec![0]), "{limit}");
    }
}

/// The units that a key of a rule has left, where no time passes.
type Left = BTreeMap<(usize, u64), u64>;

#[test]
fn random_batches_are_charged_whole_or_not_at_all() {
    let limits = [40, 15, 9];
    let text = "rule = [{ name = 'all', key = 'everyone', limits = ['40/d', 'fixed-window:41/d'] },\
        { name = 'client', key = 'client', limits = 'sliding-window:15/d' },\
        { name = 'user', key = 'label.user', limits = ['leaky-bucket:12/d', '9/d'] }]";
    let mut admitted = 0;
    for seed in 0..200 {
        let (set, mut random) =
            (RuleSet::new(rules(text), ManualClock::new()).unwrap(), Random::with_seed(seed));
        let (mut left, mut scratches) = (Left::new(), Vec::new());
        for _ in 0..12 {
            let mut asked = Vec::new();
            let mut wanted = Left::new();
            for _ in 0..random.u64(..5) {
                let (client, user, cost) = (random.u64(..2), random.u64(..3), random.u64(..4));
                let request = PlainRequest {
                    labels: vec![header("user", &user.to_string())],
                    ..from(&format!("192.0.2.{client}"))
                };
                asked.push(Asked::new(request, Ask { cost, ..Ask::default() }));
                for key in [(0, 0), (1, client), (2, user)] {
                    *wanted.entry(key).or_default() += cost;
                }
            }
            let of = |left: &Left, key: (usize, u64)| left.get(&key).copied().unwrap_or(limits[key.0]);
            let expected = wanted.iter().all(|(key, units)| of(&left, *key) >= *units);
            let count = asked.len();
            let mut together = set.ask_together(&mut asked, false, &mut scratches);
            assert_eq!(together.is_admitted(), expected, "seed {seed}: {asked:?} of {left:?}");
            let refused = (0..count).any(|index| !together.verdict(index).is_admitted());
            assert_eq!(refused, !expected, "a refused batch names a request that is refused");
            if expected {
                admitted += 1;
                wanted.iter().for_each(|(key, units)| _ = left.insert(*key, of(&left, *key) - units));
            }
            drop(together);
            for Asked { request, .. } in &asked {
                let look = Ask { cost: 0, is_peek: true, ..Ask::default() };
                let client = u64::from(request.client == "192.0.2.1".parse().ok());
                let user = u64::from(request.labels[0].1[0] - b'0');
                let shown: Vec<u64> = set
                    .ask(request, look, &mut Scratch::default())
                    .lines()
                    .iter()
                    .map(|line| line.remaining)
                    .collect();
                let expected = [(0, 0), (1, client), (2, user)].map(|key| of(&left, key));
                assert_eq!(shown, expected, "seed {seed}");
            }
        }
    }
    assert!(admitted > 400, "{admitted}");
}

#[test]
fn a_refused_batch_leaves_no_trace_for_others_to_see() {
    const LIMIT: u64 = 1 << 20;
    let text = format!(
        "rule = [{{ name = 'all', key = 'everyone', limits = '{LIMIT}/d' }},\
         {{ name = 'each', key = 'client', limits = ['fixed-window:{LIMIT}/d', '9/d'] }}]"
    );
    let set = RuleSet::new(rules(&text), ManualClock::new()).unwrap();
    // Of Y none is left, so the last request is always refused.
    assert!(set.ask(&from(Y), Ask { cost: 9, ..Ask::default() }, &mut Scratch::default()).is_admitted());
    let is_over = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let (mut scratch, mut looks) = (Scratch::default(), 0_u64);
            while !is_over.load(Relaxed) {
                let look = Ask { cost: 0, is_peek: true, ..Ask::default() };
                let verdict = set.ask(&from(X), look, &mut scratch);
                let left: Vec<u64> = verdict.lines().iter().map(|line| line.remaining).collect();
                assert_eq!(left, [LIMIT - 9, 9]);
                looks += 1;
            }
            looks
        });
        let mut scratches = Vec::new();
        for _ in 0..6_000 {
            let mut asked = [of(X, 2), of(X, 1), of(Y, 1)];
            let mut together = set.ask_together(&mut asked, false, &mut scratches);
            assert!(!together.is_admitted());
            assert_eq!([0, 1, 2].map(|index| together.verdict(index).is_admitted()), [true, true, false]);
        }
        is_over.store(true, Relaxed);
        looker.join().unwrap()
    });
    assert!(looks > 0);
}

/// The second is over the limit of its client, and the third would be over the limit for all.
#[test]
fn each_request_of_a_batch_follows_those_before_it() {
    let text = "rule = [{ name = 'all', key = 'everyone', limits = '2/d' },\
                 { name = 'each', key = 'client', limits = '1/d' }]";
    let set = RuleSet::new(rules(text), ManualClock::new()).unwrap();
    let (mut asked, mut scratches) = ([of(X, 1), of(X, 1), of(Y, 1)], Vec::new());
    let mut together = set.ask_together(&mut asked, false, &mut scratches);
    assert!(!together.is_admitted());
    assert_eq!([0, 1, 2].map(|index| together.verdict(index).is_admitted()), [true, false, true]);
}

#[test]
fn racing_batches_in_opposite_orders_admit_no_more() {
    const LIMIT: u64 = 300;
    let text = format!(
        "rule = [{{ name = 'all', key = 'everyone', limits = 'fixed-window:{}/d' }},\
         {{ name = 'each', key = 'client', limits = ['{LIMIT}/d', 'fixed-window:{}/d'] }}]",
        2 * LIMIT,
        LIMIT + 1
    );
    for round in 0..40 {
        let set = RuleSet::new(rules(&text), ManualClock::new()).unwrap();
        let start = Barrier::new(4);
        let run = |thread: u64| {
            let (mut scratches, mut admitted, mut random) =
                (Vec::new(), [0; 2], Random::with_seed(4 * round + thread));
            start.wait();
            for _ in 0..60 {
                let mut units = [random.u64(1..4), random.u64(1..4)];
                let mut asked = vec![of(X, units[0]), of(Y, units[1])];
                if random.bool() {
                    asked.push(of(X, 2));
                    units[0] += 2;
                }
                if thread % 2 == 1 {
                    asked.reverse();
                }
                if set.ask_together(&mut asked, false, &mut scratches).is_admitted() {
                    admitted = [admitted[0] + units[0], admitted[1] + units[1]];
                }
            }
            admitted
        };
        let admitted = std::thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || run(thread))).collect();
            let all = threads.into_iter().map(|thread| thread.join().unwrap());
            all.fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
        });
        for (client, admitted) in [X, Y].into_iter().zip(admitted) {
            assert!(admitted <= LIMIT);
            let look = Ask { cost: 0, is_peek: true, ..Ask::default() };
            let mut scratch = Scratch::default();
            let verdict = set.ask(&from(client), look, &mut scratch);
            assert_eq!(verdict.lines()[1].remaining, LIMIT - admitted, "round {round}");
        }
    }
}

#[test]
fn each_refused_request_counts_for_its_own_rules() {
    let mut desk = Desk::new(
        "rule = [{ name = 'counts', key = 'client', limits = 'fixed-window:4/min,count=all' },\
         { name = 'bans', key = 'client', limits = 'fixed-window:3/min', ban = '10min' }]",
    );
    assert!(desk.set.ask(&from(X), Ask { cost: 3, ..Ask::default() }, &mut desk.scratch).is_admitted());
    let (admitted, said) = decide(&desk.set, &[(Y, 1), (X, 2), (Y, 2)]);
    assert!(!admitted);
    assert_eq!(said.iter().map(|(ruling, _)| *ruling).collect::<Vec<_>>(), [OK, NO, OK]);
    assert_eq!(desk.left(&from(Y)), [4, 3], "only another request was refused");
    desk.clock.advance(60 * SECOND);
    assert_eq!(desk.check(&from(X)).refused_by().map(|rule| &*rule.name), Some("bans"));
    // What no wait helps is counted nowhere, and bans no key.
    let (admitted, said) = decide(&desk.set, &[(Y, 1), (Y, 5)]);
    assert_eq!((admitted, said[1].0), (false, Ruling::Never));
    assert_eq!(desk.left(&from(Y)), [4, 3]);
}

#[test]
fn what_is_blocked_or_refused_elsewhere_charges_no_other() {
    let mut desk = Desk::new(
        "rule = [{ name = 'each', key = 'client', limits = '5/h' },\
         { name = 'none', key = 'client', limits = 'block', match.path = '/none' }]",
    );
    let blocked = PlainRequest { target: Some("/none".into()), ..from(X) };
    let mut scratches = Vec::new();
    let mut asked = [Asked::new(blocked, Ask::default()), of(Y, 1)];
    let mut together = desk.set.ask_together(&mut asked, false, &mut scratches);
    assert!(!together.is_admitted());
    assert_eq!([0, 1].map(|index| together.verdict(index).outcome()), [Ruling::Blocked, OK]);
    drop(together);
    let mut asked = [of(X, 1), of(Y, 1)];
    let mut together = desk.set.ask_together(&mut asked, true, &mut scratches);
    assert!(!together.is_admitted());
    assert_eq!(said(&mut together, 2), [(OK, 5), (OK, 5)]);
    drop(together);
    assert_eq!((desk.left(&from(X)), desk.left(&from(Y))), (vec![5], vec![5]));
    // An empty batch is admitted.
    assert!(desk.set.ask_together::<PlainRequest>(&mut [], false, &mut Vec::new()).is_admitted());
}

#[test]
fn a_refused_batch_holds_no_place_in_flight() {
    let mut desk = Desk::new(
        "rule = [{ name = 'places', key = 'client', limits = ['in-flight:3', 'fixed-window:9/h'] },\
         { name = 'all', key = 'everyone', limits = '4/h' }]",
    );
    let mut scratches = Vec::new();
    let mut asked = [of(X, 2), of(Y, 3)];
    let mut together = desk.set.ask_together(&mut asked, false, &mut scratches);
    assert!(!together.is_admitted(), "each alone has room, and both have not");
    assert!([0, 1].iter().all(|&index| together.verdict(index).ticket().is_empty()));
    drop(together);
    // Two requests of one key: the second finds the places taken.
    let mut asked = [of(X, 2), of(X, 2)];
    let mut together = desk.set.ask_together(&mut asked, false, &mut scratches);
    assert!(!together.is_admitted());
    assert_eq!([0, 1].map(|index| together.verdict(index).outcome()), [OK, NO]);
    drop(together);
    assert_eq!(desk.left(&from(X)), [3, 4]);

    let mut asked = [of(X, 2), of(Y, 2)];
    let mut together = desk.set.ask_together(&mut asked, false, &mut scratches);
    assert!(together.is_admitted());
    let tickets = [0, 1].map(|index| together.verdict(index).ticket());
    let verdict = desk.set.check(&from(X), &mut desk.scratch);
    assert_eq!(verdict.outcome(), NO, "they are held until the tickets go");
    drop(verdict);
    drop(together);
    tickets.into_iter().for_each(tollgate_rules::Ticket::cancel);
    assert_eq!(desk.left(&from(X)), [3, 4]);
    // Without a ticket, places in flight are held no longer than the decision.
    let mut asked = [of(X, 2), of(Y, 2)];
    drop(desk.set.ask_together(&mut asked, false, &mut scratches));
    assert_eq!(desk.left(&from(X)), [3, 0]);
}

#[test]
fn a_queue_counts_the_turns_of_the_batch() {
    let mut desk = Desk::new(
        "rule = [{ name = 'paced', key = 'client', max_wait = '1s', \
         limits = 'leaky-bucket:1/s,capacity=9,mode=queue' }]",
    );
    let batch = |desk: &Desk, count: usize, may_wait| {
        let ask = Ask { may_wait, ..Ask::default() };
        let mut asked: Vec<_> = (0..count).map(|_| Asked::new(from(X), ask)).collect();
        let mut scratches = Vec::new();
        let mut together = desk.set.ask_together(&mut asked, false, &mut scratches);
        let waits = |index| {
            let verdict = together.verdict(index);
            (verdict.delay(), verdict.retry_after())
        };
        let waits: Vec<_> = (0..count).map(waits).collect();
        (together.is_admitted(), waits)
    };
    let now = (Duration::ZERO, None);
    // The third would depart after two seconds.
    assert_eq!(batch(&desk, 3, true), (false, vec![now, now, (Duration::ZERO, Some(SECOND))]));
    assert_eq!(desk.left(&from(X)), [2], "of nine, as many depart in time");
    assert_eq!(batch(&desk, 2, false), (false, vec![now, (Duration::ZERO, Some(SECOND))]));
    assert_eq!(batch(&desk, 2, true), (true, vec![now, (SECOND, None)]));
    // One that cannot wait is refused as long as it would have to.
    let refused = desk.set.ask(&from(X), Ask { may_wait: false, ..Ask::default() }, &mut desk.scratch);
    assert_eq!(refused.retry_after(), Some(2 * SECOND));
}

#[test]
fn shadows_refuse_no_batch_and_count_each_request() {
    let mut desk = Desk::new(
        "rule = [{ name = 'each', key = 'client', limits = '5/h' },\
         { name = 'trial', key = 'everyone', limits = 'fixed-window:3/h', mode = 'shadow' }]",
    );
    let mut scratches = Vec::new();
    let mut asked = [of(X, 2), of(Y, 2), of(X, 1)];
    let mut together = desk.set.ask_together(&mut asked, false, &mut scratches);
    assert!(together.is_admitted());
    let shadow = |index| together.verdict(index).lines()[1].ruling;
    assert_eq!([0, 1, 2].map(shadow), [OK, NO, OK]);
    drop(together);
    assert_eq!(desk.left(&from(X)), [2, 0]);
}

#[test]
fn a_cancelled_batch_gives_all_back() {
    let mut desk = Desk::new(
        "rule = [{ name = 'all', key = 'everyone', limits = 'sliding-log:9/h' },\
         { name = 'each', key = 'client', limits = '5/h' }]",
    );
    let mut scratches = Vec::new();
    for _ in 0..2 {
        let mut asked = [of(X, 2), of(Y, 2), of(X, 1)];
        let together = desk.set.ask_together(&mut asked, false, &mut scratches);
        assert!(together.is_admitted());
        together.cancel();
        assert_eq!((desk.left(&from(X)), desk.left(&from(Y))), (vec![9, 5], vec![9, 5]));
    }
}

#[test]
fn a_look_in_a_batch_sees_the_requests_before_it() {
    for limits in ["'9/h'", "'sliding-log:9/h'", "['fixed-window:9/h', '20/h']"] {
        let mut desk = Desk::new(&format!("rule = [{{ name = 'each', key = 'client', limits = {limits} }}]"));
        let look = Asked::new(from(X), Ask { cost: 0, is_peek: true, ..Ask::default() });
        let mut scratches = Vec::new();
        let mut asked = [of(X, 2), look, of(X, 3), of(X, 0)];
        let mut together = desk.set.ask_together(&mut asked, false, &mut scratches);
        assert_eq!(said(&mut together, 4), [(OK, 7), (OK, 7), (OK, 4), (OK, 4)], "{limits}");
        assert!(together.verdict(1).ticket().is_empty());
        drop(together);
        assert_eq!(desk.left(&from(X)), [4]);
    }
}
