//! The acceptance cases of the design.

use std::time::Duration;

use tollgate_rules::Ruling;

use crate::{Desk, SECOND, X, Y, from, get, header};

fn outcomes<const N: usize>(desk: &mut Desk, clients: [&str; N]) -> [Ruling; N] {
    clients.map(|client| desk.check(&from(client)).outcome())
}

const OK: Ruling = Ruling::Admitted;
const NO: Ruling = Ruling::Refused;

#[test]
fn the_21st_of_a_burst_waits_exactly() {
    let mut desk = Desk::new("rule = [{ name = 'r', key = 'client', limits = '10/s,burst=20' }]");
    assert!((0..20).all(|_| desk.check(&from(X)).is_admitted()));
    assert_eq!(desk.check(&from(X)).retry_after(), Some(SECOND / 10));
    desk.clock.advance(SECOND / 10 - Duration::from_nanos(1));
    assert_eq!(desk.check(&from(X)).outcome(), NO);
    desk.clock.advance(Duration::from_nanos(1));
    assert_eq!(desk.check(&from(X)).outcome(), OK);
}

#[test]
fn the_refused_second_was_charged_to_neither_rule() {
    let a = "{ name = 'a', key = 'everyone', limits = 'fixed-window:2/min' }";
    let b = "{ name = 'b', key = 'client', limits = 'fixed-window:1/min' }";
    for text in [format!("rule = [{a}, {b}]"), format!("rule = [{b}, {a}]")] {
        let mut desk = Desk::new(&text);
        let refused_by = [X, X, Y, "192.0.2.1"]
            .map(|client| desk.check(&from(client)).refused_by().map(|rule| rule.name.to_string()));
        assert_eq!(refused_by, [None, Some("b".into()), None, Some("a".into())]);
    }
}

#[test]
fn requests_without_a_key_share_one_allowance() {
    let mut desk = Desk::new("rule = [{ name = 'r', key = 'header.k', limits = 'fixed-window:1/min' }]");
    let headers: [&[&str]; 5] = [&[], &[], &["a"], &["b"], &["c", "d"]];
    let got = headers.map(|values| {
        let mut request = get("/");
        request.headers = values.iter().map(|value| header("k", value)).collect();
        desk.check(&request).outcome()
    });
    assert_eq!(got, [OK, NO, OK, OK, NO]);
}

#[test]
fn a_request_without_a_key_may_be_refused() {
    let mut desk = Desk::new(
        "rule = [{ name = 'r', key = 'header.k', missing = 'refuse', limits = '1/min' },\
         { name = 's', key = 'everyone', limits = '5/min' }]",
    );
    let verdict = desk.check(&get("/"));
    assert_eq!((verdict.outcome(), verdict.retry_after()), (Ruling::NoKey, None));
    assert_eq!(verdict.lines()[1].remaining, 5);
}

#[test]
fn addresses_of_one_network_share() {
    let mut desk = Desk::new("rule = [{ name = 'r', key = 'client', limits = '1/min' }]");
    let clients = ["2001:db8::1", "2001:db8::ffff", "::ffff:203.0.113.9", X];
    assert_eq!(outcomes(&mut desk, clients), [OK, NO, OK, NO]);
}

#[test]
fn the_office_replaces_a_block() {
    let mut desk = Desk::new(
        "rule = [{ name = 'office', match.client = '192.0.2.0/24', key = 'everyone', limits = 'unlimited', \
         replaces = ['*'] },\
         { name = 'banned', match.client = ['203.0.113.9', '192.0.2.7'], key = 'everyone', limits = 'block' },\
         { name = 'each', key = 'client', limits = '1/min' }]",
    );
    let verdict = desk.check(&from(X));
    assert_eq!(verdict.outcome(), Ruling::Blocked);
    assert_eq!(verdict.refused_by().map(|rule| &*rule.name), Some("banned"));
    assert_eq!(verdict.lines()[1].remaining, 1, "a blocked request is charged to none");
    drop(verdict);
    for _ in 0..3 {
        let verdict = desk.check(&from("192.0.2.7"));
        assert_eq!((verdict.outcome(), verdict.lines().len()), (OK, 1));
        assert_eq!(verdict.lines()[0].limit, u64::MAX);
    }
}

