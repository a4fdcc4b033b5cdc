//! The simplest limiter: GCRA on a `HashMap` behind a mutex, with ahash and governor's clock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ahash::RandomState;

use crate::contest::Contestant;
use crate::peers::{AnyKey, Task};

/// The map keeps for each key the time at which its debt is zero.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("Mutex<HashMap>", move || {
        let map: Mutex<HashMap<K, u64, RandomState>> = Mutex::new(HashMap::default());
        let (clock, every) = (quanta::Clock::new(), task.limit.every.as_nanos() as u64);
        let (burst, cost) = (every * u64::from(task.limit.burst), every * u64::from(task.cost));
        let started = clock.now();
        move |key: &K| {
            let now = (clock.now() - started).as_nanos() as u64;
            let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(free_at) = map.get_mut(key) else {
                map.insert(key.clone(), now + cost);
                return true;
            };
            let next = now.max(*free_at) + cost;
            let admits = next <= now + burst;
            if admits {
                *free_at = next;
            }
            admits
        }
    })
}
