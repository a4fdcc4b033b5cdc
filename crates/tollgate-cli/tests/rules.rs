//! `tollgate rules`, as a user runs it.

mod support;

use serde_json::Value;
use support::{Temporary, tollgate};

const GOOD: &str = "version = 1\n[[rule]]\nname = \"all\"\nkey = \"client\"\nlimits = \"10/s\"\n";

#[test]
fn a_file_without_mistakes_can_be_used() {
    let file = Temporary::new("good.toml", GOOD.as_bytes());
    let run = tollgate(&["rules", "check", file.text(), "--strict"]);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert_eq!(run.out, format!("{}: 1 rule, no errors, no warnings\n", file.text()));
}

#[test]
fn all_mistakes_are_told_with_exit_code_two() {
    let text = GOOD.replace("key", "kye").replace("10/s", "10/month") + GOOD.split_once('\n').unwrap().1;
    let file = Temporary::new("mistakes.toml", text.as_bytes());
    let run = tollgate(&["rules", "check", file.text()]);
    assert_eq!((run.code, &*run.out), (Some(2), ""));
    for part in ["mistakes.toml:4:1", "did you mean `key`?", "mistakes.toml:5:14", "30d", "two rules `all`"] {
        assert!(run.err.contains(part), "{} lacks {part}", run.err);
    }
    assert!(run.err.ends_with("3 errors, no warnings\n"), "{}", run.err);
    assert!(run.err.contains("\nhelp: docs/reference/rules.md#"), "{}", run.err);
}

