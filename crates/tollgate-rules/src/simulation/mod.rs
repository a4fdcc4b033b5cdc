//! Decides requests at times that are given, and settles each at its end.
//!
//! ```text
//!   arrivals   a ---- b ------------- c ------ d ->    at each arrival: first all ends that are
//!   ends              '-- lasts --> b          a       not after it, in their order
//! ```
//!
//! The tests of rules files, a replay of a log and a comparison of rules decide by this one judge.

mod ends;

use std::fmt;
use std::time::Duration;

use tollgate::{Clock, ManualClock, Timestamp};

use crate::request::Request;
use crate::rule::{Limit, Limits, Rule, Rules};
use crate::set::{Ask, RuleSet, Scratch, SetError, Ticket, Verdict};

pub use ends::Ends;

/// The most requests that are under way at once.
const MOST_UNDER_WAY: usize = 1 << 18;

/// How a request ends: see [`Simulation::ask`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// How long the request lasts. Nothing: it ends at once. In a queue it lasts at least until its
    /// turn.
    pub after: Duration,
    /// The status of the response. `None`: it is never told, and the charge stays.
    pub status: Option<u16>,
    /// What it really cost, if that is told: see [`Ticket::settle_cost`].
    pub cost: Option<u64>,
}

/// Rules with limiters of their own, which decide requests at times that the caller says, and
/// settle each at its end.
///
/// **Guarantee.** It decides as a server would that sees the same requests arrive and end at these
/// times: until its end a request holds its charges and its places in flight. At the same instant
/// ends come before arrivals.
///
/// # Examples
///
/// Of three log-ins at once the third is refused while the first two are under way; they do not
/// fail, and the fourth, a second later, is admitted:
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
/// use tollgate_rules::{Ask, Ending, PlainRequest, Simulation};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\nrule = [{ name = 'failed', key = 'client', limits = '2/h', \
///     charge_if.status = [401] }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let mut simulation = Simulation::new(rules, Duration::ZERO)?;
/// let login = PlainRequest { client: Some([203, 0, 113, 9].into()), ..PlainRequest::default() };
/// let ending = Ending { after: Duration::from_secs(1), status: Some(200), cost: None };
/// let admitted = [0, 0, 0, 1].map(|second| {
///     let now = Timestamp::ZERO + Duration::from_secs(second);
///     let ask = Ask { now: Some(now), ..Ask::default() };
///     simulation.ask(&login, ask, ending, |verdict| verdict.is_admitted())
/// });
/// assert_eq!(admitted, [true, true, false, true]);
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
pub struct Simulation {
    set: RuleSet<ManualClock>,
    /// What the limiters go by.
    clock: ManualClock,
    scratch: Scratch,
    under_way: Ends<UnderWay>,
    /// For each rule: whether the end of a request gives something back at any cost.
    gives_back: Vec<bool>,
    ended_early: u64,
}

/// A request that has not ended, and how it will.
struct UnderWay {
    ticket: Ticket<ManualClock>,
    ending: Ending,
}

impl Simulation {
    /// Builds limiters of this process for the rules: those with a store count here. The clock
    /// begins at the Unix time `starts`.
    ///
    /// # Errors
    ///
    /// Those of [`RuleSet::new`].
    pub fn new(rules: Rules, starts: Duration) -> Result<Self, SetError> {
        let gives_back = rules.rules.iter().map(gives_back).collect();
        let clock = ManualClock::starting_at(starts);
        let set = RuleSet::new(rules.in_process(), clock.clone())?;
        let (scratch, under_way) = (Scratch::default(), Ends::default());
        Ok(Self { set, clock, scratch, under_way, gives_back, ended_early: 0 })
    }

    /// The rules with their limiters.
    #[must_use]
    pub fn set(&self) -> &RuleSet<ManualClock> {
        &self.set
    }

    /// How many requests were ended before their time, since 262,144 were under way.
    #[must_use]
    pub fn ended_early(&self) -> u64 {
        self.ended_early
    }

    /// Ends the requests that have ended by the time of `ask`, decides the request, and gives the
    /// verdict to `with`. The request is settled as `ending` says: at once, or before the first
    /// arrival that is not earlier than its end.
    ///
    /// A request comes at [`Ask::now`], without it at the same time as the one before; no request
    /// comes before the one before it.
    ///
    /// **Cost.** That of the decision. A request that ends later and may give something back takes
    /// memory until then.
    pub fn ask<R>(
        &mut self,
        request: &dyn Request,
        ask: Ask,
        ending: Ending,
        with: impl FnOnce(&Verdict<'_, ManualClock>) -> R,
    ) -> R {
        let before = self.clock.now();
        let now = ask.now.map_or(before, |now| now.max(before));
        self.end_by(now);
        self.clock.set(now);
        let ask = Ask { now: Some(now), ..ask };
        let mut verdict = self.set.ask(request, ask, &mut self.scratch);
        let result = with(&verdict);
        let gives_back = &self.gives_back;
        if ending.cost.is_none() && !verdict.answers().any(|answer| gives_back[answer.rule]) {
            return result;
        }
        if ending.cost.is_none() && ending.after.is_zero() {
            // The short way, without a ticket.
            if let Some(status) = ending.status {
                verdict.settle(status);
            }
            return result;
        }
        let after = if ending.after.is_zero() { ending.after } else { ending.after.max(verdict.delay()) };
        let ticket = verdict.ticket();
        if !ticket.is_empty() {
            self.begin(now + after, UnderWay { ticket, ending });
            self.end_by(now);
        }
        result
    }

    fn begin(&mut self, ends: Timestamp, request: UnderWay) {
        if self.under_way.len() >= MOST_UNDER_WAY
            && let Some((_, first)) = self.under_way.pop_by(Timestamp::from_nanos(u64::MAX))
        {
            first.end();
            self.ended_early += 1;
        }
        self.under_way.push(ends, request);
    }

    /// Ends the requests that end by `now`, each at its time.
    fn end_by(&mut self, now: Timestamp) {
        while let Some((at, request)) = self.under_way.pop_by(now) {
            self.clock.set(at);
            request.end();
        }
    }
}

impl UnderWay {
    fn end(mut self) {
        if let Some(cost) = self.ending.cost {
            // First: a status ends what a cost could change.
            self.ticket.settle_cost(cost);
        }
        if let Some(status) = self.ending.status {
            self.ticket.settle(status);
        }
    }
}

/// Whether the end of a request gives back what the rule holds of it.
fn gives_back(rule: &Rule) -> bool {
    let limits = std::iter::once(&rule.limits).chain(rule.tiers.iter().map(|tier| &tier.limits));
    let is_in_flight = |limit: &Limit| matches!(limit, Limit::InFlight { .. });
    let holds_places =
        |limits: &Limits| matches!(limits, Limits::Each(each) if each.iter().any(is_in_flight));
    rule.charge_if.is_some() || limits.into_iter().any(holds_places)
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("now", &self.clock.now())
            .field("under_way", &self.under_way.len())
            .finish_non_exhaustive()
    }
}
