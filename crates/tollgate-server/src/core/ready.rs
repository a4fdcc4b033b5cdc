//! Decisions outside of a runtime.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The result of a decision outside of a runtime: there no store is asked, so it waits for nothing.
pub(crate) fn ready<T>(decision: impl Future<Output = T>) -> T {
    match pin!(decision).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a decision waits for nothing but stores"),
    }
}
