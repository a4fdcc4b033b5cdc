//! `[stores]`, the `store` of a rule, and what a rule with one cannot have.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{CountPolicy, ManualClock, Quota};
use tollgate_rules::{StoreAddress, local_share};
use toml::de::DeTable;

use super::rule::Placed;
use super::{Reader, each, inner, integer, number, text};
use crate::file::problem::Code;
use crate::file::text::{Wrong, limit, store};
use tollgate_rules::{Limit, Limits, Store, StoreFailure, StoreLeases, StoreServer};

/// The stores of the file by name. One that is wrong has none, and was reported.
pub(in crate::file) type Stores = BTreeMap<Box<str>, Option<Arc<StoreServer>>>;

/// The longest deadline.
const LONGEST: Duration = Duration::from_secs(60);
/// The shortest deadline.
const SHORTEST: Duration = Duration::from_millis(1);

/// The numbers up to which a store is exact: it counts in doubles.
const EXACT: u128 = 1 << 53;
/// The most entries of a sliding log in a store: a script blocks all clients of the server.
const LONGEST_LOG: u128 = 10_000;
/// The largest bucket of any rate: a store has its rate within a millionth then.
const LARGEST_BUCKET: u128 = 1 << 32;
/// The longest period, and the longest refill of a bucket, in nanoseconds: 100 years.
const LONGEST_NANOS: u128 = 100 * 365 * 86_400 * 1_000_000_000;

impl Reader<'_, '_> {
    /// Reads the stores of a file.
    pub(in crate::file) fn stores(&mut self, file: &DeTable<'_>) -> Stores {
        let tables = inner(file, "stores").into_iter().flatten();
        let tables = tables.filter_map(|(name, value)| Some((name, value.get_ref().as_table()?)));
        tables
            .map(|(name, table)| {
                (name.get_ref().as_ref().into(), self.server(table, name.span()).map(Arc::new))
            })
            .collect()
    }

    fn server(&mut self, table: &DeTable<'_>, at: Range<usize>) -> Option<StoreServer> {
        let address = match (text(table, "url"), text(table, "url_env")) {
            (Some(url), None) => store::address(url).ok(),
            (None, Some(variable)) => self.address_of(variable, table.get("url_env")?.span()),
            // The walker reports one of another type.
            _ if table.contains_key("url") != table.contains_key("url_env") => None,
            _ => {
                let hint = "url = \"redis://10.0.0.7\", or url_env = \"REDIS_URL\"";
                self.add(at.clone(), Code::Unfit, "a store has either `url` or `url_env`", hint);
                None
            }
        };
        let list = |name: &str| -> Vec<StoreAddress> {
            let urls = table.get(name).into_iter().flat_map(each);
            urls.filter_map(|value| store::address(value.get_ref().as_str()?).ok()).collect()
        };
        let (cluster, sentinels) = (list("cluster"), list("sentinels"));
        if !cluster.is_empty() && !sentinels.is_empty() {
            self.add(at, Code::Unfit, "a store is a cluster, or has sentinels", "take one of them out");
        }
        let deadline = text(table, "deadline").and_then(|text| limit::time(text).ok());
        if let (Some(deadline), Some(value)) = (deadline, table.get("deadline"))
            && !(SHORTEST..=LONGEST).contains(&deadline)
        {
            let message = "the deadline is outside of 1ms to 1min";
            self.add(value.span(), Code::BadValue, message, "such as 10ms");
        }
        let mut server = StoreServer::at(address?);
        (server.cluster, server.sentinels) = (cluster, sentinels);
        server.deadline = deadline.unwrap_or(server.deadline);
        server.prefix = text(table, "prefix").map_or(server.prefix, Into::into);
        Some(server)
    }

    /// The address in an environment variable.
    fn address_of(&mut self, variable: &str, span: Range<usize>) -> Option<StoreAddress> {
        let url = match self.files.variable(variable) {
            Ok(url) => url,
            Err(message) => {
                self.add(span, Code::Unreadable, message, "it has the store's address");
                return None;
            }
        };
        let report = |wrong: Wrong| {
            let message = format!("in the environment variable `{variable}`: {}", wrong.message);
            self.add(span, Code::BadText, message, wrong.hint.unwrap_or_default());
        };
        store::address(&url).map_err(report).ok()
    }

