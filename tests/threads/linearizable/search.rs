//! The search for an order, after Wing and Gong, "Testing and verifying concurrent objects" (1993),
//! with the memory of Lowe, "Testing for linearizability" (2017).
//!
//! A call may come next if no other remaining call returned before it began, and comes next if the
//! model gives its answer. The search remembers the sets of calls that it has tried, with the state
//! of the model after them.

use std::collections::HashSet;

use tollgate::Resolution;
use tollgate_model::{Model, Receipt};
use tollgate_testing::limits::Limit;

use super::history::{Act, Call, Said, Told};
use super::limits::{SECOND, gives_back_parts, is_log};

/// The key in the model.
const KEY: &str = "key";

/// The result of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Explained,
    /// There is an order up to a refund that gave back less than the model, perhaps by a part of a
    /// unit, or up to a refusal of a log by a unit's later time. Both are allowed: they err by
    /// refusing. From there on the two sides have different debts.
    ExplainedSoFar,
    Unexplained,
}

impl Verdict {
    fn or_so_far(self) -> Self {
        if self == Self::Unexplained { Self::ExplainedSoFar } else { self }
    }
}

/// Searches for an order of the calls on one key.
pub(crate) fn judge(limit: &Limit, resolution: Resolution, history: &[Call]) -> Verdict {
    assert!(history.len() < 64, "a set of calls is a word");
    let mut search = Search { limit, resolution, history, tried: HashSet::new() };
    search.go_on(&mut Vec::new())
}

struct Search<'h> {
    limit: &'h Limit,
    resolution: Resolution,
    history: &'h [Call],
    tried: HashSet<(u64, String)>,
}

/// The model after some calls.
struct State {
    model: Model,
    /// For each admitted call that was not refunded: its receipt, and the state of the model right
    /// after it.
    receipts: Vec<Option<(Receipt, String)>>,
}

/// The model's answer to a call.
enum Step {
    Agrees,
    /// The model has not changed, so the call needs no later try.
    AgreesIdly,
    GaveBackLess,
    Disagrees,
}

impl Search<'_> {
    fn go_on(&mut self, order: &mut Vec<(usize, u64)>) -> Verdict {
        if order.len() == self.history.len() {
            return Verdict::Explained;
        }
        let done = order.iter().fold(0_u64, |done, (call, _)| done | 1 << call);
        let memory = self.replay(order).memory();
        if !self.tried.insert((done, memory)) {
            return Verdict::Unexplained;
        }
        let left = || (0..self.history.len()).filter(|call| done >> call & 1 == 0);
        let first_return = left().map(|call| self.history[call].returned).min().unwrap_or(u64::MAX);
        let next = left().filter(|&call| self.history[call].began < first_return);
        let next: Vec<(usize, u64)> = next.flat_map(|call| self.times(call)).collect();
        let mut best = Verdict::Unexplained;
        for (call, now) in next {
            let step = self.replay(order).step(self.limit, self.history, call, now);
            let verdict = match step {
                Step::Disagrees if self.refuses_by_a_later_time(order, call, now) => Verdict::ExplainedSoFar,
                Step::Disagrees => continue,
                Step::GaveBackLess => Verdict::ExplainedSoFar,
                Step::Agrees | Step::AgreesIdly => {
                    order.push((call, now));
                    let verdict = self.go_on(order);
                    order.pop();
                    let in_parts =
                        gives_back_parts(self.limit) && matches!(self.history[call].said, Said::Back(1..));
                    if in_parts { verdict.or_so_far() } else { verdict }
                }
            };
            match verdict {
                Verdict::Explained => return verdict,
                Verdict::ExplainedSoFar => best = verdict,
                Verdict::Unexplained => {}
            }
            if matches!(step, Step::AgreesIdly) {
                return best;
            }
        }
        best
    }

    /// Returns the times that a call may have: its own, or for an admission of a log, the time of
    /// another that wanted the same place in the ring and did not get it. That time is not earlier
    /// than its own, so it refuses more, not less (see `src/ring.rs`).
    fn times(&self, number: usize) -> Vec<(usize, u64)> {
        let call = &self.history[number];
        let mut times = vec![(number, call.now)];
        if is_log(self.limit) && matches!(call.said, Said::Told(Told { allowed: true, .. })) {
            times.extend(self.later_times(call).map(|time| (number, time)));
        }
        times
    }

    /// Returns the later times of calls that began before this one returned.
    fn later_times(&self, call: &Call) -> impl Iterator<Item = u64> {
        let (returned, now) = (call.returned, call.now);
        let others = self.history.iter().filter(move |other| other.began < returned && other.now > now);
        others.map(|other| other.now)
    }

    /// Returns whether a log may refuse what the model admits: of an admission of several units,
    /// one may have such a later time, and the others their own. A request of one unit then meets
    /// the later time, which has not left the window. A request of two meets the other unit.
    fn refuses_by_a_later_time(&self, order: &[(usize, u64)], number: usize, now: u64) -> bool {
        let call = &self.history[number];
        let is_refused = matches!(call.said, Said::Told(Told { allowed: false, .. }));
        is_log(self.limit)
            && is_refused
            && order.iter().map(|&(before, _)| &self.history[before]).any(|before| {
                let is_admission = matches!(before.said, Said::Told(Told { allowed: true, .. }));
                is_admission
                    && matches!(before.act, Act::Check(2..))
                    && self.later_times(before).any(|time| time + SECOND > now)
            })
    }

    /// Returns the model after these calls, to which it gave the same answers.
    fn replay(&self, order: &[(usize, u64)]) -> State {
        let model = self.limit.model(self.resolution, 0);
        let mut state = State { model, receipts: self.history.iter().map(|_| None).collect() };
        for &(call, now) in order {
            state.step(self.limit, self.history, call, now);
        }
        state
    }
}

