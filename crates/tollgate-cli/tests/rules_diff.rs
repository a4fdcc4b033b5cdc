//! `tollgate rules diff`, as a user runs it.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use support::traffic::{self, Made};
use support::{LOG, MIDNIGHT, Temporary, tollgate};
use tollgate::{ManualClock, Timestamp};
use tollgate_rules::{Line, PlainRequest, RuleSet, Ruling, Scratch, Verdict, Why};
use tollgate_rules_file::{Disk, read};

const OLD: &str = "\
version = 1
[[rule]]
name = 'each'
key = 'client'
limits = 'fixed-window:4/min'
[[rule]]
name = 'posts'
match.method = 'POST'
key = 'client'
limits = 'block'
[[rule]]
name = 'gone'
key = 'everyone'
limits = '100/s'
[[rule]]
name = 'bucket'
key = 'client'
limits = '10/s'
[[rule]]
name = 'first'
key = 'client'
limits = '77/s'
[[rule]]
name = 'same'
key = 'everyone'
limits = '99/s'
";

/// Refuses the third request of a client, and no `POST`.
fn new() -> String {
    OLD.replace("4/min", "2/min")
        .replace("limits = 'block'", "limits = 'unlimited'\nmode = 'shadow'")
        .replace(
            "name = 'gone'\nkey = 'everyone'\nlimits = '100/s'",
            "name = 'fresh'\nkey = 'host'\nlimits = '1/s'",
        )
        .replace("limits = '10/s'", "limits = 'sliding-log:10/s'")
        .replace("name = 'first'", "name = 'second'")
}