#[test]
fn a_cost_above_the_limit_is_never_admitted() {
    let mut desk = Desk::new(
        "rule = [{ name = 'r', key = 'client', limits = '10/s,burst=20', cost = { from = 'label.n' } },\
         { name = 's', key = 'client', limits = 'fixed-window:9/min,count=all' }]",
    );
    let costs = |desk: &mut Desk, cost: &str| {
        let mut request = from(X);
        request.labels = vec![header("n", cost)];
        let verdict = desk.check(&request);
        (verdict.outcome(), verdict.retry_after())
    };
    assert_eq!(costs(&mut desk, "30"), (Ruling::Never, None));
    let look = tollgate_rules::PlainRequest { labels: vec![header("n", "0")], ..from(X) };
    assert_eq!(desk.left(&look), [20, 9]);
    assert_eq!(costs(&mut desk, "20"), (OK, None));
}

#[test]
fn a_cost_that_is_no_number_is_the_default() {
    let text = "rule = [{ name = 'r', key = 'client', limits = 'fixed-window:10/min', \
        cost = { from = 'label.n', default = 3 } }]";
    let mut desk = Desk::new(text);
    let got = [Some("4"), None, Some("x"), Some("1")].map(|n| {
        let mut request = from(X);
        request.labels = n.iter().map(|n| header("n", n)).collect();
        let verdict = desk.check(&request);
        (verdict.outcome(), verdict.lines()[0].remaining)
    });
    assert_eq!(got, [(OK, 6), (OK, 3), (OK, 0), (NO, 0)]);
}

#[test]
fn a_shadow_refusal_is_told_to_no_client() {
    let mut desk = Desk::new(
        "rule = [{ name = 'lower', key = 'client', limits = 'fixed-window:1/min', mode = 'shadow' },\
         { name = 'r', key = 'client', limits = 'fixed-window:3/min' }]",
    );
    let got = [(); 4].map(|()| {
        let verdict = desk.check(&from(X));
        let refused_by = verdict.refused_by().map(|rule| rule.name.to_string());
        (verdict.outcome(), refused_by, verdict.lines()[0].ruling)
    });
    let r = Some("r".to_string());
    assert_eq!(got, [(OK, None, OK), (OK, None, NO), (OK, None, NO), (NO, r, NO)]);
}

#[test]
fn a_shadow_rule_is_charged_whatever_the_others_say() {
    let mut desk = Desk::new(
        "rule = [{ name = 'higher', key = 'client', limits = 'fixed-window:3/min', mode = 'shadow' },\
         { name = 'r', key = 'client', limits = 'fixed-window:1/min' }]",
    );
    let higher = [(); 4].map(|()| desk.check(&from(X)).lines()[0].ruling);
    assert_eq!(higher, [OK, OK, OK, NO]);
}

#[test]
fn a_status_that_is_not_charged_gives_back() {
    let text = "rule = [{ name = 'r', key = 'client', limits = 'fixed-window:2/min', charge_if.status = [401] },\
        { name = 'all', key = 'everyone', limits = 'fixed-window:100/min' }]";
    let mut desk = Desk::new(text);
    for status in [200, 401, 200, 401] {
        let verdict = desk.check(&from(X));
        assert!(verdict.is_admitted());
        verdict.ticket().settle(status);
    }
    assert_eq!(desk.check(&from(X)).outcome(), NO);
    assert_eq!(desk.left(&from(X)), [0, 96]);

    // The same at once, and a ticket that is dropped stays charged.
    let mut desk = Desk::new(text);
    desk.check(&from(X)).settle(200);
    drop(desk.check(&from(X)).ticket());
    assert_eq!(desk.left(&from(X)), [1, 98]);
    desk.check(&from(X)).ticket().cancel();
    assert_eq!(desk.left(&from(X)), [1, 98]);
}

#[test]
fn requests_at_once_cannot_pass_what_failures_are_charged() {
    let mut desk = Desk::new(
        "rule = [{ name = 'r', key = 'client', limits = 'fixed-window:2/min', charge_if.status = [401] }]",
    );
    let first = desk.check(&from(X)).ticket();
    let second = desk.check(&from(X)).ticket();
    assert_eq!(desk.check(&from(X)).outcome(), NO, "two may still fail");
    for mut ticket in [first, second] {
        ticket.settle(200);
    }
    assert_eq!(desk.check(&from(X)).outcome(), OK);
}

#[test]
fn a_ban_lasts_from_the_first_refusal() {
    let mut desk =
        Desk::new("rule = [{ name = 'r', key = 'client', limits = 'fixed-window:1/s', ban = '10min' }]");
    let got = [0.0, 0.5, 1.0, 599.0, 600.5].map(|seconds| {
        desk.at(seconds);
        let verdict = desk.check(&from(X));
        (verdict.outcome(), verdict.retry_after().map(|wait| wait.as_secs_f64()))
    });
    assert_eq!(got, [(OK, None), (NO, Some(600.0)), (NO, Some(599.5)), (NO, Some(1.5)), (OK, None)]);
}

