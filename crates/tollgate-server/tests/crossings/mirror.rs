//! The same rules, asked directly: what the server's verbs must come to.

use std::time::Duration;

use tollgate::{Clock, ManualClock, Timestamp};
use tollgate_rules::{Ask, AskRule, Asked, Handle, PlainRequest, Ruling, Scratch, Ticket};
use tollgate_rules_file::{LiveFile, Memory, ReloadError};

use crate::rooms::{Rooms, clock_at};

/// How long the ticket of a check is kept.
const TICKET_LIFE: Duration = Duration::from_secs(60);

/// Rules of a clock of their own that shows the server's time.
pub(crate) struct Mirror {
    file: LiveFile<ManualClock>,
    handle: Handle<ManualClock>,
    pub(crate) clock: ManualClock,
    scratch: Scratch,
}

/// A ticket of the server, and of the mirror.
pub(crate) struct Open {
    pub(crate) id: String,
    pub(crate) is_place: bool,
    end: Timestamp,
    ticket: Ticket<ManualClock>,
}

/// What a request was answered: its outcome, and for how long it waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) outcome: &'static str,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) delay: Duration,
}

/// The answer to a request, and its ticket if it has one.
pub(crate) type Decided = (Answered, Option<Ticket<ManualClock>>);

impl Answered {
    pub(crate) fn is_admitted(&self) -> bool {
        self.outcome == "admitted"
    }
}

/// The view of a key by a rule: its name, ruling, limit, remaining units, and two times.
pub(crate) type Seen = (Box<str>, Ruling, u64, u64, Option<Duration>, Duration);

/// A request of a client with these labels.
pub(crate) fn request(client: &str, labels: &[(&str, String)]) -> PlainRequest {
    PlainRequest {
        method: Some("GET".into()),
        target: Some("/".into()),
        client: client.parse().ok(),
        labels: labels.iter().map(|(name, value)| ((*name).into(), value.clone().into_bytes())).collect(),
        ..PlainRequest::default()
    }
}

fn word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Admitted => "admitted",
        Ruling::Refused => "refused",
        Ruling::Unavailable => "unavailable",
        Ruling::Never => "never",
        Ruling::NoKey => "no_key",
        Ruling::Blocked => "blocked",
    }
}

impl Mirror {
    /// The server's rules as they are now, but for what is in flight. They share the secrets of its
    /// tables, and so the marks that their keys share.
    pub(crate) fn of(rooms: &Rooms) -> Self {
        let mut saved = Vec::new();
        rooms.live().save(&mut saved).unwrap();
        let clock = clock_at(rooms.unix());
        let (file, forgotten) = LiveFile::restore(&saved[..], clock.clone()).unwrap();
        assert!(forgotten.is_empty(), "{forgotten:?}");
        let handle = file.live().handle();
        Self { file, handle, clock, scratch: Scratch::default() }
    }

    /// Decides a request. Its ticket, if it is admitted.
    pub(crate) fn ask(
        &mut self,
        request: &PlainRequest,
        ask: Ask,
    ) -> (Answered, Option<Ticket<ManualClock>>) {
        let verdict = self.handle.ask(request, ask, &mut self.scratch);
        let answered = Answered {
            outcome: word(verdict.outcome()),
            retry_after: verdict.retry_after(),
            delay: verdict.delay(),
        };
        let ticket = (verdict.is_admitted() && !ask.is_peek).then(|| verdict.ticket());
        (answered, ticket)
    }

    /// Asks a rule as a Redis client does: whether it is admitted now. `None`: it cannot be asked.
    pub(crate) fn ask_rule(&mut self, name: &str, key: &str, cost: u64, is_peek: bool) -> Option<bool> {
        let rule = self.handle.refresh().rule(name)?;
        let is_peek = is_peek || rule.charge_if.is_some();
        let ask = AskRule { name, key: &[key.as_bytes()], cost: Some(cost), is_peek };
        let verdict = self.handle.ask_rule(ask, &mut self.scratch).ok()?;
        let is_admitted = verdict.is_admitted() && verdict.delay().is_zero();
        // A Redis client cannot wait for its turn.
        if verdict.is_admitted() && !is_admitted {
            verdict.cancel();
        }
        Some(is_admitted)
    }

