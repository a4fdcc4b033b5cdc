//! The failures of a backend that it does not report itself.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Why a backend gave no answer, neither a reply nor an error of its own.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_rules::BackendFault;
///
/// let fault = BackendFault::TimedOut { deadline: Duration::from_millis(10) };
/// assert_eq!(fault.to_string(), "no reply within 10ms");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendFault {
    /// The [deadline](crate::Backend::deadline) passed. The store may have charged the request.
    TimedOut {
        /// The backend's deadline.
        deadline: Duration,
    },
    /// The backend panicked. The process must unwind at panics, not abort.
    Panicked {
        /// The message of the panic; empty if it is not text.
        message: String,
    },
}

impl BackendFault {
    /// Takes the message from what a panic carries.
    pub(crate) fn of_panic(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        // The payload's destructor is the backend's code, too, and may panic. What that panic
        // carries is leaked: dropping it could panic once more.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        Self::Panicked { message }
    }
}

impl fmt::Display for BackendFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { deadline } => write!(f, "no reply within {deadline:?}"),
            Self::Panicked { message } => write!(f, "the backend panicked: {message}"),
        }
    }
}

impl Error for BackendFault {}
