//! W11: rules that a way of asking cannot keep.

use crate::file::problem::{Code, Problem};
use tollgate_rules::{Limit, Limits, Mode, Rule, Rules};

/// A way in which a server's callers ask about requests.
///
/// | | `charge_if` | requests in flight | queues |
/// |---|---|---|---|
/// | [`Check`](Self::Check) | kept, with a ticket | not asked | kept: it tells the delay |
/// | [`Auth`](Self::Auth) | only looked at | not asked | kept: it waits |
/// | [`RateLimitService`](Self::RateLimitService) | only looked at | not asked | refused |
/// | [`Redis`](Self::Redis) | only looked at | an error; of tiers not asked | refused |
/// | [`ProxyWithoutPark`](Self::ProxyWithoutPark) | kept | kept | kept |
///
/// What a rule would park is refused, except that the proxy parks the requests of rules with a
/// store.
///
/// A rule that is only looked at is charged by a report of the response, and can be exceeded by the
/// requests that are served meanwhile. In front of the served program itself, as in a middleware,
/// all rules are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listener {
    /// Checks over HTTP, whose tickets the caller settles.
    Check,
    /// Forward authentication of a proxy, which tells nothing of the response.
    Auth,
    /// Envoy's rate limit service.
    RateLimitService,
    /// The protocol of Redis.
    Redis,
    /// The proxy, without a file for requests that are kept for later.
    ProxyWithoutPark,
}

/// Warns (`W11`) of rules that this way of asking cannot keep, at most four times of each rule. The
/// warnings have no place in a file.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{Listener, Memory, read, unserved};
///
/// let rule = "{ name = 'exports', key = 'client', limits = 'in-flight:2' }";
/// let text = format!("version = 1\nrule = [{rule}]");
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let warnings = unserved(&rules, Listener::Auth);
/// assert_eq!(warnings[0].code.as_str(), "W11");
/// assert!(warnings[0].message.starts_with("`exports` limits requests in flight"));
/// ```
#[must_use]
pub fn unserved(rules: &Rules, listener: Listener) -> Vec<Problem> {
    let asked = rules.rules.iter().filter(|rule| rule.mode != Mode::Off);
    asked.flat_map(|rule| of_rule(rule, listener)).collect()
}

fn of_rule(rule: &Rule, listener: Listener) -> impl Iterator<Item = Problem> {
    let all = std::iter::once(&rule.limits).chain(rule.tiers.iter().map(|tier| &tier.limits));
    let limits = all.flat_map(|limits| if let Limits::Each(limits) = limits { &limits[..] } else { &[] });
    let (mut is_in_flight, mut queues) = (false, false);
    for limit in limits {
        match limit {
            Limit::InFlight { .. } => is_in_flight = true,
            Limit::Quota(quota) => queues |= quota.is_queue(),
        }
    }
    let serves = listener == Listener::ProxyWithoutPark;
    let hears_responses = serves || listener == Listener::Check;
    let waits = serves || matches!(listener, Listener::Check | Listener::Auth);
    // A check over Redis names the rule, not a request: its own limits count, no tier's.
    let own_in_flight = matches!(&rule.limits, Limits::Each(limits)
        if limits.iter().any(|limit| matches!(limit, Limit::InFlight { .. })));
    let is_error = listener == Listener::Redis && own_in_flight;
    let told = [
        is_error.then_some((
            "limits requests in flight, which a Redis client cannot end: each check of it is an error",
            "ask over HTTP with /v1/acquire, or `tollgate proxy`, or take that limit out",
        )),
        (rule.charge_if.is_some() && !hears_responses).then_some((
            "charges by status, which is not told here: it is only looked at",
            "report each response, or put the middleware in front",
        )),
        (is_in_flight && !serves).then_some((
            "limits requests in flight, whose end is not told here: that limit is not asked",
            "ask over HTTP with /v1/acquire, or put the proxy or the middleware in front",
        )),
        (queues && !waits).then_some((
            "lets requests wait, which callers cannot here: those are refused",
            "a leaky bucket without a queue",
        )),
        // A store keeps the requests of its rules, where a proxy sends them.
        (rule.park.is_some() && !(serves && rule.store.is_some())).then_some((
            "parks what it refuses, which is not kept here: those requests are refused",
            "`tollgate proxy` with --park FILE, or for a rule with a store",
        )),
    ];
    let name = rule.name.clone();
    // Where each check is an error, the rule keeps nothing else either.
    let most = if is_error { 1 } else { told.len() };
    told.into_iter().flatten().take(most).map(move |(what, hint)| {
        Problem::at(("", 0, 0), Code::W11, format!("`{name}` {what}"), Some(hint.into()))
    })
}
