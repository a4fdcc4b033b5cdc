//! Any trace under any limit: what is asked, given back and reserved is answered as the specification says.
//!
//! The first line is the limit, the rest the trace:
//!
//! ```text
//!   leaky-bucket:3/s,capacity=4,mode=queue
//!   {"t_ns":0,"key":"a","cost":2,"id":"r1"}
//!   {"t_ns":5,"key":"a","op":"refund","id":"r1"}
//! ```

#![no_main]

#[path = "../../crates/tollgate-cli/tests/support/reference.rs"]
mod reference;

use std::collections::HashSet;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate::{Limiter, Quota};
use tollgate_cli::Spec;
use tollgate_cli::probe::{self, Op, Reader, Request, Told};
use tollgate_model::{Booking, Receipt, Reservation};

use reference::{Reference, line};

/// Fewer than a bucket of the table holds, so that no key loses its slot.
const MOST_KEYS: usize = 8;

/// The ten years that a limiter's clock must run: beyond them it may refuse and tell longer waits.
const UPTIME: u64 = 10 * 31_557_600_000_000_000;

/// A model of more is slow and says nothing new.
const MOST_MEMORY: usize = 1 << 20;

fuzz_target!(|text: &str| {
    let (limit, trace) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(spec) = limit.parse::<Spec>() else { return };
    let memory = Limiter::<[u8], Quota>::builder(spec.quota()).max_keys(64).memory();
    let Ok(..=MOST_MEMORY) = memory else { return };
    static READER: LazyLock<Reader> =
        LazyLock::new(|| Reader::new(&["--format", "trace"]).expect("a format"));
    let log = READER.log(trace.as_bytes(), trace.len()).expect("the format is given");
    let keys: HashSet<&[u8]> = log.requests.iter().map(|request| &request.key[..]).collect();
    let [first, ..] = &log.requests[..] else { return };
    if keys.len() > MOST_KEYS {
        return;
    }
    let told = match probe::replay(spec, 64, trace.as_bytes()) {
        Ok(told) => told,
        Err(said) => return assert!(said.contains("counts in windows"), "{said}"),
    };
    assert_eq!(told.len(), log.requests.len());
    let mut contest = Contest {
        spec,
        reference: Reference::new(limit, first.t_ns),
        zero: first.t_ns,
        now: first.t_ns,
        admitted: Vec::new(),
        reserved: Vec::new(),
    };
    for (request, told) in log.requests.iter().zip(&told) {
        if contest.step(request, told).is_none() {
            return;
        }
    }
});

/// What was taken under a key and an id.
struct Taken<T> {
    key: Vec<u8>,
    id: Vec<u8>,
    cost: u64,
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
    /// `None` where the engine and its model may part: see `tests/model/against_model/shared.rs`.
    fn step(&mut self, request: &Request, told: &Told) -> Option<()> {
        self.now = self.now.max(request.t_ns);
        let left = UPTIME.checked_sub(self.now - self.zero)?;
        let Request { line: number, cost, .. } = *request;
        let key = str::from_utf8(&request.key).expect("a trace is text");
        match request.op {
            Op::Check => {
                let (answer, receipt) = self.reference.admit(key, self.now, cost);
                keep(&mut self.admitted, request, receipt);
                same(&told.decision, &line(number, key, self.now, answer), left)
            }
            Op::Peek => {
                let answer = self.reference.peek(key, self.now, cost);
                same(&told.decision, &line(number, key, self.now, answer), left)
            }
            Op::Reserve => {
                if request.max_wait_ns > left {
                    return None;
                }
                let booking = self.reference.reserve(key, self.now, cost, request.max_wait_ns);
                let booking = booking.expect("windows were refused");
                self.reserves(&booking, told, left)?;
                keep(&mut self.reserved, request, booking.booked());
                Some(())
            }
            Op::Refund => {
                let it = take(&mut self.admitted, request);
                if it.as_ref().is_some_and(|it| cost < it.cost) {
                    // The model gives back all or nothing.
                    return None;
                }
                let back = it.map(|it| self.reference.refund(it.it, self.now));
                self.gives_back(back, told)
            }
            Op::Cancel => {
                let back = take(&mut self.reserved, request).map(|it| self.reference.cancel(it.it, self.now));
                self.gives_back(back, told)
            }
            Op::Reset => {
                self.reference.reset(key);
                self.admitted.retain(|it| it.key != request.key);
                self.reserved.retain(|it| it.key != request.key);
                Some(())
            }
        }
    }

    fn reserves(&self, booking: &Booking, told: &Told, left: u64) -> Option<()> {
        let wait = match booking {
            Booking::Booked(place) => Some(self.reference.departure(place) - self.now),
            Booking::Refused { wait_ns } => Some(*wait_ns),
            Booking::Never => None,
        };
        if wait.is_some_and(|wait| wait > left) {
            return None;
        }
        let booked = matches!(booking, Booking::Booked(_));
        let got: Value = serde_json::from_str(&told.decision).expect("a decision is an object");
        assert_eq!(got["allowed"], booked, "{got}");
        let waits = if booked { &got["delay_ns"] } else { &got["retry_after_ns"] }.as_u64();
        // Of a full queue the model tells when there is room, the engine when the turn would come.
        let queue = matches!(self.spec, Spec::LeakyBucket { queue: true, .. });
        assert!(waits == wait || queue && !booked && waits > wait, "{got}: {wait:?}");
        Some(())
    }

    fn gives_back(&self, right: Option<u64>, told: &Told) -> Option<()> {
        assert_eq!(told.found_nothing, right.is_none());
        let right = right.unwrap_or(0);
        if told.back == right {
            return Some(());
        }
        let may_part = match self.spec {
            Spec::TokenBucket { .. } | Spec::LeakyBucket { queue: false, .. } => told.back < right,
            Spec::SlidingLog { .. } => true,
            _ => false,
        };
        assert!(may_part, "{} units came back and not {right}", told.back);
        None
    }
}

/// Keeps what was taken, if anything was; an id means the later of two alike.
fn keep<T>(taken: &mut Vec<Taken<T>>, request: &Request, it: Option<T>) {
    let Some(it) = it else { return };
    let Request { key, id, cost, .. } = request.clone();
    taken.iter_mut().filter(|other| other.key == key && other.id == id).for_each(|other| other.id.clear());
    taken.push(Taken { key, id, cost, it });
}

/// The key's latest of the request's id, or its latest of all when there is none.
fn take<T>(taken: &mut Vec<Taken<T>>, request: &Request) -> Option<Taken<T>> {
    let is_meant = |it: &Taken<T>| it.key == request.key && (request.id.is_empty() || it.id == request.id);
    let at = taken.iter().rposition(is_meant)?;
    Some(taken.remove(at))
}

/// `None` when a wait that is told reaches beyond the years left.
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
