//! The tests that stand in a rules file.

use tollgate_rules_file::run_tests;

use crate::rules;

const EACH: &str = "[[rule]]\nname = 'each'\nkey = 'client'\nlimits = '10/s,burst=20'\n";

fn failures(text: &str) -> Vec<String> {
    run_tests(&rules(text)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_test_that_expects_too_much_fails_with_its_step() {
    let text = format!(
        "{EACH}[[test]]\nname = 'right'\nsteps = [{{ client = '203.0.113.9', times = 20, expect = 'admitted' }}]\n\
         [[test]]\nname = 'wrong'\nsteps = [{{ client = '203.0.113.9', expect = 'admitted' }},\n\
         {{ client = '203.0.113.9', times = 21, expect = 'admitted' }}]"
    );
    let expected = "test `wrong`, step 2, request 20: expected admitted, \
        got refused by `each`, retry_after 100ms, asked `each`";
    assert_eq!(failures(&text), [expected]);
}

#[test]
fn each_expectation_is_compared() {
    let step = |expect: &str| {
        failures(&format!(
            "{EACH}[[test]]\nname = 't'\nsteps = [{{ client = '203.0.113.9', times = 20 }},\n\
             {{ client = '203.0.113.9', expect = {expect} }}]"
        ))
        .is_empty()
    };
    for right in [
        "'refused'",
        "{ refused_by = 'each' }",
        "{ retry_after = '100ms' }",
        "{ asked = ['each'] }",
        "{ outcome = 'refused', refused_by = 'each', retry_after = '0.1s', asked = ['each'] }",
    ] {
        assert!(step(right), "{right}");
    }
    for wrong in [
        "'admitted'",
        "'never'",
        "{ retry_after = '101ms' }",
        "{ asked = [] }",
        "{ delay = '1s' }",
        "{ outcome = 'refused', retry_after = '1s' }",
    ] {
        assert!(!step(wrong), "{wrong}");
    }
}

#[test]
fn a_tests_clock_begins_where_the_test_says() {
    let text = "[[rule]]\nname = 'daily'\nkey = 'client'\nlimits = 'fixed-window:1/d'\n\
        [[test]]\nname = 'midnight'\nat = 2026-03-01T23:59:59Z\nsteps = [\n\
        { client = '203.0.113.9', expect = 'admitted' },\n\
        { client = '203.0.113.9', expect = { retry_after = '1s' } },\n\
        { at = '1s', client = '203.0.113.9', expect = 'admitted' }]";
    assert_eq!(failures(text), [""; 0]);
}

#[test]
fn a_tests_status_gives_back_what_is_not_charged() {
    let text = "[[rule]]\nname = 'failed'\nkey = 'client'\nlimits = 'fixed-window:1/d'\ncharge_if.status = [401]\n\
        [[test]]\nname = 't'\nsteps = [{ client = '203.0.113.9', times = 5, expect = 'admitted' },\n\
        { client = '203.0.113.9', status = 401, expect = 'admitted' },\n\
        { client = '203.0.113.9', expect = 'refused' }]";
    assert_eq!(failures(text), [""; 0]);
}

#[test]
fn a_tests_cost_counts_where_no_rule_says_one() {
    let text = "[[rule]]\nname = 'open'\nkey = 'client'\nlimits = '10/s'\n\
        [[rule]]\nname = 'own'\nkey = 'client'\nlimits = '10/s'\ncost = 2\n\
        [[test]]\nname = 't'\nsteps = [{ client = '203.0.113.9', cost = 11, expect = 'never' },\n\
        { client = '203.0.113.9', cost = 10, expect = 'admitted' },\n\
        { client = '203.0.113.9', expect = { refused_by = 'open' } }]";
    assert_eq!(failures(text), [""; 0]);
}

/// A rule that charges failed log-ins, and a test with these steps.
fn of_log_ins(limits: &str, steps: &str) -> String {
    format!(
        "[[rule]]\nname = 'failed'\nkey = 'client'\nlimits = '{limits}'\ncharge_if.status = [401]\n\
         [[test]]\nname = 't'\nsteps = [{steps}]"
    )
}

#[test]
fn a_step_that_lasts_holds_its_charge_until_its_end() {
    // Thirty at once of which none fails: three pass. All come back when they end, at the instant
    // of the third step at the latest.
    let steps = "{ client = '203.0.113.9', times = 3, lasts = '2s', expect = 'admitted' },\
        { client = '203.0.113.9', times = 27, lasts = '2s', expect = 'refused' },\
        { at = '1999ms', client = '203.0.113.9', expect = 'refused' },\
        { at = '2s', client = '203.0.113.9', times = 3, lasts = '1s', expect = 'admitted' },\
        { at = '2s', client = '203.0.113.9', expect = 'refused' },\
        { at = '2s', client = '203.0.113.8', times = 30, expect = 'admitted' }";
    for limits in ["fixed-window:3/h", "sliding-window:3/h", "sliding-window:3/h,subwindows=6"] {
        assert_eq!(failures(&of_log_ins(limits, steps)), [""; 0], "{limits}");
    }
}

#[test]
fn ends_are_played_in_their_order() {
    // The second ends first, and fails; of the first nothing stays.
    let steps = "{ client = '203.0.113.9', lasts = '3s', expect = 'admitted' },\
        { at = '1s', client = '203.0.113.9', lasts = '1s', status = 401, expect = 'admitted' },\
        { at = '2s', client = '203.0.113.9', expect = 'refused' },\
        { at = '3s', client = '203.0.113.9', lasts = '1min', expect = 'admitted' },\
        { at = '3s', client = '203.0.113.9', expect = 'refused' }";
    assert_eq!(failures(&of_log_ins("fixed-window:2/h", steps)), [""; 0]);
}

#[test]
fn a_lost_step_stays_charged() {
    let steps = "{ client = '203.0.113.9', status = 'lost', expect = 'admitted' },\
        { client = '203.0.113.9', status = 'lost', lasts = '1s', expect = 'admitted' },\
        { at = '1min', client = '203.0.113.9', expect = 'refused' }";
    assert_eq!(failures(&of_log_ins("fixed-window:2/h", steps)), [""; 0]);
}

#[test]
fn a_step_in_flight_leaves_its_place_when_it_ends() {
    let text = "[[rule]]\nname = 'exports'\nkey = 'client'\nlimits = 'in-flight:2'\n\
        [[test]]\nname = 't'\nsteps = [\
        { client = '203.0.113.9', times = 5, expect = 'admitted' },\
        { client = '203.0.113.9', times = 2, lasts = '5s', status = 'lost', expect = 'admitted' },\
        { at = '4s', client = '203.0.113.9', expect = 'refused' },\
        { at = '5s', client = '203.0.113.9', expect = 'admitted' }]";
    assert_eq!(failures(text), [""; 0]);
}

#[test]
fn what_a_step_really_cost_is_settled_at_its_end() {
    let text = "[[rule]]\nname = 'tokens'\nkey = 'client'\nlimits = 'fixed-window:10000/h'\n\
        cost = { from = 'label.tokens', default = 4000 }\n\
        [[test]]\nname = 't'\nsteps = [\
        { client = '203.0.113.9', times = 2, lasts = '10s', settles = 500, expect = 'admitted' },\
        { at = '9s', client = '203.0.113.9', settles = 500, expect = 'refused' },\
        { at = '10s', client = '203.0.113.9', times = 6, settles = 1000, expect = 'admitted' },\
        { at = '10s', client = '203.0.113.9', expect = 'refused' },\
        { at = '10s', client = '203.0.113.9', labels = { tokens = '3000' }, settles = 20000, expect = 'admitted' },\
        { at = '10s', client = '203.0.113.9', labels = { tokens = '1' }, expect = 'refused' }]";
    assert_eq!(failures(text), [""; 0]);
}

#[test]
fn a_test_keeps_a_bounded_number_of_requests() {
    let steps = "{ client = '203.0.113.9', times = 262145, lasts = '1s' }";
    let [failure] = &failures(&of_log_ins("fixed-window:1000000/h", steps))[..] else { panic!("it fails") };
    assert_eq!(
        failure,
        "test `t`, step 1, request 262145: expected fewer requests under way, got more than 262144"
    );
}
