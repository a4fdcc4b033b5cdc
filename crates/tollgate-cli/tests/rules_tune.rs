//! `tollgate tune --rules`, as a user runs it.

mod support;

use serde_json::json;
use support::{LOG, Temporary, tollgate};

const RULES: &str = "\
version = 1
[[rule]]
name = 'each'
key = 'client'
limits = ['fixed-window:2/min', '10/min,burst=5']
[[rule]]
name = 'posts'
match.method = 'POST'
key = 'everyone'
limits = 'sliding-log:9/h'
[[rule]]
name = 'failures'
key = 'client'
limits = 'fixed-window:1/min'
charge_if.status = 404
[[rule]]
name = 'unasked'
match.path = '/nowhere'
key = 'client'
limits = '1/s'
[[rule]]
name = 'users'
key = 'label.user'
limits = '1/s'
[[rule]]
name = 'free'
match.path = '/a'
key = 'everyone'
limits = 'unlimited'
";

#[test]
fn each_limit_gets_its_smallest_sufficient_numbers() {
    let (rules, log) =
        (Temporary::new("tune.toml", RULES.as_bytes()), Temporary::new("tune.log", LOG.as_bytes()));
    let run = tollgate(&["tune", "--rules", rules.text(), log.text(), "--keep", "100%"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    // 192.0.2.1 makes five requests in four seconds; 2001:db8::/64 makes three.
    let expected = "\
\x20 rule      limit now                    keys  untouched  smallest for 100%
  each      fixed-window:2/min              3     33.3 %  fixed-window:5/min
  each      token-bucket:10/min,burst=5     3      100 %  token-bucket:9/min,burst=5
  posts     sliding-log:9/h                 1      100 %  sliding-log:1/h
  failures  fixed-window:1/min              3      100 %  fixed-window:1/min
  unasked   token-bucket:1/s,burst=1        0             no request concerned it
  users  not decided: label.user is not in this log (--map label.user=FIELD)
  free   unlimited: no number to tune
";
    assert_eq!(run.out.split_once("\n\n").map(|(_, rest)| rest), Some(expected), "{}", run.out);
    let arguments = ["tune", "--rules", rules.text(), log.text(), "--keep", "60%", "--json"];
    let json = tollgate(&arguments).json();
    assert_eq!(json["limits"][0]["smallest"], "fixed-window:3/min", "of three keys one may be refused");
    assert_eq!((&json["version"], &json["requests"], &json["keep"]), (&json!(1), &json!(9), &json!("60%")));
}

#[test]
fn what_cannot_be_tuned_is_an_error() {
    let (rules, log) =
        (Temporary::new("t-bad.toml", RULES.as_bytes()), Temporary::new("t-bad.log", LOG.as_bytes()));
    for (arguments, part) in [
        (&["--rules", rules.text()][..], "nothing to read"),
        (&["--rules", rules.text(), log.text(), "--period", "1s"], "cannot be used with"),
        (&["--rules", "/no/such.toml", log.text()], "No such file"),
        (&["--map", "host=x", log.text()], "--rules"),
        (&["--rules", rules.text(), log.text(), "--map", "label.user=who"], "\"who\""),
    ] {
        let run = tollgate(&[&["tune"], arguments].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
    }
}
