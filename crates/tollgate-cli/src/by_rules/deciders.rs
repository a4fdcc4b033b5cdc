//! The threads on which judges decide a log:
//!
//! ```text
//!                                    +-- requests --> [judge] -- decisions --+
//!   batches --> [caller: requests] --+                                       +--> [caller: `each`]
//!                                    +-- requests --> [judge] -- decisions --+
//! ```
//!
//! While the judges are at one batch, the caller makes requests of the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender, bounded};
use tollgate_logs::{Batch, Wanted};

use super::judge::Judge;
use super::log::Requests;
use crate::failure::Failure;

/// How many batches the judges may have.
const UNDERWAY: usize = 4;

/// All judges' threads, and the batches that they have.
pub(super) struct Deciders<D, const N: usize> {
    deciders: [Decider<D>; N],
    underway: VecDeque<Arc<Requests>>,
}

/// The thread of one judge.
struct Decider<D> {
    batches: Sender<Arc<Requests>>,
    /// What it decides of each batch, in their order.
    decisions: Receiver<Result<D, Failure>>,
}

impl<D: Send, const N: usize> Deciders<D, N> {
    pub(super) fn start<'s>(
        scope: &'s Scope<'s, '_>,
        judges: &'s mut [Judge; N],
        decide: [impl FnMut(&mut Judge, &Requests) -> Result<D, Failure> + Send + 's; N],
        wanted: &'s [Wanted],
    ) -> Self
    where
        D: 's,
    {
        let mut decide = decide.into_iter();
        let deciders = judges
            .each_mut()
            .map(|judge| Decider::start(scope, judge, decide.next().expect("each judge has one"), wanted));
        Self { deciders, underway: VecDeque::new() }
    }

    pub(super) fn give(&mut self, requests: Requests) {
        if requests.len() == 0 {
            // They wait for earlier ones.
            return;
        }
        let requests = Arc::new(requests);
        for decider in &self.deciders {
            // Fails when the thread has ended with an error, which the caller has not received yet.
            let _ = decider.batches.send(Arc::clone(&requests));
        }
        self.underway.push_back(requests);
    }

    /// A batch to be filled. Gives `each` all that is decided, so that an error is not told later
    /// than it must be. Waits while the judges have many batches.
    ///
    /// # Errors
    ///
    /// Those of `each`.
    pub(super) fn next_free(
        &mut self,
        each: &mut impl FnMut(&Requests, [Result<D, Failure>; N]) -> Result<(), Failure>,
    ) -> Result<Batch, Failure> {
        let mut free = None;
        while self.underway.len() >= UNDERWAY || self.is_first_decided() {
            free = self.finish_one(each)?;
        }
        Ok(free.unwrap_or_default())
    }

    fn is_first_decided(&self) -> bool {
        self.deciders.iter().all(|decider| !decider.decisions.is_empty())
    }

    /// Waits for all decisions, and gives them to `each`.
    ///
    /// # Errors
    ///
    /// Those of `each`.
    pub(super) fn finish(
        &mut self,
        each: &mut impl FnMut(&Requests, [Result<D, Failure>; N]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while !self.underway.is_empty() {
            self.finish_one(each)?;
        }
        Ok(())
    }

    /// Waits for the decisions of the first batch, gives them to `each`, and returns the memory of
    /// the batch if no other thread has it.
    fn finish_one(
        &mut self,
        each: &mut impl FnMut(&Requests, [Result<D, Failure>; N]) -> Result<(), Failure>,
    ) -> Result<Option<Batch>, Failure> {
        let Some(requests) = self.underway.pop_front() else { return Ok(None) };
        let next = |decider: &Decider<D>| decider.decisions.recv().expect("deciding does not panic");
        each(&requests, self.deciders.each_ref().map(next))?;
        Ok(Arc::into_inner(requests).and_then(Requests::into_batch))
    }
}

impl<D: Send> Decider<D> {
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        judge: &'s mut Judge,
        mut decide: impl FnMut(&mut Judge, &Requests) -> Result<D, Failure> + Send + 's,
        wanted: &'s [Wanted],
    ) -> Self
    where
        D: 's,
    {
        let (batches, given) = bounded::<Arc<Requests>>(UNDERWAY);
        let (decided, decisions) = bounded(UNDERWAY);
        scope.spawn(move || {
            for requests in given {
                let decisions = judge.open(&requests, wanted).and_then(|()| decide(judge, &requests));
                // Before the decisions are sent: then only the caller has the batch, and can use it
                // again.
                drop(requests);
                // After an error nothing more is decided, or written.
                let is_last = decisions.is_err();
                if decided.send(decisions).is_err() || is_last {
                    return;
                }
            }
        });
        Self { batches, decisions }
    }
}