#[test]
fn strict_makes_warnings_errors() {
    // A fixed window of a day admits twice as much at midnight.
    let file = Temporary::new("warning.toml", GOOD.replace("10/s", "fixed-window:10/d").as_bytes());
    let run = tollgate(&["rules", "check", file.text()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("warning") && run.out.contains("1 rule, no errors, 1 warning"));
    let run = tollgate(&["rules", "check", "--strict", file.text()]);
    assert_eq!((run.code, &*run.out), (Some(2), ""));
}

#[test]
fn json_names_each_problem_with_its_position() {
    let file = Temporary::new("json.toml", GOOD.replace("key", "kye").as_bytes());
    let run = tollgate(&["rules", "check", "--json", file.text()]);
    assert_eq!(run.code, Some(2));
    let found: Value = serde_json::from_str(&run.out).expect("it is JSON");
    assert_eq!((&found["version"], &found["rules"], &found["errors"]), (&1.into(), &Value::Null, &1.into()));
    let problem = &found["problems"][0];
    assert_eq!((&problem["line"], &problem["column"], &problem["len"]), (&4.into(), &1.into(), &3.into()));
    assert_eq!((&problem["code"], &problem["file"]), (&"unknown-field".into(), &file.text().into()));
    assert_eq!(problem["hint"], "did you mean `key`?");
}

#[test]
fn what_is_no_file_is_an_error() {
    for (path, part) in
        [("/no/such/rules.toml", "No such file"), ("/", "is a directory"), ("-", "from files")]
    {
        let run = tollgate(&["rules", "check", path]);
        assert_eq!((run.code, &*run.out), (Some(2), ""), "{path}: {}", run.err);
        assert!(run.err.contains(part), "{path}: {}", run.err);
    }
}

#[test]
fn the_schema_is_a_json_schema() {
    let run = tollgate(&["rules", "schema"]);
    let schema: Value = serde_json::from_str(&run.out).expect("it is JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(schema["properties"]["rule"].is_object());
}

const ENVOY: &str =
    "domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: day, requests_per_unit: 5 } }\n";

#[test]
fn limits_of_envoy_become_rules_that_can_be_used() {
    let file = Temporary::new("envoy.yaml", ENVOY.as_bytes());
    let run = tollgate(&["rules", "convert", file.text()]);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert!(run.out.contains("limits = \"fixed-window:5/d,count=all\""), "{}", run.out);
    let rules = Temporary::new("envoy.toml", run.out.as_bytes());
    let run = tollgate(&["rules", "check", rules.text()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn limits_of_envoy_become_rules_that_share_a_store() {
    let file = Temporary::new("envoy-store.yaml", ENVOY.as_bytes());
    let run = tollgate(&["rules", "convert", "--store", "redis://10.0.0.7", file.text()]);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert!(run.out.contains("limits = \"fixed-window:5/d\"\nstore = \"shared\"\n"), "{}", run.out);
    let rules = Temporary::new("envoy-store.toml", run.out.as_bytes());
    let run = tollgate(&["rules", "check", rules.text()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let run = tollgate(&["rules", "convert", "--store", "redis://10.0.0.7:none", file.text()]);
    assert!(run.code == Some(2) && !run.err.is_empty(), "{run:?}");
}

#[test]
fn a_meaning_that_would_change_has_exit_code_two() {
    let text = ENVOY.to_owned() + "  - { key: k, value: '@x' }\n";
    let file = Temporary::new("envoy-differs.yaml", text.as_bytes());
    let run = tollgate(&["rules", "convert", file.text()]);
    assert!(run.code == Some(2) && run.out.contains("# NOT CONVERTED"), "{run:?}");
    assert!(run.err.contains("envoy-differs.yaml:3") && run.err.contains("1 difference"), "{}", run.err);
}

#[test]
fn strict_conversion_lets_nothing_be_left_out() {
    for (field, told) in [("metadata: { x: y }", "`metadata`"), ("shadow_mode: true", "shadow_mode")] {
        let text = ENVOY.to_owned() + &format!("  - {{ key: l, {field} }}\n");
        let file = Temporary::new("envoy-left-out.yaml", text.as_bytes());
        let lenient = tollgate(&["rules", "convert", file.text()]);
        assert!(lenient.code == Some(0) && lenient.err.contains(told), "{lenient:?}");
        let strict = tollgate(&["rules", "convert", "--strict", file.text()]);
        assert_eq!((strict.code, &strict.out), (Some(2), &lenient.out), "{}", strict.err);
        assert!(strict.err.ends_with("not all is in the rules: 1 warning\n"), "{}", strict.err);
    }
    let exact = Temporary::new("envoy-exact.yaml", ENVOY.as_bytes());
    assert_eq!(tollgate(&["rules", "convert", "--strict", exact.text()]).code, Some(0));
}

#[test]
fn mistakes_of_envoys_files_convert_to_nothing() {
    let wrong = Temporary::new("envoy-wrong.yaml", ENVOY.replace("unit: day", "unit: days").as_bytes());
    let run = tollgate(&["rules", "convert", wrong.text()]);
    assert_eq!((run.code, &*run.out), (Some(2), ""));
    assert!(run.err.contains("did you mean `day`?") && run.err.contains("1 error"), "{}", run.err);
    let file = Temporary::new("envoy-twice.yaml", ENVOY.as_bytes());
    let other = Temporary::new("envoy-other.yaml", ENVOY.replace("key: k", "key: l").as_bytes());
    let run = tollgate(&["rules", "convert", file.text(), other.text()]);
    assert!(run.code == Some(2) && run.err.contains("there twice"), "{}", run.err);
    let run = tollgate(&["rules", "convert", "--merge-domains", file.text(), other.text()]);
    assert_eq!((run.code, run.out.matches("[[rule]]").count()), (Some(0), 2), "{}", run.err);
}

#[test]
fn a_test_that_fails_has_exit_code_three() {
    let test = "[[test]]\nname = 'the 11th waits'\nsteps = [\n{ send = 'GET /', client = '192.0.2.7', times = 10, \
                expect = 'admitted' },\n{ send = 'GET /', client = '192.0.2.7', expect = 'refused' }]\n";
    let good = Temporary::new("tests-good.toml", format!("{GOOD}{test}").as_bytes());
    let run = tollgate(&["rules", "check", good.text()]);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    assert!(run.out.ends_with("1 rule, no errors, no warnings, 1 test passed\n"), "{}", run.out);

    let bad = format!("{GOOD}{test}").replace("times = 10", "times = 11");
    let bad = Temporary::new("tests-bad.toml", bad.as_bytes());
    let run = tollgate(&["rules", "check", bad.text()]);
    assert_eq!((run.code, &*run.out), (Some(3), ""), "{}", run.err);
    assert!(run.err.contains("test `the 11th waits`, step 1, request 11: expected admitted"), "{}", run.err);
    assert!(run.err.ends_with("1 of 1 test failed\n"), "{}", run.err);
    let run = tollgate(&["rules", "check", "--json", bad.text()]);
    let found: Value = serde_json::from_str(&run.out).expect("it is JSON");
    assert_eq!(
        (run.code, &found["tests"], &found["failed_tests"][0]["request"]),
        (Some(3), &1.into(), &11.into())
    );
}

/// Three rules of which each says something else of a request.
const EXPLAINED: &str = "\
version = 1
lists = { office = ['192.0.2.0/24'] }
[[rule]]
name = 'failed-logins'
match = { method = 'POST', path = '/login' }
key = 'client'
limits = '4/min'
charge_if.status = [401, 403]
[[rule]]
name = 'office'
match.client = '@office'
key = 'everyone'
limits = 'unlimited'
replaces = ['plan']
[[rule]]
name = 'search'
match.path = '/search/**'
key = 'client'
limits = '20/s'
[[rule]]
name = 'plan'
match.header.x-api-key = '*'
key = 'header.x-api-key'
limits = '100/d'
tier = [{ name = 'pro', match.label.plan = 'pro', limits = '1000/d' }]
[[rule]]
name = 'free'
key = 'client'
limits = '1/s'
except.path = '/Login/'
";

#[test]
fn explain_says_what_each_rule_makes_of_a_request() {
    let file = Temporary::new("explain.toml", EXPLAINED.as_bytes());
    let request = ["rules", "explain", file.text(), "POST /Login/", "--client", "203.0.113.9"];
    let further = ["--header", "X-Api-Key: k", "--label", "plan=pro"];
    let run = tollgate(&[&request[..], &further].concat());
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    let expected = "\
\x20 failed-logins  concerns it  key client=203.0.113.9, cost 1, charged if the status is 401 403, \
token-bucket:4/min,burst=4: 3 of 4 left
  office         no           client 203.0.113.9 is not 192.0.2.0/24
  search         no           path /login is not /search/**
  plan           concerns it  key header.x-api-key=k, tier pro, cost 1, token-bucket:1000/d,burst=1000: 999 of 1,000 left
  free           no           except path /Login/ is /Login/

would be admitted (by limits that no request has used yet)
";
    assert_eq!(run.out, expected);
    let run =
        tollgate(&[&request[..4], &["--client", "192.0.2.7", "--header", "x-api-key: k", "--json"]].concat());
    let json = run.json();
    assert_eq!(
        (&json["version"], &json["admitted"], &json["refused_by"]),
        (&1.into(), &true.into(), &Value::Null)
    );
    let why: Vec<_> =
        json["rules"].as_array().unwrap().iter().map(|rule| rule["why"].as_str().unwrap()).collect();
    assert_eq!(why, ["concerns", "concerns", "unmatched", "replaced", "excepted"]);
    assert_eq!(
        (&json["rules"][0]["remaining"], &json["rules"][1]["limits"]),
        (&3.into(), &"unlimited".into())
    );
}

#[test]
fn explain_names_the_rule_that_refuses() {
    let block = GOOD.replace("10/s", "block") + "refuse.status = 403\n";
    let file = Temporary::new("blocked.toml", block.as_bytes());
    let run = tollgate(&["rules", "explain", file.text(), "GET /"]);
    assert!(run.out.ends_with("would be refused by all with status 403: the rule blocks\n"), "{}", run.out);
}

#[test]
fn a_request_that_cannot_be_explained_is_an_error() {
    let file = Temporary::new("no-request.toml", GOOD.as_bytes());
    for (arguments, part) in [
        (&[file.text()][..], "REQUEST"),
        (&[file.text(), "/login"], "'POST /login'"),
        (&[file.text(), "GET /", "--client", "x"], "--client"),
        (&[file.text(), "GET /", "--header", "x"], "'x-api-key: k'"),
        (&[file.text(), "GET /", "--label", "x"], "user=ada"),
        (&["/no/such.toml", "GET /"], "No such file"),
    ] {
        let run = tollgate(&[&["rules", "explain"], arguments].concat());
        assert_eq!((run.code, &*run.out), (Some(2), ""), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
    }
}

#[test]
fn commands_decide_rules_with_a_store_without_it() {
    // No such store is there: a command that asked it would wait, or fail.
    let stored = format!("{GOOD}store = \"redis://:hidden@127.0.0.1:1\"\n");
    let (plain, stored) =
        (Temporary::new("plain.toml", GOOD.as_bytes()), Temporary::new("stored.toml", stored.as_bytes()));
    let note = "note: 1 rule with a store: decided here, and the store is neither asked nor changed\n";
    for command in [&["rules", "explain"][..], &["replay", "--demo", "--rules"]] {
        let of = |file: &Temporary| {
            let request = if command.len() == 2 { vec!["GET /"] } else { Vec::new() };
            let run = tollgate(&[command, &[file.text()], &request].concat());
            assert_eq!(run.code, Some(0), "{}", run.err);
            run
        };
        let (without, with) = (of(&plain), of(&stored));
        assert!(with.err.contains(note) && !without.err.contains(note), "{}", with.err);
        assert_eq!(with.out.replace(stored.text(), ""), without.out.replace(plain.text(), ""));
    }
    let diff = tollgate(&["rules", "diff", plain.text(), stored.text()]);
    assert!(diff.out.contains("store: this process -> redis://127.0.0.1:1"), "{} {}", diff.out, diff.err);
    assert!(!diff.out.contains("hidden") && !diff.err.contains("hidden"), "{} {}", diff.out, diff.err);
}
