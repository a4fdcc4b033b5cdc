//! Refused requests.

use std::time::Duration;

use super::RefusalRecord;
use crate::headers::retry_after_seconds;
use crate::{RefusalReason, RequestHead};

/// A refused request, for [responders](crate::Respond) and hooks.
///
/// # Examples
///
/// The response of a server that calls the engine itself:
///
/// ```
/// use http::{Request, Response};
/// use tollgate::{Limiter, ManualClock, Quota, Rate, TokenBucket};
/// use tollgate_http::{HeaderStyle, HeaderStyles, HttpResponder, QuotaPolicies};
/// use tollgate_http::{Refusal, RefusalRecord, RequestHead, Respond};
///
/// let quotas: [Quota; 1] = [TokenBucket::new(Rate::per_minute(1)).into()];
/// let limiter = Limiter::builder(quotas).per::<str>().clock(ManualClock::new()).build()?;
/// let policies = QuotaPolicies::new("api", &quotas);
/// let styles = HeaderStyles::from_iter([HeaderStyle::Ietf]);
/// let request = Request::new(());
///
/// assert!(limiter.check("alice").is_allowed());
/// let decision = limiter.check("alice");
/// let record = RefusalRecord::of(&decision, 1);
/// let refusal = Refusal::new(RequestHead::of(&request), "api", policies.names(), &record);
/// let mut response: Response<String> = HttpResponder::json().respond(&refusal);
/// let mut headers = policies.headers(styles, &decision);
/// headers.write_refusal(response.headers_mut(), refusal.retry_after());
///
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["retry-after"], "60");
/// assert_eq!(response.headers()["ratelimit"], r#""api";r=0;t=60"#);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'r> {
    head: RequestHead<'r>,
    rule: &'r str,
    /// The names of all limits that decided; empty if no limit of this process refuses.
    names: &'r [Box<str>],
    record: &'r RefusalRecord,
}

impl<'r> Refusal<'r> {
    /// Describes a refusal by the rule of this name. `names` are the
    /// [names of its limits](crate::QuotaPolicies::names), or empty if no limit of this process
    /// refuses.
    #[must_use]
    pub fn new(
        head: RequestHead<'r>,
        rule: &'r str,
        names: &'r [Box<str>],
        record: &'r RefusalRecord,
    ) -> Self {
        Self { head, rule, names, record }
    }

    /// Returns the head of the request.
    #[must_use]
    pub fn head(&self) -> RequestHead<'r> {
        self.head
    }

    /// Returns the name of the rule that refuses.
    #[must_use]
    pub fn rule(&self) -> &'r str {
        self.rule
    }

    /// Returns the name, in headers, of the limit with the longest wait. It is the rule's name if
    /// the rule has one limit.
    #[must_use]
    pub fn limit_name(&self) -> &'r str {
        let slowest = self.record.slowest.and_then(|number| self.names.get(number));
        slowest.map_or(self.rule, |name| name)
    }

    /// Returns the names, in headers, of all limits of the rule that refuse, in the order in which
    /// they were given. It is the rule's name if the rule has one limit.
    pub fn limit_names(&self) -> impl Iterator<Item = &'r str> + use<'r> {
        let mask = self.record.refusing;
        let refuses = move |(number, _): &(usize, _)| mask & (1 << number) != 0;
        let names = self.names.iter().enumerate().filter(refuses).map(|(_, name)| &**name);
        // The limit of a backend has the rule's name.
        names.chain(self.record.slowest.is_none().then_some(self.rule))
    }

    /// Returns the reason for the refusal.
    #[must_use]
    pub fn reason(&self) -> RefusalReason {
        self.record.reason
    }

    /// Returns the exact time until the rule would admit the request, if no other request of the
    /// key comes. `None` if a later retry would be refused too.
    ///
    /// If several rules refuse, this is the refusal that lasts longest. Only a rule with a backend
    /// may refuse the retry: a backend is not asked about a request that is refused already.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.record.retry_after
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds for `Retry-After`: rounded up,
    /// so that a client that waits them is not early, and at least 1.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.record.retry_after.map(retry_after_seconds)
    }

    /// Returns the cost of the request.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.record.cost
    }

    /// Returns the most that the refusing limit admits at once; 0 if no limit refused the request.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.record.state.map_or(0, |state| state.limit)
    }

    /// Returns how much of the limit is left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.record.state.map_or(0, |state| state.remaining)
    }
}
