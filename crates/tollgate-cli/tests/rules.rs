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
fn a_meaning_that_would_change_has_exit_code_two() {
    let text = ENVOY.to_owned() + "  - { key: k, value: '@x' }\n";
    let file = Temporary::new("envoy-differs.yaml", text.as_bytes());
    let run = tollgate(&["rules", "convert", file.text()]);
    assert!(run.code == Some(2) && run.out.contains("# NOT CONVERTED"), "{run:?}");
    assert!(run.err.contains("envoy-differs.yaml:3") && run.err.contains("1 difference"), "{}", run.err);
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
