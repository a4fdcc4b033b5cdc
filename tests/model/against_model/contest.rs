//! The engine compared with the model: every field of every answer, by every way to call the
//! engine.
//!
//! A script runs on one limiter for each key, on a keyed limiter with each key in its own bucket,
//! on one with all keys in one bucket, and in a growing table; each with `Quota` and with the
//! algorithm's own type.
//!
//! Three differences are known, and documented where they are allowed:
//!
//! * A key without debt is forgotten when another key takes its slot. If the clock steps back after
//!   that, its old debt is gone. So keys share a bucket only while the clock goes ahead.
//! * A wait that ends after the ten years of uptime may be 584 years.
//! * A refund may give back less if the engine remembers less: see `shared`. From then on the two
//!   sides may have different debts, and answers about that key are not compared.

use std::cell::Cell;
use std::time::Duration;

use tollgate::{Algorithm, Key, Limiter, ManualClock, Quota, Receipt, Reservation, ReserveError, Timestamp};
use tollgate_model::Answer;
use tollgate_testing::keys::Placed;
use tollgate_testing::limits::Kind;

use super::answers::{answer, nanos, same_answer, same_wait};
use super::doors::{Crowded, Door, Each, Keyed};
use super::script::{Action, Case, KEYS, Line, Said, Script};
use super::shared::Shared;

/// Runs a case. `Ok(false)` if the engine rejects the limit; the error describes the difference.
pub(crate) fn contest(case: &Case) -> Result<bool, String> {
    let Some(script) = case.script() else { return Ok(false) };
    through_every_door(case, &script, case.limit.quota())?;
    match case.limit.quota() {
        Quota::TokenBucket(quota) => through_every_door(case, &script, quota)?,
        Quota::LeakyBucket(quota) => through_every_door(case, &script, quota)?,
        Quota::FixedWindow(quota) => through_every_door(case, &script, quota)?,
        Quota::SlidingWindow(quota) => through_every_door(case, &script, quota)?,
        Quota::SlidingLog(quota) => through_every_door(case, &script, quota)?,
        Quota::FirstHit(quota) => through_every_door(case, &script, quota)?,
        other => return Err(format!("there is no model of {other:?}")),
    }
    Ok(true)
}

fn through_every_door<A: Algorithm>(case: &Case, script: &Script, quota: A) -> Result<(), String> {
    let clock = ManualClock::starting_at(Duration::from_nanos(case.origin));
    let contest = Contest { case, script, clock: &clock };
    contest.one_limiter_a_key(quota)?;
    let apart = APART.each_ref();
    contest.keyed::<Placed, _>("keys in buckets of their own", quota, 64, apart, Shared::NOTHING)?;
    if !script.goes_back {
        let together = TOGETHER.each_ref();
        contest.keyed::<Placed, _>("keys in one bucket", quota, 1, together, Shared::ALL)?;
        contest.crowded(quota, together)?;
    }
    if !script.goes_back || script.keys() == 1 {
        contest.keyed::<str, _>("named keys", quota, 64, KEYS, Shared::ALL)?;
    }
    Ok(())
}

/// Keys in buckets of their own.
pub(crate) const APART: [Placed; 3] =
    [Placed(0x9E37_79B9_7F4A_7C13), Placed(0xBF58_476D_1CE4_E5B5), Placed(0x94D0_49BB_1331_11E7)];

/// Keys of one bucket, which share a mark.
pub(crate) const TOGETHER: [Placed; 3] =
    [Placed(0x9E37_79B9_7F4A_7C13), Placed(0x9E58_479B_7F4A_7C13), Placed(0x54D0_49B9_7F4A_7C13)];

#[derive(Clone, Copy)]
struct Contest<'c> {
    case: &'c Case,
    script: &'c Script,
    clock: &'c ManualClock,
}

/// A receipt or a reservation of the engine that a later line may give back.
enum Held<'l, A: Algorithm> {
    Admitted(Receipt),
    Reserved(Reservation<'l, A, 1, ManualClock>),
}