    /// The store of a rule. An error was reported.
    pub(super) fn store(&mut self, rule: &DeTable<'_>, stores: &Stores) -> Result<Option<Store>, ()> {
        let Some(value) = rule.get("store") else { return Ok(None) };
        let text = value.get_ref().as_str().ok_or(())?;
        let server = if store::is_address(text) {
            Arc::new(StoreServer::at(store::address(text).map_err(drop)?))
        } else if let Some(server) = stores.get(text) {
            Arc::clone(server.as_ref().ok_or(())?)
        } else {
            let names = stores.keys().map(|name| &**name);
            let meant = crate::file::nearest::nearest(text, names);
            let hint = meant.map_or_else(
                || {
                    if text.contains([':', '/']) {
                        return format!("an address is {}", store::HINT);
                    }
                    // A dot would begin a table within a table.
                    let quote = if text.contains('.') { "\"" } else { "" };
                    format!("above all […]: stores.{quote}{text}{quote}.url = \"redis://10.0.0.7\"")
                },
                |meant| format!("did you mean `{meant}`?"),
            );
            self.add(value.span(), Code::UnknownStore, format!("there is no store `{text}`"), hint);
            return Err(());
        };
        let mut store = Store::new(server);
        store.on_failure = match rule.get("on_failure").map(|value| value.get_ref()) {
            Some(value) if value.as_str() == Some("allow") => StoreFailure::Allow,
            Some(value) => {
                let nodes = value.as_table().and_then(|table| integer(table.get("local")?));
                let nodes = nodes.and_then(|nodes| u32::try_from(nodes).ok());
                nodes.map_or(StoreFailure::Refuse, |nodes| StoreFailure::Local { nodes })
            }
            None => StoreFailure::Refuse,
        };
        store.deny_cache = number(rule, "deny_cache").unwrap_or_default();
        store.leases = self.leases(rule);
        Ok(Some(store))
    }

    fn leases(&mut self, rule: &DeTable<'_>) -> Option<StoreLeases> {
        let table = inner(rule, "leases")?;
        let nodes = integer(table.get("nodes")?).and_then(|nodes| u32::try_from(nodes).ok())?;
        let mut leases = StoreLeases::of(nodes);
        let Some(value) = table.get("ttl") else { return Some(leases) };
        leases.ttl = limit::time(text(table, "ttl")?).ok()?;
        if !(SHORTEST..=LONGEST).contains(&leases.ttl) {
            let message = "the `ttl` of leases is outside of 1ms to 1min";
            self.add(value.span(), Code::BadValue, message, "such as 50ms");
        }
        Some(leases)
    }

    /// Reports what a rule cannot have with a store, or without one.
    pub(super) fn fits_store(&mut self, placed: &Placed) {
        let Some(_) = &placed.rule.store else {
            for name in ["on_failure", "deny_cache", "leases"].into_iter().filter(|name| placed.says(name)) {
                let message = format!("`{name}` means nothing: the rule has no `store`");
                let hint = Some("store = \"redis://10.0.0.7\"");
                self.files.add(&placed.field(name), Code::Unfit, message, hint);
            }
            return;
        };
        let cannot = [
            ("was", "the store knows the rule's counts by its name", "keep the name, or begin anew"),
            ("ban", "bans are kept in one process", "a longer limit, or a rule without a store for the ban"),
            ("max_wait", "a store keeps no queue for rules", "a leaky bucket without a queue"),
            ("inherit", "a store applies new numbers to the debts as they are", "take it out"),
            ("max_keys", "a store holds any number of keys", "take it out"),
        ];
        for (name, why, hint) in cannot.into_iter().filter(|(name, ..)| placed.says(name)) {
            let message = format!("a rule with a `store` cannot have `{name}`: {why}");
            self.files.add(&placed.field(name), Code::Unfit, message, Some(hint));
        }
        let tiers = placed.rule.tiers.iter().map(|tier| &tier.limits);
        let mut limits = std::iter::once(&placed.rule.limits).chain(tiers);
        if placed.says("leases") && limits.any(|limits| matches!(limits, Limits::Each(all) if all.len() > 1))
        {
            let message = "permits of several limits cannot be taken ahead";
            let hint = Some("one limit a rule, or no `leases`");
            self.files.add(&placed.field("leases"), Code::Unfit, message, hint);
        }
        self.fits_locally(placed);
        let wrongs: Vec<_> =
            placed.each_limit().filter_map(|(limit, place)| Some((unstorable(limit)?, place))).collect();
        for ((why, hint), place) in wrongs {
            let message = format!("a rule with a `store` cannot have this limit: {why}");
            self.files.add(&place, Code::BadLimit, message, Some(hint));
        }
    }

