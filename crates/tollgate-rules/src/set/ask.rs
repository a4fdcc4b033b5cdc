//! How a request is to be decided.

use tollgate::Timestamp;

/// How a request is to be decided: see [`RuleSet::ask`](crate::RuleSet::ask).
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{Ask, PlainRequest, RuleSet, Scratch};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\nrule = [{ name = 'points', key = 'everyone', limits = '10/s' }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = RuleSet::new(rules, ManualClock::new())?;
/// let (request, mut scratch) = (PlainRequest::default(), Scratch::default());
/// let verdict = set.ask(&request, Ask { cost: 7, ..Ask::default() }, &mut scratch);
/// assert_eq!(verdict.lines()[0].remaining, 3);
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The time; `None`: that of the rules' clock.
    pub now: Option<Timestamp>,
    /// What the request costs where the rule says nothing else, or 1. By default 1; 0 only looks.
    pub cost: u64,
    /// Whether nothing is to be charged, and no key banned.
    pub is_peek: bool,
    /// Whether limits of requests in flight are asked, too. A caller that does not know when a
    /// request ends must not ask them.
    pub in_flight: bool,
    /// A bit for each line, by its index in [`Verdict::lines`](crate::Verdict::lines), whose limits
    /// by time are neither asked nor charged: the caller holds a turn in the rule's queue, which
    /// another request was charged for and left. The line shows the limits as they are. By default
    /// 0.
    pub held: u64,
    /// Whether the request can wait for its turn in a queue. If not, a rule with a queue refuses it
    /// where it would have to wait at all.
    pub may_wait: bool,
}

impl Default for Ask {
    /// A check of cost 1, now, by all limits.
    fn default() -> Self {
        Self { now: None, cost: 1, is_peek: false, in_flight: true, held: 0, may_wait: true }
    }
}