impl Contest<'_> {
    fn one_limiter_a_key<A: Algorithm>(self, quota: A) -> Result<(), String> {
        self.clock.set(Timestamp::ZERO);
        let builder = || Limiter::builder(quota).memory_budget(usize::MAX).clock(self.clock.clone());
        let door = Each(KEYS.map(|_| builder().build().unwrap()));
        self.play("one limiter a key", &door, Shared::NOTHING).map(|_| ())
    }

    fn keyed<K: Key + ?Sized, A: Algorithm>(
        self,
        name: &str,
        quota: A,
        max_keys: usize,
        keys: [&K; 3],
        shared: Shared,
    ) -> Result<(), String> {
        self.clock.set(Timestamp::ZERO);
        let builder = Limiter::builder(quota).per::<K>().max_keys(max_keys).memory_budget(usize::MAX);
        let limiter = builder.clock(self.clock.clone()).build().unwrap();
        let door = Keyed { limiter, keys };
        let parted = self.play(name, &door, shared)?;
        if parted { Ok(()) } else { self.remembers_who_owes(name, &door.limiter) }
    }

    /// New keys enter the bucket before every line, so that it splits repeatedly. A log's bucket
    /// never splits.
    fn crowded<A: Algorithm>(self, quota: A, keys: [&Placed; 3]) -> Result<(), String> {
        if self.case.limit.kind == Kind::Log {
            return Ok(());
        }
        self.clock.set(Timestamp::ZERO);
        let builder = Limiter::builder(quota).per().max_keys(100_000).clock(self.clock.clone());
        let stranger =
            |number: u64| Placed(number.wrapping_mul(0xD1B5_4A32_D192_ED03) << 8 | keys[0].0 & 255);
        let door = Crowded {
            keyed: Keyed { limiter: builder.build().unwrap(), keys },
            came: Cell::new(0),
            stranger,
        };
        self.play("keys in a bucket that is split", &door, Shared::ALL_WITH_STRANGERS).map(|_| ())
    }

    /// Returns whether a key may have a refund that differs from the model's.
    fn play<'l, D: Door<'l>>(self, name: &str, door: D, shared: Shared) -> Result<bool, String> {
        let mut held: Vec<Option<Held<'l, D::Algorithm>>> = Vec::new();
        let mut parted = KEYS.map(|_| false);
        for (number, line) in self.script.lines.iter().enumerate() {
            self.clock.set(Timestamp::from_nanos(line.at));
            let said = perform(door, number, line, &mut held);
            if parted[line.key] {
                continue;
            }
            match (shared.leeway(&self.case.limit, self.script, number), said) {
                (Some(most), Said::Back(back)) if back <= most => parted[line.key] = true,
                (None, said) if same(line, said) => {}
                _ => {
                    let (number, right) = (number + 1, line.right);
                    return Err(format!(
                        "{name}, line {number}, {line}:\n   model: {right:?}\n  engine: {said:?}"
                    ));
                }
            }
        }
        Ok(parted.contains(&true))
    }

    /// Compares the number of keys in debt. A log remembers keys a little too long, and in buckets
    /// that start empty new keys are in debt too, so these are not compared.
    fn remembers_who_owes<K: Key + ?Sized, A: Algorithm>(
        self,
        name: &str,
        limiter: &Limiter<K, A, 1, ManualClock>,
    ) -> Result<(), String> {
        let Self { case, script, .. } = self;
        let uncounted = case.limit.kind == Kind::Log || case.limit.quota().initial().is_some();
        let (len, owing) = (limiter.usage().live_keys, script.owing);
        if uncounted || script.goes_back || len == owing {
            Ok(())
        } else {
            Err(format!("{name}: in the end {owing} keys owe something, but the limiter counts {len}"))
        }
    }
}

/// Runs an operation. Every other line passes its own time.
fn perform<'l, D: Door<'l>>(
    door: D,
    number: usize,
    line: &Line,
    held: &mut Vec<Option<Held<'l, D::Algorithm>>>,
) -> Said {
    let (key, now) = (line.key, Timestamp::from_nanos(line.at));
    let at = (number % 2 == 1).then_some(now);
    let mut gives = None;
    let said = match line.action {
        Action::Check(cost) => {
            let decision = door.check(key, cost, at);
            let said = Said::Answer(answer(&decision));
            gives = Some(Held::Admitted(decision.receipt()));
            said
        }
        Action::Peek(cost) => Said::Answer(answer(&door.peek(key, cost, now))),
        Action::UpTo { most, .. } => {
            let decision = door.account(key).at(now).check_up_to(most);
            let said = Said::Took(decision.cost(), answer(&decision));
            gives = Some(Held::Admitted(decision.receipt()));
            said
        }
        Action::Debit(cost) => match door.account(key).at(now).debit(cost) {
            Ok(decision) => {
                let said = Said::Took(decision.cost(), Answer { delay_ns: 0, ..answer(&decision) });
                gives = Some(Held::Admitted(decision.receipt()));
                said
            }
            Err(_) => Said::NoDebt,
        },
        Action::Reset => {
            door.reset(key);
            Said::Nothing
        }
        Action::Reserve { cost, max_wait } => {
            match door.reserve(key, cost, Duration::from_nanos(max_wait), at) {
                Ok(place) => {
                    let said = Said::Departs(place.departure().as_nanos(), answer(place.decision()));
                    gives = Some(Held::Reserved(place));
                    said
                }
                Err(ReserveError::TooLong { wait }) => Said::TooLong { wait: nanos(wait) },
                Err(ReserveError::Never { .. }) => Said::Never,
                Err(_) => Said::NoTurns,
            }
        }
        Action::Credit(units) => Said::Given(door.account(key).at(now).credit(units)),
        Action::Refund(line) | Action::Cancel(line) => {
            Said::Back(take_back(door, key, held[line].take(), at))
        }
        Action::Part(line, units) => match &mut held[line] {
            Some(Held::Admitted(receipt)) => {
                Said::Back(door.account(key).at(now).refund_part(receipt, units))
            }
            _ => Said::Back(0),
        },
    };
    held.push(gives);
    said
}

/// Gives back a receipt or a reservation. `None` if the sides have differed before and the engine
/// has nothing to give back.
fn take_back<'l, D: Door<'l>>(
    door: D,
    key: usize,
    held: Option<Held<'l, D::Algorithm>>,
    at: Option<Timestamp>,
) -> u64 {
    match (held, at) {
        (Some(Held::Admitted(receipt)), at) => door.refund(key, receipt, at),
        (Some(Held::Reserved(place)), None) => place.cancel(),
        (Some(Held::Reserved(place)), Some(at)) => place.cancel_at(at),
        (None, _) => 0,
    }
}

fn same(line: &Line, said: Said) -> bool {
    match (line.right, said) {
        (Said::Answer(right), Said::Answer(found)) => same_answer(line.at, right, found),
        (Said::Took(units, right), Said::Took(took, found)) => {
            units == took && same_answer(line.at, right, found)
        }
        (Said::Departs(right, left), Said::Departs(found, leaves)) => {
            let delay_ns = right - line.at;
            right == found && same_answer(line.at, Answer { delay_ns, ..left }, leaves)
        }
        (Said::TooLong { wait }, Said::TooLong { wait: found }) => same_wait(line.at, wait, found),
        (right, said) => right == said,
    }
}
