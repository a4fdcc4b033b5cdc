//! What rules decide of a log, counted while it is read.

use tollgate_rules::Rules;

use super::key_tallies::KeyTallies;
use crate::by_rules::{Client, Judgement, Logged};
use crate::report::{KeyTally, Timeline};

/// What a rule decides.
#[derive(Debug)]
pub(super) struct RuleCounts {
    /// Requests that it concerns.
    pub(super) concerned: u64,
    /// Requests that it refuses; in shadow, that it would.
    pub(super) refused: u64,
    pub(super) keys: KeyTallies,
}

impl RuleCounts {
    /// How many of its refusals the ten most refused keys have.
    pub(super) fn top_ten(&self) -> u64 {
        self.keys.top_refused(10).iter().map(|(_, tally)| tally.denied).sum()
    }
}

/// What all rules decide.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) admitted: u64,
    /// Requests that some enforced rule refuses.
    pub(super) refused: u64,
    /// Requests that no rule concerns.
    pub(super) unmatched: u64,
    /// Requests without a client.
    pub(super) without_client: u64,
    /// By the clients' numbers.
    pub(super) clients: Vec<KeyTally>,
    /// One for each rule of the file.
    pub(super) rules: Vec<RuleCounts>,
    /// Only for `--report`.
    pub(super) timeline: Option<Timeline>,
}

impl Counts {
    pub(super) fn new(rules: &Rules, timeline: bool) -> Self {
        let of_rule = |rule| RuleCounts { concerned: 0, refused: 0, keys: KeyTallies::new(rule) };
        Self {
            admitted: 0,
            refused: 0,
            unmatched: 0,
            without_client: 0,
            clients: Vec::new(),
            rules: rules.rules.iter().map(of_rule).collect(),
            timeline: timeline.then(Timeline::new),
        }
    }

    /// The tallies of the clients that were ever refused.
    pub(super) fn clients_refused(&self) -> Vec<KeyTally> {
        self.clients.iter().copied().filter(|tally| tally.denied > 0).collect()
    }

    pub(super) fn requests(&self) -> u64 {
        self.admitted + self.refused
    }

    /// Counts a request.
    #[inline]
    pub(super) fn add(&mut self, logged: &Logged<'_>, judgement: &Judgement<'_>) {
        let is_admitted = judgement.is_admitted();
        self.admitted += u64::from(is_admitted);
        self.refused += u64::from(!is_admitted);
        self.unmatched += u64::from(judgement.verdict().is_unmatched());
        match logged.client {
            Some(client) => count(&mut self.clients, client, is_admitted),
            None => self.without_client += 1,
        }
        for asked in judgement.asked() {
            let rule = &mut self.rules[asked.rule];
            rule.concerned += 1;
            rule.refused += u64::from(asked.refuses);
            rule.keys.count(asked.key, logged.client, asked.refuses);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.add(logged.t_ns, is_admitted);
        }
    }
}

/// Counts a request of a client.
#[inline]
fn count(clients: &mut Vec<KeyTally>, client: Client, is_admitted: bool) {
    if client.number >= clients.len() {
        clients.resize(client.number + 1, KeyTally { requests: 0, denied: 0 });
    }
    let tally = &mut clients[client.number];
    tally.requests += 1;
    tally.denied += u64::from(!is_admitted);
}
