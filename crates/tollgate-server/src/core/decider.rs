//! A handle of the rules with its buffers.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use tollgate_rules::{Ask, AskRule, Handle, Request, Scratch, Verdict};

use super::{Core, Generation, ServerClock};

/// How often stores are asked for one request, which reloads may overtake. Beyond it is refused.
const TRIES: usize = 8;

/// A handle of the rules with its buffers, for one request at a time. A connection whose requests
/// come one after the other may keep one.
pub(crate) struct Decider {
    handle: Handle<ServerClock>,
    scratch: Scratch,
    /// That of the handle's rules, once they are refreshed.
    generation: Arc<Generation>,
}

impl Decider {
    pub(super) fn new(handle: Handle<ServerClock>, generation: Arc<Generation>) -> Self {
        Self { handle, scratch: Scratch::default(), generation }
    }

    /// Decides a request by the rules in force, and has `act` take the verdict with the generation
    /// that decided. `request` is what the rules of a generation see.
    ///
    /// It waits for the stores that rules name, and for nothing else.
    pub(crate) async fn decide<R: Request, T>(
        &mut self,
        core: &Core,
        request: impl Fn(&Generation) -> R,
        ask: Ask,
        act: impl FnOnce(Verdict<'_, ServerClock>, &Arc<Generation>) -> T,
    ) -> T {
        let (mut answers, mut tries) = (Vec::new(), 0);
        loop {
            if !Arc::ptr_eq(self.handle.refresh(), self.generation.http.set()) {
                self.generation = core.generation();
            }
            let (stores, asks) = {
                let request = request(&self.generation);
                let verdict = self.handle.ask_answered(&request, ask, &mut answers, &mut self.scratch);
                if !self.generation.http.decided(&verdict) {
                    // Other rules came into force since the refresh.
                    verdict.cancel();
                    continue;
                }
                let asks = verdict.unasked();
                let stores = self.generation.stores.as_ref().filter(|_| !asks.is_empty() && tries < TRIES);
                let Some(stores) = stores else { return act(verdict, &self.generation) };
                (Arc::clone(stores), asks)
            };
            answers = stores.ask(asks).await;
            tries += 1;
        }
    }

    /// Decides a request by the rules in force.
    #[cfg(test)]
    pub(crate) fn ask(&mut self, request: &dyn Request, ask: Ask) -> Verdict<'_, ServerClock> {
        self.handle.ask(request, ask, &mut self.scratch)
    }

    /// Asks one rule by its name.
    pub(crate) fn ask_rule(&mut self, ask: AskRule<'_>) -> Option<Verdict<'_, ServerClock>> {
        self.handle.ask_rule(ask, &mut self.scratch)
    }

    /// The handle of the rules in force.
    pub(crate) fn handle(&mut self) -> &mut Handle<ServerClock> {
        &mut self.handle
    }
}

/// A decider that goes back to the free ones when this is dropped.
pub(crate) struct Free<'c> {
    /// `None` only while it is dropped.
    decider: Option<Box<Decider>>,
    free: &'c ArrayQueue<Box<Decider>>,
}

impl<'c> Free<'c> {
    pub(super) fn new(decider: Box<Decider>, free: &'c ArrayQueue<Box<Decider>>) -> Self {
        Self { decider: Some(decider), free }
    }
}

impl Deref for Free<'_> {
    type Target = Decider;

    fn deref(&self) -> &Decider {
        self.decider.as_deref().expect("it is there until the drop")
    }
}

impl DerefMut for Free<'_> {
    fn deref_mut(&mut self) -> &mut Decider {
        self.decider.as_deref_mut().expect("it is there until the drop")
    }
}

impl Drop for Free<'_> {
    fn drop(&mut self) {
        if let Some(decider) = self.decider.take() {
            // Beyond the free ones that are kept it is dropped.
            let _ = self.free.push(decider);
        }
    }
}
