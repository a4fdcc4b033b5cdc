//! Warnings where something is certain, and none where it is not.

use tollgate_rules_file::{Code, unserved};

use crate::{problems, rule};

/// The warnings of these rules, beside one for everyone.
fn warnings(rules: &[(&str, &str)]) -> Vec<(&'static str, usize)> {
    let mut all = vec![rule("all", "")];
    all.extend(rules.iter().map(|(name, fields)| rule(name, fields)));
    let found = problems(&all);
    assert!(found.iter().all(tollgate_rules_file::Problem::is_warning), "{found:#?}");
    found.iter().map(|problem| (problem.code.as_str(), problem.line)).collect()
}

fn codes(rules: &[(&str, &str)]) -> Vec<&'static str> {
    warnings(rules).into_iter().map(|(code, _)| code).collect()
}

#[test]
fn w1_a_key_that_clients_choose_needs_another_rule() {
    let codes = |rules: &[(&str, &str)]| {
        let rules: Vec<_> = rules.iter().map(|(name, fields)| rule(name, fields)).collect();
        let codes: Vec<_> = problems(&rules).into_iter().map(|problem| problem.code.as_str()).collect();
        codes.into_iter().filter(|code| *code != "W2").collect::<Vec<_>>()
    };
    let by_key = ("k", "key = \"header.x-api-key\"");
    let by_key_v2 = ("k", "key = [\"header.x-api-key\", \"path\"]\nmatch.path = \"/v2/**\"");
    assert_eq!(codes(&[by_key]), ["W1"]);
    assert_eq!(codes(&[by_key_v2]), ["W1"]);
    assert_eq!(codes(&[by_key, ("c", "key = \"client\"")]), [""; 0]);
    assert_eq!(codes(&[by_key_v2, ("c", "key = \"client\"\nmatch.path = \"/**\"")]), [""; 0]);
    assert_eq!(codes(&[by_key_v2, ("c", "key = \"client\"\nmatch.path = \"/V2/{x}\"")]), [""; 0], "it may");
    assert_eq!(codes(&[by_key_v2, ("c", "key = \"client\"\nmatch.path = \"/v3/**\"")]), ["W1"]);
    assert_eq!(codes(&[by_key, ("c", "key = \"client\"\nmatch.path = \"/v3/**\"")]), ["W1"]);
    assert_eq!(codes(&[by_key, ("c", "key = [\"client\", \"query.x\"]")]), ["W1"], "clients choose x");
    assert_eq!(codes(&[by_key, ("c", "key = \"client\"\nmode = \"shadow\"")]), ["W1"]);
    assert_eq!(codes(&[by_key, ("c", "key = \"label.user\"\nmissing = \"pass\"")]), ["W1"]);
    assert_eq!(codes(&[by_key, ("c", "key = \"client\"\ncharge_if.status = 401")]), ["W1"]);
    assert_eq!(codes(&[by_key, ("c", "key = \"client\"\nlimits = \"unlimited\"")]), ["W1"]);
    let of = |method: &str, key: &str| format!("match.method = \"{method}\"\nkey = \"{key}\"");
    let codes = |own: &str, other: &str| codes(&[("k", &of(own, "header.k")), ("c", &of(other, "client"))]);
    assert_eq!(codes("POST", "GET"), ["W1"]);
    assert_eq!(codes("HEAD", "GET"), [""; 0], "a rule for GET concerns HEAD, too");
}

#[test]
fn w2_some_requests_meet_no_rule() {
    let found = problems(&[rule("r", "match.path = \"/x\"")]);
    assert_eq!((found.len(), found[0].code.as_str(), found[0].line), (1, "W2", 1));
    assert_eq!(problems(&[rule("r", "mode = \"shadow\"")])[0].code.as_str(), "W2");
    let passes = rule("r", "key = \"label.user\"\nmissing = \"pass\"");
    assert_eq!(problems(&[passes])[0].code.as_str(), "W2");
    assert_eq!(problems(&[rule("r", "charge_if.status = 401")])[0].code.as_str(), "W2");
    assert!(problems(&[rule("r", "")]).is_empty());
}

