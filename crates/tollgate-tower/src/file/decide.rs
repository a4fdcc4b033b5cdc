//! From a request to a verdict, by the rules in force.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Extensions, Request, Response};
use tollgate::Timestamp;
use tollgate_http::{RequestHead, UnixZero};
use tollgate_rules::{Ask, Line, Round, Ruling, StoredAnswer};

use super::aside::{AsideHook, BesideHook, both, refused_aside};
use super::charges::{Charges, CostFrom};
use super::generation::Generation;
use super::local::with_local;
use super::stores::Stores;
use super::turns::Turns;
use super::view::{HeadView, Labels};
use super::{FileRules, FileSet, FileVerdict};
use crate::ClientAddress;
use crate::decide::{OriginalUri, ResponseClock, ResponseHeaders, Sleep};
use crate::hooks::Hooks;
use crate::rule::{SharedClock, hides_disconnect};

/// Is called with each verdict.
pub(super) type VerdictHook = Box<dyn Fn(&FileVerdict<'_>) + Send + Sync>;

/// The state that a layer shares with its services.
pub(crate) struct FileState {
    pub(super) file: FileRules,
    pub(super) path: PathBuf,
    /// How the address of the connection is found.
    pub(super) peer: ClientAddress,
    pub(super) labels: Labels,
    pub(super) hooks: Hooks,
    pub(super) on_verdict: Option<VerdictHook>,
    pub(super) set_aside: Option<AsideHook>,
    pub(super) beside_stores: Option<BesideHook>,
    pub(super) cost_from: Option<CostFrom>,
    pub(super) gives_back_unserved: bool,
    pub(super) original_uri: Option<OriginalUri>,
    pub(super) max_wait_with_body: Duration,
    pub(super) clock: SharedClock,
    /// The same clock.
    pub(super) response_clock: ResponseClock,
    pub(super) unix_zero: UnixZero,
    /// The connections to the stores of rules.
    pub(super) stores: Stores,
    pub(super) sleep: Sleep,
    /// The newest generation that a thread has met.
    pub(super) newest: Mutex<Arc<Generation>>,
    /// By which threads know this layer.
    pub(super) identity: Arc<()>,
}

// An admitted request must not allocate, so it is not boxed.
#[expect(clippy::large_enum_variant)]
pub(super) enum Decided {
    Admitted(Admitted),
    Refused(Box<Response<String>>),
    /// It is decided anew with the answers of these stores.
    Asks(StoreAnswers),
}

/// What stores will answer, and what the request is told beside it.
pub(super) type StoreAnswers = Pin<Box<dyn Future<Output = (Vec<StoredAnswer>, Extensions)> + Send>>;

/// An admitted request.
pub(super) struct Admitted {
    pub(super) headers: ResponseHeaders,
    pub(super) charges: Charges,
    /// Boxed, so that the others stay small.
    pub(super) departure: Option<Box<Departure>>,
}

/// When a request leaves its queue.
pub(super) struct Departure {
    /// By the queues in which it cannot move up.
    fixed: Timestamp,
    /// The line of the rule that lets it wait longest.
    line: Line,
    generation: Arc<Generation>,
    since: Timestamp,
}

impl FileState {
    /// Returns the head of a request, with its original target.
    #[inline]
    pub(super) fn head<'r, B>(&self, request: &'r Request<B>) -> RequestHead<'r> {
        let head = RequestHead::of(request);
        let Some(original_uri) = &self.original_uri else { return head };
        original_uri(head.extensions()).map_or(head, |uri| head.with_uri(uri))
    }

    /// Returns what the layer derives from these rules.
    pub(super) fn generation_of(&self, set: &Arc<FileSet>) -> Arc<Generation> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(set, newest.http.set()) {
            *newest = Arc::new(Generation::new(Arc::clone(set), &self.peer, &self.stores, Some(&newest)));
        }
        Arc::clone(&newest)
    }

    /// Decides a request and reports the decision. If the inner service is not ready, all charges
    /// can be given back. `answers` are those of the stores that it asked for before. If it may not
    /// ask for others, a rule whose store has not answered refuses it.
    pub(super) fn decide(
        &self,
        head: RequestHead<'_>,
        is_ready: bool,
        answers: &mut Vec<StoredAnswer>,
        may_ask: bool,
    ) -> Decided {
        with_local(self, |local| {
            let mut may_claim = true;
            let by = |round: Round<'_, _, _>| {
                let may_claim = std::mem::replace(&mut may_claim, false);
                self.decide_by(round, head, is_ready, may_claim, (answers, may_ask))
            };
            local.session.decide(|set| self.generation_of(set), by)
        })
    }

    /// Decides a request. `None` if other rules came into force meanwhile, or if the turns that it
    /// may claim are not its own: then it may claim none.
    fn decide_by(
        &self,
        mut round: Round<'_, Generation, SharedClock>,
        head: RequestHead<'_>,
        is_ready: bool,
        may_claim: bool,
        (answers, may_ask): (&mut Vec<StoredAnswer>, bool),
    ) -> Option<Decided> {
        let generation = round.derived();
        let view = HeadView { head, client: generation.http.client(), labels: &self.labels };
        let look = Ask { is_peek: true, ..Ask::default() };
        if generation.http.is_preflight(head) {
            let verdict = round.ask(&view, look, &mut Vec::new())?;
            return Some(self.decide_preflight(head, &verdict, generation));
        }
        let turns = match may_claim && generation.may_have_turns() {
            true => {
                let looked = round.ask(&view, look, &mut Vec::new())?;
                let max_wait = if hides_disconnect(&head) { self.max_wait_with_body } else { Duration::MAX };
                Some(Turns::claim(generation, &looked, max_wait))
            }
            false => None,
        };
        let held = turns.as_ref().map_or(0, Turns::lines);
        let Some(verdict) = round.ask(&view, Ask { held, ..Ask::default() }, answers) else {
            turns.into_iter().for_each(Turns::give_back);
            return None;
        };
        if turns.as_ref().is_some_and(|turns| !turns.fit(&verdict)) {
            verdict.cancel();
            turns.into_iter().for_each(Turns::give_back);
            return None;
        }
        if let Some(stores) = generation.stores.as_ref().filter(|_| may_ask) {
            let asks = verdict.unasked();
            if !asks.is_empty() {
                turns.into_iter().for_each(Turns::give_back);
                let stores = Arc::clone(stores);
                let beside = self.beside_stores.as_ref();
                let beside = beside.and_then(|hook| hook(head, verdict.rules(), &asks));
                return Some(Decided::Asks(match beside {
                    Some(beside) => Box::pin(async move { both(stores.ask(asks), beside).await }),
                    None => Box::pin(async move { (stores.ask(asks).await, Extensions::new()) }),
                }));
            }
        }
        let aside = self.set_aside.as_ref().and_then(|set_aside| set_aside(head, &verdict));
        if verdict.is_admitted()
            && let Some(aside) = aside
        {
            let (lines, decided_at) = (refused_aside(verdict.lines(), &aside), verdict.decided_at());
            verdict.cancel();
            turns.into_iter().for_each(Turns::give_back);
            return Some(self.refuse(head, &lines, generation, decided_at, Some(aside.note)));
        }
        if let Some(on_verdict) = &self.on_verdict {
            on_verdict(&verdict);
        }
        if generation.http.has_queues()
            && verdict.delay() > self.max_wait_with_body
            && hides_disconnect(&head)
        {
            let lines = refused_for_waits(verdict.lines(), self.max_wait_with_body);
            let decided_at = verdict.decided_at();
            verdict.cancel();
            turns.into_iter().for_each(Turns::give_back);
            return Some(self.refuse(head, &lines, generation, decided_at, None));
        }
        if !verdict.is_admitted() {
            turns.into_iter().for_each(Turns::give_back);
            let note = aside.map(|aside| aside.note);
            return Some(self.refuse(head, verdict.lines(), generation, verdict.decided_at(), note));
        }
        self.report(head, verdict.lines(), generation);
        let mut admitted = self.admit(verdict, generation, is_ready, turns);
        admitted.headers.exposed = generation.http.is_of_page(head);
        Some(Decided::Admitted(admitted))
    }

    /// Lets a browser ask whether its page may send a request, unless a rule blocks the client: by
    /// a look, so that it is charged nothing, and no limit refuses it.
    #[cold]
    fn decide_preflight(
        &self,
        head: RequestHead<'_>,
        looked: &FileVerdict<'_>,
        generation: &Generation,
    ) -> Decided {
        let blocks = |line: &&Line| matches!(line.ruling, Ruling::Blocked | Ruling::NoKey);
        let blocking: Vec<Line> = looked.lines().iter().filter(blocks).copied().collect();
        if blocking.iter().any(|line| !line.is_shadow) {
            return self.refuse(head, &blocking, generation, looked.decided_at(), None);
        }
        let (headers, charges) = (ResponseHeaders::default(), Charges::default());
        Decided::Admitted(Admitted { headers, charges, departure: None })
    }

    #[inline]
    fn admit(
        &self,
        verdict: FileVerdict<'_>,
        generation: &Arc<Generation>,
        is_ready: bool,
        claimed: Option<Turns>,
    ) -> Admitted {
        let decided_at = verdict.decided_at();
        let headers = generation.http.headers(verdict.lines(), decided_at, &self.unix_zero);
        let (mut turns, mut departure) = (None, None);
        if claimed.is_some() || !verdict.delay().is_zero() {
            let mut held = claimed.unwrap_or_else(|| Turns::none(generation));
            held.add_charged(&verdict);
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
        let may_give_back = !is_ready
            || self.gives_back_unserved
            || self.cost_from.is_some()
            || departure.is_some()
            || turns.is_some()
            || verdict.lines().iter().any(|line| generation.http.awaits_response(line));
        let ticket = may_give_back.then(|| verdict.ticket());
        let charges = Charges::new(ticket, turns, self.cost_from.clone(), self.gives_back_unserved);
        let headers = ResponseHeaders::new(headers, decided_at, &self.response_clock);
        Admitted { headers, charges, departure }
    }

    /// Reports a request that some of these lines refuse, and makes the response.
    #[inline(never)]
    fn refuse(
        &self,
        head: RequestHead<'_>,
        lines: &[Line],
        generation: &Generation,
        decided_at: Timestamp,
        note: Option<Extensions>,
    ) -> Decided {
        self.report(head, lines, generation);
        let Some(refusal) = generation.http.refusal(lines) else {
            unreachable!("a request is refused by a line")
        };
        if let Some(on_limited) = &self.hooks.on_limited {
            on_limited(&refusal.describe(head));
        }
        let mut response = refusal.respond_in_protocol(head, decided_at, &self.unix_zero);
        response.extensions_mut().extend(note.unwrap_or_default());
        Decided::Refused(Box::new(response))
    }
}

/// Returns lines that admit a request as lines that refuse it where it would wait too long.
#[cold]
fn refused_for_waits(lines: &[Line], max_wait: Duration) -> Vec<Line> {
    let mut lines = lines.to_vec();
    for line in lines.iter_mut().filter(|line| !line.is_shadow && line.delay > max_wait) {
        (line.ruling, line.remaining) = (Ruling::Refused, 0);
        line.retry_after = Some(line.delay - max_wait);
    }
    lines
}

impl Departure {
    /// Returns when the request departs, which has these turns.
    pub(super) fn at(&self, turns: Option<&Turns>) -> Timestamp {
        turns.and_then(Turns::last).map_or(self.fixed, |last| last.max(self.fixed))
    }

    /// Counts the request as one that waits.
    pub(super) fn begin(&self) {
        self.generation.telemetry(&self.line).begin_wait();
    }

    /// The request departs.
    pub(super) fn depart(&self, state: &FileState) {
        let waited = state.clock.now().saturating_since(self.since);
        self.generation.telemetry(&self.line).report_wait(waited);
    }

    /// The request does not wait any more: it departs, or its client left.
    pub(super) fn end(&self) {
        self.generation.telemetry(&self.line).end_wait();
    }
}
