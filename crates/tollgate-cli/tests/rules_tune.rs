//! `tollgate tune --rules`, as a user runs it.

mod support;

use std::fmt::Write;

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

/// Ten clients send all at once, ten others steadily, and 180 a little.
fn uneven_log() -> String {
    let mut requests = Vec::new();
    for client in 0..200_u32 {
        match client {
            0..10 => requests.extend((0..30).map(|_| (600, client))),
            10..20 => requests.extend((0..200).map(|n| (n * 17 + client, client))),
            _ => requests.extend((0..1 + client % 4).map(|n| (n * 700 + client, client))),
        }
    }
    requests.sort_unstable();
    let mut log = String::new();
    for (t, client) in requests {
        let (minutes, seconds) = (t / 60, t % 60);
        let time = format!("20/Feb/2016:00:{minutes:02}:{seconds:02} +0000");
        writeln!(log, "10.0.0.{client} - - [{time}] \"GET /{} HTTP/1.1\" 200 1", client % 7)
            .expect("writing to a text does not fail");
    }
    log
}

#[test]
fn tuned_rules_together_leave_the_share_of_keys_untouched() {
    let rules = |limits: [&str; 5]| {
        let [second, hour, queue, path, all] = limits;
        format!(
            "version = 1\n\
             [[rule]]\nname = 'each'\nkey = 'client'\nlimits = ['{second}', '{hour}']\n\
             [[rule]]\nname = 'queue'\nkey = 'client'\nlimits = '{queue}'\nmax_wait = '5s'\n\
             [[rule]]\nname = 'path'\nmatch.path = '/{{n}}'\nkey = ['path.n', 'client']\nlimits = '{path}'\n\
             [[rule]]\nname = 'all'\nkey = 'everyone'\nlimits = '{all}'\n"
        )
    };
    let log = Temporary::new("uneven.log", uneven_log().as_bytes());
    let now = ["fixed-window:5/s", "fixed-window:50/h", "leaky-bucket:1/s,capacity=9,queue", "2/s", "10/s"];
    let untuned = Temporary::new("untuned.toml", rules(now).as_bytes());
    for (keep, one_in) in [("95%", 20), ("100%", u64::MAX)] {
        let arguments = ["tune", "--rules", untuned.text(), log.text(), "--keep", keep, "--json"];
        let json = tollgate(&arguments).json();
        let rows = json["limits"].as_array().unwrap().iter();
        let smallest: Vec<&str> = rows.map(|row| row["smallest"].as_str().unwrap()).collect();
        let tuned = rules(smallest[..].try_into().expect("five limits"));
        let tuned = Temporary::new("tuned.toml", tuned.as_bytes());
        let json = tollgate(&["replay", "--rules", tuned.text(), log.text(), "--json"]).json();
        for rule in json["rules"].as_array().unwrap() {
            let (keys, refused) = (rule["keys"].as_u64().unwrap(), rule["keys_refused"].as_u64().unwrap());
            assert!(keys >= 1 && refused <= keys / one_in, "{refused} of {keys}, {keep}: {rule}");
        }
        let refused = json["rules"][0]["keys_refused"].as_u64().unwrap();
        assert_eq!(refused > 0, keep == "95%", "{refused} keys by the smallest numbers");
    }
}

#[test]
fn what_cannot_be_tuned_is_an_error() {
    let (rules, log) =
        (Temporary::new("t-bad.toml", RULES.as_bytes()), Temporary::new("t-bad.log", LOG.as_bytes()));
    for (arguments, part) in [
        (&["--rules", rules.text()][..], "nothing to read"),
        (&["--rules", rules.text(), log.text(), "--period", "1s"], "cannot be used with"),
        (&["--rules", "/no/such.toml", log.text()], "No such file"),
        (&["--keep", "0.999", log.text()], "write --keep 99.9%, or 0.999%"),
        (&["--keep", "1", log.text()], "write --keep 100%, or 1%"),
        (&["--map", "host=x", log.text()], "--rules"),
        (&["--rules", rules.text(), log.text(), "--map", "label.user=who"], "\"who\""),
    ] {
        let run = tollgate(&[&["tune"], arguments].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
    }
}
