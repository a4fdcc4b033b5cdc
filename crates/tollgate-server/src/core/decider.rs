//! A handle of the rules with its buffers.

use std::mem::take;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crossbeam::queue::ArrayQueue;
use futures_util::future::join_all;
use tollgate_http::HeaderJson;
use tollgate_proxy::Generation;
use tollgate_redis::rules::RuleStores;
use tollgate_rules::{
    Ask, AskRule, AskRuleError, Asked, Handle, Request, Session, StoredAnswer, StoredAsk, Together, Verdict,
};

use super::Core;
use crate::clock::ServerClock;

/// How often stores are asked for one request, which reloads may overtake. Beyond it is refused.
const TRIES: usize = 8;

/// A handle of the rules with its buffers, for one request at a time. A connection whose requests
/// come one after the other may keep one.
pub(crate) struct Decider {
    session: Session<Generation, ServerClock>,
    /// Room for the headers of an answer, which its user takes and gives back.
    pub(crate) headers: HeaderJson,
}

/// What stores have answered for a request that is not decided yet.
#[derive(Default)]
struct Told {
    answers: Vec<StoredAnswer>,
    tries: usize,
}

/// The questions to stores without whose answers a request is not decided.
struct Unasked {
    stores: Arc<RuleStores>,
    asks: Vec<StoredAsk>,
}

impl Told {
    /// The stores to ask before the request is decided, if any.
    fn unasked(&self, generation: &Generation, asks: Vec<StoredAsk>) -> Option<Unasked> {
        let stores = generation.stores.as_ref().filter(|_| self.tries < TRIES && !asks.is_empty())?;
        Some(Unasked { stores: Arc::clone(stores), asks })
    }
}

impl Unasked {
    async fn answer(self, tries: usize) -> Told {
        Told { answers: self.stores.ask(self.asks).await, tries: tries + 1 }
    }
}

impl Decider {
    pub(super) fn new(handle: Handle<ServerClock>, generation: Arc<Generation>) -> Self {
        Self { session: Session::new(handle, |_| generation), headers: HeaderJson::default() }
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
        let mut told = Told::default();
        loop {
            let unasked = match self.step(core, &request, ask, &mut told, &mut act) {
                Ok(done) => return done,
                Err(unasked) => unasked,
            };
            // Boxed, as it is rare, and requests without stores would have room for it.
            told = Box::pin(unasked.answer(told.tries)).await;
        }
    }

    /// Decides so many requests, each for itself, as if they came at the same time: their stores
    /// are asked at the same time. `act` takes the verdict of each with its index, those first that
    /// need no store.
    pub(crate) async fn decide_all<R: Request>(
        &mut self,
        core: &Core,
        count: usize,
        request: impl Fn(usize, &Generation) -> R,
        ask: impl Fn(usize) -> Ask,
        mut act: impl FnMut(usize, Verdict<'_, ServerClock>, &Arc<Generation>),
    ) {
        let mut undecided: Vec<_> = (0..count).map(|index| (index, Told::default())).collect();
        while !undecided.is_empty() {
            let mut trips = Vec::new();
            for (index, mut told) in undecided {
                let seen = |generation: &Generation| request(index, generation);
                let mut act = |verdict: Verdict<'_, _>, generation: &_| act(index, verdict, generation);
                if let Err(unasked) = self.step(core, seen, ask(index), &mut told, &mut act) {
                    trips.push(async move { (index, unasked.answer(told.tries).await) });
                }
            }
            undecided = join_all(trips).await;
        }
    }

    /// Decides so many requests together, by one generation of the rules: all are admitted, or none
    /// is charged, also where they `are_refused` for another reason. `act` takes what the rules
    /// say. Before all stores have answered that the requests need, nothing is charged here.
    pub(crate) async fn decide_together<R: Request, T>(
        &mut self,
        core: &Core,
        count: usize,
        request: impl Fn(usize, &Generation) -> R,
        ask: impl Fn(usize) -> Ask,
        are_refused: bool,
        mut act: impl FnMut(Together<'_, ServerClock>, &Arc<Generation>) -> T,
    ) -> T {
        let mut told: Vec<_> = (0..count).map(|_| Told::default()).collect();
        loop {
            let decided = self.session.decide(
                |_| core.generations.in_force(),
                |mut round| {
                    let generation = round.derived();
                    let one = |(index, told): (usize, &mut Told)| {
                        let (request, answers) = (request(index, generation), take(&mut told.answers));
                        Asked { request, ask: ask(index), answers }
                    };
                    let mut asked: Vec<_> = told.iter_mut().enumerate().map(one).collect();
                    let together = round.ask_together(&mut asked, are_refused)?;
                    let unasked = |(index, told): (usize, &Told)| {
                        let unasked = told.unasked(generation, together.unasked(index))?;
                        Some((index, told.tries, unasked))
                    };
                    let trips: Vec<_> = told.iter().enumerate().filter_map(unasked).collect();
                    Some(if trips.is_empty() { Ok(act(together, generation)) } else { Err(trips) })
                },
            );
            let trips = match decided {
                Ok(done) => return done,
                Err(trips) => trips,
            };
            let trip = |(index, tries, unasked): (usize, usize, Unasked)| async move {
                (index, unasked.answer(tries).await)
            };
            for (index, answered) in join_all(trips.into_iter().map(trip)).await {
                told[index] = answered;
            }
        }
    }

    /// Decides a request with what stores have answered, or says which are to be asked first:
    /// nothing is charged then.
    fn step<R: Request, T>(
        &mut self,
        core: &Core,
        request: impl Fn(&Generation) -> R,
        ask: Ask,
        told: &mut Told,
        act: &mut impl FnMut(Verdict<'_, ServerClock>, &Arc<Generation>) -> T,
    ) -> Result<T, Unasked> {
        self.session.decide(
            |_| core.generations.in_force(),
            |mut round| {
                let generation = round.derived();
                let verdict = round.ask(&request(generation), ask, &mut told.answers)?;
                Some(match told.unasked(generation, verdict.unasked()) {
                    Some(unasked) => Err(unasked),
                    None => Ok(act(verdict, generation)),
                })
            },
        )
    }

    /// Decides a request by the rules in force.
    #[cfg(test)]
    pub(crate) fn ask(&mut self, request: &dyn Request, ask: Ask) -> Verdict<'_, ServerClock> {
        let (handle, scratch) = self.session.parts();
        handle.ask(request, ask, scratch)
    }

    /// Asks one rule by its name.
    pub(crate) fn ask_rule(&mut self, ask: AskRule<'_>) -> Result<Verdict<'_, ServerClock>, AskRuleError> {
        let (handle, scratch) = self.session.parts();
        handle.ask_rule(ask, scratch)
    }

    /// The handle of the rules in force.
    pub(crate) fn handle(&mut self) -> &mut Handle<ServerClock> {
        self.session.parts().0
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
            && decider.session.is_current()
        {
            // Beyond the free ones that are kept it is dropped.
            let _ = self.free.push(decider);
        }
    }
}
