//! How many requests are on their way to a server at one time, and the queue before them.
//!
//! ```text
//!   request --> queue, for half of its deadline --> a place --> sent --> answered, in time or not
//!                     |                                ^                       |
//!                     '-- no place: refused, not sent  '----- the place -------'
//! ```
//!
//! A request that is sent behind more requests than the server answers within its deadline gets no
//! answer in time, and the server executes it all the same. With enough clients all would be such
//! requests. So there are as many places as the server has answered within a deadline: fewer when a
//! request had no answer although those before it were being answered, and slowly more while all
//! are taken and answers come in time. A place is taken until its answer has come, in time or not.
//!
//! A server that pauses says nothing of how much it can answer, and changes no number of places.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// The time of a server for one request, at least: no more requests are on their way than it could
/// answer within the deadline.
const FASTEST: Duration = Duration::from_micros(20);

/// The places at the start, by the deadline: at least, and at most.
const FIRST: (usize, usize) = (64, 4_096);

/// The fewest places.
const FEWEST: usize = 4;

/// How many answers in time make one place more.
const ANSWERS_A_PLACE: usize = 8;

/// The places of one connection.
pub(super) struct Window {
    start: Instant,
    /// The places that are free. Requests wait for them in the order in which they came.
    free: Semaphore,
    most: usize,
    size: Mutex<Size>,
    /// How many requests were sent, and how many of them have ended.
    sent: AtomicU64,
    ended: AtomicU64,
    /// When the last one ended, in microseconds after the start.
    last: AtomicU64,
}

struct Size {
    /// The places there are, free or taken.
    places: usize,
    /// How many places there should be: those above go as they become free.
    wanted: usize,
    /// Answers in time since the last place more.
    answers: usize,
}

/// A place of a request that is being sent, until it is dropped.
pub(super) struct Place {
    window: Arc<Window>,
    sent: Instant,
    until: Instant,
    /// How many were on their way before it.
    ahead: u64,
    ended_before: u64,
    is_in_time: bool,
}

impl Window {
    pub(super) fn new(deadline: Duration) -> Arc<Self> {
        let answers = deadline.as_micros() / FASTEST.as_micros();
        let most = usize::try_from(answers).unwrap_or(usize::MAX).clamp(FIRST.0, FIRST.1);
        Arc::new(Self {
            start: Instant::now(),
            free: Semaphore::new(most),
            most,
            size: Mutex::new(Size { places: most, wanted: most, answers: 0 }),
            sent: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            last: AtomicU64::new(0),
        })
    }

    /// The most requests that are ever on their way.
    pub(super) const MOST: usize = FIRST.1;

    /// Takes a place for a request whose deadline ends at `until`. Waits for half of the time until
    /// then: a request that is sent later would hardly be answered in time. `None`: there is none.
    pub(super) async fn enter(self: &Arc<Self>, until: Instant) -> Option<Place> {
        match self.free.try_acquire() {
            Ok(place) => place.forget(),
            Err(_) => {
                let now = Instant::now();
                let latest = now + until.saturating_duration_since(now) / 2;
                timeout_at(latest, self.free.acquire()).await.ok()?.ok()?.forget();
            }
        }
        let ended_before = self.ended.load(Relaxed);
        let ahead = self.sent.fetch_add(1, Relaxed).saturating_sub(ended_before);
        let (window, sent) = (Arc::clone(self), Instant::now());
        Some(Place { window, sent, until, ahead, ended_before, is_in_time: false })
    }

    /// Makes a place free again, unless there are too many.
    fn leave(&self, is_in_time: bool) {
        let at = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last.store(at, Relaxed);
        self.ended.fetch_add(1, Relaxed);
        let mut size = self.size();
        if size.places > size.wanted {
            size.places -= 1;
            return;
        }
        let mut free = 1;
        if is_in_time && size.wanted < self.most && self.is_full() {
            size.answers += 1;
            if size.answers == ANSWERS_A_PLACE {
                (size.answers, free) = (0, 2);
                size.places += 1;
                size.wanted += 1;
            }
        }
        drop(size);
        self.free.add_permits(free);
    }

    /// Wants at most this many places.
    fn narrow(&self, wanted: usize) {
        let mut size = self.size();
        size.wanted = size.wanted.min(wanted.max(FEWEST));
        size.answers = 0;
        let excess = size.places.saturating_sub(size.wanted);
        size.places -= self.free.forget_permits(excess);
    }

