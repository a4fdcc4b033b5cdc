//! All or nothing.

use tollgate_rules::{Ask, Line, PlainRequest, Ruling, Scratch};

use crate::{Desk, SECOND, X, Y, from};

const THREE: &str = "rule = [\
    { name = 'all', key = 'everyone', limits = 'fixed-window:9/min' },\
    { name = 'line', key = 'everyone', limits = 'sliding-log:4/min' },\
    { name = 'each', key = 'client', limits = ['2/min', 'fixed-window:5/min'] }]";

#[test]
fn refused_by_one_rule_is_charged_to_none() {
    let mut desk = Desk::new(THREE);
    for _ in 0..2 {
        assert!(desk.check(&from(X)).is_admitted());
    }
    for _ in 0..3 {
        let verdict = desk.check(&from(X));
        assert_eq!(verdict.refused_by().map(|rule| &*rule.name), Some("each"));
        let left: Vec<u64> = verdict.lines().iter().map(|line| line.remaining).collect();
        assert_eq!(left, [7, 2, 0]);
    }
    assert_eq!(desk.left(&from(Y)), [7, 2, 2]);
    assert!((0..2).all(|_| desk.check(&from(Y)).is_admitted()));
    assert_eq!(desk.check(&from("192.0.2.1")).refused_by().map(|rule| &*rule.name), Some("line"));
    assert_eq!(desk.left(&from("192.0.2.1")), [5, 0, 2]);
}

#[test]
fn a_limit_counts_its_own_refusals_only() {
    let mut desk = Desk::new(
        "rule = [{ name = 'a', key = 'everyone', limits = 'fixed-window:3/min,count=all' },\
         { name = 'b', key = 'client', limits = 'fixed-window:1/min,count=all' }]",
    );
    assert!(desk.check(&from(X)).is_admitted());
    assert_eq!(desk.check(&from(X)).outcome(), Ruling::Refused);
    assert_eq!(desk.left(&from(X)), [2, 0], "`a` admitted it, and did not count it");
    let ask = Ask { cost: 3, ..Ask::default() };
    let set = &desk.set;
    assert_eq!(set.ask(&from(Y), ask, &mut Scratch::default()).outcome(), Ruling::Never);
    assert_eq!(desk.left(&from(Y)), [2, 1], "a request that no wait helps is counted by none");
}

#[test]
fn a_peek_writes_nothing_and_answers_as_a_check() {
    let mut desk = Desk::new(&THREE.replace("'2/min'", "'3/min'"));
    for client in [X, Y, X, X, Y, X] {
        let peeked = format!("{:?}", desk.set.peek(&from(client), &mut Scratch::default()));
        let again = format!("{:?}", desk.set.peek(&from(client), &mut Scratch::default()));
        assert_eq!(peeked, again);
        assert_eq!(peeked, format!("{:?}", desk.check(&from(client))));
    }
}

#[test]
fn a_cost_of_zero_looks() {
    let mut desk = Desk::new(THREE);
    assert_eq!(desk.left(&from(X)), [9, 4, 2]);
    assert_eq!(desk.left(&from(X)), [9, 4, 2]);
    let ask = Ask { cost: 2, ..Ask::default() };
    assert!(desk.set.ask(&from(X), ask, &mut Scratch::default()).is_admitted());
    assert_eq!(desk.left(&from(X)), [7, 2, 0]);
}

#[test]
fn a_cancelled_verdict_gives_all_back() {
    let mut desk = Desk::new(THREE);
    desk.check(&from(X)).cancel();
    assert_eq!(desk.left(&from(X)), [9, 4, 2]);
    desk.check(&from(X)).ticket().cancel();
    assert_eq!(desk.left(&from(X)), [9, 4, 2]);
}

#[test]
fn more_rules_than_are_prepared_decide_alike() {
    let rule =
        |n: usize| format!("{{ name = 'r{n}', key = 'client', limits = 'fixed-window:{}/min' }}", n + 2);
    let text = format!("rule = [{}]", (0..20).map(rule).collect::<Vec<_>>().join(", "));
    let mut desk = Desk::new(&text);
    assert!(desk.check(&from(X)).is_admitted() && desk.check(&from(X)).is_admitted());
    assert_eq!(desk.check(&from(X)).refused_by().map(|rule| &*rule.name), Some("r0"));
    let left: Vec<u64> = (0..20).collect();
    assert_eq!(desk.left(&from(X)), left);
}

#[test]
fn a_check_allocates_nothing_once_its_buffers_have_grown() {
    let mut desk = Desk::new(&format!(
        "{}, {{ name = 'at-once', key = 'client', limits = 'in-flight:5' }}]",
        THREE.strip_suffix(']').unwrap()
    ));
    let requests = [X, Y, "192.0.2.1"].map(from);
    let mut round = || requests.iter().filter(|request| desk.check(request).is_admitted()).count();
    assert!(round() + round() > 0);
    let info = allocation_counter::measure(|| {
        round();
    });
    assert_eq!(info.count_total, 0);
}

