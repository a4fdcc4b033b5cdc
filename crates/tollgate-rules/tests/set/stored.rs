//! Rules whose counts a store keeps, with a store that this test plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{ManualClock, Outcome};
use tollgate_rules::{
    Ask, ExchangeError, LiveRules, PlainRequest, RuleSet, Rules, Ruling, Scratch, StoreReply, StoredAnswer,
    StoredAsk, StoredCharge,
};
use tollgate_rules_file::{Memory, read};

/// What all charges of a test did.
#[derive(Default)]
struct Book {
    given_back: AtomicU64,
    settled_at: AtomicU64,
}

struct Charge(Arc<Book>);

impl StoredCharge for Charge {
    fn give_back(self: Box<Self>) {
        self.0.given_back.fetch_add(1, Relaxed);
    }

    fn settle(&mut self, cost: u64) -> u64 {
        self.0.settled_at.store(cost, Relaxed);
        cost
    }
}

const STORED: &str = "{ name = 'stored', key = 'client', limits = '10/h', store = 'redis://h' }";
const LOCAL: &str = "{ name = 'local', key = 'everyone', limits = '2/h,burst=2' }";

fn rules(text: &str) -> Rules {
    let text = format!("version = 1\nrule = [{text}]");
    let reading = read("rules.toml", &Memory::new("rules.toml", text));
    reading.into_rules().unwrap_or_else(|reading| panic!("{reading}"))
}

fn set(text: &str) -> RuleSet<ManualClock> {
    RuleSet::new(rules(text), ManualClock::new()).unwrap()
}

fn client(last: u8) -> PlainRequest {
    PlainRequest { client: Some([203, 0, 113, last].into()), ..PlainRequest::default() }
}

/// The store's answer to an ask, with a charge if it admits.
fn answer(book: &Arc<Book>, ask: StoredAsk, outcome: Outcome) -> StoredAnswer {
    let retry_after = (outcome == Outcome::Denied).then_some(Duration::from_secs(9));
    let said = StoreReply::new(outcome, 10, 4, Duration::from_secs(60));
    let said = StoreReply { number: Some(0), retry_after, ..said };
    let charge = || Box::new(Charge(Arc::clone(book))) as Box<dyn StoredCharge>;
    ask.answer(said, (outcome == Outcome::Allowed).then(charge))
}

/// What a request asks of stores, and the answers that they give.
fn asked(
    set: &RuleSet<ManualClock>,
    request: &PlainRequest,
    book: &Arc<Book>,
    outcome: Outcome,
) -> Vec<StoredAnswer> {
    let mut scratch = Scratch::default();
    let asks = set.check(request, &mut scratch).unasked();
    asks.into_iter().map(|ask| answer(book, ask, outcome)).collect()
}

fn given_back(book: &Book) -> u64 {
    book.given_back.load(Relaxed)
}

#[test]
fn a_rule_with_a_store_refuses_until_it_is_asked() {
    let set = set(&[STORED, LOCAL].join(", "));
    let mut scratch = Scratch::default();
    let verdict = set.check(&client(1), &mut scratch);
    assert_eq!((verdict.outcome(), verdict.unasked().len()), (Ruling::Unavailable, 1));
    assert_eq!(verdict.refused_by().map(|rule| &*rule.name), Some("stored"));
    drop(verdict);
    // Nothing was charged.
    let book = Arc::new(Book::default());
    for left in [1, 0] {
        let mut answers = asked(&set, &client(1), &book, Outcome::Allowed);
        let verdict = set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
        assert_eq!((verdict.outcome(), verdict.unasked().len()), (Ruling::Admitted, 0));
        let numbers: Vec<_> = verdict.lines().iter().map(|line| line.remaining).collect();
        assert_eq!(numbers, [4, left]);
    }
    // A local rule refuses: no store is asked.
    let verdict = set.check(&client(1), &mut scratch);
    assert_eq!((verdict.outcome(), verdict.unasked().len()), (Ruling::Refused, 0));
    drop(verdict);
    assert_eq!(given_back(&book), 0);
}

