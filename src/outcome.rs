//! Whether a request is admitted.

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It may go ahead, after [`Decision::delay`](crate::Decision::delay).
    Allowed,
    /// It may try again after [`Decision::retry_after`](crate::Decision::retry_after).
    Denied,
    /// Its cost is above a limit: no wait will help.
    Never,
}