#[test]
fn lines_show_the_decision_however_late_they_are_asked() {
    let desk = Desk::new(
        "rule = [{ name = 'all', key = 'everyone', limits = 'fixed-window:9/min' },\
         { name = 'each', key = 'client', limits = '5/min' }]",
    );
    let remaining = |lines: &[Line]| [lines[0].remaining, lines[1].remaining];
    let mut scratches: [Scratch; 3] = Default::default();
    let [first, second, third] = &mut scratches;
    assert!(desk.set.check(&from(X), first).is_admitted()); // from here on the keys are known
    let mut early = desk.set.check(&from(X), second);
    let late = desk.set.check(&from(X), third);
    assert_eq!(remaining(early.lines()), [7, 3]);
    assert_eq!(remaining(late.lines()), [6, 2]);
    early.settle(200);
    assert_eq!(remaining(early.lines()), [7, 3]);
    late.cancel();
    assert_eq!(remaining(desk.set.peek(&from(X), first).lines()), [6, 2]);
    // A verdict that is settled before its lines are asked.
    let mut settled = desk.set.check(&from(X), third);
    settled.settle(200);
    assert_eq!(remaining(settled.lines()), [6, 2]);
    settled.cancel();
    assert_eq!(remaining(desk.set.peek(&from(X), first).lines()), [5, 1]);

    // One whose status gives back what it was charged.
    let mut desk =
        Desk::new("rule = [{ name = 'r', key = 'client', limits = '5/min', charge_if.status = [401] }]");
    assert!(desk.check(&from(X)).is_admitted());
    let mut settled = desk.check(&from(X));
    settled.settle(200);
    assert_eq!(settled.lines()[0].remaining, 3);
    drop(settled);
    assert_eq!(desk.check(&from(X)).lines()[0].remaining, 3);
}

#[test]
fn answers_are_the_lines_without_their_numbers() {
    let mut desk = Desk::new(
        "rule = [{ name = 'all', key = 'everyone', limits = '4/min' },\
         { name = 'each', key = 'client', limits = '2/min' },\
         { name = 'lower', key = 'client', limits = '1/min', mode = 'shadow', match.path = '/lower' }]",
    );
    let mut refusals = 0;
    for (client, target) in [(X, "/"), (X, "/"), (Y, "/lower"), (Y, "/lower"), (X, "/"), (Y, "/")] {
        let request = PlainRequest { target: Some(target.into()), ..from(client) };
        let verdict = desk.check(&request);
        let early: Vec<_> = verdict.answers().collect();
        let lines: Vec<_> =
            verdict.lines().iter().map(|line| (line.rule, line.ruling, line.is_shadow)).collect();
        let late: Vec<_> = verdict.answers().collect();
        assert_eq!(early, late);
        assert_eq!(early.iter().map(|one| (one.rule, one.ruling, one.is_shadow)).collect::<Vec<_>>(), lines);
        refusals += lines.iter().filter(|line| line.1 != Ruling::Admitted).count();
    }
    assert!(refusals > 2, "{refusals}");
}

#[test]
fn a_rule_alone_answers_as_beside_others() {
    for limits in ["5/min", "fixed-window:5/min", "7/h,burst=3"] {
        let rule = format!("{{ name = 'each', key = 'client', limits = '{limits}' }}");
        let mut alone = Desk::new(&format!("rule = [{rule}]"));
        // With a rule in shadow mode no request goes the short way.
        let other = "{ name = 'other', key = 'everyone', limits = '1/d', mode = 'shadow' }";
        let mut beside = Desk::new(&format!("rule = [{rule}, {other}]"));
        let mut outcomes = Vec::new();
        for (number, cost) in [1, 3, 9, 1, 0, 2, 1, 1, 5, 2, 0, 1].into_iter().enumerate() {
            let (client, seconds) = (from([X, Y][number % 3 / 2]), number as f64 * 4.3);
            let ask = Ask { cost, ..Ask::default() };
            alone.at(seconds);
            beside.at(seconds);
            let one = alone.set.ask(&client, ask, &mut alone.scratch);
            let two = beside.set.ask(&client, ask, &mut beside.scratch);
            let rulings: Vec<_> = one.answers().map(|answer| answer.ruling).collect();
            assert_eq!(rulings, [two.lines()[0].ruling]);
            assert_eq!((one.is_admitted(), one.outcome()), (two.is_admitted(), two.outcome()));
            assert_eq!((one.lines(), one.retry_after()), (&two.lines()[..1], two.retry_after()));
            assert_eq!(one.refused_by().is_none(), one.is_admitted());
            outcomes.push(one.outcome());
        }
        for outcome in [Ruling::Admitted, Ruling::Refused, Ruling::Never] {
            assert!(outcomes.contains(&outcome), "{limits}: {outcomes:?}");
        }
    }
}

