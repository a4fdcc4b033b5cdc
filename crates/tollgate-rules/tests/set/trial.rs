//! The tests that stand in a rules file.

use tollgate_rules::run_tests;

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
