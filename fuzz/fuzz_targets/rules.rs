//! The arithmetic of each algorithm: any limit, costs and times, with the answers of the model.
//!
//! While `operations` tests keys and tables, this target tests arithmetic: costs and times are any
//! numbers, and the limiter has one word, which is saved and restored after every operation.

#![no_main]

#[path = "../../tests/model/against_model/answers.rs"]
mod answers;
#[path = "shared/limits.rs"]
mod limits;

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tollgate::{Limiter, ManualClock, Timestamp};

use answers::{UPTIME, answer, same_answer};
use limits::{AnyLimit, Number};

/// A larger limiter is slow to save and tests nothing new.
const MAX_MEMORY: usize = 1 << 13;

#[derive(Arbitrary, Debug)]
struct Input {
    limit: AnyLimit,
    origin: u64,
    /// Whether the clock only goes ahead. Then the steps refund and do not reset; otherwise they
    /// reset and do not refund.
    ahead: bool,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Step {
    go: Go,
    verb: Verb,
    cost: AnyCost,
}

#[derive(Arbitrary, Debug)]
enum Go {
    Stay,
    By(Number),
    /// The last wait of a refusal, and a few nanoseconds more or less.
    Wait(i8),
    /// Eighths of the period, and a few nanoseconds more or less.
    Eighths(u8, i8),
    Back(Number),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Verb {
    Check,
    CheckAndRefund,
    Reset,
}

#[derive(Arbitrary, Debug)]
enum AnyCost {
    Any(Number),
    /// The limit, and a few more or less.
    Limit(i8),
    /// The remaining units, and a few more or less.
    Left(i8),
}

fuzz_target!(|input: Input| {
    let limit = input.limit.limit();
    let clock = ManualClock::starting_at(Duration::from_nanos(input.origin));
    let builder = || Limiter::builder(limit.quota()).memory_budget(MAX_MEMORY).clock(clock.clone());
    let Ok(engine) = builder().build() else { return };
    let mut model = limit.model(engine.resolution(), input.origin);
    let (mut now, mut latest, mut floor) = (0_u64, 0, 0);
    let (mut wait, mut left) = (0, limit.most());
    for step in input.steps.iter().take(64) {
        let to = match step.go {
            Go::Stay => now,
            Go::By(ref by) => now.saturating_add(by.value()),
            Go::Wait(more) => now.saturating_add(wait).saturating_add_signed(more.into()).max(now),
            Go::Eighths(eighths, more) => {
                let by = u128::from(limit.period) * u128::from(eighths) / 8;
                let by = u64::try_from(by).unwrap_or(u64::MAX);
                now.saturating_add(by).saturating_add_signed(more.into()).max(now)
            }
            Go::Back(ref by) if !input.ahead => now.saturating_sub(by.value()),
            Go::Back(_) => now,
        };
        // A word remembers the latest time of the clock, across resets too.
        let resets = matches!(step.verb, Verb::Reset);
        now = to.max(if resets { latest } else { floor }).min(UPTIME);
        floor = if resets { now } else { floor };
        latest = latest.max(now);
        clock.set(Timestamp::from_nanos(now));
        let cost = match step.cost {
            AnyCost::Any(ref cost) => cost.value(),
            AnyCost::Limit(more) => limit.most().saturating_add_signed(more.into()),
            AnyCost::Left(more) => left.saturating_add_signed(more.into()),
        };
        let peeked = answer(&engine.account(()).at(Timestamp::from_nanos(now)).peek_n(cost));
        match step.verb {
            Verb::Reset if input.ahead => continue,
            Verb::Reset => {
                engine.account(()).reset();
                model.reset("k");
            }
            Verb::Check | Verb::CheckAndRefund => {
                let decision = engine.account(()).check_n(cost);
                let found = answer(&decision);
                assert_eq!(found, peeked, "the peek differs from the check");
                let (right, receipt) = model.admit("k", now, cost);
                assert!(
                    same_answer(now, right, found),
                    "at {now} cost {cost}\n model {right:?}\nengine {found:?}\n{input:?}"
                );
                (wait, left) = (found.retry_after_ns.unwrap_or(wait), found.remaining);
                if let (Verb::CheckAndRefund, true, Some(receipt)) = (step.verb, input.ahead, receipt) {
                    let (found, right) = (engine.account(()).refund(decision), model.refund(receipt, now));
                    assert_eq!(found, right, "given back at {now} of {cost}\n{input:?}");
                }
            }
        }
        // The word survives a save and a restore.
        let mut file = Vec::new();
        engine.save(&mut file).expect("a vector takes all");
        let restored = builder().restore(&file[..]).expect("it was saved under this limit");
        for cost in [0, 1, cost] {
            let (one, other) = (
                engine.account(()).at(engine.now()).peek_n(cost),
                restored.account(()).at(engine.now()).peek_n(cost),
            );
            assert_eq!(answer(&one), answer(&other), "restored at {now}\n{input:?}");
        }
    }
});
