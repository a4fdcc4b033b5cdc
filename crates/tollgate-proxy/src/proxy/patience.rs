//! How long the sender of a body is awaited.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// How long the sender of a body is awaited, and when the body must have ended. Waiting uses up the
/// time, and each byte gives some of it back. A body that never stands still needs no timer.
pub(super) struct Patience {
    /// The most time that is left.
    most: Duration,
    left: Duration,
    /// What a byte gives back.
    per_byte: Duration,
    ends: Option<Instant>,
    /// When the body last moved.
    moved: Instant,
    /// Since when its sender is awaited.
    since: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// A body stood still for too long, or did not end in time.
#[derive(Debug)]
pub(super) struct Late;

impl Patience {
    /// A body may stand still for `most`: each byte begins that time anew.
    pub(super) fn new(most: Duration, ends: Option<Instant>) -> Self {
        Self { most, left: most, per_byte: most, ends, moved: Instant::now(), since: None, sleep: None }
    }

    /// Each byte gives back only the time in which it comes at this rate, in bytes a second. 0: as
    /// without it.
    pub(super) fn at_least(self, rate: u64) -> Self {
        let per_byte = 1_000_000_000_u64.checked_div(rate).map(Duration::from_nanos);
        Self { per_byte: per_byte.unwrap_or(self.most), ..self }
    }

    /// So many bytes of the body have come.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.moved = Instant::now();
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(self.moved - since);
        }
        let back = self.per_byte.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.left = self.left.saturating_add(back).min(self.most);
    }

    /// Forgets for how long the sender was awaited.
    pub(super) fn begin(&mut self) {
        (self.left, self.moved, self.since) = (self.most, Instant::now(), None);
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

    /// Is ready when the body, which stands still, is late.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Late> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let late = since + self.left;
        let deadline = self.ends.map_or(late, |ends| ends.min(late));
        loop {
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

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Awaits a sender for as long as it takes to give up.
    async fn gives_up(patience: &mut Patience) -> Duration {
        let since = Instant::now();
        std::future::poll_fn(|context| patience.poll(context)).await;
        since.elapsed()
    }

    /// Awaits a sender for this time, after which so many bytes come.
    async fn awaits(patience: &mut Patience, time: Duration, bytes: usize) -> bool {
        let waits = std::future::poll_fn(|context| patience.poll(context));
        let is_late = tokio::time::timeout(time, waits).await.is_ok();
        patience.moved(bytes);
        is_late
    }

    #[tokio::test(start_paused = true)]
    async fn each_byte_begins_the_time_anew_without_a_rate() {
        let mut patience = Patience::new(MINUTE, None).at_least(0);
        for _ in 0..9 {
            assert!(!awaits(&mut patience, MINUTE - Duration::from_secs(1), 1).await);
        }
        assert!(!awaits(&mut patience, MINUTE / 2, 0).await);
        assert!(
            (MINUTE / 2..=MINUTE / 2 + Duration::from_millis(2)).contains(&gives_up(&mut patience).await)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_below_the_least_rate_is_late() {
        for (bytes, most) in [(1, 60), (250, 120), (499, 30_000)] {
            let mut patience = Patience::new(MINUTE, None).at_least(500);
            let mut seconds = 0;
            while !awaits(&mut patience, Duration::from_secs(1), bytes).await {
                seconds += 1;
                assert!(seconds <= most, "{bytes} bytes a second");
            }
            assert!(seconds >= 59 && seconds >= most / 2, "{bytes} bytes a second: {seconds} s");
        }
        let mut patience = Patience::new(MINUTE, None).at_least(500);
        for _ in 0..100_000 {
            assert!(!awaits(&mut patience, Duration::from_secs(1), 500).await);
        }
    }

    /// The reader of the body does not ask for more.
    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_reader_is_not_its_senders() {
        let mut patience = Patience::new(MINUTE, None).at_least(500);
        for _ in 0..100 {
            advance(9 * MINUTE).await;
            assert!(!awaits(&mut patience, Duration::from_millis(1), 1).await);
        }
        patience.begin();
        advance(9 * MINUTE).await;
        assert!(gives_up(&mut patience).await >= MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn much_at_once_saves_no_time() {
        let mut patience = Patience::new(MINUTE, None).at_least(500);
        patience.moved(1 << 30);
        assert!(gives_up(&mut patience).await <= MINUTE + Duration::from_millis(2));
    }
}
