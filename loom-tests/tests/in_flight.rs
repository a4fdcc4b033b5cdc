//! Guards of the in-flight limit: acquired and dropped, beside insertions and recycling.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::Relaxed};

use loom::sync::atomic::AtomicU64;
use loom_tests::{Named, Run, X, Y, Z, admitted, explore};
use tollgate::{InFlight, InFlightLimiter};

/// A fourth key, for slots that have had many owners.
const V: Named = Named::new(3);

/// A limiter of two slots a bucket, and what its users know without it.
struct Model {
    limiter: Arc<InFlightLimiter<Named>>,
    /// The units held of each key. Not loom's: all threads read the latest value.
    held: [Counter; 4],
    /// How often X was held: read and written in two steps, as only its one holder may.
    turns: AtomicU64,
}

fn model(limit: u64) -> Arc<Model> {
    let limiter =
        InFlightLimiter::builder(limit).per().max_keys(1).build().expect("the model's limit is valid");
    let limiter = Arc::new(limiter);
    Arc::new(Model { limiter, held: [const { Counter::new(0) }; 4], turns: AtomicU64::new(0) })
}

impl Model {
    fn held(&self, key: Named) -> &Counter {
        let place = [X, Y, Z, V].iter().position(|&known| known == key).expect("there are four keys");
        &self.held[place]
    }

    fn acquire(&self, key: Named) -> Option<InFlight<'_>> {
        let guard = self.limiter.try_acquire(&key).ok()?;
        assert!(self.held(key).fetch_add(1, Relaxed) < self.limiter.limit(), "more than the limit at once");
        Some(guard)
    }

    fn give_back(&self, key: Named, guard: InFlight<'_>) {
        self.held(key).fetch_sub(1, Relaxed);
        drop(guard);
    }

    fn is_as_new(&self) {
        assert_eq!([X, Y, Z, V].map(|key| self.limiter.in_flight(&key)), [0; 4]);
        assert!(self.limiter.usage().live_keys == 0);
    }
}

/// Acquires and gives back each of `keys` in turn, and says how often it could.
fn pass(model: &Arc<Model>, keys: &'static [Named]) -> Run {
    let model = model.clone();
    let each = move |key: &Named| {
        let guard = model.acquire(*key)?;
        model.give_back(*key, guard);
        Some(())
    };
    Box::new(move || keys.iter().filter_map(each).count() as u64)
}

/// The same for X alone where one at a time is allowed: what a holder wrote, the next one reads.
fn pass_alone(model: &Arc<Model>, times: usize) -> Run {
    let model = model.clone();
    let each = move |_: usize| {
        let guard = model.acquire(X)?;
        let turns = model.turns.load(loom::sync::atomic::Ordering::Relaxed);
        model.turns.store(turns + 1, loom::sync::atomic::Ordering::Relaxed);
        model.give_back(X, guard);
        Some(())
    };
    Box::new(move || (0..times).filter_map(each).count() as u64)
}

fn turns(model: &Model) -> u64 {
    model.turns.load(loom::sync::atomic::Ordering::Relaxed)
}

#[test]
fn holders_of_a_known_key_see_the_last_holders_writes() {
    explore(Some(4), || {
        let model = model(1);
        assert_eq!(pass_alone(&model, 1)(), 1);
        let granted = 1 + admitted([pass_alone(&model, 2), pass_alone(&model, 1)]);
        assert!(granted >= 2, "who finds nobody in flight is served");
        assert_eq!(turns(&model), granted);
        model.is_as_new();
    });
}

/// Both insert the key: one gives back while the other has claimed a slot, or has not published.
#[test]
fn a_guard_dropped_beside_the_keys_insertion_gives_back_once() {
    for limit in [1, 2] {
        explore(Some(3), move || {
            let model = model(limit);
            let granted = admitted([pass(&model, &[X]), pass(&model, &[X])]);
            assert!(granted == 2 || limit == 1 && granted == 1);
            model.is_as_new();
        });
    }
}

