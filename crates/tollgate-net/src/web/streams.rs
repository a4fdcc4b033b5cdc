//! The streams of a connection of HTTP/2, of which each can be reset alone.
//!
//! hyper runs each stream as a task. It does not ask an answer's body for more while the client
//! gives no window, so the body cannot fail the stream then. The end of its task does: h2 drops
//! what it has not sent of the stream, and sends `RST_STREAM`. Only a stream whose end h2 has
//! already cannot be reset, so [`Untaken`](super::Untaken) keeps the end back until all before it
//! is sent, if the answer is longer than the client's [first window](Opening).
//!
//! A task that ends although its answer has not was reset by the client, unless we did it: see
//! [`EarlyResets`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::rt::Executor;
use tokio::task::AbortHandle;

use super::early::{EARLY, EarlyResets};

/// How many bytes of a request's body a client may send before it is read. A connection takes so
/// many for each of its streams: all together they leave another its own.
pub const WINDOW: u32 = 64 << 10;

/// How long a stream that was reset may have unsent parts. Longer: its connection stands still.
const RESET: Duration = Duration::from_secs(1);

tokio::task_local! {
    static CURRENT: Arc<Stream>;
}

/// Runs the task of each stream of a connection.
#[derive(Clone)]
pub struct StreamExecutor(Arc<EarlyResets>);

impl StreamExecutor {
    /// `resets` counts those that their client resets early.
    pub fn new(resets: &Arc<EarlyResets>) -> Self {
        Self(Arc::clone(resets))
    }
}

/// A stream, as long as its task runs or a part of its answer is not sent.
pub(super) struct Stream {
    began: Instant,
    task: OnceLock<AbortHandle>,
    /// When it was reset by us.
    reset: OnceLock<Instant>,
    /// Whether its answer was a success, once that has ended: as a whole, or because it broke off.
    answered: OnceLock<bool>,
    /// Whether its request broke off, which may be why it was answered.
    has_left: AtomicBool,
    unsent: Mutex<Unsent>,
    resets: Arc<EarlyResets>,
}

/// The parts that hyper and h2 have of an answer.
#[derive(Default)]
struct Unsent {
    parts: usize,
    /// Waits until there are none.
    waker: Option<Waker>,
}

/// A part of an answer that is not sent until this is dropped.
pub(super) struct UnsentPart(Arc<Stream>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, task: F) {
        let stream = Arc::new(Stream::new(Arc::clone(&self.0)));
        let task = tokio::spawn(CURRENT.scope(Arc::clone(&stream), task));
        let _ = stream.task.set(task.abort_handle());
    }
}

impl Stream {
    fn new(resets: Arc<EarlyResets>) -> Self {
        let (task, reset, answered, has_left, unsent) = Default::default();
        Self { began: Instant::now(), task, reset, answered, has_left, unsent, resets }
    }

    /// The stream whose task this is. `None`: the connection is HTTP/1, or has no tasks of these.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Resets the stream. Returns whether that helps: h2 does not have its end, and sends.
    pub(super) fn reset(&self) -> bool {
        if let Some(at) = self.reset.get() {
            return at.elapsed() < RESET;
        }
        // A task that has just begun is not known yet. The next look finds it.
        let Some(task) = self.task.get() else { return true };
        if task.is_finished() {
            return false;
        }
        let _ = self.reset.set(Instant::now());
        task.abort();
        true
    }

    /// Its answer has ended.
    pub(super) fn end(&self, is_success: bool) {
        let _ = self.answered.set(is_success);
    }

    pub(super) fn part(self: &Arc<Self>) -> UnsentPart {
        self.unsent().parts += 1;
        UnsentPart(Arc::clone(self))
    }

    pub(super) fn is_sent(&self) -> bool {
        self.unsent().parts == 0
    }

    /// Is ready when all parts are sent.
    pub(super) fn poll_sent(&self, context: &Context<'_>) -> Poll<()> {
        let mut unsent = self.unsent();
        if unsent.parts == 0 {
            return Poll::Ready(());
        }
        unsent.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let is_unanswered = self.answered.get().is_none() && self.reset.get().is_none();
        if is_unanswered || self.has_left.load(Relaxed) {
            if self.began.elapsed() < EARLY {
                self.resets.count();
            }
        } else if self.answered.get() == Some(&true) {
            // A refusal costs the client nothing, so it makes up for nothing.
            self.resets.make_up();
        }
    }
}

