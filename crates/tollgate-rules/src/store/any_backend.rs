//! A backend of any type, whose panics and missed deadlines are errors.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use crate::store::{Backend, BackendFault, StoreReply};

/// An error of the backend, or a [`BackendFault`].
type AnyError = Box<dyn Error + Send + Sync>;

type Decision<'a> = Pin<Box<dyn Future<Output = Result<StoreReply<AnyReceipt>, AnyError>> + Send + 'a>>;

/// The dyn-compatible form of [`Backend`].
trait DynBackend: Send + Sync {
    fn decide<'a>(&'a self, key: &'a [u8], cost: u64) -> Decision<'a>;

    fn refund(&self, receipt: AnyReceipt);
}

impl<B: Backend> DynBackend for B {
    fn decide<'a>(&'a self, key: &'a [u8], cost: u64) -> Decision<'a> {
        Box::pin(async move {
            let reply = Backend::decide(self, key, cost).await?;
            Ok(reply.map_receipt(|receipt| AnyReceipt(Box::new(receipt))))
        })
    }

    fn refund(&self, receipt: AnyReceipt) {
        if let Ok(receipt) = receipt.0.downcast() {
            Backend::refund(self, *receipt);
        }
    }
}

/// A backend of any type, for servers that choose it at run time.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use tollgate::{Outcome, ThreadTimer, Timer};
/// use tollgate_rules::{AnyBackend, Backend, BackendFault, StoreReply};
///
/// struct Hangs;
///
/// impl Backend for Hangs {
///     type Error = Infallible;
///     type Receipt = ();
///
///     async fn decide(&self, _key: &[u8], _cost: u64) -> Result<StoreReply, Infallible> {
///         std::future::pending().await
///     }
///
///     fn deadline(&self) -> Duration {
///         Duration::from_millis(10)
///     }
/// }
///
/// # async fn ask() {
/// let backend = AnyBackend::new(Hangs);
/// let error = backend.decide(b"alice", 1, |time| ThreadTimer.sleep(time)).await.unwrap_err();
/// let fault = BackendFault::TimedOut { deadline: Duration::from_millis(10) };
/// assert_eq!(error.downcast_ref(), Some(&fault));
/// # }
/// ```
pub struct AnyBackend {
    backend: Box<dyn DynBackend>,
    deadline: Duration,
}

/// The [receipt](Backend::Receipt) of an [`AnyBackend`]. It gives a charge back once, to the
/// backend that made it. Dropping it keeps the charge.
pub struct AnyReceipt(Box<dyn Any + Send>);

impl AnyBackend {
    /// Boxes a backend and reads its deadline.
    pub fn new(backend: impl Backend) -> Self {
        Self { deadline: backend.deadline(), backend: Box::new(backend) }
    }

    /// Asks the backend. `sleep` returns a future that completes after a duration; it is called
    /// only if the backend does not answer at once.
    ///
    /// # Errors
    ///
    /// The error of the backend; a [`BackendFault`] if it panics or misses its deadline.
    ///
    /// **Cost.** Two allocations more than those of the backend: its future, and the receipt unless
    /// it has no fields.
    pub async fn decide<S: Future<Output = ()>>(
        &self,
        key: &[u8],
        cost: u64,
        sleep: impl FnOnce(Duration) -> S,
    ) -> Result<StoreReply<AnyReceipt>, AnyError> {
        let deadline = self.deadline;
        let mut decision = self.backend.decide(key, cost);
        let mut alarm = pin!(async { sleep(deadline).await });
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| decision.as_mut().poll(context))) {
            Ok(Poll::Pending) if deadline == Duration::MAX => Poll::Pending,
            Ok(Poll::Pending) => {
                ready!(alarm.as_mut().poll(context));
                Poll::Ready(Err(BackendFault::TimedOut { deadline }.into()))
            }
            Ok(answer) => answer,
            Err(payload) => Poll::Ready(Err(BackendFault::of_panic(payload).into())),
        })
        .await
    }

    /// Begins to give a charge back. Does nothing with a receipt of a backend of another type.
    ///
    /// # Errors
    ///
    /// [`BackendFault::Panicked`]. What goes wrong later, the backend reports by itself.
    pub fn refund(&self, receipt: AnyReceipt) -> Result<(), BackendFault> {
        catch_unwind(AssertUnwindSafe(|| self.backend.refund(receipt))).map_err(BackendFault::of_panic)
    }
}

impl fmt::Debug for AnyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyBackend").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl fmt::Debug for AnyReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyReceipt(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Waker};

    use tollgate::Outcome;

    use super::*;

    /// Answers at once, or never if its reply is `None`. Notes what it takes back.
    #[derive(Clone, Default)]
    struct Fixed {
        reply: Option<StoreReply<u64>>,
        refunds: Arc<Mutex<Vec<u64>>>,
    }

    impl Backend for Fixed {
        type Error = Infallible;
        type Receipt = u64;

        async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply<u64>, Infallible> {
            match self.reply {
                Some(reply) => Ok(reply),
                None => pending().await,
            }
        }

        fn refund(&self, receipt: u64) {
            assert_ne!(receipt, 13, "an unlucky receipt");
            self.refunds.lock().unwrap().push(receipt);
        }

        fn deadline(&self) -> Duration {
            if self.reply.is_some() { Duration::ZERO } else { Duration::MAX }
        }
    }

    fn replies(receipt: u64) -> Fixed {
        let reply = StoreReply::new(Outcome::Allowed, 1, 0, Duration::ZERO);
        let reply = StoreReply { receipt: Some(receipt), ..reply };
        Fixed { reply: Some(reply), ..Fixed::default() }
    }

    /// Polls a decision once, with a timer whose time passes at once.
    fn poll(backend: &AnyBackend) -> Poll<Result<StoreReply<AnyReceipt>, AnyError>> {
        let decision = pin!(backend.decide(b"k", 1, |_| std::future::ready(())));
        decision.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn receipt(backend: &AnyBackend) -> AnyReceipt {
        let Poll::Ready(Ok(reply)) = poll(backend) else { panic!("it answers at once") };
        reply.receipt.unwrap()
    }

    #[test]
    fn an_answer_at_once_needs_no_deadline() {
        let backend = AnyBackend::new(replies(7));
        assert!(matches!(poll(&backend), Poll::Ready(Ok(_))));
        assert!(poll(&AnyBackend::new(Fixed::default())).is_pending(), "no deadline is set");
    }

    #[test]
    fn a_receipt_goes_to_a_backend_of_its_type() {
        let fixed = replies(7);
        let backend = AnyBackend::new(fixed.clone());
        assert_eq!(backend.refund(receipt(&backend)), Ok(()));
        assert_eq!(*fixed.refunds.lock().unwrap(), [7]);
        assert_eq!(backend.refund(AnyReceipt(Box::new("foreign"))), Ok(()));
        drop(receipt(&backend));
        assert_eq!(*fixed.refunds.lock().unwrap(), [7], "the others give nothing back");
    }

    #[test]
    fn a_panic_of_a_refund_is_an_error() {
        let backend = AnyBackend::new(replies(13));
        let Err(BackendFault::Panicked { message }) = backend.refund(receipt(&backend)) else {
            panic!("the refund panics");
        };
        assert!(message.contains("an unlucky receipt"), "{message}");
    }
}
