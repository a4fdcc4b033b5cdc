//! When a request could depart, and the algorithms that cannot say it.

use std::error::Error;
use std::fmt;

/// The algorithm has no reservations: it does not know when a window will have room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReservable;

impl fmt::Display for NotReservable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only buckets have reservations")
    }
}

impl Error for NotReservable {}

/// When a request could depart, before this is compared with the caller's longest wait.
pub(crate) enum Turn<S> {
    /// After `wait`, in nanoseconds; `charged` is the state with the reservation.
    After { wait: u128, charged: S },
    /// Never: the queue is full and has no room before `wait`.
    Full { wait: u64 },
}