#[test]
fn a_log_shows_who_is_newly_refused_and_admitted() {
    let (old, new) =
        (Temporary::new("a-old.toml", OLD.as_bytes()), Temporary::new("a-new.toml", new().as_bytes()));
    let log = Temporary::new("a.log", LOG.as_bytes());
    let run = tollgate(&["rules", "diff", old.text(), new.text(), log.text()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let expected = "\
\x20 admitted by both  4  44.4 %
  refused by both   1  11.1 %
  newly refused     3  33.3 %
  newly admitted    1  11.1 %

  Newly refused, by  key            requests  first line
  each                                     3           3
  each               192.0.2.1             2           3
  each               2001:db8::/64         1          10

  Newly admitted, by  key        requests  first line
  posts                                 1           4
  posts               192.0.2.2         1           4
";
    assert!(run.out.contains(expected), "{}", run.out);
    assert!(run.out.contains("fresh  host is not in this log (--map host=FIELD)"), "{}", run.out);

    let json = tollgate(&["rules", "diff", old.text(), new.text(), log.text(), "--json"]).json();
    assert_eq!(
        json["newly_refused"],
        json!({
            "requests": 3,
            "by_rule": [{"rule": "each", "requests": 3, "first": {"line": 3}}],
            "by_key": [
                {"rule": "each", "key": "192.0.2.1", "requests": 2, "first": {"line": 3}},
                {"rule": "each", "key": "2001:db8::/64", "requests": 1, "first": {"line": 10}},
            ],
        })
    );
    assert_eq!(
        (&json["version"], &json["both_admitted"], &json["both_refused"]),
        (&json!(1), &json!(4), &json!(1))
    );
    assert_eq!(json["not_decided"]["new"][0]["rule"], "fresh");
}

/// How many requests a rule refuses under a key, and the line of the first. Without a key: all.
type Tallies = BTreeMap<(String, Option<String>), (u64, u64)>;

/// Counts a request that `verdict` refuses.
fn count(
    tallies: &mut Tallies,
    line: u64,
    request: &PlainRequest,
    verdict: &Verdict<'_, ManualClock>,
    set: &RuleSet<ManualClock>,
) {
    let explained = set.matcher().explain(request);
    let refuses = |line: &Line| !line.is_shadow && line.ruling != Ruling::Admitted;
    for (index, refusal) in verdict.lines().iter().enumerate().filter(|(_, line)| refuses(line)) {
        let Why::Concerns { key, .. } = &explained[refusal.rule].why else { panic!("it refuses") };
        let parts: Vec<&str> = key.iter().map(|part| part.value.as_deref().unwrap_or_default()).collect();
        let key = match &*parts {
            [] => "everyone".to_owned(),
            _ if verdict.key(index) == Some(b"") => "(without a key)".to_owned(),
            parts => parts.join(", "),
        };
        let name = verdict.rules()[refusal.rule].name.to_string();
        for key in [None, Some(key)] {
            tallies.entry((name.clone(), key)).or_insert((0, line)).0 += 1;
        }
    }
}

/// The tallies of `newly_refused` or `newly_admitted`.
fn tallies(moved: &Value) -> Tallies {
    let all = moved["by_rule"].as_array().unwrap().iter().chain(moved["by_key"].as_array().unwrap());
    let number = |value: &Value| value.as_u64().expect("a number");
    let tally = |of: &Value| {
        let key = of.get("key").map(|key| key.as_str().unwrap().to_owned());
        let rule = of["rule"].as_str().unwrap().to_owned();
        ((rule, key), (number(&of["requests"]), number(&of["first"]["line"])))
    };
    all.map(tally).collect()
}

#[test]
fn every_difference_is_that_of_both_rules() {
    // Enough lines for several blocks.
    let requests = traffic::requests(20_000);
    let new = traffic::RULES
        .replace("3/min,burst=6", "2/min,burst=9")
        .replace("sliding-log:8/h", "sliding-log:20/h")
        .replace("ban = \"5min\"", "")
        .replace("fixed-window:4/min", "fixed-window:3/min")
        .replace("mode = \"shadow\"", "")
        .replace("missing = \"refuse\"", "missing = \"share\"");
    let files = [("old", traffic::RULES), ("new", &new)]
        .map(|(name, text)| Temporary::new(&format!("equal-{name}.toml"), text.as_bytes()));
    let log = Temporary::new("equal-diff.log", traffic::log(&requests).as_bytes());
    let arguments =
        ["rules", "diff", files[0].text(), files[1].text(), log.text(), "--json", "--top", "1000000"];
    let json = tollgate(&arguments).json();

    let zero = MIDNIGHT + requests[0].t_s * 1_000_000_000;
    let sets = files.each_ref().map(|file| {
        let rules = read(file.text(), &Disk).into_rules().expect("the rules are right");
        RuleSet::new(rules, ManualClock::starting_at(Duration::from_nanos(zero))).expect("they are small")
    });
    let mut scratches = [Scratch::default(), Scratch::default()];
    let (mut now, mut both) = (0, [0_u64; 2]);
    let (mut refused, mut admitted) = (Tallies::new(), Tallies::new());
    for (Made { t_s, request, status }, line) in requests.iter().zip(1..) {
        now = now.max((MIDNIGHT + t_s * 1_000_000_000).saturating_sub(zero));
        let [old, new] = &mut scratches;
        let mut old = sets[0].check_at(request, old, Timestamp::from_nanos(now));
        let mut new = sets[1].check_at(request, new, Timestamp::from_nanos(now));
        match (old.is_admitted(), new.is_admitted()) {
            (true, false) => count(&mut refused, line, request, &new, &sets[1]),
            (false, true) => count(&mut admitted, line, request, &old, &sets[0]),
            (is_admitted, _) => both[usize::from(is_admitted)] += 1,
        }
        old.settle(*status);
        new.settle(*status);
    }
    assert_eq!((&json["both_refused"], &json["both_admitted"]), (&json!(both[0]), &json!(both[1])));
    assert_eq!(tallies(&json["newly_refused"]), refused);
    assert_eq!(tallies(&json["newly_admitted"]), admitted);
    for (what, moved, rules) in [("newly_refused", &refused, 3), ("newly_admitted", &admitted, 3)] {
        let moved = moved.keys().filter(|(_, key)| key.is_none()).count();
        assert!(moved >= rules, "{moved} rules have {what} requests");
    }
}

#[test]
fn a_share_that_is_exceeded_has_exit_code_one() {
    let (old, new) =
        (Temporary::new("f-old.toml", OLD.as_bytes()), Temporary::new("f-new.toml", new().as_bytes()));
    let log = Temporary::new("f.log", LOG.as_bytes());
    let run = |fail_on: &str| {
        tollgate(&["rules", "diff", old.text(), new.text(), log.text(), "--fail-on", fail_on])
    };
    for (fail_on, code) in [
        ("newly-refused=33.3%", 1),
        ("newly-refused=33.4%", 0),
        ("newly-admitted=11%", 1),
        ("newly-admitted=12%", 0),
    ] {
        let run = run(fail_on);
        assert_eq!(run.code, Some(code), "{fail_on}: {}", run.err);
        assert!(run.out.contains("newly refused"), "{fail_on}");
    }
    assert!(run("newly-refused=0.1%").err.contains("3 requests (33.3 %) are newly refused: more than 0.1%"));
    for fail_on in ["refused=1%", "newly-refused", "newly-refused=x"] {
        assert_eq!(run(fail_on).code, Some(2), "{fail_on}");
    }
}

#[test]
fn without_a_log_the_plan_of_a_reload_is_shown() {
    let (old, new) =
        (Temporary::new("p-old.toml", OLD.as_bytes()), Temporary::new("p-new.toml", new().as_bytes()));
    let run = tollgate(&["rules", "diff", old.text(), new.text()]);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    let plan = run.out.split_once("\n\n").expect("a title").1;
    for part in [
        "each    debts are kept\n            limits: fixed-window:4/min -> fixed-window:2/min\n",
        "posts   debts are kept\n            mode: enforced -> shadow\n            limits: block -> unlimited\n",
        "fresh   begins without debts\n            added: token-bucket:1/s,burst=1\n",
        "bucket  cannot keep debts: the reload is refused, unless forget = true\n            limits: token-bucket",
        "second  cannot keep debts",
        "it has the key and limits of `first`, which goes: was = \"first\" keeps its debts\n",
        "gone    goes with its debts\n",
    ] {
        assert!(plan.contains(part), "{part:?} is not in\n{plan}");
    }
    assert!(!plan.contains("same  "), "{plan}");
    let json = tollgate(&["rules", "diff", old.text(), new.text(), "--json"]).json();
    let debts: Vec<_> =
        json["rules"].as_array().unwrap().iter().map(|rule| rule["debts"].as_str().unwrap()).collect();
    assert_eq!(debts, ["kept", "kept", "new", "refused", "refused", "removed", "removed"]);

    let run = tollgate(&["rules", "diff", old.text(), old.text()]);
    assert!(run.out.ends_with("no rule changes\n"), "{}", run.out);
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let (old, log) = (Temporary::new("e-old.toml", OLD.as_bytes()), Temporary::new("e.log", LOG.as_bytes()));
    let empty = Temporary::new("e-empty.log", b"");
    for (arguments, part) in [
        (&[old.text()][..], "NEW"),
        (&[old.text(), "/no/such.toml"], "No such file"),
        (&[old.text(), old.text(), "/no/such.log"], "No such file"),
        (&[old.text(), old.text(), empty.text()], "no request"),
        (&[old.text(), old.text(), "--fail-on", "newly-refused=1%"], "--fail-on needs a log"),
        (&[old.text(), old.text(), "--map", "host=h"], "--map needs a log"),
        (&[old.text(), log.text(), log.text()], "error"),
    ] {
        let run = tollgate(&[&["rules", "diff"], arguments].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
    }
}