#[test]
fn a_shadow_rules_store_is_asked_before_anything_is_charged() {
    let shadow = STORED.replace(" }", ", mode = 'shadow' }");
    let set = set(&[&shadow, LOCAL].join(", "));
    let (book, mut scratch) = (Arc::new(Book::default()), Scratch::default());
    let verdict = set.check(&client(1), &mut scratch);
    assert_eq!((verdict.is_admitted(), verdict.unasked().len()), (false, 1));
    drop(verdict);
    let mut answers = asked(&set, &client(1), &book, Outcome::Denied);
    let verdict = set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
    assert!(verdict.is_admitted());
    let lines: Vec<_> = verdict.lines().iter().map(|line| (line.ruling, line.remaining)).collect();
    assert_eq!(lines, [(Ruling::Refused, 4), (Ruling::Admitted, 1)]);
}

#[test]
fn a_store_that_failed_refuses_for_the_time_it_says() {
    let set = set(&[STORED, LOCAL].join(", "));
    let mut scratch = Scratch::default();
    let mut asks = set.check(&client(1), &mut scratch).unasked();
    let mut answers = vec![asks.remove(0).unavailable(Duration::from_secs(3))];
    let verdict = set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
    assert_eq!((verdict.outcome(), verdict.unasked().len()), (Ruling::Unavailable, 0));
    assert_eq!(verdict.retry_after(), Some(Duration::from_secs(3)));
    // The local limit was not charged.
    let left: Vec<_> = verdict.lines().iter().map(|line| line.remaining).collect();
    assert_eq!(left, [0, 2]);
}

#[test]
fn a_pending_answer_says_nothing_of_a_shadow_rule() {
    let set = set(&[&STORED.replace(" }", ", mode = 'shadow' }"), LOCAL].join(", "));
    let (book, mut scratch) = (Arc::new(Book::default()), Scratch::default());
    let mut asks = set.check(&client(1), &mut scratch).unasked();
    let mut answers = vec![asks.remove(0).pending(Some(Box::new(Charge(Arc::clone(&book)))))];
    let verdict = set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
    let pending: Vec<_> = verdict.lines().iter().map(|line| line.is_pending).collect();
    assert_eq!((verdict.is_admitted(), pending), (true, vec![true, false]));
    // The charge stays for the ticket.
    drop(verdict);
    assert_eq!(given_back(&book), 0);
}

#[test]
fn an_answer_decides_its_own_request_only() {
    let (first, other) = (set(STORED), set(STORED));
    let (book, mut scratch) = (Arc::new(Book::default()), Scratch::default());
    let cost = Ask { cost: 2, ..Ask::default() };
    let peek = Ask { is_peek: true, ..Ask::default() };
    for (set, request, ask) in [
        (&first, client(2), Ask::default()),
        (&first, client(1), cost),
        (&first, client(1), peek),
        (&other, client(1), Ask::default()),
    ] {
        let before = given_back(&book);
        let mut answers = asked(&first, &client(1), &book, Outcome::Allowed);
        let verdict = set.ask_answered(&request, ask, &mut answers, &mut scratch);
        assert_eq!((verdict.outcome(), verdict.unasked().len()), (Ruling::Unavailable, 1));
        drop(verdict);
        assert_eq!(given_back(&book), before + 1, "the charge is of no use");
    }
}

#[test]
fn a_refusal_gives_back_what_stores_charged() {
    let second = STORED.replace("'stored'", "'second'");
    let set = set(&[STORED, &second, LOCAL].join(", "));
    let (book, mut scratch) = (Arc::new(Book::default()), Scratch::default());
    let asks = set.check(&client(1), &mut scratch).unasked();
    let outcomes = [Outcome::Allowed, Outcome::Denied];
    let mut answers: Vec<_> =
        asks.into_iter().zip(outcomes).map(|(ask, outcome)| answer(&book, ask, outcome)).collect();
    let verdict = set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
    assert_eq!(verdict.refused_by().map(|rule| &*rule.name), Some("second"));
    assert_eq!(verdict.retry_after(), Some(Duration::from_secs(9)));
    // As they are without the request.
    let left: Vec<_> = verdict.lines().iter().map(|line| line.remaining).collect();
    assert_eq!((left, given_back(&book)), (vec![5, 4, 2], 1));
    drop(verdict);

    // Another request takes the local limit while the stores are asked.
    let mut answers = asked(&set, &client(1), &book, Outcome::Allowed);
    for _ in 0..2 {
        let mut others = asked(&set, &client(2), &book, Outcome::Allowed);
        assert!(set.ask_answered(&client(2), Ask::default(), &mut others, &mut scratch).is_admitted());
    }
    let verdict = set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
    assert_eq!(verdict.refused_by().map(|rule| &*rule.name), Some("local"));
    assert_eq!(given_back(&book), 3);
}

