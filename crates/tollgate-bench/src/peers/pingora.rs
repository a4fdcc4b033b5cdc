//! pingora-limits 0.9.1: counts in a sketch of fixed size, which keys share. As in its
//! documentation, a check is refused if `observe` counts more than the limit.

use std::time::Duration;

use pingora_limits::rate::Rate;

use crate::contest::Contestant;
use crate::peers::{AnyKey, Task};

/// Its name in tables.
pub(crate) const NAME: &str = "pingora-limits";

/// At most `burst` an hour.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new(NAME, move || {
        let rate = Rate::new(Duration::from_secs(3_600));
        let (burst, cost) = (task.limit.burst as isize, task.cost as isize);
        move |key: &K| rate.observe(key, cost) <= burst
    })
}