#[test]
fn w3_a_rule_that_is_never_asked() {
    let user = "match.label.user = [\"a\", \"b\"]\n";
    let replacing = |fields: &str| format!("{fields}replaces = [\"r\"]");
    assert_eq!(codes(&[("r", user), ("s", &replacing(""))]), ["W3"]);
    assert_eq!(codes(&[("r", user), ("s", &replacing("match.label.user = \"*\"\n"))]), ["W3"]);
    assert_eq!(codes(&[("r", user), ("s", &replacing("match.label.user = \"a\"\n"))]), [""; 0]);
    assert_eq!(codes(&[("r", user), ("s", &replacing("except.path = \"/x\"\n"))]), [""; 0]);
    assert_eq!(
        codes(&[("r", user), ("s", &replacing("")), ("t", "match.path = \"/x\"\nreplaces = \"s\"")]),
        [""; 0]
    );
    // A restriction sees `/X` as `/x`, what replaces it does not.
    assert_eq!(codes(&[("r", "match.path = \"/x\""), ("s", &replacing("match.path = \"/x\"\n"))]), [""; 0]);
    assert_eq!(codes(&[("r", &format!("{user}except.label.user = \"*\""))]), ["W3"]);
    assert_eq!(codes(&[("r", "match.path = \"/x\"\nexcept.path = \"/x\"")]), [""; 0]);
}

#[test]
fn w4_a_tier_behind_a_broader_one() {
    let tiers = |first: &str, second: &str| {
        let tier = |name: &str, fields: &str| format!("\n[[rule.tier]]\nname = \"{name}\"\n{fields}\n");
        format!("key = \"client\"\nlimits = \"1/s\"{}{}", tier("one", first), tier("two", second))
    };
    let limits = "limits = \"2/s\"\n";
    let case = |first: &str, second: &str| {
        codes(&[("r", &tiers(&format!("{limits}{first}"), &format!("{limits}{second}")))])
    };
    assert_eq!(case("match.path = \"/a/**\"", "match.path = \"/a/b\""), ["W4"]);
    assert_eq!(case("match.path = \"/a/b\"", "match.path = \"/a/**\""), [""; 0]);
    assert_eq!(case("match.client = \"10.0.0.0/8\"", "match.client = \"10.1.0.0/16\""), ["W4"]);
    let unlimited =
        tiers("limits = \"unlimited\"\nmatch.path = \"/a\"", "limits = \"2/s\"\nmatch.path = \"/a\"");
    assert_eq!(codes(&[("r", &unlimited)]), [""; 0], "the second sees `/A`");
}

