//! From a request to a decision, by the rules in force.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Extensions, Response, Version};
use tollgate::Timestamp;
use tollgate_http::RequestHead;
use tollgate_rules::{Ask, Line, Round, RuleAnswer, Ruling, StoredAsk};

use super::LayerVerdict;
use super::answers::Answers;
use super::aside::{both, refused_aside};
use super::backends::{self, Told};
use super::charges::Charges;
use super::departure::Departure;
use super::generation::Generation;
use super::left::LimitsLeft;
use super::local::with_local;
use super::response_headers::ResponseHeaders;
use super::state::LayerState;
use super::turns::Turns;
use super::view::HeadView;
use crate::rule::{Closures, SharedClock};

// An admitted request must not allocate, so it is not boxed.
#[expect(clippy::large_enum_variant)]
pub(crate) enum Decided<B> {
    Admitted(Admitted),
    Refused(Box<Response<B>>),
    /// It is decided anew with what stores tell.
    Asks(Pin<Box<dyn Future<Output = Told> + Send>>),
}

/// An admitted request.
pub(crate) struct Admitted {
    pub(crate) headers: ResponseHeaders,
    pub(crate) charges: Charges,
    /// Boxed, so that the others stay small.
    pub(crate) departure: Option<Box<Departure>>,
    /// What the rules have left, for its handler.
    pub(crate) limits: Option<LimitsLeft>,
}

/// A request that is being decided.
#[derive(Clone, Copy)]
struct Asked<'r> {
    head: RequestHead<'r>,
    /// Whether the inner service is ready. If not, all charges can be given back.
    is_ready: bool,
    /// Whether stores may be asked. If not, a rule whose store has not answered refuses.
    may_ask: bool,
}

impl LayerState {
    /// What the rules in force see of a request, and what the layer derives from them.
    pub(crate) fn with_key<T>(
        &self,
        head: RequestHead<'_>,
        rule: usize,
        act: impl FnOnce(&Arc<Generation>, Option<usize>, &[u8]) -> Option<T>,
    ) -> Option<T> {
        with_local(self, |local| {
            let (handle, scratch) = local.session.parts();
            let set = Arc::clone(handle.refresh());
            let generation = self.generation_of(&set);
            let view = HeadView { head, generation: &generation, labels: &self.settings.labels, failed: 0 };
            let key = set.key(rule, &view, scratch)?;
            act(&generation, key.tier(), key.as_bytes())
        })
    }