#[test]
fn a_ticket_gives_back_to_the_store_once() {
    let rule = STORED.replace(" }", ", charge_if.status = [401], cost.from = 'label.cost' }");
    let set = set(&rule);
    let (book, mut scratch) = (Arc::new(Book::default()), Scratch::default());
    let mut verdict = || {
        let mut answers = asked(&set, &client(1), &book, Outcome::Allowed);
        set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch).ticket()
    };
    let mut ticket = verdict();
    assert!(!ticket.is_empty() && ticket.has_costs());
    assert_eq!((ticket.settle_cost(7), book.settled_at.load(Relaxed)), (7, 7));
    ticket.settle(401);
    assert!(ticket.is_empty());
    drop(ticket);
    assert_eq!(given_back(&book), 0);
    let mut ticket = verdict();
    ticket.settle(200);
    ticket.cancel();
    assert_eq!(given_back(&book), 1);
    verdict().cancel();
    assert_eq!(given_back(&book), 2);
    drop(verdict());
    assert_eq!(given_back(&book), 2, "a ticket that is dropped keeps the charge");
}

#[test]
fn a_verdict_settles_and_cancels_in_the_store() {
    let set = set(&STORED.replace(" }", ", charge_if.status = [401] }"));
    let (book, mut scratch) = (Arc::new(Book::default()), Scratch::default());
    for (status, expected) in [(Some(401), 0), (Some(200), 1), (None, 2)] {
        let mut answers = asked(&set, &client(1), &book, Outcome::Allowed);
        let mut verdict = set.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
        match status {
            Some(status) => verdict.settle(status),
            None => verdict.cancel(),
        }
        assert_eq!(given_back(&book), expected, "{status:?}");
    }
}

#[test]
fn an_answer_to_old_rules_is_given_back() {
    let live = LiveRules::new(rules(STORED), [0; 32], ManualClock::new()).unwrap();
    let (mut handle, mut scratch) = (live.handle(), Scratch::default());
    let book = Arc::new(Book::default());
    let mut answers = asked(&live.rules(), &client(1), &book, Outcome::Allowed);
    live.exchange(rules(&STORED.replace("10/h", "20/h")), [1; 32]).unwrap();
    let verdict = handle.ask_answered(&client(1), Ask::default(), &mut answers, &mut scratch);
    assert_eq!((verdict.unasked().len(), given_back(&book)), (1, 1));
}

#[test]
fn a_reload_to_another_store_is_a_conflict() {
    let local = STORED.replace(", store = 'redis://h'", "");
    let texts = [local, STORED.to_owned(), STORED.replace("//h", "//other")];
    for (from, old) in texts.iter().enumerate() {
        for (to, new) in texts.iter().enumerate() {
            let live = LiveRules::new(rules(old), [0; 32], ManualClock::new()).unwrap();
            let done = live.exchange(rules(new), [1; 32]);
            assert_eq!(done.is_ok(), from == to, "{old} {new}");
            if let Err(error) = done {
                assert!(matches!(error, ExchangeError::Forgets(_)), "{error}");
                let forget = new.replace(" }", ", forget = true }");
                live.exchange(rules(&forget), [2; 32]).unwrap();
            }
        }
    }
    // Another password is the same store.
    let live = LiveRules::new(rules(STORED), [0; 32], ManualClock::new()).unwrap();
    live.exchange(rules(&STORED.replace("//h", "//user:new@h")), [1; 32]).unwrap();
}
