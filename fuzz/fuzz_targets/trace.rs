//! Any trace under any limit: checks, refunds and reservations have the answers of the model.
//!
//! The first line is the limit, the rest is the trace:
//!
//! ```text
//!   leaky-bucket:3/s,capacity=4,mode=queue
//!   {"t_ns":0,"key":"a","cost":2,"id":"r1"}
//!   {"t_ns":5,"key":"a","op":"refund","id":"r1"}
//! ```

#![no_main]

#[path = "../../crates/tollgate-cli/tests/support/reference.rs"]
mod reference;

#[path = "shared/log.rs"]
mod log;

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate::Limiter;
use tollgate_cli::Spec;
use tollgate_cli::probe::{self, RecordOutcome};
use tollgate_logs::{Format, Op, Options};
use tollgate_model::{Booking, Receipt, Reservation};

use log::Request;
use reference::{Reference, line};

/// Few enough for one bucket of the table, so that no key loses its slot.
const MAX_KEYS: usize = 8;

/// A limiter's clock must run for ten years. After that, the limiter may refuse, with longer waits.
const UPTIME: u64 = 10 * 31_557_600_000_000_000;

/// A larger model is slow and tests nothing new.
const MAX_MEMORY: usize = 1 << 20;

fuzz_target!(|text: &str| {
    let (limit, trace) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(spec) = limit.parse::<Spec>() else { return };
    let memory = Limiter::builder(spec.quota()).per::<[u8]>().max_keys(64).memory();
    let Ok(..=MAX_MEMORY) = memory else { return };
    let options = Options { format: Format::Trace, ..Options::default() };
    let log = log::read(&options, trace.as_bytes(), trace.len()).expect("the format is given");
    let keys: HashSet<&[u8]> = log.requests.iter().map(|request| &request.key[..]).collect();
    let [first, ..] = &log.requests[..] else { return };
    if keys.len() > MAX_KEYS {
        return;
    }
    let outcomes = match probe::replay(spec, 64, trace.as_bytes()) {
        Ok(outcomes) => outcomes,
        Err(said) => {
            let lacks = ["there are no turns", "there are no debts", "no answer by its quota"];
            let lacks = lacks.iter().any(|what| said.contains(what));
            return assert!(lacks, "{said}");
        }
    };
    assert_eq!(outcomes.len(), log.requests.len());
    let mut contest = Contest {
        spec,
        reference: Reference::new(limit, first.t_ns),
        zero: first.t_ns,
        now: first.t_ns,
        admitted: Vec::new(),
        reserved: Vec::new(),
    };
    for (request, outcome) in log.requests.iter().zip(&outcomes) {
        if contest.step(request, outcome).is_none() {
            return;
        }
    }
});

/// A charge or a reservation of a key, with the id of its request.
struct Taken<T> {
    key: Vec<u8>,
    id: Vec<u8>,
    it: T,
}

struct Contest {
    spec: Spec,
    reference: Reference,
    zero: u64,
    now: u64,
    admitted: Vec<Taken<Receipt>>,
    reserved: Vec<Taken<Reservation>>,
}

