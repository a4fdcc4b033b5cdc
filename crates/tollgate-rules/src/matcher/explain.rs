//! Of every rule, why it concerns a request or does not.

use serde::Serialize;

/// Whether a rule concerns a request, and why. [`Matcher::explain`](crate::Matcher::explain)
/// returns one for every rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The rule's index in [`Rules::rules`](crate::Rules::rules).
    pub rule: usize,
    /// The rule's name.
    pub name: Box<str>,
    /// Whether it concerns the request.
    #[serde(flatten)]
    pub why: Why,
}

/// Why a rule concerns a request, or does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It concerns the request.
    Concerns {
        /// The parts of the key, in the order of the rule. None for `everyone`.
        key: Vec<KeyPart>,
        /// The index of the tier whose limits apply; `None`: the rule's own.
        tier: Option<usize>,
        /// The name of that tier.
        tier_name: Option<Box<str>>,
        /// What the request costs. 0 only looks.
        cost: u64,
        /// Whether a part of the key is missing and the rule refuses such requests.
        is_refused_without_key: bool,
    },
    /// It would, but another rule replaces it.
    Replaced {
        /// The name of that rule.
        by: Box<str>,
    },
    /// Its mode is off.
    Off,
    /// No conditions of its `match` hold.
    Unmatched {
        /// Of each alternative, the first condition that does not hold.
        reasons: Vec<Reason>,
    },
    /// Conditions of its `except` hold.
    Excepted {
        /// These.
        reasons: Vec<Reason>,
    },
    /// A part of its key is missing, and it does not concern such requests.
    WithoutKey {
        /// The parts of the key, in the order of the rule.
        key: Vec<KeyPart>,
    },
}

/// A part of a key, as a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeyPart {
    /// The attribute's name.
    pub attribute: Box<str>,
    /// Its value, with bytes that are not UTF-8 replaced; `None`: it is missing.
    pub value: Option<Box<str>>,
}

/// A condition, and what it was held to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// The attribute's name.
    pub attribute: Box<str>,
    /// The values that the request has, as the condition compares them: of a path, one for each
    /// reading. Bytes that are not UTF-8 are replaced.
    pub seen: Vec<Box<str>>,
    /// The values that the condition wants, in the order in which they are sorted: at most 16.
    pub wanted: Vec<Box<str>>,
    /// How many more it wants.
    pub wanted_more: usize,
    /// Whether the condition relaxes, so that it compares the request exactly and all readings and
    /// values must fit. Else it restricts: paths are compared folded, and one that fits is enough.
    pub is_strict: bool,
}
