//! A future that is polled only when it was woken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A future that waits for what seldom comes, in a task that is woken often for other things. A
/// poll of it costs two words, not a look at a clock or a lock.
pub(crate) struct Seldom<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    /// That of the bell.
    waker: Waker,
}

/// Wakes the task, and says for what.
struct Bell {
    has_rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // First: the task that is woken must find it.
        self.has_rung.store(true, Release);
        self.task.wake();
    }
}

impl<F: Future> Seldom<F> {
    pub(crate) fn new(future: F) -> Self {
        // The first poll is for the future to begin.
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(true), task: AtomicWaker::new() });
        let waker = Waker::from(Arc::clone(&bell));
        Self { future: Box::pin(future), bell, waker }
    }
}

impl<F: Future> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // First: a bell that rings after the look below wakes this task.
        self.bell.task.register(context.waker());
        if !self.bell.has_rung.swap(false, AcqRel) {
            return Poll::Pending;
        }
        let Self { future, waker, .. } = &mut *self;
        future.as_mut().poll(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn it_is_polled_only_when_it_was_woken() {
        let (polls, token) = (AtomicUsize::new(0), CancellationToken::new());
        let mut waits = pin!(token.cancelled());
        let mut seldom = pin!(Seldom::new(poll_fn(|context| {
            polls.fetch_add(1, Relaxed);
            waits.as_mut().poll(context)
        })));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(seldom.as_mut().poll(&mut context).is_pending());
            assert_eq!(polls.load(Relaxed), 1);
        }
        token.cancel();
        assert!(seldom.as_mut().poll(&mut context).is_ready());
        assert_eq!(polls.load(Relaxed), 2);
    }

    /// The task is woken, whichever thread rings, and whenever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_ring_is_lost() {
        for round in 0..2_000 {
            let token = CancellationToken::new();
            let ringer = token.clone();
            let rings = tokio::spawn(async move {
                for _ in 0..round % 50 {
                    tokio::task::yield_now().await;
                }
                ringer.cancel();
            });
            let waits = tokio::spawn(Seldom::new(token.cancelled_owned()));
            tokio::time::timeout(Duration::from_secs(10), waits).await.expect("it is woken").unwrap();
            rings.await.unwrap();
        }
    }
}