impl Drop for UnsentPart {
    fn drop(&mut self) {
        let mut unsent = self.0.unsent();
        unsent.parts -= 1;
        let waker = if unsent.parts == 0 { unsent.waker.take() } else { None };
        drop(unsent);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Tells the stream whose task this is that its client has broken off the request.
pub fn client_left() {
    if let Some(stream) = Stream::current() {
        stream.has_left.store(true, Relaxed);
    }
}

/// How a connection of HTTP/2 begins (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The head of a frame: three bytes of length, the type, the flags, the stream.
pub(super) const FRAME: usize = 9;

/// The type of the frame that comes first.
const SETTINGS: u8 = 4;

/// A setting: its number, and four bytes.
const SETTING: usize = 6;
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];

/// The window of a client that does not say it.
const DEFAULT_WINDOW: u32 = (1 << 16) - 1;

/// The most bytes that are looked at.
const OPENING: usize = 512;

/// Reads the window that a client of HTTP/2 gives each stream at first.
pub struct Opening {
    /// What has arrived. `None`: it was read.
    begun: Option<Vec<u8>>,
    window: Arc<AtomicU32>,
}

impl Opening {
    /// `window` becomes the client's, and stays if that is not understood.
    pub(super) fn new(window: Arc<AtomicU32>) -> Self {
        Self { begun: Some(Vec::new()), window }
    }

    /// Reads on in what a client sends first.
    pub fn arrived(&mut self, bytes: &[u8]) {
        let Some(begun) = &mut self.begun else { return };
        begun.extend_from_slice(&bytes[..bytes.len().min(OPENING - begun.len())]);
        match window(begun) {
            None if begun.len() < OPENING => return,
            None => {}
            Some(known) => self.window.store(known, Relaxed),
        }
        self.begun = None;
    }
}

/// The window of a connection that begins so. `None`: more is needed.
fn window(begun: &[u8]) -> Option<u32> {
    let common = begun.len().min(PREFACE.len());
    if begun[..common] != PREFACE[..common] {
        // It is HTTP/1.
        return Some(0);
    }
    let (head, settings) = begun.get(PREFACE.len()..)?.split_at_checked(FRAME)?;
    if head[3] != SETTINGS {
        return Some(0);
    }
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let settings = settings.get(..usize::try_from(length).ok()?)?;
    let given = settings.chunks_exact(SETTING).filter(|setting| setting[..2] == INITIAL_WINDOW_SIZE);
    // The last one counts.
    let mut given = given.map(|setting| u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]));
    Some(given.next_back().unwrap_or(DEFAULT_WINDOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_window_is_read_however_it_arrives() {
        let with = |settings: &[u8]| {
            let head = [0, 0, u8::try_from(settings.len()).unwrap(), SETTINGS, 0, 0, 0, 0, 0];
            [PREFACE, &head, settings, &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 1, 0, 0]].concat()
        };
        for (opening, window) in [
            (with(&[]), DEFAULT_WINDOW),
            (with(&[0, 3, 0, 0, 0, 9]), DEFAULT_WINDOW),
            (with(&[0, 3, 0, 0, 0, 9, 0, 4, 0, 0, 0, 1]), 1),
            (with(&[0, 4, 0, 0, 0, 1, 0, 4, 0, 1, 0, 2]), 65538),
            (b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n".to_vec(), 0),
            ([PREFACE, &[0, 0, 0, 8, 0, 0, 0, 0, 0]].concat(), 0),
            ([PREFACE, &[9; 600]].concat(), 0),
            ([PREFACE, &[0, 9, 9, SETTINGS], &[0; 600]].concat(), 0),
        ] {
            for step in [1, 2, 24, 25, opening.len()] {
                let known = Arc::default();
                let mut reader = Opening::new(Arc::clone(&known));
                opening.chunks(step).for_each(|bytes| reader.arrived(bytes));
                assert_eq!(known.load(Relaxed), window, "{opening:?} by {step}");
                assert!(reader.begun.is_none());
            }
        }
    }
}
