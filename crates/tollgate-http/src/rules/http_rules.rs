//! One generation of rules, with what HTTP needs of it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate::{Clock, Timestamp, TscClock};
use tollgate_rules::{Line, Rule, RuleSet, Ruling, UpstreamLimits};

use super::chance::Chance;
use super::cors::Cors;
use super::named_limits::{NamedLimits, quotas};
use super::policies::Policies;
use super::refusal::RuleRefusal;
use super::settings::{client, styles};
use crate::headers::{Item, Policy, Written};
use crate::{ClientAddress, HeaderSink, HeaderStyles, LimitHeaders, LimitState, RequestHead, UnixZero};

/// One generation of rules, with what HTTP needs of it: how a client's address is found, the
/// headers of a verdict, and the response to a refused request.
///
/// It is made once for each generation, and shared by all that answer by it.
///
/// # Examples
///
/// ```
/// use std::net::SocketAddr;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use http::{HeaderMap, Request};
/// use tollgate::ManualClock;
/// use tollgate_http::{ClientAddress, HttpRules, RequestHead, UnixZero};
/// use tollgate_rules::{PlainRequest, RuleSet, Scratch};
/// use tollgate_rules_file::{Memory, read};
///
/// let rule = "name = 'all', key = 'everyone', limits = 'fixed-window:1/min'";
/// let text = format!("version = 1\nrule = [{{ {rule} }}]");
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = Arc::new(RuleSet::new(rules, ManualClock::new())?);
/// let peer = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
/// let http = HttpRules::new(Arc::clone(&set), &peer);
/// let (unix_zero, mut scratch) = (UnixZero::default(), Scratch::default());
///
/// let verdict = set.check(&PlainRequest::default(), &mut scratch);
/// let mut headers = HeaderMap::new();
/// let mut shown = http.headers(verdict.lines(), verdict.decided_at(), &unix_zero);
/// shown.write(&mut headers, Duration::ZERO);
/// assert_eq!(headers["ratelimit"], "\"all\";r=0;t=60");
/// drop(verdict);
///
/// let verdict = set.check(&PlainRequest::default(), &mut scratch);
/// let refusal = http.refusal(verdict.lines()).unwrap();
/// let request = Request::new(());
/// let response = refusal.respond(RequestHead::of(&request), verdict.decided_at(), &unix_zero);
/// assert_eq!(response.status().as_u16(), 429);
/// assert_eq!(response.headers()["retry-after"], "60");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HttpRules<C = TscClock> {
    set: Arc<RuleSet<C>>,
    client: ClientAddress,
    /// The headers of responses to admitted requests.
    styles: HeaderStyles,
    /// Whether those are of all responses, and the rules name none.
    are_own_styles: bool,
    has_queues: bool,
    /// Whether some rule, or the file, has a jitter.
    has_jitter: bool,
    pub(super) cors: Cors,
    /// Of each rule: its own limits, and those of its tiers.
    limits: Box<[Box<[OnceLock<NamedLimits>]>]>,
    policies: Policies,
}

impl<C> HttpRules<C> {
    /// Derives what HTTP needs of these rules. `peer` finds the address of a connection.
    #[must_use]
    pub fn new(set: Arc<RuleSet<C>>, peer: &ClientAddress) -> Self {
        let rules = set.rules();
        let has_queues = |rule: &Rule| {
            let tiers = rule.tiers.iter().map(|tier| quotas(&tier.limits));
            tiers.chain([quotas(&rule.limits)]).flatten().any(|quota| quota.is_queue())
        };
        let limits = |rule: &Rule| (0..=rule.tiers.len()).map(|_| OnceLock::new()).collect();
        Self {
            client: client(peer, &rules.clients),
            styles: styles(rules.answer.styles.as_deref()),
            are_own_styles: false,
            has_queues: rules.rules.iter().any(has_queues),
            cors: Cors::new(&rules.cors),
            has_jitter: rules.answer.jitter.is_some()
                || rules.rules.iter().any(|rule| rule.refuse.jitter.is_some()),
            limits: rules.rules.iter().map(limits).collect(),
            policies: Policies::default(),
            set,
        }
    }

    /// Sends headers of these styles with all responses, in place of those that the rules name.
    #[must_use]
    pub fn with_styles(self, styles: HeaderStyles) -> Self {
        Self { styles, are_own_styles: true, ..self }
    }

    /// Returns the styles of the response to a request that this rule refuses.
    pub(super) fn styles_of(&self, rule: &Rule) -> HeaderStyles {
        if self.are_own_styles {
            return self.styles;
        }
        styles(rule.refuse.styles.as_deref().or(self.set.rules().answer.styles.as_deref()))
    }