    /// Reports limits of which this process could not keep its share while the store fails.
    fn fits_locally(&mut self, placed: &Placed) {
        let Some(Store { on_failure: StoreFailure::Local { nodes }, .. }) = placed.rule.store else { return };
        let quota = |limit: &Limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None };
        let tiers = placed.rule.tiers.iter().map(|tier| &tier.limits);
        let wrong = std::iter::once(&placed.rule.limits).chain(tiers).find_map(|limits| {
            let Limits::Each(limits) = limits else { return None };
            let quotas: Vec<_> = limits.iter().filter_map(quota).collect();
            (!quotas.is_empty() && nodes > 0)
                .then(|| local_share(&quotas, nodes, ManualClock::new()).err())?
        });
        if let Some(error) = wrong {
            let message = format!("this process cannot keep its share of the limits: {error}");
            let hint = Some("fewer processes, or on_failure = \"refuse\"");
            self.files.add(&placed.field("on_failure"), Code::BadLimit, message, hint);
        }
    }
}

/// Why a store cannot keep a limit, and what to write instead.
fn unstorable(limit: &Limit) -> Option<(&'static str, &'static str)> {
    let Limit::Quota(quota) = limit else {
        return Some(("requests in flight are counted in one process", "a rule without a store for them"));
    };
    let is_window = !matches!(quota, Quota::TokenBucket(_) | Quota::LeakyBucket(_));
    Some(if quota.is_queue() {
        ("a store keeps no queue for rules", "a leaky bucket without a queue")
    } else if quota.count_policy() == CountPolicy::All {
        ("a store counts no refusals", "a limit that counts what it admits")
    } else if quota.is_by_intervals() {
        ("a store has no refill by intervals", "a bucket that refills evenly, or a fixed window")
    } else if quota.initial().is_some_and(|tokens| tokens != quota.limit()) {
        ("a key that the store does not know is full", "a bucket without `initial`")
    } else if matches!(quota, Quota::FirstHit(_)) {
        ("a store has no windows from the first hit", "a fixed window or a sliding log")
    } else if quota.subwindows().is_some() {
        ("a store has no sub-windows", "a sliding window without them")
    } else if is_window && !quota.rate().period().as_nanos().is_multiple_of(1_000) {
        ("a store counts time in microseconds", "a period of whole microseconds")
    } else if is_too_large(quota) {
        ("it is too large for a store", "a log of at most 10000, or another algorithm")
    } else {
        return None;
    })
}

/// Whether a store may be unable to count so far, or over so long a time.
fn is_too_large(quota: &Quota) -> bool {
    let (count, nanos) = (u128::from(quota.rate().count()), quota.rate().period().as_nanos());
    if nanos > LONGEST_NANOS {
        return true;
    }
    let micros = nanos / 1_000;
    match quota {
        Quota::SlidingLog(_) => count > LONGEST_LOG,
        Quota::SlidingWindow(_) => {
            // The steps in which the window passes: at most a thousandth of it, and a divisor.
            let step = count.saturating_mul(micros).div_ceil(EXACT);
            step > 1 && (nanos % 1_000_000_000 != 0 || 3 * step > (micros / 1_000).min(1_000_000))
        }
        Quota::TokenBucket(_) | Quota::LeakyBucket(_) => {
            let burst = u128::from(quota.limit());
            let is_fast = count.saturating_mul(1_000) / nanos.max(1) > LARGEST_BUCKET;
            burst > LARGEST_BUCKET || is_fast || burst.saturating_mul(nanos) / count.max(1) > LONGEST_NANOS
        }
        _ => count > EXACT / 2,
    }
}
