//! Comparisons of two sets of conditions. Every answer is `false` where it is not certain.

use ipnet::IpNet;

use super::on;
use tollgate_rules::{Attribute, Condition, Conditions, Values};

/// How conditions see a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// As rules that restrict: folded, and any of several values does.
    Folded,
    /// As rules that relax: as sent, and all of several values must agree.
    Exact,
}

/// The comparisons that are left. With none left, nothing is certain.
#[derive(Debug)]
pub(super) struct Work(usize);

impl Default for Work {
    fn default() -> Self {
        Self(20_000_000)
    }
}

impl Work {
    /// Counts a pair of rules. Whether nothing is certain any more.
    pub(super) fn is_done(&mut self) -> bool {
        !self.takes(0)
    }

    fn takes(&mut self, comparisons: usize) -> bool {
        let left = self.0.checked_sub(comparisons.saturating_add(1));
        self.0 = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether `other` certainly leaves out requests of `own`: those of other paths, hosts, domains
    /// or clients, on which `own` has no condition.
    pub(super) fn is_narrower(&mut self, other: &Conditions, own: &Conditions) -> bool {
        if !self.takes(other.0.len() * own.0.len()) {
            return false;
        }
        let narrows = |condition: &Condition| {
            let Condition { attribute, values } = condition;
            let is_all = values.any
                || values.texts.iter().any(|text| &**text == "/**")
                || values.networks.iter().any(|network| network.prefix_len() == 0);
            let decides = matches!(
                attribute,
                Attribute::Path | Attribute::Host | Attribute::Domain | Attribute::Client
            );
            decides && !is_all && on(own, attribute).is_none()
        };
        other.0.iter().any(narrows)
    }

    /// Whether no request meets both.
    pub(super) fn are_apart(&mut self, one: &Conditions, other: &Conditions) -> bool {
        let may_compare = self.takes(one.0.len() * other.0.len());
        let mut conditions = one.0.iter();
        may_compare
            && conditions.any(|condition| {
                on(other, &condition.attribute).is_some_and(|against| {
                    self.have_none_in_common(&condition.attribute, &condition.values, &against.values)
                })
            })
    }

    fn have_none_in_common(&mut self, attribute: &Attribute, one: &Values, other: &Values) -> bool {
        use Attribute::{Cookie, Header, Query};
        // A digest may be that of a text, and of several values any does.
        let is_open = |values: &Values| values.any || !values.digests.is_empty();
        if matches!(attribute, Header(_) | Cookie(_) | Query(_)) || is_open(one) || is_open(other) {
            return false;
        }
        let pairs = one.texts.len() * other.texts.len() + one.networks.len() * other.networks.len();
        if !self.takes(pairs) {
            return false;
        }
        let may_meet = |one: &str, other: &str| match attribute {
            Attribute::Path => paths_may_meet(one, other),
            // `HEAD` meets a rule for `GET`, too.
            Attribute::Method if one.eq_ignore_ascii_case("HEAD") || other.eq_ignore_ascii_case("HEAD") => {
                true
            }
            _ => one.contains('*') || other.contains('*') || one.eq_ignore_ascii_case(other),
        };
        let texts = one.texts.iter().any(|one| other.texts.iter().any(|other| may_meet(one, other)));
        let overlap = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
        let networks = one.networks.iter().any(|one| other.networks.iter().any(|other| overlap(one, other)));
        !texts && !networks
    }

    /// Whether every request that meets `narrow` meets `wide`.
    pub(super) fn implies(&mut self, narrow: (&Conditions, Seen), wide: (&Conditions, Seen)) -> bool {
        let may_compare = self.takes(narrow.0.0.len() * wide.0.0.len());
        let mut conditions = wide.0.0.iter();
        may_compare
            && conditions.all(|condition| {
                on(narrow.0, &condition.attribute).is_some_and(|own| {
                    let is_same = narrow.1 == Seen::Exact || wide.1 == Seen::Folded;
                    let is_plain = matches!(
                        own.attribute,
                        Attribute::Client | Attribute::Label(_) | Attribute::Domain | Attribute::Entry(_)
                    );
                    (is_same || is_plain) && self.is_within(&own.values, &condition.values)
                })
            })
    }

    fn is_within(&mut self, narrow: &Values, wide: &Values) -> bool {
        if wide.any || narrow.any {
            return wide.any;
        }
        if !self.takes(narrow.texts.len() * wide.texts.len() + narrow.networks.len() * wide.networks.len()) {
            return false;
        }
        let below = |text: &str, wide: &str| {
            wide.strip_suffix("**").is_some_and(|start| {
                wide.starts_with('/') && !start.contains(['*', '{']) && text.starts_with(start)
            })
        };
        let text = |text: &str| wide.texts.contains(text) || wide.texts.iter().any(|wide| below(text, wide));
        let network = |network: &IpNet| wide.networks.iter().any(|wide| wide.contains(network));
        narrow.texts.iter().all(|narrow| text(narrow))
            && narrow.networks.iter().all(network)
            && narrow.digests.is_subset(&wide.digests)
    }

    /// Whether there is a request that meets both.
    pub(super) fn meet(&mut self, one: &Conditions, other: &Conditions) -> bool {
        let all = || one.0.iter().chain(&other.0);
        self.takes(one.0.len() * other.0.len())
            && all().all(|condition| !is_empty(&condition.values))
            && one.0.iter().all(|condition| {
                let Some(against) = on(other, &condition.attribute) else { return true };
                self.have_one_in_common(&condition.values, &against.values)
            })
    }

    fn have_one_in_common(&mut self, one: &Values, other: &Values) -> bool {
        let pairs = one.texts.len() + other.texts.len() + one.networks.len() * other.networks.len();
        if one.any || other.any || !self.takes(pairs) {
            return one.any || other.any;
        }
        let overlap = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
        !one.texts.is_disjoint(&other.texts)
            || !one.digests.is_disjoint(&other.digests)
            || one.networks.iter().any(|one| other.networks.iter().any(|other| overlap(one, other)))
    }
}

fn is_empty(values: &Values) -> bool {
    !values.any && values.texts.is_empty() && values.digests.is_empty() && values.networks.is_empty()
}

/// Whether a folded path may match both patterns.
fn paths_may_meet(one: &str, other: &str) -> bool {
    if one.contains('%') || other.contains('%') {
        return true;
    }
    let is_open = |part: &str| part == "*" || part.starts_with('{');
    let mut ones = one.split('/').filter(|part| !part.is_empty());
    let mut others = other.split('/').filter(|part| !part.is_empty());
    loop {
        match (ones.next(), others.next()) {
            (Some("**"), _) | (_, Some("**")) | (None, None) => return true,
            (Some(one), Some(other)) if is_open(one) || is_open(other) || one.eq_ignore_ascii_case(other) => {
            }
            _ => return false,
        }
    }
}