    /// Returns the rules.
    #[must_use]
    pub fn set(&self) -> &Arc<RuleSet<C>> {
        &self.set
    }

    /// Returns how a client's address is found: that of the connection, read on through the proxies
    /// that the file trusts.
    #[must_use]
    pub fn client(&self) -> &ClientAddress {
        &self.client
    }

    /// Returns whether a request may have to wait in a queue.
    #[must_use]
    #[inline]
    pub fn has_queues(&self) -> bool {
        self.has_queues
    }

    /// Returns whether a browser asks by this request whether a page that the file names (`cors`)
    /// may send another one. It is charged nothing, and refused by nothing but what blocks it.
    #[must_use]
    #[inline]
    pub fn is_preflight(&self, head: RequestHead<'_>) -> bool {
        self.cors.is_preflight(head)
    }

    /// Returns whether a page that the file names (`cors`) sends a request. If its service lets the
    /// page read the response, [`expose_limits`](crate::expose_limits) lets it read the limits,
    /// too.
    #[must_use]
    #[inline]
    pub fn is_of_page(&self, head: RequestHead<'_>) -> bool {
        self.cors.concerns(head)
    }

    /// Whether responses to admitted requests get headers of limits.
    #[must_use]
    #[inline]
    pub fn has_headers(&self) -> bool {
        !self.styles.is_empty()
    }

    /// Returns the name and the state of the limit that a line shows. `None` if it shows none.
    #[must_use]
    pub fn shown(&self, line: &Line) -> Option<(&str, LimitState)> {
        let limits = self.limits(line);
        let name = match line.number {
            // A tier that only admits shows nothing.
            _ if limits.is_told_late => (line.limit < u64::MAX).then_some(&limits.other)?,
            Some(number) => limits.policies.as_ref()?.names().get(number)?,
            None => limits.counts_in_flight.then_some(&limits.other)?,
        };
        // It is not known when a request in flight ends.
        let is_known = line.number.is_some() || limits.is_told_late;
        let more_after = if is_known { line.more_after } else { Duration::MAX };
        let reset = line.retry_after.unwrap_or(more_after);
        Some((name, LimitState { limit: line.limit, remaining: line.remaining, reset }))
    }

    /// Returns how a request is refused that some of these lines refuse. `None` if none does.
    ///
    /// Of several it is a refusal for good, or that with the longest wait; the first of equal ones.
    #[must_use]
    pub fn refusal<'v>(&'v self, lines: &'v [Line]) -> Option<RuleRefusal<'v, C>> {
        let refuses = |line: &&Line| !line.is_shadow && line.ruling != Ruling::Admitted;
        let lasts = |line: &&Line| (line.ruling, line.retry_after);
        let line = lines.iter().rev().filter(refuses).max_by_key(lasts)?;
        Some(RuleRefusal::new(self, lines, line))
    }

    /// Returns the rule of a line.
    #[must_use]
    pub fn rule(&self, line: &Line) -> &Rule {
        &self.set.rules().rules[line.rule]
    }

    /// Draws a jitter for the times of an answer about this line: zero, unless the file says
    /// `jitter`. [`headers`](Self::headers) and refusals have theirs already.
    #[must_use]
    pub fn draw_jitter(&self, line: &Line) -> Duration {
        self.chance().map_or(Duration::ZERO, |chance| self.jitter(self.rule(line), chance))
    }

    /// Draws how much of the jitters the numbers of a response have, all of them alike. `None`:
    /// there is no jitter.
    #[inline]
    pub(super) fn chance(&self) -> Option<Chance> {
        self.has_jitter.then(Chance::draw)
    }

    /// Returns the time that is added to those after which a client of this rule may come back.
    pub(super) fn jitter(&self, rule: &Rule, chance: Chance) -> Duration {
        let most = rule.refuse.jitter.or(self.set.rules().answer.jitter);
        most.map_or(Duration::ZERO, |most| chance.of(most))
    }

    /// Returns the limits of which a line tells.
    pub(super) fn limits(&self, line: &Line) -> &NamedLimits {
        let rule = self.rule(line);
        let (place, limits) = match line.tier {
            Some(tier) => (tier + 1, &rule.tiers[tier].limits),
            None => (0, &rule.limits),
        };
        self.limits[line.rule][place].get_or_init(|| NamedLimits::new(&rule.name, limits))
    }
}

