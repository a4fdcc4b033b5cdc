//! The simplest limiter: GCRA on a `HashMap` behind a mutex, with ahash and governor's clock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ahash::RandomState;

use crate::contest::Contestant;
use crate::peers::{AnyKey, Task, given};

/// By the clock.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("Mutex<HashMap>", move || {
        let (gcra, clock) = (Gcra::new(task), quanta::Clock::new());
        let started = clock.now();
        move |key: &K| gcra.admit(key, (clock.now() - started).as_nanos() as u64)
    })
}

/// With the time given.
pub(crate) fn time_given<K: AnyKey>(task: Task) -> Contestant<K> {
    given("Mutex<HashMap> (time given)", move || {
        let gcra = Gcra::new(task);
        move |key: &K, now: u64| gcra.admit(key, now)
    })
}

struct Gcra<K> {
    /// For each key the time at which its debt is zero.
    map: Mutex<HashMap<K, u64, RandomState>>,
    /// The most debt.
    burst: u64,
    /// The debt for a check.
    cost: u64,
}

impl<K: AnyKey> Gcra<K> {
    fn new(task: Task) -> Self {
        let every = task.limit.every.as_nanos() as u64;
        let (burst, cost) = (every * u64::from(task.limit.burst), every * u64::from(task.cost));
        Self { map: Mutex::default(), burst, cost }
    }

    fn admit(&self, key: &K, now: u64) -> bool {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(free_at) = map.get_mut(key) else {
            map.insert(key.clone(), now + self.cost);
            return true;
        };
        let next = now.max(*free_at) + self.cost;
        let admits = next <= now + self.burst;
        if admits {
            *free_at = next;
        }
        admits
    }
}
