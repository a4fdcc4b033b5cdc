//! What the layer derives from one generation of rules.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use http::HeaderName;
use tollgate::{Clock, Quota, Timestamp};
use tollgate_http::{HeaderStyles, LimitState, QuotaPolicies};
use tollgate_rules::{Clients, Limit, Limits, Line, Mode, Rule};

use super::{FileSet, FileVerdict};
use crate::rule::{AbandonedTurns, QueueTurn};
use crate::telemetry::RuleTelemetry;
use crate::{ClientAddress, HeaderStyle};

/// A generation of rules, with what the layer needs to apply them to requests of HTTP.
pub(super) struct Generation {
    pub(super) set: Arc<FileSet>,
    /// How the client's address is found.
    pub(super) client: ClientAddress,
    /// The headers of responses to admitted requests.
    pub(super) styles: HeaderStyles,
    /// Whether a request may have to wait in a queue.
    pub(super) has_queues: bool,
    rules: Box<[PerRule]>,
    /// The latest departure of a turn that was abandoned, in nanoseconds.
    last_abandoned: AtomicU64,
}

struct PerRule {
    /// The same in all generations of a rule, by its name and mode: it counts on, and warns once.
    telemetry: Arc<RuleTelemetry>,
    /// Whether the response decides if the request is charged.
    has_charge_if: bool,
    /// The rule's own limits, and those of its tiers.
    limits: Box<[OnceLock<NamedLimits>]>,
}

/// The limits of a rule, or of one of its tiers, as headers show them.
pub(super) struct NamedLimits {
    /// Of the limits by time; `None` if there are none.
    pub(super) policies: Option<QuotaPolicies>,
    /// The name of the limits of requests in flight.
    in_flight: Box<str>,
    counts_in_flight: bool,
    /// `None` unless the only limit by time is a queue: another one beside it would not charge a
    /// request that claimed a turn.
    pub(super) abandoned: Option<AbandonedTurns>,
}

impl Generation {
    /// `before` is the generation that was met before.
    pub(super) fn new(set: Arc<FileSet>, peer: &ClientAddress, before: Option<&Self>) -> Self {
        let rules = set.rules();
        let known: HashMap<_, _> = before.into_iter().flat_map(Self::telemetries).collect();
        let per_rule = |rule: &Rule| PerRule {
            telemetry: known.get(&(&*rule.name, rule.mode == Mode::Shadow)).map_or_else(
                || Arc::new(RuleTelemetry::new(&rule.name, rule.mode == Mode::Shadow)),
                |known| Arc::clone(known),
            ),
            has_charge_if: rule.charge_if.is_some(),
            limits: (0..=rule.tiers.len()).map(|_| OnceLock::new()).collect(),
        };
        let all_limits = |rule: &Rule| {
            let tiers = rule.tiers.iter().map(|tier| quotas(&tier.limits));
            tiers.chain([quotas(&rule.limits)]).flatten().any(|quota| quota.is_queue())
        };
        Self {
            client: client(peer, &rules.clients),
            styles: styles(rules.answer.styles.as_deref()),
            has_queues: rules.rules.iter().any(all_limits),
            rules: rules.rules.iter().map(per_rule).collect(),
            last_abandoned: AtomicU64::new(0),
            set,
        }
    }

    /// Returns the counters of each rule, by its name and whether it is in shadow mode.
    fn telemetries(&self) -> impl Iterator<Item = ((&str, bool), &Arc<RuleTelemetry>)> {
        let rules = self.set.rules().rules.iter().zip(&self.rules);
        rules.map(|(rule, per_rule)| ((&*rule.name, rule.mode == Mode::Shadow), &per_rule.telemetry))
    }

    /// Returns whether a verdict is by these rules.
    pub(super) fn decided(&self, verdict: &FileVerdict<'_>) -> bool {
        std::ptr::eq(verdict.rules(), &raw const *self.set.rules().rules)
    }

    pub(super) fn rule(&self, line: &Line) -> &Rule {
        &self.set.rules().rules[line.rule]
    }

    pub(super) fn telemetry(&self, line: &Line) -> &RuleTelemetry {
        self.telemetry_of(line.rule)
    }

    /// Returns the counters of a rule by its index.
    pub(super) fn telemetry_of(&self, rule: usize) -> &RuleTelemetry {
        &self.rules[rule].telemetry
    }

