//! A handle of the rules with its buffers.

use std::ops::{ControlFlow, Deref, DerefMut};
use std::sync::Arc;

use crossbeam::queue::ArrayQueue;
use futures_util::future::join_all;
use tollgate_http::HeaderJson;
use tollgate_redis::rules::RuleStores;
use tollgate_rules::{
    Ask, AskRule, AskRuleError, Handle, Request, Scratch, StoredAnswer, StoredAsk, Verdict,
};

use super::{Core, Generation};
use crate::clock::ServerClock;

/// How often stores are asked for one request, which reloads may overtake. Beyond it is refused.
const TRIES: usize = 8;

/// A handle of the rules with its buffers, for one request at a time. A connection whose requests
/// come one after the other may keep one.
pub(crate) struct Decider {
    handle: Handle<ServerClock>,
    scratch: Scratch,
    /// That of the handle's rules, once they are refreshed.
    generation: Arc<Generation>,
    /// Room for the headers of an answer, which its user takes and gives back.
    pub(crate) headers: HeaderJson,
}

/// What stores have answered for a request that is not decided yet.
#[derive(Default)]
struct Asked {
    answers: Vec<StoredAnswer>,
    tries: usize,
}

/// The questions to stores without whose answers a request is not decided.
struct Unasked {
    stores: Arc<RuleStores>,
    asks: Vec<StoredAsk>,
}

impl Unasked {
    async fn answer(self, tries: usize) -> Asked {
        Asked { answers: self.stores.ask(self.asks).await, tries: tries + 1 }
    }
}

impl Decider {
    pub(super) fn new(handle: Handle<ServerClock>, generation: Arc<Generation>) -> Self {
        Self { handle, scratch: Scratch::default(), generation, headers: HeaderJson::default() }
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
        mut act: impl FnMut(Verdict<'_, ServerClock>, &Arc<Generation>) -> T,
    ) -> T {
        let mut asked = Asked::default();
        loop {
            let unasked = match self.step(core, &request, ask, &mut asked, &mut act) {
                Ok(done) => return done,
                Err(unasked) => unasked,
            };
            // Boxed, as it is rare, and requests without stores would have room for it.
            asked = Box::pin(unasked.answer(asked.tries)).await;
        }
    }

    /// Decides so many requests, each for itself, as if they came at the same time: their stores
    /// are asked at the same time. `act` takes the verdict of each with its index, those first that
    /// need no store. Once it breaks, no more are decided, and what stores have charged for others
    /// is given back.
    pub(crate) async fn decide_all<R: Request>(
        &mut self,
        core: &Core,
        count: usize,
        request: impl Fn(usize, &Generation) -> R,
        ask: impl Fn(usize) -> Ask,
        mut act: impl FnMut(usize, Verdict<'_, ServerClock>, &Arc<Generation>) -> ControlFlow<()>,
    ) {
        let mut undecided: Vec<_> = (0..count).map(|index| (index, Asked::default())).collect();
        while !undecided.is_empty() {
            let mut trips = Vec::new();
            for (index, mut asked) in undecided {
                let seen = |generation: &Generation| request(index, generation);
                let mut act = |verdict: Verdict<'_, _>, generation: &_| act(index, verdict, generation);
                match self.step(core, seen, ask(index), &mut asked, &mut act) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return,
                    Err(unasked) => {
                        trips.push(async move { (index, unasked.answer(asked.tries).await) });
                    }
                }
            }
            undecided = join_all(trips).await;
        }
    }

    /// Decides a request with what stores have answered, or says which are to be asked first:
    /// nothing is charged then.
    fn step<R: Request, T>(
        &mut self,
        core: &Core,
        request: impl Fn(&Generation) -> R,
        ask: Ask,
        asked: &mut Asked,
        act: &mut impl FnMut(Verdict<'_, ServerClock>, &Arc<Generation>) -> T,
    ) -> Result<T, Unasked> {
        loop {
            if !Arc::ptr_eq(self.handle.refresh(), self.generation.http.set()) {
                self.generation = core.generation();
            }
            let request = request(&self.generation);
            let verdict = self.handle.ask_answered(&request, ask, &mut asked.answers, &mut self.scratch);
            if !self.generation.http.decided(&verdict) {
                // Other rules came into force since the refresh.
                verdict.cancel();
                continue;
            }
            let asks = verdict.unasked();
            let stores = self.generation.stores.as_ref();
            return match stores.filter(|_| !asks.is_empty() && asked.tries < TRIES) {
                Some(stores) => Err(Unasked { stores: Arc::clone(stores), asks }),
                None => Ok(act(verdict, &self.generation)),
            };
        }
    }

    /// Decides a request by the rules in force.
    #[cfg(test)]
    pub(crate) fn ask(&mut self, request: &dyn Request, ask: Ask) -> Verdict<'_, ServerClock> {
        self.handle.ask(request, ask, &mut self.scratch)
    }

    /// Asks one rule by its name.
    pub(crate) fn ask_rule(&mut self, ask: AskRule<'_>) -> Result<Verdict<'_, ServerClock>, AskRuleError> {
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
        if let Some(mut decider) = self.decider.take()
            && Arc::ptr_eq(decider.handle.refresh(), decider.generation.http.set())
        {
            // Beyond the free ones that are kept it is dropped.
            let _ = self.free.push(decider);
        }
    }
}
