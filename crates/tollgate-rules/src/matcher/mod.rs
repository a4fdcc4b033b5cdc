//! Which rules concern a request, under which key and at what cost.
//!
//! ```text
//!   rules -> compile -> index -> judge -> replace -> found
//!                         |        |         |
//!           of the rules that may concern it |
//!                          of each, whether  |
//!                             of those, which replace others
//! ```
//!
//! | file | what |
//! |------|------|
//! | `pattern`, `values` | patterns of paths; texts and networks |
//! | `condition` | whether a condition holds, by the restricting or the relaxing reading |
//! | `rule`, `compile` | compiled rules, and how they are made |
//! | `judge` | whether a rule concerns a request, its key, tier and cost |
//! | `given` | the key of values that are given without a request |
//! | `replace` | which rules replace others |
//! | `index` | the rules that may concern a request |
//! | `found`, `explain`, `error` | what comes of it |

mod compile;
mod condition;
mod error;
mod explain;
mod found;
mod given;
mod index;
mod judge;
mod pattern;
mod replace;
mod rule;
mod values;

pub use error::CompileError;
pub use explain::{Explanation, KeyPart, Reason, Why};
pub use found::{Concerned, Found};
pub(crate) use given::NoKey;

use std::sync::Arc;

use crate::request::{Form, Names, Request, Seen};
use crate::rule::Rules;
use found::Judged;
use index::Index;
use judge::Judgement;
use rule::{Compiled, Replaced};

/// Rules, compiled: which of them concern a request, under which key and at what cost.
///
/// Immutable; threads share one. What a request is not clearly outside of restricts it, and only
/// what it is clearly inside of frees it:
///
/// * Conditions that restrict compare paths folded (`//Login/` as `/login`), take `HEAD` for a
///   `GET`, too, and hold if any reading of the path or any of several values fits.
/// * Conditions that relax compare the request as it was sent, and hold only if all readings and
///   all values fit. These are `except` of a rule with limits, `match` of a rule that is unlimited,
///   and `match` of any rule as far as it replaces others.
/// * Of tiers and of cost cases that may apply, the least generous tier and the highest cost do.
///
/// # Examples
///
/// ```
/// use tollgate_rules::{Found, Matcher, PlainRequest};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = r#"
/// version = 1
///
/// [[rule]]
/// name = "log-ins"
/// match = { method = "POST", path = "/login" }
/// key = "client"
/// limits = "5/min"
/// "#;
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let matcher = Matcher::new(&rules)?;
/// let mut found = Found::default();
/// for (target, concerned) in [("/login", 1), ("/x/..//Login/?next=/", 1), ("/loginx", 0)] {
///     let request = PlainRequest {
///         method: Some("POST".into()),
///         target: Some(target.into()),
///         client: Some([203, 0, 113, 9].into()),
///         ..PlainRequest::default()
///     };
///     matcher.find(&request, &mut found);
///     assert_eq!(found.concerned().len(), concerned, "{target}");
/// }
/// # Ok::<(), tollgate_rules::CompileError>(())
/// ```
#[derive(Debug)]
pub struct Matcher {
    rules: Vec<Compiled>,
    names: Names,
    index: Index,
    form: Form,
    ipv6_prefix: u8,
    /// Whether some rule replaces others.
    may_replace: bool,
    headers: Arc<[Box<str>]>,
}

impl Matcher {
    /// Compiles rules.
    ///
    /// # Errors
    ///
    /// A [`CompileError`] for rules that `tollgate_rules_file::read` would refuse.
    ///
    /// # Cost
    ///
    /// Linear in the conditions' values. The matcher holds a copy of them.
    pub fn new(rules: &Rules) -> Result<Self, CompileError> {
        let (mut compiled, names) = compile::compile(rules)?;
        replace::order(&mut compiled)?;
        let form = if rules.fold_paths { Form::Folded } else { Form::Exact };
        let index = Index::new(&compiled, form);
        let may_replace = compiled.iter().any(|rule| rule.replaces != Replaced::None);
        let ipv6_prefix = rules.clients.ipv6_prefix;
        let headers = names.headers().map(Into::into).collect();
        Ok(Self { rules: compiled, names, index, form, ipv6_prefix, may_replace, headers })
    }

    /// The headers that some rule looks at, in lower case, without that of
    /// [`Clients`](crate::Clients): `cookie` if one looks at a cookie.
    ///
    /// A proxy takes them out of trailers, which an upstream may read as headers: see RFC 9110,
    /// section 6.5.1.
    ///
    /// ```
    /// use tollgate_rules::Matcher;
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let text = "version = 1\nrule = [{ name = 'r', key = 'header.X-Api-Key', limits = '5/s' }]";
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// assert_eq!(**Matcher::new(&rules)?.headers(), ["x-api-key".into()]);
    /// # Ok::<(), tollgate_rules::CompileError>(())
    /// ```
    #[must_use]
    pub fn headers(&self) -> &Arc<[Box<str>]> {
        &self.headers
    }

    /// Finds the rules that concern a request, and leaves them in `found`.
    ///
    /// # Cost
    ///
    /// Reads the request's method, host and target once, as far as rules look at them, and each
    /// field that a condition names.
    /// Judges the rules that the request's path, method or values may concern, and those without
    /// such a condition. Allocates nothing once the buffers of `found` have grown.
    pub fn find(&self, request: &dyn Request, found: &mut Found) {
        let Found { concerned, keys, buffers, judged, candidates, stack, lent, .. } = found;
        concerned.clear();
        keys.clear();
        lent.clear();
        judged.clear();
        buffers.read(request, &self.names);
        let seen = Seen::new(request, buffers, self.form, self.ipv6_prefix);
        self.index.find(&seen, stack, candidates);
        for rule in candidates.iter().map(|&rule| rule as usize) {
            let Judgement::Concerns(mut found, _) = self.rules[rule].judge(rule, &seen, keys, stack) else {
                continue;
            };
            if self.rules[rule].is_per_request {
                let Some(quota) = request.quota(&self.rules[rule].name) else { continue };
                found.concerned.lent = Some(lent.len());
                lent.push(quota.lend());
            }
            if self.may_replace { judged.push(found) } else { concerned.push(found.concerned) }
        }
        if self.may_replace {
            replace::mark(&self.rules, judged, candidates);
            let stays = |rule: &Judged| rule.replaced_by.is_none();
            concerned.extend(judged.drain(..).filter(stays).map(|rule| rule.concerned));
        }
    }
}
