//! A request on its way to the server.
//!
//! If its caller leaves, or does not wait any longer, the request goes on by itself until its
//! answer has come: until then the server is busy with it, and its place in the window is taken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::window::Place;
use crate::pulse::Pulse;

/// How long an answer is awaited that no caller waits for. A connection that is silent for longer
/// is given up.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// What becomes the answer.
pub(super) type Answer = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// A request that is sent as this is polled first.
pub(super) struct Flight {
    /// `None` once the answer has come.
    under_way: Option<UnderWay>,
    /// Where it goes on without its caller.
    runtime: Handle,
}

struct UnderWay {
    answer: Answer,
    place: Place,
    pulse: Arc<Pulse>,
}

impl Flight {
    pub(super) fn new(answer: Answer, place: Place, pulse: &Arc<Pulse>, runtime: &Handle) -> Self {
        pulse.asks(place.sent());
        let under_way = Some(UnderWay { answer, place, pulse: Arc::clone(pulse) });
        Self { under_way, runtime: runtime.clone() }
    }
}

impl UnderWay {
    /// The answer came, or the connection broke.
    fn ends(self, answer: &RedisResult<Value>) {
        let is_sign = !answer.as_ref().is_err_and(needs_another_connection);
        if is_sign && self.pulse.answered(self.place.sent(), Instant::now()) {
            self.place.answered_in_time();
        }
    }

    /// Waits for the answer that no caller waits for.
    async fn goes_on(mut self) {
        if let Ok(answer) = timeout(AFTERWARDS, &mut self.answer).await {
            self.ends(&answer);
        }
    }
}

impl Future for Flight {
    type Output = RedisResult<Value>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(under_way) = &mut self.under_way else { return Poll::Pending };
        let answer = ready!(under_way.answer.as_mut().poll(context));
        if let Some(under_way) = self.under_way.take() {
            under_way.ends(&answer);
        }
        Poll::Ready(answer)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(under_way) = self.under_way.take() {
            under_way.place.given_up(Instant::now());
            self.runtime.spawn(under_way.goes_on());
        }
    }
}

/// The connection is broken, or leads to a server that is no master any more.
pub(super) fn needs_another_connection(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse | ErrorKind::AuthenticationFailed)
        || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}