#[test]
fn limits_and_costs_that_surprise_are_told() {
    assert_eq!(warnings(&[("r", "limits = [\"1/s\", \"fixed-window:5/d\"]")]), [("W5", 9)]);
    // The recommendation can be built: six sub-windows have no room for a thousand an hour.
    for (limit, instead) in [
        ("fixed-window:5/d", "sliding-window:5/d,subwindows=6"),
        ("fixed-window:70000/d", "sliding-window:70000/d,subwindows=4"),
        ("fixed-window:1000/2h,count=all", "sliding-window:1000/7200s,subwindows=4,count=all"),
    ] {
        let text = format!("version = 1\n{}", rule("r", &format!("limits = \"{limit}\"")));
        let reading = crate::reading(&text);
        let problem = reading.problems().iter().find(|problem| problem.code == Code::W5).unwrap();
        let hint = problem.hint.as_deref().unwrap();
        assert_eq!(hint, instead);
        let text = text.replace(limit, hint);
        assert!(crate::reading(&text).problems().is_empty(), "{hint}");
    }
    assert_eq!(codes(&[("r", "limits = \"fixed-window:5/h\"")]), [""; 0]);
    assert_eq!(codes(&[("r", "cost = { from = \"header.x-cost\" }")]), ["W6"]);
    assert_eq!(codes(&[("r", "cost = { from = \"label.cost\" }")]), [""; 0]);
    let log = rule("r", "key = \"client\"\nlimits = \"sliding-log:100000/d\"");
    let reading =
        crate::reading(&format!("version = 1\nmemory_budget_mib = 1_000_000\n{}{log}", rule("all", "")));
    assert_eq!(reading.problems().iter().map(|problem| problem.code.as_str()).collect::<Vec<_>>(), ["W7"]);
    assert_eq!(codes(&[("r", "limits = \"sliding-log:100000/d\"")]), [""; 0]);
    let stored = "key = \"client\"\nlimits = \"sliding-log:5000/d\"\nstore = \"redis://10.0.0.7\"";
    assert_eq!(codes(&[("r", stored)]), [""; 0]);
    assert_eq!(codes(&[("r", "forget = true")]), ["W8"]);
    assert_eq!(codes(&[("r", "limits = \"sliding-log:5/min\"\ncharge_if.status = 401")]), ["W10"]);
}

#[test]
fn w12_a_rule_with_a_cost_of_zero_never_refuses() {
    assert_eq!(warnings(&[("r", "cost = 0")]), [("W12", 9)]);
    assert_eq!(codes(&[("r", "cost = 0\nlimits = \"in-flight:2\"")]), ["W12"]);
    assert_eq!(codes(&[("r", "cost = 0\nmode = \"shadow\"")]), ["W12"]);
    assert_eq!(codes(&[("r", "cost = 0\nkey = \"client\"\nmissing = \"share\"")]), ["W12"]);
    let tier = |limits: &str| {
        format!("cost = 0\ntier = [{{ name = \"t\", match.path = \"/t\", limits = \"{limits}\" }}]")
    };
    assert_eq!(codes(&[("r", &tier("2/s"))]), ["W12"]);
    assert_eq!(codes(&[("r", &tier("block"))]), [""; 0], "the tier refuses");
    assert_eq!(codes(&[("r", "cost = 0\nkey = \"client\"\nmissing = \"refuse\"")]), [""; 0], "without key");
    for limits in ["unlimited", "block"] {
        assert_eq!(codes(&[("r", &format!("cost = 0\nlimits = \"{limits}\""))]), [""; 0]);
    }
    assert_eq!(codes(&[("r", "cost = 0\nmode = \"off\"")]), [""; 0]);
    assert_eq!(codes(&[("r", "cost = { from = \"label.cost\", default = 0 }")]), [""; 0]);
    assert_eq!(codes(&[("r", "cost = [{ match.path = \"/look\", is = 0 }, { is = 1 }]")]), [""; 0]);
    // It is no rule that limits every request.
    let alone: Vec<_> =
        problems(&[rule("r", "cost = 0")]).iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(alone, ["W2", "W12"]);
    assert_eq!(problems(&[rule("r", "cost = 0\nlimits = \"block\"")]), []);
}

#[test]
fn rules_with_a_cost_of_zero_refuse_nothing() {
    use tollgate::ManualClock;
    use tollgate_rules::{AskRule, RuleSet, Scratch};
    let limits = [
        "1/h",
        "token-bucket:1/h,initial=0",
        "leaky-bucket:1/h,capacity=1",
        "leaky-bucket:1/h,capacity=1,queue",
        "fixed-window:1/h",
        "fixed-window:1/h,count=all",
        "sliding-window:1/h",
        "sliding-log:1/h",
        "in-flight:1",
    ];
    for limits in limits {
        let text = format!("version = 1\n{}", rule("r", &format!("cost = 0\nlimits = \"{limits}\"")));
        let set = RuleSet::new(crate::rules(&text), ManualClock::new()).unwrap();
        let scratch = &mut Scratch::default();
        for _ in 0..3 {
            let ask = AskRule { name: "r", key: &[b""], cost: None, is_peek: false };
            assert!(set.ask_rule(ask, scratch).unwrap().is_admitted(), "{limits}");
        }
    }
}

