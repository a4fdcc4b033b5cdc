//! What a request really cost, told to its ticket.

use tollgate::{Limiter, ManualClock, Quota};
use tollgate_rules::{Ask, PlainRequest, RuleSet, Scratch};
use tollgate_testing::random::Random;

use crate::{Desk, SECOND, X, Y, from, header, rules};

/// A request of this client that is expected to cost so much.
fn of(client: &str, tokens: u64) -> PlainRequest {
    PlainRequest { labels: vec![header("tokens", &tokens.to_string())], ..from(client) }
}

#[test]
fn a_cost_told_late_is_refunded_or_debited() {
    let mut desk = Desk::new(
        "rule = [{ name = 'tokens', key = 'client', limits = '100/min', cost = { from = 'label.tokens' } },\
         { name = 'other', key = 'client', limits = 'fixed-window:50/min', cost = { from = 'label.tokens' } }]",
    );
    let mut ticket = desk.check(&of(X, 30)).ticket();
    assert_eq!(ticket.settle_cost(10), 10);
    assert_eq!(desk.left(&of(X, 0)), [90, 40]);
    assert_eq!(ticket.settle_cost(45), 45, "told again, it cost more after all");
    assert_eq!(desk.left(&of(X, 0)), [55, 5]);
    assert_eq!(ticket.settle_cost(20), 20);
    assert_eq!(desk.left(&of(X, 0)), [80, 30]);
    // Over the limit: later requests wait for it.
    assert_eq!(ticket.settle_cost(160), 160);
    assert_eq!(desk.check(&of(X, 1)).retry_after(), Some(60 * SECOND));
    desk.at(36.0);
    assert_eq!(desk.left(&of(X, 0)), [0, 0]);
    drop(ticket);
    desk.at(60.0);
    assert_eq!(desk.left(&of(X, 0)), [40, 50]);
    // And all of it comes back with the request.
    let mut ticket = desk.check(&of(Y, 5)).ticket();
    ticket.settle_cost(40);
    ticket.cancel();
    assert_eq!(desk.left(&of(Y, 0)), [100, 50]);
}

#[test]
fn a_cost_concerns_rules_that_do_not_know_it() {
    let mut desk = Desk::new(
        "rule = [{ name = 'tokens', key = 'client', limits = '100/min', cost = { from = 'label.tokens' } },\
         { name = 'requests', key = 'client', limits = '60/min' },\
         { name = 'fixed', key = 'client', limits = '50/min', cost = 2 },\
         { name = 'cases', key = 'client', limits = '40/min', cost = [{ is = 3 }] },\
         { name = 'shadow', key = 'client', limits = '30/min', cost = { from = 'label.tokens' }, \
           mode = 'shadow' },\
         { name = 'at-once', key = 'client', limits = 'in-flight:9', cost = { from = 'label.tokens' } }]",
    );
    let mut ticket = desk.check(&of(X, 4)).ticket();
    ticket.settle_cost(7);
    assert_eq!(desk.left(&of(X, 0)), [93, 59, 46, 34, 23, 5]);
    drop(ticket);
    // The caller named the cost of those that say none.
    let ask = Ask { cost: 5, ..Ask::default() };
    let mut ticket = desk.set.ask(&of(Y, 4), ask, &mut desk.scratch).ticket();
    ticket.settle_cost(3);
    assert_eq!(desk.left(&of(Y, 0)), [97, 57, 46, 34, 27, 5]);
    // A status settles all, and a refused request has nothing to settle but in shadow mode.
    ticket.settle(200);
    ticket.settle_cost(90);
    assert!(!ticket.is_empty());
    let mut refused = desk.check(&of(Y, 10)).ticket();
    refused.settle_cost(15);
    assert_eq!(desk.left(&of(Y, 0)), [97, 57, 46, 34, 12, 5]);
}

