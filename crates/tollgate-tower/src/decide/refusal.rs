//! Refusals by a rule of the layer, as hooks and responders see them.

use http::Response;
use tollgate_http::{Refusal, RefusalRecord, RequestHead, Respond};

use super::{LayerState, ResponseHeaders};

/// A refusal by one rule. [`Refusal`] is its public view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleRefusal {
    /// The index of the rule.
    pub(super) rule: usize,
    /// The index of the limit set that refuses. `None` if no limit of this process does.
    pub(super) set: Option<usize>,
    pub(super) record: RefusalRecord,
}

impl LayerState {
    /// Shows a refusal to a hook or a responder.
    pub(crate) fn refusal<'r>(&'r self, head: RequestHead<'r>, refusal: &'r RuleRefusal) -> Refusal<'r> {
        let rule = &self.rules[refusal.rule];
        let names = refusal.set.map_or(&[][..], |set| rule.decider.limit_set(set).policies.names());
        Refusal::new(head, &rule.name, names, &refusal.record)
    }

    /// Makes the response to a refused request.
    pub(crate) fn refuse<ResBody>(
        &self,
        head: RequestHead<'_>,
        refusal: &RuleRefusal,
        mut headers: ResponseHeaders,
        responder: &impl Respond<ResBody>,
    ) -> Response<ResBody> {
        let refusal = self.refusal(head, refusal);
        let mut response = responder.respond(&refusal);
        headers.write_refusal(response.headers_mut(), refusal.retry_after());
        response
    }
}