impl State {
    fn memory(&self) -> String {
        let receipts = self.receipts.iter().flatten().map(|(_, charged)| charged);
        receipts.fold(format!("{:?}", self.model), |all, charged| all + charged)
    }

    fn step(&mut self, limit: &Limit, history: &[Call], number: usize, now: u64) -> Step {
        let call = &history[number];
        let before = format!("{:?}", self.model);
        let agrees = match (call.act, call.said) {
            (Act::Peek(cost), Said::Told(told)) => told == Told::of(limit, &self.model.peek(KEY, now, cost)),
            (Act::Check(cost), Said::Told(told)) => {
                let (answer, receipt) = self.model.admit(KEY, now, cost);
                self.receipts[number] = receipt.map(|receipt| (receipt, format!("{:?}", self.model)));
                told == Told::of(limit, &answer)
            }
            (Act::Refund(of), Said::Back(units)) => {
                // The call was admitted before its refund, by the same thread.
                let Some((receipt, _)) = self.receipts[of].take() else { return Step::Disagrees };
                let right = self.model.refund(receipt, now);
                if units < right {
                    return Step::GaveBackLess;
                }
                units == right
            }
            _ => unreachable!("checks and peeks are told something, refunds give back"),
        };
        let idle = !matches!(call.act, Act::Refund(_)) && before == format!("{:?}", self.model);
        match (agrees, idle) {
            (false, _) => Step::Disagrees,
            // An admission that changed nothing still needs a receipt.
            (true, true) if self.receipts[number].is_none() => Step::AgreesIdly,
            (true, _) => Step::Agrees,
        }
    }
}

mod finds {
    use super::super::history::Recorder;
    use super::super::limits::LIMITS;
    use super::*;

    /// Two calls that each take the last of three units.
    fn twice(second_began: u64) -> Vec<Call> {
        let told =
            |allowed, remaining| Said::Told(Told { allowed, remaining, retry: None, reset: 0, delay: 0 });
        let call = |began, returned, cost, said| Call {
            thread: 0,
            began,
            returned,
            act: Act::Check(cost),
            now: 0,
            said,
        };
        vec![call(0, 3, 3, told(true, 0)), call(second_began, 5, 3, told(true, 0))]
    }

    fn verdict(history: &[Call]) -> Verdict {
        let log = LIMITS.iter().find(|limit| is_log(limit)).expect("there is one");
        judge(log, Recorder::resolution_of(log), history)
    }

    #[test]
    fn two_admissions_of_the_last_units_have_no_order() {
        assert_eq!(verdict(&twice(1)), Verdict::Unexplained);
        assert_eq!(verdict(&twice(1)[..1]), Verdict::Explained);
    }

    /// Seen once in some three million histories. A log admits two units, of which the first
    /// has the later time of another request that wanted its entry.
    #[test]
    fn after_a_race_a_log_may_refuse_one_unit() {
        let told = |allowed| Said::Told(Told { allowed, remaining: 0, retry: None, reset: 0, delay: 0 });
        let call =
            |thread, (began, returned), now, act, said| Call { thread, began, returned, act, now, said };
        let (early, middle, late) = (36_900_000_173, 37_100_000_173, 37_900_000_180);
        let history = |admitted_in| {
            vec![
                call(1, (31, 34), middle, Act::Check(1), told(true)),
                call(2, admitted_in, early, Act::Check(2), told(true)),
                call(1, (35, 36), middle, Act::Refund(0), Said::Back(1)),
                call(2, (43, 44), middle + 2, Act::Check(1), told(true)),
                call(0, (46, 47), late, Act::Check(1), told(false)),
                call(0, (48, 49), late, Act::Check(2), told(true)),
            ]
        };
        assert_eq!(verdict(&history((33, 39))), Verdict::ExplainedSoFar);
        assert_eq!(verdict(&history((1, 2))), Verdict::Unexplained, "no other call is beside it");
    }

    /// The second call is admitted in one half and refused in the other; the first call is
    /// admitted.
    #[test]
    fn a_refusal_before_the_admission_needs_calls_that_overlap() {
        let refused = |second_began| {
            let mut history = twice(second_began);
            let Said::Told(told) = &mut history[0].said else { unreachable!("it is a check") };
            told.allowed = false;
            history
        };
        assert_eq!(verdict(&refused(1)), Verdict::Explained);
        assert_eq!(verdict(&refused(4)), Verdict::Unexplained);
    }
}