    fn is_full(&self) -> bool {
        self.free.available_permits() == 0
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// When the request was sent.
    pub(super) const fn sent(&self) -> Instant {
        self.sent
    }

    /// Ends with an answer that came in time.
    pub(super) fn answered_in_time(mut self) {
        self.is_in_time = true;
    }

    /// Its caller has left. If its time is over, there may be too many places.
    pub(super) fn given_up(&self, now: Instant) {
        if now < self.until {
            return;
        }
        let window = &self.window;
        let answered = window.ended.load(Relaxed).saturating_sub(self.ended_before);
        let last = window.start + Duration::from_micros(window.last.load(Relaxed));
        let had = self.until.saturating_duration_since(self.sent);
        if answered == 0 || now.saturating_duration_since(last) > had / 4 {
            return;
        }
        // With room to spare, a request behind fewer than were answered came between two rounds of
        // a server that answers in rounds.
        if self.ahead > answered || (self.ahead == answered && window.is_full()) {
            // A little fewer, so that the next ones are in time.
            window.narrow(usize::try_from(answered - answered / 4).unwrap_or(usize::MAX));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.window.leave(self.is_in_time);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    const DEADLINE: Duration = Duration::from_millis(10);

    fn until() -> Instant {
        Instant::now() + DEADLINE
    }

    async fn taken(window: &Arc<Window>, places: usize) -> Vec<Place> {
        let mut taken = Vec::new();
        for _ in 0..places {
            taken.push(window.enter(until()).await.expect("there is room"));
        }
        taken
    }

    /// Ends the first requests, a millisecond after each other, as the server answers them.
    async fn answer(taken: &mut Vec<Place>, answers: usize, is_in_time: bool) {
        for place in taken.drain(..answers) {
            advance(Duration::from_millis(1)).await;
            if is_in_time {
                place.answered_in_time();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_half_its_deadline_for_a_place() {
        let window = Window::new(DEADLINE);
        assert_eq!(window.most, 500);
        let mut taken = taken(&window, 500).await;
        let begun = Instant::now();
        assert!(window.enter(until()).await.is_none());
        let waited = begun.elapsed();
        assert!(waited >= DEADLINE / 2 && waited < DEADLINE, "{waited:?}");
        let (other, last) = (Arc::clone(&window), taken.pop());
        let waiting = tokio::spawn(async move { other.enter(until()).await.is_some() });
        sleep(Duration::from_millis(1)).await;
        drop(last);
        assert!(waiting.await.unwrap(), "the place of an answered request");
    }

    #[tokio::test(start_paused = true)]
    async fn places_become_as_many_as_are_answered_in_time() {
        let window = Window::new(DEADLINE);
        let mut taken = taken(&window, 50).await;
        answer(&mut taken, 10, true).await;
        // The eleventh has no answer in time, as those behind it.
        taken.iter().for_each(|place| place.given_up(Instant::now()));
        assert_eq!(window.size().wanted, 8);
        answer(&mut taken, 40, false).await;
        assert_eq!((window.size().places, window.free.available_permits()), (8, 8));
        // While all are taken and answered in time, there are slowly more.
        for _ in 0..ANSWERS_A_PLACE {
            let all = window.free.available_permits();
            let mut taken = self::taken(&window, all).await;
            answer(&mut taken, 1, true).await;
        }
        assert_eq!(window.size().wanted, 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_leaves_the_places() {
        let window = Window::new(DEADLINE);
        let mut taken = taken(&window, 50).await;
        answer(&mut taken, 5, true).await;
        advance(DEADLINE).await;
        taken.iter().for_each(|place| place.given_up(Instant::now()));
        assert_eq!(window.size().wanted, 500, "it answered none lately");
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_missed_leaves_the_places() {
        let window = Window::new(DEADLINE);
        let mut round = taken(&window, 49).await;
        let straggler = taken(&window, 1).await;
        advance(Duration::from_millis(9)).await;
        round.clear();
        advance(Duration::from_millis(1)).await;
        straggler[0].given_up(Instant::now());
        assert_eq!(window.size().wanted, 500, "all before it were answered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_early_says_nothing() {
        let window = Window::new(DEADLINE);
        let mut taken = taken(&window, 50).await;
        answer(&mut taken, 2, true).await;
        taken.iter().for_each(|place| place.given_up(Instant::now()));
        assert_eq!(window.size().wanted, 500);
    }
}
