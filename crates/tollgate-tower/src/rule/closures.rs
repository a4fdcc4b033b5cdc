//! What the closures of a rule tell of a request: labels, by which its compiled form decides.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use tollgate::CallQuota;
use tollgate_http::{KeyBuf, KeyBy, RequestHead};
use tollgate_rules::AnyBackend;

use super::{ChargeIf, CostFrom, CostOf, Predicate, QuotaOf};

/// The longest key that counts byte for byte. Of a longer one the rest counts by its SHA-256.
const LONGEST_KEY: usize = 4_096;

/// The bytes of a SHA-256.
const DIGEST: usize = 32;

/// The closures of a rule, and what else is no data of it.
pub(crate) struct Closures {
    pub(super) name: Box<str>,
    /// `None`: all requests have the same key.
    pub(super) key: Option<KeyBy>,
    pub(super) when: Option<Predicate>,
    pub(super) skip: Option<Predicate>,
    pub(super) tiers: Box<[Predicate]>,
    /// The names of the tiers of keys that have limits of their own.
    pub(super) own_tiers: HashMap<Box<[u8]>, Box<str>>,
    pub(super) cost: Option<CostOf>,
    pub(super) quota_of: Option<QuotaOf>,
    pub(super) charge_if: Option<ChargeIf>,
    pub(super) cost_from: Option<CostFrom>,
    pub(super) max_wait_with_body: Duration,
    /// Where the rule's requests are decided, if not in this process.
    pub(crate) backend: Option<Arc<AnyBackend>>,
    /// Whether a request is decided in this process when the backend has failed. If not, it is
    /// refused.
    pub(crate) passes_failures: bool,
}

/// A label: what of a rule it tells, and of which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Key,
    When,
    Skip,
    /// Whether the request is of the tier of this number.
    Tier(usize),
    /// The name of the tier of the key's own limits.
    OwnTier,
    Cost,
    /// Whether the rule's backend has failed.
    Failed,
}

impl Label {
    /// The name of the label of a rule, by the rule's index: a letter and a byte, and the number of
    /// a tier.
    pub(super) fn name(self, rule: usize) -> Box<str> {
        let rule = char::from(b'0' + rule as u8);
        match self {
            Self::Key => format!("k{rule}"),
            Self::When => format!("w{rule}"),
            Self::Skip => format!("s{rule}"),
            Self::Tier(number) => format!("t{rule}{number}"),
            Self::OwnTier => format!("o{rule}"),
            Self::Cost => format!("c{rule}"),
            Self::Failed => format!("f{rule}"),
        }
        .into()
    }

    /// The label of this name, and the index of its rule.
    fn of(name: &str) -> Option<(usize, Self)> {
        let (&kind, rest) = name.as_bytes().split_first()?;
        let (&rule, number) = rest.split_first()?;
        let label = match kind {
            b'k' => Self::Key,
            b'w' => Self::When,
            b's' => Self::Skip,
            b't' => Self::Tier(str::from_utf8(number).ok()?.parse().ok()?),
            b'o' => Self::OwnTier,
            b'c' => Self::Cost,
            b'f' => Self::Failed,
            _ => return None,
        };
        Some((usize::from(rule.checked_sub(b'0')?), label))
    }
}

/// Calls `see` with the value of the label of this name, if a request has one. `failed` has a bit
/// for each rule whose backend has failed, and `lacks_key` is called with a rule for which the
/// request has no key.
pub(crate) fn tell(
    rules: &[Closures],
    name: &str,
    head: &RequestHead<'_>,
    failed: u64,
    lacks_key: impl FnOnce(usize),
    see: &mut dyn FnMut(&[u8]),
) {
    let Some((index, label)) = Label::of(name) else { return };
    let Some(rule) = rules.get(index) else { return };
    let mut holds = |holds: bool| {
        if holds {
            see(b"1");
        }
    };
    let is_true = |predicate: &Option<Predicate>| predicate.as_ref().is_some_and(|is| is(*head));
    match label {
        Label::When => holds(is_true(&rule.when)),
        Label::Skip => holds(is_true(&rule.skip)),
        Label::Tier(number) => holds(rule.tiers.get(number).is_some_and(|is| is(*head))),
        Label::Failed => holds(failed & 1 << index != 0),
        Label::Key => {
            let mut key = KeyBuf::new();
            match rule.write_key(head, &mut key) {
                [] => lacks_key(index),
                key => see(key),
            }
        }
        Label::OwnTier => {
            let mut key = KeyBuf::new();
            if let Some(name) = rule.own_tiers.get(rule.write_key(head, &mut key)) {
                see(name.as_bytes());
            }
        }
        Label::Cost => {
            if let Some(cost) = &rule.cost {
                see(itoa::Buffer::new().format(cost(*head)).as_bytes());
            }
        }
    }
}