    /// Returns whether a turn may have been abandoned whose departure is still to come.
    pub(super) fn may_have_turns(&self) -> bool {
        self.has_queues
            && match self.last_abandoned.load(Relaxed) {
                0 => false,
                last => last >= self.set.clock().now().as_nanos(),
            }
    }

    /// Keeps an abandoned turn of a line's queue for other requests.
    pub(super) fn offer(&self, line: &Line, turn: QueueTurn, now: Timestamp) {
        if let Some(abandoned) = &self.limits(line).abandoned {
            self.last_abandoned.fetch_max(turn.departure.as_nanos(), Relaxed);
            abandoned.offer(turn, now);
        }
    }

    /// Returns whether the request of a line may give something back when it has been answered.
    pub(super) fn awaits_response(&self, line: &Line) -> bool {
        self.rules[line.rule].has_charge_if || self.limits(line).counts_in_flight
    }

    /// Returns the limits of which a line tells.
    pub(super) fn limits(&self, line: &Line) -> &NamedLimits {
        let rule = self.rule(line);
        let (place, limits) = match line.tier {
            Some(tier) => (tier + 1, &rule.tiers[tier].limits),
            None => (0, &rule.limits),
        };
        self.rules[line.rule].limits[place].get_or_init(|| NamedLimits::new(&rule.name, limits))
    }

    /// Returns the name and the state of the limit that a line shows. `None` if it shows none.
    pub(super) fn shown(&self, line: &Line) -> Option<(&str, LimitState)> {
        let limits = self.limits(line);
        let name = match line.number {
            Some(number) => limits.policies.as_ref()?.names().get(number)?,
            None => limits.counts_in_flight.then_some(&limits.in_flight)?,
        };
        // It is not known when a request in flight ends.
        let more_after = line.number.map_or(std::time::Duration::MAX, |_| line.more_after);
        let reset = line.retry_after.unwrap_or(more_after);
        Some((name, LimitState { limit: line.limit, remaining: line.remaining, reset }))
    }
}

impl NamedLimits {
    fn new(rule: &str, limits: &Limits) -> Self {
        let quotas: Vec<Quota> = quotas(limits).collect();
        let counts_in_flight = match limits {
            Limits::Each(limits) => limits.iter().any(|limit| matches!(limit, Limit::InFlight { .. })),
            Limits::Unlimited | Limits::Block => false,
        };
        let (policies, in_flight) = match &*quotas {
            [] => (None, rule.into()),
            quotas => (Some(QuotaPolicies::new(rule, quotas)), format!("{rule}/in-flight").into()),
        };
        let is_queue = matches!(&*quotas, [quota] if quota.is_queue());
        let abandoned = is_queue.then(AbandonedTurns::default);
        Self { policies, in_flight, counts_in_flight, abandoned }
    }
}

/// The limits by time, in the order in which lines number them.
fn quotas(limits: &Limits) -> impl Iterator<Item = Quota> {
    let each = if let Limits::Each(each) = limits { &**each } else { &[] };
    each.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None })
}

/// Returns how clients are found: the connection's address, read on through trusted proxies.
fn client(peer: &ClientAddress, clients: &Clients) -> ClientAddress {
    let trusted = || clients.trusted_proxies.iter().map(ToString::to_string);
    let client = match HeaderName::from_bytes(clients.header.as_bytes()) {
        _ if clients.trusted_proxies.is_empty() => Ok(peer.clone()),
        Ok(http::header::FORWARDED) => peer.clone().forwarded(trusted()),
        Ok(header) => peer.clone().header(header, trusted()),
        Err(_) => Ok(peer.clone()),
    };
    // The reader of the file refuses networks that make the whole internet. If one passed it, no
    // header would be believed.
    client.unwrap_or_else(|_| peer.clone())
}

/// Returns styles of the file as those of responses.
pub(super) fn styles(styles: Option<&[tollgate_rules::HeaderStyle]>) -> HeaderStyles {
    use tollgate_rules::HeaderStyle as InFile;
    let style = |style: &InFile| match style {
        InFile::Ietf => HeaderStyle::Ietf,
        InFile::XRateLimit => HeaderStyle::XRateLimit,
        InFile::XRateLimitEpoch => HeaderStyle::XRateLimitEpoch,
        InFile::XRateLimitRetryAfter => HeaderStyle::XRateLimitRetryAfter,
        InFile::Trio => HeaderStyle::RateLimitTrio,
    };
    styles.unwrap_or(&[InFile::Ietf]).iter().map(style).collect()
}