    /// Decides a call of Envoy: whether each descriptor is over its limit.
    pub(crate) fn call(&mut self, descriptors: &[(PlainRequest, u64)]) -> Vec<bool> {
        let ask = |cost| Ask { cost, is_peek: cost == 0, in_flight: false, ..Ask::default() };
        if let [(request, hits)] = descriptors {
            let (answered, ticket) = self.ask(request, ask(*hits));
            // It reports no status: rules with `charge_if` give back.
            ticket.into_iter().for_each(|mut ticket| ticket.settle(0));
            return vec![!answered.is_admitted()];
        }
        let asked = descriptors.iter().map(|(request, hits)| (request, ask(*hits)));
        let (_, decided) = self.ask_together(asked);
        let one = |(answered, ticket): Decided| {
            ticket.into_iter().for_each(|mut ticket| ticket.settle(0));
            !answered.is_admitted()
        };
        decided.into_iter().map(one).collect()
    }

    /// Decides requests together: whether all are admitted, what each is answered, and their
    /// tickets if all are.
    pub(crate) fn ask_together<'r>(
        &mut self,
        asked: impl Iterator<Item = (&'r PlainRequest, Ask)>,
    ) -> (bool, Vec<Decided>) {
        let mut asked: Vec<_> = asked.map(|(request, ask)| Asked::new(request.clone(), ask)).collect();
        let mut scratches = Vec::new();
        let mut together = self.handle.ask_together(&mut asked, false, &mut scratches);
        let is_admitted = together.is_admitted();
        let one = |index| {
            let verdict = together.verdict(index);
            let answered = Answered {
                outcome: word(verdict.outcome()),
                retry_after: verdict.retry_after(),
                delay: verdict.delay(),
            };
            (answered, is_admitted.then(|| verdict.ticket()))
        };
        (is_admitted, (0..asked.len()).map(one).collect())
    }

    /// Keeps the ticket of a check, or of a request in flight.
    pub(crate) fn keep(&self, id: String, is_place: bool, ticket: Ticket<ManualClock>) -> Open {
        let life = if is_place { Duration::from_secs(365 * 86_400) } else { TICKET_LIFE };
        Open { id, is_place, end: self.clock.now() + life, ticket }
    }

    /// Ends a request: whether its ticket was still there, and how much of a cost is charged.
    pub(crate) fn end(
        &self,
        open: Open,
        status: Option<u16>,
        cost: Option<u64>,
        is_cancelled: bool,
    ) -> (bool, Option<u64>) {
        let Open { mut ticket, end, .. } = open;
        if self.clock.now() >= end {
            return (false, None);
        }
        let cost = cost.filter(|_| ticket.has_costs());
        let charged = cost.map(|cost| ticket.settle_cost(cost));
        match status {
            Some(status) => ticket.settle(status),
            None if is_cancelled => ticket.cancel(),
            None => {}
        }
        (true, charged)
    }

    /// Forgives a key of a rule, or gives some units back.
    pub(crate) fn order(&mut self, rule: &str, request: &PlainRequest, refund: Option<u64>) -> Option<u64> {
        let set = self.handle.refresh();
        let index = set.rules().rules.iter().position(|own| &*own.name == rule)?;
        let key = set.key(index, request, &mut self.scratch)?;
        Some(match refund {
            None => u64::from(key.reset()),
            Some(units) => key.credit(units),
        })
    }

    pub(crate) fn reload(&self, text: &str, forget: Option<&str>) -> Result<u64, ReloadError> {
        let source = Memory::new("rules.toml", text);
        match forget {
            None => self.file.reload("rules.toml", &source),
            Some(rule) => self.file.reload_forget("rules.toml", &source, &[rule]),
        }
    }

    /// What a look at a request's keys shows of each rule.
    pub(crate) fn seen(&mut self, request: &PlainRequest) -> Vec<Seen> {
        seen(&mut self.handle, request, 1)
    }
}

/// What a look at a request's keys shows of each rule, if it costs this.
pub(crate) fn seen<C: Clock + Clone + 'static>(
    handle: &mut Handle<C>,
    request: &PlainRequest,
    cost: u64,
) -> Vec<Seen> {
    let (ask, mut scratch) = (Ask { cost, is_peek: true, ..Ask::default() }, Scratch::default());
    let verdict = handle.ask(request, ask, &mut scratch);
    let lines = verdict.lines().iter().map(|line| {
        let name = verdict.rules()[line.rule].name.clone();
        (name, line.ruling, line.limit, line.remaining, line.retry_after, line.reset_after)
    });
    lines.collect()
}