/// The same where one at a time is allowed.
#[test]
fn holders_of_a_new_key_see_the_last_holders_writes() {
    explore(Some(2), || {
        let model = model(1);
        let granted = admitted([pass_alone(&model, 1), pass_alone(&model, 1)]);
        assert_eq!(turns(&model), granted);
        model.is_as_new();
    });
}

/// Two slots: Z stays in one, X comes and goes in the other, and Y wants it.
#[test]
fn a_slot_is_recycled_only_after_all_units_came_back() {
    explore(Some(4), || {
        let model = model(1);
        let stays = model.acquire(Z).expect("nobody else is there");
        assert_eq!(pass(&model, &[X])(), 1);
        admitted([pass(&model, &[X, X]), pass(&model, &[Y])]);
        assert_eq!([X, Y, Z].map(|key| model.limiter.in_flight(&key)), [0, 0, 1]);
        assert_eq!(model.limiter.usage().live_keys, 1);
        model.give_back(Z, stays);
        model.is_as_new();
    });
}

/// X's slot goes to Y and to V and is empty again, as it was, while X is about to charge what it
/// saw.
#[test]
fn a_slot_emptied_again_takes_no_earlier_owners_charge() {
    explore(Some(2), || {
        let model = model(1);
        let stays = model.acquire(Z).expect("nobody else is there");
        assert_eq!(pass(&model, &[X])(), 1);
        admitted([pass(&model, &[Y, V]), pass(&model, &[X])]);
        model.give_back(Z, stays);
        model.is_as_new();
    });
}

/// A guard that was there before is dropped while its key is acquired and another key looks for
/// room.
#[test]
fn a_guard_dropped_during_a_recycling_gives_back_once() {
    explore(Some(2), || {
        let model = model(2);
        let stays = model.acquire(Z).expect("nobody else is there");
        assert_eq!(pass(&model, &[X])(), 1);
        admitted([pass(&model, &[X]), pass(&model, &[Y]), pass(&model, &[X])]);
        model.give_back(Z, stays);
        model.is_as_new();
    });
}

/// X loses its slot to Y and comes back in another one: its next holder still comes after its last.
#[test]
fn one_at_a_time_holds_across_owners_of_the_slot() {
    explore(Some(2), || {
        let model = model(1);
        assert_eq!(pass_alone(&model, 1)(), 1);
        let (others, back) = (pass(&model, &[Z, Y]), pass_alone(&model, 1));
        let after_others: Run = Box::new(move || {
            others();
            back()
        });
        let granted = 1 + admitted([pass_alone(&model, 1), after_others]);
        assert_eq!(turns(&model), granted);
        model.is_as_new();
    });
}

/// Acquires X for good, once the limit is `limit`, if it is to change.
fn keep(model: &Arc<Model>, limit: Option<u64>) -> Run {
    let model = model.clone();
    Box::new(move || {
        limit.into_iter().for_each(|limit| model.limiter.set_limit(limit).expect("a valid limit"));
        let guard = model.limiter.try_acquire(&X);
        u64::from(guard.map(std::mem::forget).is_ok())
    })
}

/// Who lowers the limit acquires by the new one. Either the other was there before, or finds one in
/// flight.
#[test]
fn no_request_is_decided_by_an_outdated_limit() {
    for known in [true, false] {
        explore(Some(3), move || {
            let model = model(2);
            assert!(!known || pass(&model, &[X])() == 1);
            assert_eq!(admitted([keep(&model, None), keep(&model, Some(1))]), 1);
            assert_eq!((model.limiter.in_flight(&X), model.limiter.limit()), (1, 1));
        });
    }
}

/// All units came back before the limit was lowered: there is room by either limit.
#[test]
fn a_new_limit_counts_no_units_returned_before_it() {
    explore(Some(3), || {
        let model = model(2);
        assert_eq!(pass(&model, &[X])(), 1);
        let (pass, lowered) = (pass(&model, &[X]), model.clone());
        let pass_and_lower: Run = Box::new(move || {
            let granted = pass();
            lowered.limiter.set_limit(1).expect("one is a limit");
            granted
        });
        assert_eq!(admitted([pass_and_lower, keep(&model, None)]), 2);
    });
}