    /// Decides a request and reports the decision.
    pub(crate) fn decide<B>(
        self: &Arc<Self>,
        head: RequestHead<'_>,
        is_ready: bool,
        told: &mut Told,
        may_ask: bool,
        answers: &impl Answers<B>,
    ) -> Decided<B> {
        with_local(self, |local| {
            let mut may_claim = true;
            let asked = Asked { head, is_ready, may_ask };
            let by = |round: Round<'_, _, _>| {
                let may_claim = std::mem::replace(&mut may_claim, false);
                self.decide_by(round, asked, may_claim, told, answers)
            };
            local.session.decide(|set| self.generation_of(set), by)
        })
    }

    /// Decides a request. `None` if other rules came into force meanwhile, or if the turns that it
    /// may claim are not its own: then it may claim none.
    #[inline]
    fn decide_by<B>(
        self: &Arc<Self>,
        mut round: Round<'_, Generation, SharedClock>,
        asked: Asked<'_>,
        may_claim: bool,
        told: &mut Told,
        answers: &impl Answers<B>,
    ) -> Option<Decided<B>> {
        let generation = round.derived();
        let (head, failed) = (asked.head, told.failed);
        let view = HeadView { head, generation, labels: &self.settings.labels, failed };
        let look = Ask { is_peek: true, ..Ask::default() };
        if generation.http.is_preflight(head) {
            let verdict = round.ask(&view, look, &mut Vec::new())?;
            return Some(self.decide_preflight(head, &verdict, generation, answers));
        }
        let hides = generation.http.has_queues() && hides_disconnect(&head);
        let turns = match may_claim && generation.may_have_turns() {
            true => {
                let looked = round.ask(&view, look, &mut Vec::new())?;
                let max_wait = |line: &Line| self.max_wait(line, hides);
                Some(Turns::claim(generation, &looked, max_wait))
            }
            false => None,
        };
        let held = turns.as_ref().map_or(0, Turns::lines);
        let taken_debts = generation.taken_debts();
        let Some(verdict) = round.ask(&view, Ask { held, ..Ask::default() }, &mut told.answers) else {
            turns.into_iter().for_each(Turns::give_back);
            return None;
        };
        if turns.as_ref().is_some_and(|turns| !turns.fit(&verdict)) {
            verdict.cancel();
            turns.into_iter().for_each(Turns::give_back);
            return None;
        }
        let can_ask = asked.may_ask && (self.has_closures() || generation.stores.is_some());
        if can_ask && generation.http.set().has_stores() {
            let asks = verdict.unasked();
            if !asks.is_empty() {
                turns.into_iter().for_each(Turns::give_back);
                return self.ask(head, &verdict, asks, failed, generation).map(Decided::Asks);
            }
        }
        let aside = self.settings.set_aside.as_ref().and_then(|set_aside| set_aside(head, &verdict));
        if verdict.is_admitted()
            && let Some(aside) = aside
        {
            let (lines, decided_at) = (refused_aside(verdict.lines(), &aside), verdict.decided_at());
            verdict.cancel();
            turns.into_iter().for_each(Turns::give_back);
            let refused = (&lines[..], decided_at, failed);
            return Some(self.refuse(head, refused, generation, Some(aside.note), answers));
        }
        if let Some(on_verdict) = &self.settings.on_verdict {
            on_verdict(&verdict);
        }
        if hides && verdict.is_admitted() && verdict.lines().iter().any(|line| self.waits_too_long(line)) {
            let (lines, decided_at) = (self.refused_for_waits(verdict.lines()), verdict.decided_at());
            verdict.cancel();
            turns.into_iter().for_each(Turns::give_back);
            return Some(self.refuse(head, (&lines, decided_at, failed), generation, None, answers));
        }
        if !verdict.is_admitted() {
            turns.into_iter().for_each(Turns::give_back);
            let note = aside.map(|aside| aside.note);
            let refused = (verdict.lines(), verdict.decided_at(), failed);
            let refused = self.refuse(head, refused, generation, note, answers);
            if self.has_closures() && verdict.lines().iter().any(|line| line.is_shadow) {
                // A rule in shadow mode is charged what an enforced one would be: nothing.
                verdict.cancel();
            }
            return Some(refused);
        }
        let lines = if self.shows_numbers(generation) { verdict.lines() } else { &[] };
        self.report(head, lines, failed, generation);
        let mut admitted = self.admit(verdict, generation, asked.is_ready, turns, taken_debts);
        admitted.headers.exposed = generation.http.is_of_page(head);
        Some(Decided::Admitted(admitted))
    }

    /// Has stores asked for a request. `None`: there is nothing that asks them.
    #[cold]
    fn ask(
        self: &Arc<Self>,
        head: RequestHead<'_>,
        verdict: &LayerVerdict<'_>,
        asks: Vec<StoredAsk>,
        failed: u64,
        generation: &Generation,
    ) -> Option<Pin<Box<dyn Future<Output = Told> + Send>>> {
        if self.has_closures() {
            return Some(backends::ask(self, asks, failed));
        }
        let stores = Arc::clone(generation.stores.as_ref()?);
        let beside = self.settings.beside_stores.as_ref();
        let beside = beside.and_then(|hook| hook(head, verdict.rules(), &asks));
        Some(Box::pin(async move {
            let (answers, extensions) = match beside {
                Some(beside) => both(stores.ask(asks), beside).await,
                None => (stores.ask(asks).await, Extensions::new()),
            };
            Told { answers, extensions, failed: 0 }
        }))
    }

    /// Whether anything shows the numbers of an admitted request. To write them takes as long as to
    /// decide.
    #[inline]
    fn shows_numbers(&self, generation: &Generation) -> bool {
        let hooks = &self.settings.hooks;
        generation.http.has_headers() || hooks.need_reports() || hooks.attach_limits
    }

    /// How long a request may wait in the queue of a line, beside what its rule says.
    fn max_wait(&self, line: &Line, hides_disconnect: bool) -> Duration {
        if !hides_disconnect {
            return Duration::MAX;
        }
        self.closures(line.rule).map_or(self.settings.max_wait_with_body, Closures::max_wait_with_body)
    }

    /// Whether a request with a body would wait too long in the queue of a line.
    fn waits_too_long(&self, line: &Line) -> bool {
        !line.is_shadow && line.delay > self.max_wait(line, true)
    }

    /// Returns lines that admit a request as lines that refuse it where it would wait too long.
    #[cold]
    fn refused_for_waits(&self, lines: &[Line]) -> Vec<Line> {
        let mut lines = lines.to_vec();
        for line in lines.iter_mut().filter(|line| self.waits_too_long(line)) {
            (line.ruling, line.remaining) = (Ruling::Refused, 0);
            line.retry_after = Some(line.delay - self.max_wait(line, true));
        }
        lines
    }

    /// Lets a browser ask whether its page may send a request, unless a rule blocks the client: by
    /// a look, so that it is charged nothing, and no limit refuses it.
    #[cold]
    fn decide_preflight<B>(
        &self,
        head: RequestHead<'_>,
        looked: &LayerVerdict<'_>,
        generation: &Generation,
        answers: &impl Answers<B>,
    ) -> Decided<B> {
        let blocks = |line: &&Line| matches!(line.ruling, Ruling::Blocked | Ruling::NoKey);
        let blocking: Vec<Line> = looked.lines().iter().filter(blocks).copied().collect();
        if blocking.iter().any(|line| !line.is_shadow) {
            return self.refuse(head, (&blocking, looked.decided_at(), 0), generation, None, answers);
        }
        let (headers, charges) = (ResponseHeaders::default(), Charges::default());
        Decided::Admitted(Admitted { headers, charges, departure: None, limits: None })
    }

    #[inline]
    fn admit(
        self: &Arc<Self>,
        verdict: LayerVerdict<'_>,
        generation: &Arc<Generation>,
        is_ready: bool,
        claimed: Option<Turns>,
        taken_debts: u64,
    ) -> Admitted {
        let decided_at = verdict.decided_at();
        let lines = if self.shows_numbers(generation) { verdict.lines() } else { &[] };
        let headers = generation.http.headers(lines, decided_at, &self.unix_zero);
        let (mut turns, mut departure) = (None, None);
        if claimed.is_some() || !verdict.delay().is_zero() {
            let mut held = claimed.unwrap_or_else(|| Turns::none(generation));
            held.add_charged(&verdict, taken_debts);
            let enforced = || verdict.lines().iter().enumerate().filter(|(_, line)| !line.is_shadow);
            let departs = |(index, line): (usize, &Line)| {
                (held.departure(index).unwrap_or(decided_at + line.delay), *line)
            };
            let last = enforced().map(departs).max_by_key(|(at, _)| *at);
            let fixed = enforced().filter(|(index, _)| held.departure(*index).is_none());
            let fixed = fixed.map(|(_, line)| decided_at + line.delay).max().unwrap_or(decided_at);
            departure = last.filter(|(at, _)| *at > decided_at).map(|(_, line)| {
                Box::new(Departure { fixed, line, generation: Arc::clone(generation), since: decided_at })
            });
            if departure.is_some() {
                held.wait();
            }
            turns = (!held.is_empty()).then(|| Box::new(held));
        }
        let awaits = |answer: RuleAnswer| {
            let closures = self.closures(answer.rule);
            closures.is_some_and(Closures::awaits_response) || generation.awaits_response(answer.rule)
        };
        let limits = self.settings.hooks.attach_limits.then(|| LimitsLeft::of(generation, lines));
        // All charges, until the request is handed on.
        let all_may_come_back = !is_ready || departure.is_some() || turns.is_some();
        let all = all_may_come_back || self.settings.gives_back_unserved || self.settings.cost_from.is_some();
        let ticket = if all {
            Some(verdict.ticket())
        } else if verdict.answers().any(awaits) {
            Some(match self.has_closures() {
                true => verdict.ticket_of(|rule| self.closures(rule).is_some_and(Closures::awaits_response)),
                false => verdict.ticket(),
            })
        } else {
            None
        };
        let by_closures = self.has_closures() || self.settings.cost_from.is_some();
        let settled_by = (ticket.is_some() && by_closures).then(|| Arc::clone(self));
        let charges = Charges::new(ticket, turns, settled_by, self.settings.gives_back_unserved);
        let headers = ResponseHeaders::new(headers, decided_at, &self.response_clock);
        Admitted { headers, charges, departure, limits }
    }

    /// Reports a request that some of these lines refuse, and makes the response.
    #[inline(never)]
    fn refuse<B>(
        &self,
        head: RequestHead<'_>,
        (lines, decided_at, failed): (&[Line], Timestamp, u64),
        generation: &Generation,
        note: Option<Extensions>,
        answers: &impl Answers<B>,
    ) -> Decided<B> {
        self.report(head, lines, failed, generation);
        let Some(refusal) = generation.http.refusal(lines) else {
            unreachable!("a request is refused by a line")
        };
        if let Some(on_limited) = &self.settings.hooks.on_limited {
            on_limited(&refusal.describe(head));
        }
        let mut response = answers.answer(&refusal, head, decided_at, &self.unix_zero);
        response.extensions_mut().extend(note.unwrap_or_default());
        Decided::Refused(Box::new(response))
    }
}

/// Returns whether the server cannot see that the client leaves before the request is served: the
/// body of an HTTP/1 request lies between the server and the end of the connection.
fn hides_disconnect(head: &RequestHead<'_>) -> bool {
    let has_length = head.header(CONTENT_LENGTH).is_some_and(|length| length != b"0");
    head.version() <= Version::HTTP_11 && (has_length || head.headers().contains_key(TRANSFER_ENCODING))
}