#[test]
fn a_request_that_looked_first_is_charged_in_the_end() {
    let text = "rule = [{ name = 'r', key = 'client', limits = 'fixed-window:10/min', \
        cost = { from = 'label.tokens' }, charge_if.status = [200] }]";
    let mut desk = Desk::new(text);
    let mut ticket = desk.check(&of(X, 0)).ticket();
    assert!(!ticket.is_empty());
    assert_eq!(ticket.settle_cost(12), 12);
    assert!(!desk.check(&of(X, 1)).is_admitted());
    ticket.settle(500);
    assert_eq!(desk.left(&of(X, 0)), [10]);
    assert!(desk.set.peek(&of(X, 0), &mut Scratch::default()).ticket().is_empty());
}

#[test]
fn limits_of_every_algorithm_settle_as_the_engine_does() {
    for limit in [
        "10/min",
        "token-bucket:10/min,burst=20",
        "leaky-bucket:10/min",
        "leaky-bucket:10/min,queue",
        "fixed-window:10/min",
        "fixed-window:10/min,count=all",
        "sliding-window:10/min",
        "sliding-window:10/min,subwindows=6",
        "sliding-log:10/min",
    ] {
        let cost = "cost = { from = 'label.tokens' }";
        let mut desk =
            Desk::new(&format!("rule = [{{ name = 'r', key = 'client', limits = '{limit}', {cost} }}]"));
        let quota: Quota = limit.parse().unwrap();
        let engine = Limiter::builder([quota]).per::<str>().clock(desk.clock.clone()).build().unwrap();
        let (random, mut settled) = (&mut Random::with_seed(7), 0);
        for _ in 0..300 {
            let (client, cost) = ([X, Y][random.usize(..2)], random.u64(..6));
            let mut ticket = desk.check(&of(client, cost)).ticket();
            let decision = engine.check_n(client, cost);
            if decision.is_allowed() {
                let mut receipt = decision.receipt();
                let real = random.u64(..9);
                let mut charged = real;
                if real > cost {
                    let key = engine.account(client);
                    let late = key.debit(real - cost).unwrap_or_else(|_| key.check_up_to(real - cost));
                    charged = cost + late.receipt().left();
                } else {
                    engine.refund_part(&mut receipt, cost - real);
                }
                assert_eq!(ticket.settle_cost(real), charged, "{limit}");
                settled += 1;
            } else {
                assert!(ticket.is_empty(), "{limit}");
            }
            for client in [X, Y] {
                let peek = engine.account(client).at(engine.now()).peek_n(0);
                let parts = peek.parts().map(|part| (part.remaining(), part.reset_after())).next();
                let verdict = desk.set.peek(&of(client, 0), &mut desk.scratch);
                let line = verdict.lines()[0];
                assert_eq!(Some((line.remaining, line.reset_after)), parts, "{limit}");
            }
            desk.clock.advance(SECOND * random.u64(..20) as u32);
        }
        assert!(settled > 60, "{limit}: {settled}");
    }
}

#[test]
fn tickets_of_many_threads_settle_to_what_was_told() {
    let text = "rule = [{ name = 'all', key = 'everyone', limits = 'fixed-window:1000000/d', \
        cost = { from = 'label.tokens' } },\
        { name = 'each', key = 'client', limits = '1000000/d', cost = { from = 'label.tokens' } }]";
    let set = RuleSet::new(rules(text), ManualClock::new()).unwrap();
    let told: u64 = std::thread::scope(|scope| {
        let one = |thread| {
            let set = &set;
            move || {
                let (mut random, mut scratch, mut told) = (Random::with_seed(thread), Scratch::default(), 0);
                for _ in 0..2_000 {
                    let mut ticket = set.check(&of(X, random.u64(..4)), &mut scratch).ticket();
                    ticket.settle_cost(random.u64(..9));
                    let last = random.u64(..9);
                    assert_eq!(ticket.settle_cost(last), last);
                    told += last;
                }
                told
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(one(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mut scratch = Scratch::default();
    let verdict = set.peek(&of(X, 0), &mut scratch);
    let [all, each] = verdict.lines() else { panic!("two rules") };
    assert_eq!(all.remaining, 1_000_000 - told);
    // Of a bucket that was debited, only the newest request can give back.
    assert!(each.remaining <= 1_000_000 - told, "{} of {told} spent", each.remaining);
}