/// Waits for X, holds it and gives it back.
fn wait(model: &Arc<Model>) -> Run {
    let model = model.clone();
    Box::new(move || {
        let guard = loom::future::block_on(model.limiter.acquire(&X)).expect("X keeps its slot");
        assert!(model.held(X).fetch_add(1, Relaxed) < model.limiter.limit(), "more than the limit at once");
        model.give_back(X, guard);
        1
    })
}

/// Waits for X, and gives up after the first look.
fn give_up(model: &Arc<Model>) -> Run {
    let model = model.clone();
    Box::new(move || {
        let mut future = std::pin::pin!(model.limiter.acquire(&X));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let guard = future.as_mut().poll(&mut context);
        drop(guard);
        0
    })
}

/// Gives back a unit of X that was taken before.
fn release(model: &Arc<Model>) -> Run {
    let guard = model.limiter.try_acquire_owned(&X).expect("there is room");
    model.held(X).fetch_add(1, Relaxed);
    let model = model.clone();
    Box::new(move || {
        model.held(X).fetch_sub(1, Relaxed);
        drop(guard);
        0
    })
}

/// The waiter looks while the unit comes back: it finds room, or is woken.
#[test]
fn a_waiter_is_woken_by_the_unit_that_it_missed() {
    explore(Some(4), || {
        let model = model(1);
        let released = release(&model);
        assert_eq!(admitted([wait(&model), released]), 1);
        model.is_as_new();
    });
}

/// The second is woken by the first, when that leaves the line.
#[test]
fn each_of_two_waiters_is_woken() {
    explore(Some(2), || {
        let model = model(1);
        let released = release(&model);
        assert_eq!(admitted([wait(&model), wait(&model), released]), 2);
        model.is_as_new();
    });
}

/// Two units come back at once for two waiters, one wake-up each or one after the other.
#[test]
fn two_units_that_come_back_at_once_wake_two() {
    explore(Some(2), || {
        let model = model(2);
        let released = [release(&model), release(&model)];
        let both: Run = Box::new(move || released.into_iter().map(|release| release()).sum());
        assert_eq!(admitted([wait(&model), wait(&model), both]), 2);
        model.is_as_new();
    });
}

/// One that gives up may have been woken: it wakes the next.
#[test]
fn a_waiter_behind_one_that_gives_up_is_woken() {
    explore(Some(2), || {
        let model = model(1);
        let released = release(&model);
        assert_eq!(admitted([wait(&model), give_up(&model), released]), 1);
        model.is_as_new();
    });
}

/// The guard finds an empty line and takes the mark off, while a waiter joins.
#[test]
fn a_waiter_that_joins_beside_an_unmarking_is_woken() {
    explore(Some(3), || {
        let model = model(2);
        let (first, second) = (release(&model), release(&model));
        give_up(&model)();
        let both: Run = Box::new(move || first() + second());
        assert_eq!(admitted([wait(&model), both]), 1);
        model.is_as_new();
    });
}

/// Y takes X's slot as soon as it is empty; X waits meanwhile, and finds room elsewhere.
#[test]
fn a_waiter_whose_slot_goes_to_another_key_is_woken() {
    explore(Some(2), || {
        let model = model(1);
        let released = release(&model);
        assert_eq!(admitted([wait(&model), released, pass(&model, &[Y])]), 2);
        model.is_as_new();
    });
}

/// A higher limit has room for who waits.
#[test]
fn a_waiter_is_woken_by_a_higher_limit() {
    explore(Some(3), || {
        let model = model(1);
        let released = release(&model);
        let raised = {
            let model = model.clone();
            Box::new(move || model.limiter.set_limit(2).map_or(1, |()| 0))
        };
        assert_eq!(admitted([wait(&model), raised]), 1);
        assert_eq!(released(), 0);
        model.is_as_new();
    });
}