impl<C: Clock> HttpRules<C> {
    /// Returns the headers of the response to an admitted request, in the styles of the file: the
    /// policies and the states of all enforced limits. A rule shows one limit, the tightest.
    #[must_use]
    pub fn headers(&self, lines: &[Line], decided_at: Timestamp, unix_zero: &UnixZero) -> LimitHeaders {
        let styles = self.styles;
        if styles.is_empty() {
            return LimitHeaders::new(styles, || None, |_| {});
        }
        let chance = self.chance();
        let headers = LimitHeaders::new(
            styles,
            || self.policy(lines).value(),
            |items| self.told(lines, chance).for_each(|(name, state)| items.add(name, state)),
        );
        let headers = if self.only_ours() { headers.only_ours() } else { headers };
        match self.unix_time(styles, decided_at, unix_zero) {
            Some(time) => headers.unix_time(time),
            None => headers,
        }
    }

    /// Whether limit headers of a service behind give way to those of the file.
    fn only_ours(&self) -> bool {
        self.set.rules().upstream_limits == UpstreamLimits::Ours
    }

    /// Adds [`headers`](Self::headers) to a response that is written this long after the decision.
    /// Headers that it already has stay.
    ///
    /// **Cost.** Less than that of headers that are kept.
    pub fn write_headers(
        &self,
        lines: &[Line],
        (decided_at, elapsed): (Timestamp, Duration),
        unix_zero: &UnixZero,
        headers: &mut impl HeaderSink,
    ) {
        let written = self.written(self.styles, (lines, self.chance()), decided_at, unix_zero);
        written.write(headers, self.policy(lines), elapsed);
    }

    /// Adds the headers of the response to a request that some of these lines refuse.
    pub(super) fn write_refusal(
        &self,
        styles: HeaderStyles,
        (lines, chance): (&[Line], Option<Chance>),
        (decided_at, retry_after): (Timestamp, Option<Duration>),
        unix_zero: &UnixZero,
        headers: &mut impl HeaderSink,
    ) {
        let written = self.written(styles, (lines, chance), decided_at, unix_zero);
        written.write_refusal(headers, self.policy(lines), retry_after);
    }

    fn written<'l>(
        &'l self,
        styles: HeaderStyles,
        (lines, chance): (&'l [Line], Option<Chance>),
        decided_at: Timestamp,
        unix_zero: &UnixZero,
    ) -> Written<impl Iterator<Item = Item<'l>> + Clone> {
        let item = |(name, state): (&'l str, LimitState)| Item { name: name.as_bytes(), state };
        // Without a style no limit is shown.
        let lines = if styles.is_empty() { &[] } else { lines };
        let unix_time = self.unix_time(styles, decided_at, unix_zero);
        let only_ours = self.only_ours();
        Written { styles, items: self.told(lines, chance).map(item), unix_time, only_ours }
    }

    /// The policies that headers tell: of all enforced limits.
    fn policy(&self, lines: &[Line]) -> Policy<'_> {
        let policies = enforced(lines).filter_map(|line| self.limits(line).policies.as_ref());
        self.policies.of(enforced(lines).map(|line| (line.rule, line.tier)), policies)
    }

    /// The states that headers tell: of the enforced limits that refuse, or if all admit, of all.
    fn told<'l>(
        &'l self,
        lines: &'l [Line],
        chance: Option<Chance>,
    ) -> impl Iterator<Item = (&'l str, LimitState)> + Clone {
        let admits = |line: &Line| line.ruling == Ruling::Admitted;
        let refuses = |line: &Line| matches!(line.ruling, Ruling::Refused | Ruling::Never);
        let is_told = if enforced(lines).all(admits) { admits } else { refuses };
        let jittered = move |line| {
            let (name, mut state) = self.shown(line)?;
            if let Some(chance) = chance
                && !state.reset.is_zero()
            {
                state.reset = state.reset.saturating_add(self.jitter(self.rule(line), chance));
            }
            Some((name, state))
        };
        enforced(lines).filter(move |line| is_told(line)).filter_map(jittered)
    }

    /// The Unix time of the decision, for styles that show one.
    fn unix_time(
        &self,
        styles: HeaderStyles,
        decided_at: Timestamp,
        unix_zero: &UnixZero,
    ) -> Option<Duration> {
        styles.show_unix_time().then(|| unix_zero.unix_time(self.set.clock(), decided_at))
    }
}

/// The lines of rules that are enforced.
fn enforced(lines: &[Line]) -> impl Iterator<Item = &Line> + Clone {
    lines.iter().filter(|line| !line.is_shadow)
}

impl<C> fmt::Debug for HttpRules<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRules").field("rules", &self.set).finish_non_exhaustive()
    }
}
