//! The engine against the model: every answer, in every field, through every door.
//!
//! A script is replayed on one limiter for everything, on the keyed limiter with each key in a bucket of its own, and
//! again with all keys in one bucket, each as `Quota` and as the algorithm's own type.
//!
//! Two things are known to differ, and written down where they are allowed:
//!
//! * A key that owes nothing is forgotten when another takes its slot. If the clock steps back after that, its old
//!   debt is gone. So keys share a bucket only while the clock goes ahead.
//! * A wait that reaches beyond the ten years that a clock must run may be told as 584 years.

use std::time::Duration;

use tollgate::{Algorithm, Decision, GlobalLimiter, Identity, Key, Limiter, ManualClock, Quota, Timestamp};
use tollgate_model::Answer;

use crate::limit::Kind;
use crate::script::{Action, Case, KEYS, Line, Script, UPTIME};

/// Replays the case. `Ok(false)` when the engine refuses the limit; an error says where the two part.
pub(crate) fn contest(case: &Case) -> Result<bool, String> {
    let Some(script) = case.script() else { return Ok(false) };
    through_every_door(case, &script, case.limit.quota())?;
    match case.limit.quota() {
        Quota::TokenBucket(quota) => through_every_door(case, &script, quota)?,
        Quota::LeakyBucket(quota) => through_every_door(case, &script, quota)?,
        Quota::FixedWindow(quota) => through_every_door(case, &script, quota)?,
        Quota::SlidingWindow(quota) => through_every_door(case, &script, quota)?,
        Quota::SlidingLog(quota) => through_every_door(case, &script, quota)?,
    }
    Ok(true)
}

fn through_every_door<A: Algorithm>(case: &Case, script: &Script, quota: A) -> Result<(), String> {
    one_limiter_a_key(case, script, quota)?;
    let apart = [Placed(0x9E37_79B9_7F4A_7C13), Placed(0xBF58_476D_1CE4_E5B5), Placed(0x94D0_49BB_1331_11E7)];
    keyed::<Placed, _>("keys in buckets of their own", case, script, quota, 64, apart.each_ref())?;
    if !script.goes_back {
        let together =
            [Placed(0x9E37_79B9_7F4A_7C13), Placed(0x9E58_479B_7F4A_7C13), Placed(0x54D0_49B9_7F4A_7C13)];
        keyed::<Placed, _>("keys in one bucket", case, script, quota, 1, together.each_ref())?;
    }
    if !script.goes_back || script.keys() == 1 {
        keyed::<str, _>("named keys", case, script, quota, 64, KEYS)?;
    }
    Ok(())
}

/// A key that says where it is kept: its low bits are the bucket.
struct Placed(u64);

impl Key for Placed {
    fn name(&self, _: &Identity) -> u64 {
        self.0
    }
}

fn one_limiter_a_key<A: Algorithm>(case: &Case, script: &Script, quota: A) -> Result<(), String> {
    let clock = clock(case);
    let limiters = KEYS.map(|_| {
        GlobalLimiter::builder(quota).memory_budget(usize::MAX).clock(clock.clone()).build().unwrap()
    });
    for (number, line) in script.lines.iter().enumerate() {
        let (limiter, now) = (&limiters[line.key], Timestamp::from_nanos(line.at));
        clock.set(now);
        let decision = match line.action {
            Action::Check(cost) if number % 2 == 0 => limiter.check_n(cost),
            Action::Check(cost) => limiter.check_n_at(cost, now),
            Action::Peek(cost) => limiter.peek_n_at(cost, now),
            Action::Reset => {
                limiter.reset();
                continue;
            }
        };
        compare("one limiter a key", number, line, decision)?;
    }
    Ok(())
}

fn keyed<K: Key + ?Sized, A: Algorithm>(
    door: &str,
    case: &Case,
    script: &Script,
    quota: A,
    max_keys: usize,
    keys: [&K; 3],
) -> Result<(), String> {
    let clock = clock(case);
    let builder = Limiter::<K, A>::builder(quota).max_keys(max_keys).memory_budget(usize::MAX);
    let limiter = builder.clock(clock.clone()).build().unwrap();
    for (number, line) in script.lines.iter().enumerate() {
        let (key, now) = (keys[line.key], Timestamp::from_nanos(line.at));
        clock.set(now);
        let decision = match line.action {
            Action::Check(cost) if number % 2 == 0 => limiter.check_n(key, cost),
            Action::Check(cost) => limiter.check_n_at(key, cost, now),
            Action::Peek(cost) => limiter.peek_n_at(key, cost, now),
            Action::Reset => {
                limiter.reset(key);
                continue;
            }
        };
        compare(door, number, line, decision)?;
    }
    remembers_who_owes(door, case, script, &limiter)
}

/// The limiter counts the keys that owe something. (Not asked of a log, which remembers a little longer than it has
/// to; nor of buckets that begin empty, where keys never seen owe too.)
fn remembers_who_owes<K: Key + ?Sized, A: Algorithm>(
    door: &str,
    case: &Case,
    script: &Script,
    limiter: &Limiter<K, A, ManualClock>,
) -> Result<(), String> {
    let uncounted = matches!(case.limit.kind, Kind::Log { .. } | Kind::TokenBucket { initial: Some(_), .. });
    let Some(last) = script.lines.last().filter(|_| !uncounted && !script.goes_back) else { return Ok(()) };
    let mut model = case.limit.model(script.resolution, case.origin);
    for line in &script.lines {
        match line.action {
            Action::Check(cost) => _ = model.check(KEYS[line.key], line.at, cost),
            Action::Peek(_) => {}
            Action::Reset => model.reset(KEYS[line.key]),
        }
    }
    let owing = KEYS.iter().filter(|key| model.peek(key, last.at, 0).reset_after_ns > 0).count();
    let len = limiter.len();
    if len == owing {
        Ok(())
    } else {
        Err(format!("{door}: in the end {owing} keys owe something, but the limiter counts {len}"))
    }
}

fn clock(case: &Case) -> ManualClock {
    ManualClock::starting_at(Duration::from_nanos(case.origin))
}

fn compare(door: &str, number: usize, line: &Line, decision: Decision<'_>) -> Result<(), String> {
    let (Some(expected), found) = (line.answer, answer(decision)) else { return Ok(()) };
    let same = Answer { retry_after_ns: None, reset_after_ns: 0, delay_ns: 0, ..expected }
        == Answer { retry_after_ns: None, reset_after_ns: 0, delay_ns: 0, ..found }
        && expected.retry_after_ns.is_some() == found.retry_after_ns.is_some()
        && same_wait(line.at, expected.retry_after_ns.unwrap_or(0), found.retry_after_ns.unwrap_or(0))
        && same_wait(line.at, expected.reset_after_ns, found.reset_after_ns)
        && same_wait(line.at, expected.delay_ns, found.delay_ns);
    if same {
        Ok(())
    } else {
        let number = number + 1;
        Err(format!("{door}, line {number}, {line}:\n   model: {expected:?}\n  engine: {found:?}"))
    }
}

fn same_wait(now: u64, expected: u64, found: u64) -> bool {
    expected == found || found == u64::MAX && now.saturating_add(expected) > UPTIME
}

fn answer(decision: Decision<'_>) -> Answer {
    Answer {
        allowed: decision.is_allowed(),
        never: decision.is_never(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_ns: decision.retry_after().map(nanos),
        reset_after_ns: nanos(decision.reset_after()),
        delay_ns: nanos(decision.delay()),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
