//! How long a body may stand still.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// How long a body may stand still, and when it must have ended. A body that never stands still
/// needs no timer.
pub(super) struct Patience {
    idle: Duration,
    ends: Option<Instant>,
    moved: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// A body stood still for too long, or did not end in time.
#[derive(Debug)]
pub(super) struct Late;

impl Patience {
    pub(super) fn new(idle: Duration, ends: Option<Instant>) -> Self {
        Self { idle, ends, moved: Instant::now(), sleep: None }
    }

    /// A part of the body has come.
    pub(super) fn moved(&mut self) {
        self.moved = Instant::now();
    }

    /// Whether a body that moves has come too late. One whose reader is slower than its sender
    /// never stands still, so that no timer is asked.
    pub(super) fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| self.moved >= ends)
    }

    /// When the body last moved.
    pub(super) fn last_move(&self) -> Instant {
        self.moved
    }

    fn deadline(&self) -> Instant {
        let idle = self.moved + self.idle;
        self.ends.map_or(idle, |ends| ends.min(idle))
    }

    /// Is ready when the body, which stands still, is late.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Late> {
        loop {
            let deadline = self.deadline();
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            // The body may have moved since the timer was set.
            if Instant::now() >= deadline {
                return Poll::Ready(Late);
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body did not come in time")
    }
}

impl std::error::Error for Late {}