#[test]
fn a_refusal_shows_its_decision_however_late_it_is_asked() {
    let desk = Desk::new("rule = [{ name = 'each', key = 'client', limits = 'fixed-window:1/min' }]");
    let mut scratches: [Scratch; 2] = Default::default();
    let [first, second] = &mut scratches;
    assert!(desk.set.check(&from(X), first).is_admitted());
    let late = desk.set.check(&from(X), first);
    assert!(desk.set.key(0, &from(X), second).unwrap().reset());
    assert!(!late.is_admitted());
    let [line] = late.lines() else { panic!("one rule") };
    assert_eq!((line.ruling, line.remaining), (Ruling::Refused, 0));
    assert_eq!(late.retry_after(), Some(60 * SECOND));
    drop(late);
    // The next request of the same buffers has its own answer.
    assert!(desk.set.check(&from(X), first).is_admitted());
}

#[test]
fn lines_that_are_asked_late_allocate_nothing() {
    let of = |limits| format!("{{ name = 'each', key = 'client', limits = {limits} }}");
    // A rule that is alone is decided another way, by one limit or several.
    let alone = [of("'50/min'"), of("['50/min', 'fixed-window:90/min']")];
    let beside = format!("{}, {{ name = 'all', key = 'everyone', limits = '60/min' }}", of("'50/min'"));
    for rules in alone.into_iter().chain([beside]) {
        let desk = Desk::new(&format!("rule = [{rules}]"));
        let (mut scratch, request) = (Scratch::default(), from(X));
        let mut round =
            || (0..8).map(|_| desk.set.check(&request, &mut scratch).lines()[0].remaining).sum::<u64>();
        assert!(round() > 0);
        let info = allocation_counter::measure(|| {
            round();
        });
        assert_eq!(info.count_total, 0, "{rules}");
    }
}

/// A rule that is alone, by two limits: all or nothing, and both come back.
#[test]
fn a_lone_rule_is_charged_to_all_of_its_limits() {
    let mut desk = Desk::new(
        "rule = [{ name = 'r', key = 'client', limits = ['5/min', 'fixed-window:3/h'], \
         charge_if.status = [401] }]",
    );
    let mut first = desk.check(&from(X));
    assert_eq!((first.lines()[0].limit, first.lines()[0].remaining), (3, 2), "what is left least");
    first.settle(200); // gives back
    drop(first);
    for left in [2, 1, 0] {
        let verdict = desk.check(&from(X));
        assert_eq!((verdict.is_admitted(), verdict.lines()[0].remaining), (true, left));
    }
    let refused = desk.check(&from(X));
    assert_eq!((refused.lines()[0].ruling, refused.lines()[0].limit), (Ruling::Refused, 3));
    drop(refused);
    let left: Vec<u64> = (0..5).map(|_| desk.check(&from(Y)).lines()[0].remaining).collect();
    assert_eq!(left, [2, 1, 0, 0, 0], "another client has limits of its own");
}

#[test]
fn a_held_turn_is_not_charged_and_all_else_is() {
    let mut desk = Desk::new(
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/s,capacity=3,mode=queue' },\
         { name = 'each', key = 'client', limits = 'fixed-window:5/min' }]",
    );
    let mut tickets: Vec<_> = (0..3).map(|_| desk.check(&from(X)).ticket()).collect();
    assert!(!desk.check(&from(X)).is_admitted(), "the queue is full");
    // The second leaves: its turn stays charged, because the third has a later one.
    let mut kept = Vec::new();
    tickets.remove(1).cancel_each(|line| kept.push(line));
    assert_eq!((kept, desk.left(&from(X))), (vec![0], vec![0, 3]));

    let held = Ask { held: 1, ..Ask::default() };
    for left in [2, 1, 0] {
        let verdict = desk.set.ask(&from(X), held, &mut desk.scratch);
        assert!(verdict.is_admitted() && verdict.delay().is_zero(), "{verdict:?}");
        assert_eq!(verdict.lines().iter().map(|line| line.remaining).collect::<Vec<_>>(), [0, left]);
    }
    let refused_by = desk.set.ask(&from(X), held, &mut desk.scratch).refused_by();
    assert_eq!(refused_by.map(|rule| &*rule.name), Some("each"));
    assert_eq!(desk.left(&from(X)), [0, 0]);
    // The last turn shortens the queue.
    tickets.remove(1).cancel_each(|line| panic!("nothing of line {line} came back"));
    assert_eq!(desk.left(&from(X)), [1, 1]);
}
