//! pingora-limits 0.9.1: counts by a sketch of fixed size, which keys share. A limit is how its documentation has it: refuse
//! what `observe` counts beyond it.

use std::time::Duration;

use pingora_limits::rate::Rate;

use crate::contest::Contestant;
use crate::peers::{AnyKey, Task};

/// As the tables call it.
pub(crate) const NAME: &str = "pingora-limits";

/// At most `burst` an hour.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new(NAME, move || {
        let rate = Rate::new(Duration::from_secs(3_600));
        let (burst, cost) = (task.limit.burst as isize, task.cost as isize);
        move |key: &K| rate.observe(key, cost) <= burst
    })
}