impl Contest {
    /// `None` if the engine and the model may differ from here on: see
    /// `tests/model/against_model/shared.rs`.
    fn step(&mut self, request: &Request, outcome: &RecordOutcome) -> Option<()> {
        if request.quota.is_some() {
            // It is decided by that quota alone, which `operations` compares.
            return None;
        }
        self.now = self.now.max(request.t_ns);
        let left = UPTIME.checked_sub(self.now - self.zero)?;
        let Request { line: number, cost, .. } = *request;
        let key = str::from_utf8(&request.key).expect("a trace is text");
        match request.op {
            Op::Check => {
                let (answer, receipt) = self.reference.admit(key, self.now, cost);
                keep(&mut self.admitted, request, receipt);
                same(&outcome.decision, &line(number, key, self.now, answer), left)
            }
            Op::CheckUpTo => {
                let (answer, units, receipt) = self.reference.check_up_to(key, self.now, cost);
                let units = if answer.allowed { units } else { 0 };
                keep(&mut self.admitted, &Request { cost: units, ..request.clone() }, receipt);
                let mut right = line(number, key, self.now, answer);
                right["charged"] = units.into();
                same(&outcome.decision, &right, left)
            }
            Op::Debit => {
                let receipt = self.reference.debit(key, self.now, cost).expect("logs were refused");
                let (units, answer) = (receipt.cost(), self.reference.peek(key, self.now, 0));
                // A word may have no room for what the model counts.
                if answer.reset_after_ns > left {
                    return None;
                }
                keep(&mut self.admitted, &Request { cost: units, ..request.clone() }, Some(receipt));
                let mut right = line(number, key, self.now, answer);
                right["charged"] = units.into();
                let got: Value = serde_json::from_str(&outcome.decision).expect("a decision is an object");
                // The model says nothing of a debit's delay.
                right["delay_ns"] = got["delay_ns"].clone();
                same(&outcome.decision, &right, left)
            }
            Op::Credit => {
                let right = self.reference.credit(key, self.now, cost);
                assert_eq!(outcome.credited, right, "units were credited");
                Some(())
            }
            Op::Peek => {
                let answer = self.reference.peek(key, self.now, cost);
                same(&outcome.decision, &line(number, key, self.now, answer), left)
            }
            Op::Reserve => {
                if request.max_wait_ns > left {
                    return None;
                }
                let booking = self.reference.reserve(key, self.now, cost, request.max_wait_ns);
                let booking = booking.expect("windows were refused");
                self.reserves(&booking, outcome, left)?;
                keep(&mut self.reserved, request, booking.booked());
                Some(())
            }
            Op::Refund => {
                let it = take(&mut self.admitted, request);
                let back = it.map(|it| self.reference.refund(it.it, cost, self.now));
                self.gives_back(back, outcome)
            }
            Op::Cancel => {
                let back = take(&mut self.reserved, request).map(|it| self.reference.cancel(it.it, self.now));
                self.gives_back(back, outcome)
            }
            Op::Reset => {
                self.reference.reset(key);
                self.admitted.retain(|it| it.key != request.key);
                self.reserved.retain(|it| it.key != request.key);
                Some(())
            }
        }
    }

    fn reserves(&self, booking: &Booking, outcome: &RecordOutcome, left: u64) -> Option<()> {
        let wait = match booking {
            Booking::Booked(place) => Some(self.reference.departure(place) - self.now),
            Booking::Refused { wait_ns } => Some(*wait_ns),
            Booking::Never => None,
        };
        if wait.is_some_and(|wait| wait > left) {
            return None;
        }
        let booked = matches!(booking, Booking::Booked(_));
        let got: Value = serde_json::from_str(&outcome.decision).expect("a decision is an object");
        assert_eq!(got["allowed"], booked, "{got}");
        let waits = if booked { &got["delay_ns"] } else { &got["retry_after_ns"] }.as_u64();
        // For a full queue, the model returns the time until it has room, the engine the time until
        // the request's turn.
        let queue = matches!(self.spec, Spec::LeakyBucket { queue: true, .. });
        assert!(waits == wait || queue && !booked && waits > wait, "{got}: {wait:?}");
        Some(())
    }

    fn gives_back(&self, right: Option<u64>, outcome: &RecordOutcome) -> Option<()> {
        assert_eq!(outcome.found_nothing, right.is_none());
        let right = right.unwrap_or(0);
        if outcome.back == right {
            return Some(());
        }
        let may_differ = match self.spec {
            Spec::TokenBucket { .. } | Spec::LeakyBucket { queue: false, .. } => outcome.back < right,
            Spec::SlidingLog { .. } => true,
            _ => false,
        };
        assert!(may_differ, "{} units came back and not {right}", outcome.back);
        None
    }
}

/// Keeps a charge or a reservation. An id refers to the latest request that has it.
fn keep<T>(taken: &mut Vec<Taken<T>>, request: &Request, it: Option<T>) {
    // What took nothing has nothing to give back.
    let Some(it) = it.filter(|_| request.cost > 0) else { return };
    let Request { key, id, .. } = request.clone();
    taken.iter_mut().filter(|other| other.key == key && other.id == id).for_each(|other| other.id.clear());
    taken.push(Taken { key, id, it });
}

/// Removes and returns the key's latest entry with the request's id; its latest of all if the
/// request has no id.
fn take<T>(taken: &mut Vec<Taken<T>>, request: &Request) -> Option<Taken<T>> {
    let is_meant = |it: &Taken<T>| it.key == request.key && (request.id.is_empty() || it.id == request.id);
    let at = taken.iter().rposition(is_meant)?;
    Some(taken.remove(at))
}

/// Asserts that the decisions are equal. `None` if a wait ends beyond the years left.
fn same(decision: &str, right: &Value, left: u64) -> Option<()> {
    let got: Value = serde_json::from_str(decision).expect("a decision is an object");
    if got == *right {
        return Some(());
    }
    let waits = ["retry_after_ns", "reset_after_ns", "delay_ns"];
    let far = waits.iter().any(|wait| right[*wait].as_u64().is_some_and(|wait| wait > left));
    assert!(far, "the replay says\n  {got}\nand the model\n  {right}");
    None
}