#[test]
fn w9_a_rule_that_frees_what_another_blocks() {
    let block = ("b", "match.client = [\"192.0.2.7\", \"198.51.100.0/24\"]\nlimits = \"block\"");
    let office =
        |network: &str| format!("match.client = \"{network}\"\nlimits = \"unlimited\"\nreplaces = \"*\"");
    assert_eq!(codes(&[block, ("o", &office("192.0.2.0/24"))]), ["W9"]);
    assert_eq!(codes(&[block, ("o", &office("203.0.113.0/24"))]), [""; 0]);
    let both = ("b", "match.client = \"192.0.2.7\"\nlimits = \"block\"\nreplaces = \"*\"");
    assert_eq!(codes(&[both, ("o", &office("192.0.2.0/24"))]), [""; 0]);
}

#[test]
fn w11_rules_that_a_listener_cannot_keep() {
    use tollgate_rules_file::Listener::{Auth, Check, ProxyWithoutPark, RateLimitService, Redis};
    let text = [
        rule("all", ""),
        rule("exports", "limits = [\"10/s\", \"in-flight:2\"]"),
        rule("line", "limits = \"leaky-bucket:1/s,capacity=9,queue\""),
        rule("failed", "limits = \"10/s\"\ncharge_if.status = 401\nmode = \"shadow\""),
        rule("off", "limits = \"in-flight:2\"\nmode = \"off\""),
        rule("later", "limits = \"9/s\"\non_refusal = \"park\""),
        rule("shared", "limits = \"9/s\"\non_refusal = \"park\"\nstore = \"redis://10.0.0.7\""),
        rule("tiers", "tier = [{ name = \"t\", match.path = \"/t\", limits = \"in-flight:2\" }]"),
    ];
    let rules = crate::rules(&format!("version = 1\n{}", text.concat()));
    for (listener, names) in [
        (Check, &["exports", "later", "shared", "tiers"][..]),
        (Auth, &["exports", "failed", "later", "shared", "tiers"]),
        (RateLimitService, &["exports", "line", "failed", "later", "shared", "tiers"]),
        (Redis, &["exports", "line", "failed", "later", "shared", "tiers"]),
        // A store keeps the requests of its rules.
        (ProxyWithoutPark, &["later"]),
    ] {
        let told = unserved(&rules, listener);
        assert!(
            told.iter().all(|problem| problem.code == tollgate_rules_file::Code::W11 && problem.line == 0)
        );
        let of =
            |problem: &tollgate_rules_file::Problem| problem.message.split('`').nth(1).map(str::to_owned);
        assert_eq!(told.iter().filter_map(of).collect::<Vec<_>>(), names, "{listener:?}");
    }
    let redis = unserved(&rules, Redis);
    let says = |name: &str, part: &str| {
        let of = |problem: &&tollgate_rules_file::Problem| problem.message.starts_with(&format!("`{name}` "));
        redis.iter().find(of).is_some_and(|problem| problem.message.contains(part))
    };
    assert!(says("exports", "each check of it is an error"), "{redis:?}");
    assert!(says("tiers", "is not asked"), "a check of a rule asks no tier: {redis:?}");
    assert!(
        redis.iter().filter_map(|problem| problem.hint.as_deref()).any(|hint| hint.contains("/v1/acquire"))
    );
    // Nothing is charged by status, where each check is an error.
    let both = rule("both", "limits = [\"9/s\", \"in-flight:2\"]\ncharge_if.status = 401");
    let both = crate::rules(&format!("version = 1\n{}{both}", rule("all", "")));
    assert_eq!((unserved(&both, Redis).len(), unserved(&both, Auth).len()), (1, 2));
}
