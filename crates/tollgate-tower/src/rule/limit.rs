//! What a rule limits: requests in a time, or requests at once.

use tollgate::Quota;

/// A limit of a [`Rule`](crate::Rule): a quota of requests in a time, or a number of requests at
/// once. Everything that is a [`Quota`], such as a [`TokenBucket`](tollgate::TokenBucket), is a
/// limit.
///
/// # Examples
///
/// At most 100 requests of each account at once, and 500 of a partner:
///
/// ```
/// use tollgate_tower::{KeyBy, Limit, Rule, TollgateLayer};
///
/// #[derive(Clone)]
/// struct Account(String);
///
/// let at_once = Rule::new("at-once", [Limit::InFlight(100)])
///     .key(KeyBy::extension(|account: &Account, key| key.push(&account.0)))
///     .for_key("partner-7", [Limit::InFlight(500)]);
/// let layer = TollgateLayer::builder().rule(at_once).build_in_flight()?;
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// So many requests in a time, as an algorithm counts them.
    Quota(Quota),
    /// So many requests of a key at once, from 1 to 1,048,575, however fast they come and go. A
    /// request with a [`cost`](crate::Rule::cost) takes so many places.
    ///
    /// **Guarantee.** A request holds its place from its admission until the body of its response
    /// has ended or was dropped, or until the request fails: another rule refuses it, its client
    /// leaves, the inner service panics or returns an error. So it holds the place while it waits
    /// in a queue or for the inner service. The place is given back exactly once. A response
    /// without a body, as to `HEAD` or with status 204, gives it back at once. So does an upgrade
    /// (101): the connection that follows is not counted. To count it, let its handler hold a
    /// guard of a [`tollgate::InFlightLimiter`].
    ///
    /// It is the only limit of its rule, tier or key, and its layer is built by
    /// [`build_in_flight`](crate::Builder::build_in_flight). A refusal has no `Retry-After`, since
    /// it is not known when a place becomes free, and no other header with a reset shows this
    /// limit. [`charge_if`](crate::Rule::charge_if), [`cost_from`](crate::Rule::cost_from) and
    /// [`WhenFull::Allow`](tollgate::WhenFull::Allow) make no sense here: if the table is full, a
    /// new key is refused.
    InFlight(u64),
}

impl<Q: Into<Quota>> From<Q> for Limit {
    fn from(quota: Q) -> Self {
        Self::Quota(quota.into())
    }
}
