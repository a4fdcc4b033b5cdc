//! How a refused request is answered.

use http::Response;
use tollgate::Timestamp;
use tollgate_http::{RequestHead, Respond, RuleRefusal, UnixZero};

use crate::rule::SharedClock;

/// How the requests are answered that a layer refuses: by a [`Respond`], or as the rules say.
pub trait Answers<B> {
    /// The response to a request with this head that was refused at this time.
    fn answer(
        &self,
        refusal: &RuleRefusal<'_, SharedClock>,
        head: RequestHead<'_>,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
    ) -> Response<B>;
}

/// Answers by a [`Respond`], which the layer was given.
#[derive(Clone, Copy, Debug)]
pub struct RespondBy<R>(pub(crate) R);

impl<B, R: Respond<B>> Answers<B> for RespondBy<R> {
    fn answer(
        &self,
        refusal: &RuleRefusal<'_, SharedClock>,
        head: RequestHead<'_>,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
    ) -> Response<B> {
        refusal.respond_with(head, decided_at, unix_zero, |refusal| self.0.respond(refusal))
    }
}

#[cfg(feature = "rules")]
/// Answers as the rules say: `refuse` of a rule, and `[answer]` of their file. To a client of gRPC
/// in its protocol.
#[derive(Clone, Copy, Debug)]
pub struct AsRulesSay;

#[cfg(feature = "rules")]
impl<B: From<String>> Answers<B> for AsRulesSay {
    fn answer(
        &self,
        refusal: &RuleRefusal<'_, SharedClock>,
        head: RequestHead<'_>,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
    ) -> Response<B> {
        refusal.respond_in_protocol(head, decided_at, unix_zero).map(B::from)
    }
}
