//! throttlecrab 0.4.40: GCRA for string keys behind `&mut`, in a mutex as its documentation
//! requires, with the store that it recommends for varying loads.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{AdaptiveStore, RateLimiter};

use crate::contest::Contestant;
use crate::peers::Task;

/// String keys only: numbers and addresses would have to be formatted.
pub(crate) fn throttlecrab(task: Task) -> Contestant<String> {
    Contestant::new("throttlecrab", move || {
        let store = AdaptiveStore::builder().capacity(task.keys).build();
        let limiter = Mutex::new(RateLimiter::new(store));
        // Periods are whole seconds, so a limit is one unit in some seconds or some units in one
        // second.
        let (seconds, nanos) = (task.limit.every.as_secs(), task.limit.every.as_nanos());
        let (count, period) =
            if seconds == 0 { (1_000_000_000 / nanos as i64, 1) } else { (1, seconds as i64) };
        let (burst, cost) = (task.limit.burst.into(), task.cost.into());
        move |key: &String| {
            let mut limiter = limiter.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = limiter.rate_limit(key, burst, count, period, cost, SystemTime::now());
            answer.is_ok_and(|(admitted, _)| admitted)
        }
    })
}