#[test]
fn a_banned_key_is_charged_to_no_other_rule() {
    let mut desk = Desk::new(
        "rule = [{ name = 'r', key = 'client', limits = 'fixed-window:1/s', ban = '10min' },\
         { name = 'all', key = 'everyone', limits = 'fixed-window:10/h' }]",
    );
    assert_eq!(outcomes(&mut desk, [X, X]), [OK, NO]);
    desk.at(5.0);
    assert_eq!(outcomes(&mut desk, [X, Y]), [NO, OK]);
    assert_eq!(desk.left(&from(Y)), [0, 8]);
}

#[test]
fn places_in_flight_come_back_by_ticket_or_by_time() {
    let mut desk = Desk::new("rule = [{ name = 'r', key = 'client', limits = 'in-flight:2,ttl=10min' }]");
    let first = desk.check(&from(X)).ticket();
    let _second = desk.check(&from(X)).ticket();
    let verdict = desk.check(&from(X));
    assert_eq!((verdict.outcome(), verdict.retry_after()), (NO, None));
    assert!(verdict.ticket().is_empty());
    drop(first);
    let _third = desk.check(&from(X)).ticket();
    assert_eq!(desk.check(&from(X)).outcome(), NO);
    desk.at(600.0);
    assert_eq!(desk.left(&from(X)), [2]);
    let both = [(); 2].map(|()| desk.check(&from(X)).ticket());
    assert_eq!(desk.check(&from(X)).outcome(), NO);
    drop(both);
    assert_eq!(desk.left(&from(X)), [2]);
}

#[test]
fn a_place_in_flight_is_given_back_with_its_verdict() {
    let mut desk = Desk::new("rule = [{ name = 'r', key = 'client', limits = ['in-flight:1', '2/min'] }]");
    assert!(desk.check(&from(X)).is_admitted());
    let held = desk.check(&from(X)).ticket();
    assert_eq!(desk.check(&from(X)).outcome(), NO);
    drop(held);
    let verdict = desk.check(&from(X));
    assert_eq!((verdict.outcome(), verdict.retry_after()), (NO, Some(30 * SECOND)));
    drop(verdict);
    assert_eq!(desk.left(&from(X)), [0]);
}

#[test]
fn a_queue_says_how_long_and_refuses_longer() {
    let mut desk = Desk::new(
        "rule = [{ name = 'line', key = 'everyone', limits = 'leaky-bucket:1/s,capacity=30,mode=queue', \
         max_wait = '2s' }, { name = 'r', key = 'client', limits = '9/min' }]",
    );
    let delays = [(); 3].map(|()| desk.check(&from(X)).delay().as_secs());
    assert_eq!(delays, [0, 1, 2]);
    let verdict = desk.check(&from(X));
    assert_eq!((verdict.outcome(), verdict.retry_after()), (NO, Some(SECOND)));
    drop(verdict);
    assert_eq!(desk.left(&from(X))[1], 6);
    desk.at(1.0);
    assert_eq!(desk.check(&from(X)).delay(), 2 * SECOND);
}

#[test]
fn unmatched_requests_are_admitted_and_told() {
    let mut desk = Desk::new("rule = [{ name = 'r', match.path = '/a', key = 'client', limits = '1/min' }]");
    let verdict = desk.check(&get("/b"));
    assert!(verdict.is_admitted() && verdict.is_unmatched());
    drop(verdict);
    assert!(!desk.check(&get("/a")).is_unmatched());
}

#[test]
fn a_tier_has_its_own_state() {
    let mut desk = Desk::new(
        "[[rule]]\nname = 'plan'\nkey = 'client'\nlimits = 'fixed-window:1/d'\n\
         [[rule.tier]]\nname = 'pro'\nmatch.label.plan = 'pro'\nlimits = 'fixed-window:2/d'\n\
         [[rule.tier]]\nname = 'partner'\nmatch.label.plan = 'partner'\nlimits = 'unlimited'\n",
    );
    let mut ask = |plan: &str| {
        let request = tollgate_rules::PlainRequest { labels: vec![header("plan", plan)], ..from(X) };
        desk.check(&request).outcome()
    };
    assert_eq!(["free", "free"].map(&mut ask), [OK, NO]);
    assert_eq!(["pro", "pro", "pro"].map(&mut ask), [OK, OK, NO]);
    assert_eq!(["partner"; 5].map(&mut ask), [OK; 5]);
}
