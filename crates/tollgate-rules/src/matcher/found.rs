//! What the matcher finds of a request.

use std::ops::Range;

use tollgate::Lent;

use super::pattern::Stack;
use crate::request::Buffers;

/// The rules that concern a request, as [`Matcher::find`](crate::Matcher::find) leaves them.
///
/// Keep one for each thread and use it for all requests: its buffers grow to what requests need and
/// then stay, so that no request allocates.
///
/// # Examples
///
/// ```
/// # use tollgate_rules::Matcher;
/// # use tollgate_rules_file::{Memory, read};
/// use tollgate_rules::{Found, PlainRequest};
///
/// # let text = "version = 1\nrule = [{ name = 'a', key = 'header.x-user', limits = '1/s' }]";
/// # let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let matcher = Matcher::new(&rules)?;
/// let mut found = Found::default();
/// let request = PlainRequest {
///     headers: vec![("x-user".into(), b"ada".to_vec())],
///     ..PlainRequest::default()
/// };
/// matcher.find(&request, &mut found);
/// let [concerned] = found.concerned() else { panic!("one rule") };
/// assert_eq!((concerned.rule, concerned.cost, found.key(concerned)), (0, 1, &b"ada"[..]));
/// # Ok::<(), tollgate_rules::CompileError>(())
/// ```
#[derive(Debug, Default)]
pub struct Found {
    pub(super) concerned: Vec<Concerned>,
    pub(super) keys: Vec<u8>,
    pub(super) buffers: Buffers,
    pub(super) judged: Vec<Judged>,
    pub(super) candidates: Vec<u32>,
    pub(super) stack: Stack,
    /// The quotas that came with the request.
    pub(super) lent: Vec<Lent>,
    /// Of values that are given without a request: the target, and the line of cookies.
    pub(super) text: Vec<u8>,
}

impl Found {
    /// Returns the rules that concern the request, by ascending index in
    /// [`Rules::rules`](crate::Rules::rules). Rules that another one replaces, and those whose mode
    /// is off, are not among them.
    pub fn concerned(&self) -> &[Concerned] {
        &self.concerned
    }

    /// Returns the key under which a rule counts the request.
    ///
    /// It is empty for `everyone`, and where a part of the key is missing: all such requests share
    /// one allowance. The key of a request with all parts is never empty. Keys of different rules,
    /// or of different tiers, have nothing to do with one another.
    ///
    /// # Panics
    ///
    /// It may, if `concerned` is of another request.
    pub fn key(&self, concerned: &Concerned) -> &[u8] {
        &self.keys[concerned.key.clone()]
    }

    /// The quota that came with the request for a rule; `None`: for this one none did.
    pub(crate) fn lent(&self, concerned: &Concerned) -> Option<&Lent> {
        self.lent.get(concerned.lent?)
    }
}

/// A rule that concerns a request. See [`Found`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Concerned {
    /// The rule's index in [`Rules::rules`](crate::Rules::rules).
    pub rule: usize,
    /// The index in [`Rule::tiers`](crate::Rule::tiers) of the tier whose limits apply; `None`:
    /// [`Rule::limits`](crate::Rule::limits).
    pub tier: Option<usize>,
    /// What the request costs. 0 only looks.
    pub cost: u64,
    /// Whether a part of the key is missing and the rule refuses such requests.
    pub is_refused_without_key: bool,
    pub(super) key: Range<usize>,
    /// The index of the quota that came with the request, for rules that have no other.
    pub(super) lent: Option<usize>,
}

/// A rule that concerns a request, unless another one replaces it.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) concerned: Concerned,
    /// Whether it replaces other rules: only if it concerns the request by the strict reading.
    pub(super) replaces: bool,
    /// The rule that replaces it.
    pub(super) replaced_by: Option<u32>,
}