impl Closures {
    /// Writes the key of a request; empty if it has none.
    fn write_key<'k>(&self, head: &RequestHead<'_>, key: &'k mut KeyBuf) -> &'k [u8] {
        self.key.iter().for_each(|by| by.write(head, key));
        shorten(key);
        key.as_bytes()
    }

    /// The bytes under which the rule counts a key.
    pub(crate) fn counted(&self, key: &[u8]) -> KeyBuf {
        let mut counted = KeyBuf::new();
        if self.key.is_some() {
            counted.push(key);
        }
        shorten(&mut counted);
        counted
    }

    /// The name of the tier of a key that has limits of its own.
    pub(crate) fn own_tier(&self, key: &[u8]) -> Option<&str> {
        self.own_tiers.get(key).map(|name| &**name)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The quota that comes with a request. `None`: the rule does not apply.
    #[inline]
    pub(crate) fn quota_of(&self, head: &RequestHead<'_>) -> Option<CallQuota> {
        self.quota_of.as_ref().and_then(|quota| quota(*head))
    }

    /// How long a request may wait whose client cannot be seen to leave.
    pub(crate) fn max_wait_with_body(&self) -> Duration {
        self.max_wait_with_body
    }

    /// Returns whether the response changes what a request is charged.
    #[inline]
    pub(crate) fn awaits_response(&self) -> bool {
        self.charge_if.is_some() || self.cost_from.is_some()
    }

    /// Returns what a request costs by its response; `None` is an error. `None` if it costs what it
    /// was charged.
    pub(crate) fn cost_by(&self, response: Option<(StatusCode, &HeaderMap)>) -> Option<u64> {
        let Some((status, headers)) = response else { return self.charge_if.is_some().then_some(0) };
        match &self.charge_if {
            Some(charge_if) if !charge_if(status, headers) => Some(0),
            _ => self.cost_from.as_ref().and_then(|cost_from| cost_from(status, headers)),
        }
    }
}

/// Makes a key no longer than a label may be. No two keys become one.
fn shorten(key: &mut KeyBuf) {
    if key.as_bytes().len() > LONGEST_KEY {
        *key = short(key.as_bytes());
    }
}

#[cold]
fn short(key: &[u8]) -> KeyBuf {
    let mut short = KeyBuf::new();
    short.push(&key[..LONGEST_KEY - DIGEST]);
    short.push(Sha256::digest(key));
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_read_as_it_is_named() {
        let labels = [
            Label::Key,
            Label::When,
            Label::Skip,
            Label::OwnTier,
            Label::Cost,
            Label::Failed,
            Label::Tier(0),
        ];
        for label in labels.into_iter().chain([Label::Tier(12), Label::Tier(300)]) {
            for rule in 0..super::super::MAX_RULES {
                assert_eq!(Label::of(&label.name(rule)), Some((rule, label)));
            }
        }
        assert_eq!(["", "k", "x0", "t0", "t0x", "k\u{1}"].map(Label::of), [None; 6]);
    }

    #[test]
    fn long_keys_stay_distinct() {
        let key = |bytes: &[u8]| {
            let mut key = KeyBuf::new();
            key.push(bytes);
            shorten(&mut key);
            key.as_bytes().to_vec()
        };
        let long = vec![7; LONGEST_KEY];
        assert_eq!(key(&long), long);
        let longer = [&long[..], b"a"].concat();
        assert_eq!(key(&longer).len(), LONGEST_KEY);
        assert_ne!(key(&longer), key(&[&long[..], b"b"].concat()));
        assert_ne!(key(&longer)[..], longer[..LONGEST_KEY]);
    }
}
