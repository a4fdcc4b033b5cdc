//! The thirty needs: each rule of the cookbook means what its need says.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_rules::{
    Attribute, BodyFormat, Condition, Conditions, Cost, HeaderStyle, Key, Limit, Limits, MissingKey, Mode,
    Outcome, Replaces, Rule, Rules, Step,
};
use tollgate_rules_file::{Disk, read, run_tests};

fn cookbook() -> Rules {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cookbook.toml");
    let reading = read(path, &Disk);
    assert!(reading.problems().is_empty(), "{reading}");
    reading.into_rules().expect("no problem")
}

fn condition(Condition { attribute, values }: &Condition) -> String {
    let mut shown: Vec<String> = values.texts.iter().map(ToString::to_string).collect();
    shown.extend(values.networks.iter().map(ToString::to_string));
    shown.extend((!values.digests.is_empty()).then(|| format!("{} digests", values.digests.len())));
    shown.extend(values.any.then(|| "*".to_owned()));
    format!("{attribute}={}", shown.join("|"))
}

fn any(applies: &[Conditions]) -> String {
    let all = |conditions: &Conditions| conditions.0.iter().map(condition).collect::<Vec<_>>().join(" and ");
    applies.iter().map(all).collect::<Vec<_>>().join(" or ")
}

fn limits(limits: &Limits) -> String {
    let limit = |limit: &Limit| match limit {
        // The default burst is not shown.
        Limit::Quota(quota) => {
            let shown = quota.to_string();
            shown.strip_suffix(&format!(",burst={}", quota.rate().count())).unwrap_or(&shown).to_owned()
        }
        Limit::InFlight { most, ttl } => format!("{most} at once, {ttl:?}"),
    };
    match limits {
        Limits::Each(limits) => limits.iter().map(limit).collect::<Vec<_>>().join(" + "),
        Limits::Unlimited => "unlimited".into(),
        Limits::Block => "block".into(),
        Limits::PerRequest | Limits::Elsewhere => unreachable!("no file has them"),
    }
}

/// A rule in one line: what is not said is the default.
fn shown(rule: &Rule) -> String {
    let mut parts = Vec::new();
    let mut part = |name: &str, text: String| {
        parts.extend((!text.is_empty()).then(|| format!("{name} {text}")));
    };
    part("match", any(&rule.applies));
    part("except", any(&rule.except));
    let key = match &rule.key {
        Key::Everyone => "everyone".into(),
        Key::Attributes(parts) => parts.iter().map(Attribute::to_string).collect::<Vec<_>>().join("+"),
    };
    part("key", key);
    part(
        "missing",
        if rule.missing == MissingKey::Share { String::new() } else { format!("{:?}", rule.missing) },
    );
    part("limits", limits(&rule.limits));
    for tier in &rule.tiers {
        part("tier", format!("{} {} {}", tier.name, any(&tier.applies), limits(&tier.limits)));
    }
    part(
        "cost",
        match &rule.cost {
            Cost::Fixed(1) => String::new(),
            Cost::Fixed(cost) => cost.to_string(),
            Cost::From { attribute, default } => format!("{attribute} or {default}"),
            Cost::Cases(cases) => cases
                .iter()
                .map(|case| format!("{}:{}", any(&case.applies), case.is))
                .collect::<Vec<_>>()
                .join(","),
        },
    );
    part("charge_if", rule.charge_if.as_ref().map_or(String::new(), |statuses| format!("{statuses:?}")));
    part("ban", rule.ban.map_or(String::new(), |ban| format!("{:?}", ban.0)));
    part("max_wait", rule.max_wait.map_or(String::new(), |wait| format!("{wait:?}")));
    part("refuse", rule.refuse.status.map_or(String::new(), |status| status.to_string()));
    part(
        "replaces",
        match &rule.replaces {
            Replaces::Named(names) => names.join(","),
            Replaces::All => "*".into(),
            Replaces::None => String::new(),
        },
    );
    part("mode", if rule.mode == Mode::Enforce { String::new() } else { format!("{:?}", rule.mode) });
    parts.join("; ")
}

const LOGIN: &str = "match method=POST and path=/login";
const STATIC: &str = "except path=/_next/static/**|/health";
const API: &str = "match host=api.example.com";
const LLM: &str = "match path=/v1/chat/completions; key label.api_key+label.model";

#[test]
fn each_rule_of_the_cookbook_means_its_need() {
    let failed = "charge_if [401, 403]";
    let right: [(&str, String); 34] = [
        ("all", format!("{STATIC}; key everyone; limits token-bucket:5000/s")),
        ("per-client", format!("{STATIC}; key client; limits token-bucket:10/s,burst=20")),
        ("office", "match client=192.0.2.0/24|2001:db8:1::/48; key everyone; limits unlimited; replaces *".into()),
        ("banned", "match client=198.51.100.7/32|203.0.113.128/25|2001:db8:bad::/48; key everyone; limits block; refuse 403".into()),
        ("posts", "match method=POST and path=/posts; key label.user; limits token-bucket:2/s".into()),
        ("accounts", "match method=POST and path=/accounts; key client; limits sliding-log:10/d".into()),
        ("rewards", "match path=/rewards; key label.device; missing Refuse; limits sliding-log:5/w".into()),
        ("marketing", "match domain=messaging and entry.message_type=marketing; key entry.to_number; limits sliding-log:5/d".into()),
        ("messages", "match domain=messaging; except entry.message_type=*; key entry.to_number; limits sliding-log:100/d".into()),
        ("failed-logins", format!("{LOGIN}; key client; limits sliding-window:4/min,subwindows=6 + sliding-window:10/600s,subwindows=6; {failed}")),
        ("failed-logins-day", format!("{LOGIN}; key client; limits sliding-window:20/h,subwindows=6; {failed}; ban 86400s")),
        ("failed-logins-account", format!("{LOGIN}; key label.account; limits token-bucket:10/300s; {failed}")),
        ("failed-logins-all", format!("{LOGIN}; key everyone; limits token-bucket:1000/300s; {failed}")),
        ("logins-country", format!("{LOGIN}; key label.country; limits token-bucket:300/min")),
        ("anonymous", format!("{API}; except label.user=*; key client; limits fixed-window:60/h")),
        ("known", format!("{API}; key label.user; missing Pass; limits fixed-window:5000/h")),
        ("points", format!("{API}; key label.user; limits fixed-window:900/min; cost method=DELETE|PATCH|POST|PUT:5,:1")),
        ("at-once", format!("{API}; key label.user; limits 100 at once, None")),
        ("graphql", "match path=/graphql; key label.shop; limits token-bucket:50/s,burst=1000; cost label.cost or 100".into()),
        ("llm-requests", format!("{LLM}; limits token-bucket:60/min")),
        ("llm-tokens", format!("{LLM}; limits token-bucket:100000/min; cost label.tokens or 1000")),
        ("plan", "match path=/v2/**; key header.x-api-key; limits token-bucket:100/d; tier pro header.x-api-key=2 digests token-bucket:10000/d,burst=1000; tier partner label.plan=partner unlimited".into()),
        ("search", "match path=/search/**; key client; limits token-bucket:20/s".into()),
        ("reports-of-acme", "match label.user=acme and path=/search/reports; key label.user; limits token-bucket:200/s; replaces search".into()),
        ("scanners", "key client; limits sliding-window:5/180s,subwindows=6; charge_if [403, 404]".into()),
        ("product", "match path=/merchant; key query.product_id; limits sliding-log:50/10s".into()),
        ("files", "match method=GET and path=/files/{id}; key path.id+header.x-api-key; limits sliding-log:10/600s".into()),
        ("tenant-login", "match path=/login; key host+client; limits token-bucket:10/600s".into()),
        ("exports", "match path=/exports/**; key label.user; limits 2 at once, Some(600s)".into()),
        ("exports-line", "match path=/exports/**; key everyone; limits leaky-bucket:1/s,capacity=30,mode=queue; max_wait 30s".into()),
        ("otp-number", "match path=/otp; key label.phone; limits token-bucket:1/30s + sliding-log:5/d".into()),
        ("otp-client", "match path=/otp; key client; limits sliding-log:5/300s; ban 600s".into()),
        ("per-client-lower", "key client; limits token-bucket:5/s,burst=10; mode Shadow".into()),
        ("digest", "match method=POST and path=/digest; key label.user; limits token-bucket:1/min".into()),
    ];
    let rules = cookbook();
    let found: Vec<_> = rules.rules.iter().map(|rule| (&*rule.name, shown(rule))).collect();
    for (found, right) in found.iter().zip(&right) {
        assert_eq!(found, right);
    }
    assert_eq!(found.len(), right.len());
}

/// The needs that the comments of such tables name.
fn needs(table: &str) -> Vec<u32> {
    let text = include_str!("../../examples/cookbook.toml");
    let lines = text.lines().filter(|line| line.starts_with(table));
    let comments = lines.filter_map(|line| line.split_once('#')).map(|(_, comment)| comment);
    let numbers = comments.flat_map(|comment| comment.split(|c: char| !c.is_ascii_digit()));
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn the_cookbook_serves_and_tests_each_of_the_thirty_needs() {
    for table in ["[[rule]]", "[[test]]"] {
        let needs = needs(table);
        let missing: Vec<_> = (1..=30).filter(|need| !needs.contains(need)).collect();
        assert!(missing.is_empty(), "{table}: {missing:?}");
    }
}

#[test]
fn the_tests_of_the_cookbook_pass_and_name_every_rule() {
    let rules = cookbook();
    let failures: Vec<String> = run_tests(&rules).iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let expected = |step: &Step| {
        let asked = step.expect.asked.iter().flatten().cloned();
        asked.chain(step.expect.refused_by.clone()).collect::<Vec<_>>()
    };
    let named: BTreeSet<Box<str>> =
        rules.tests.iter().flat_map(|test| &test.steps).flat_map(expected).collect();
    let unnamed: Vec<_> = rules.rules.iter().filter(|rule| !named.contains(&rule.name)).collect();
    let unnamed: Vec<&str> = unnamed.iter().map(|rule| &*rule.name).collect();
    assert_eq!(unnamed, [""; 0], "no test expects anything of them");
}

#[test]
fn the_cookbook_says_whose_address_how_answers_look_and_tests() {
    let rules = cookbook();
    assert_eq!(rules.clients.trusted_proxies, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!((&*rules.clients.header, rules.clients.ipv6_prefix), ("x-forwarded-for", 64));
    assert_eq!(rules.answer.format, Some(BodyFormat::Problem));
    assert_eq!(rules.answer.styles, Some(vec![HeaderStyle::Ietf, HeaderStyle::XRateLimit]));
    assert!(rules.fold_paths);
    let test = |name: &str| rules.tests.iter().find(|test| &*test.name == name).expect("it is there");
    let (wait, office) = (test("the 21st at one moment waits 100 ms"), test("the office is free"));
    assert_eq!(wait.starts, Duration::from_secs(1_767_225_600));
    let steps: Vec<_> =
        wait.steps.iter().map(|step| (step.at.as_millis(), step.times, step.expect.outcome)).collect();
    assert_eq!(steps, [(0, 20, Some(Outcome::Admitted)), (0, 1, None), (100, 1, Some(Outcome::Admitted))]);
    let refused = &wait.steps[1].expect;
    assert_eq!(refused.refused_by.as_deref(), Some("per-client"));
    assert_eq!(refused.retry_after, Some(Duration::from_millis(100)));
    assert_eq!(wait.steps[0].send, Some(("GET".into(), "/x".into())));
    assert_eq!(office.steps[0].expect.asked, Some(vec!["office".into()]));
}

#[test]
fn every_field_arrives_where_it_belongs() {
    let text = include_str!("../../examples/everything.toml");
    let source = tollgate_rules_file::Memory::new("rules.toml", text)
        .file("rules.d/more.toml", format!("version = 1\n{}", crate::rule("more", "mode = \"off\"")))
        .file("pro-keys.txt", "a\nb")
        .variable("PARTNERS", "acme, initech")
        .variable("REDIS_URL", "redis://:hidden@10.0.0.7/1");
    let reading = read("rules.toml", &source);
    let rules = reading.rules().unwrap_or_else(|| panic!("{reading}"));
    assert_eq!((&*rules.clients.header, rules.clients.ipv6_prefix), ("forwarded", 56));
    assert_eq!(rules.answer.jitter, Some(Duration::from_millis(500)));
    let uploads = rules.rules.iter().find(|rule| &*rule.name == "uploads").unwrap();
    assert_eq!(
        shown(uploads),
        "match host=*.example.com and method=POST|PUT and path=/files/{id} or domain=uploads and entry.kind=file; \
         except client=192.0.2.0/24|2001:db8:1::/48 and cookie.beta=* and header.x-api-key=a|b and label.plan=acme|initech \
         and query.dry_run=1; key lower(trim(path.id))+client; limits token-bucket:10/min,burst=20; tier pro label.plan=pro unlimited; \
         cost label.size=large:5,:1; charge_if [200, 201]; ban 600s; refuse 503; mode Shadow"
    );
    assert_eq!((uploads.was.as_deref(), uploads.max_keys), (Some("upload"), Some(100_000)));
    assert_eq!(uploads.refuse.headers, [("x-reason".into(), "uploads".into())]);
    let test = &rules.tests[0];
    assert_eq!(test.starts, Duration::from_secs(1_772_362_800), "2026-03-01T11:00:00Z");
    assert_eq!(test.steps[0].headers.len(), 3);
    assert_eq!((test.steps[1].cost, test.steps[1].expect.delay), (Some(2), Some(Duration::ZERO)));
    let store = rules.rules.iter().find_map(|rule| rule.store.as_ref()).unwrap();
    assert_eq!(
        (store.on_failure, store.deny_cache),
        (tollgate_rules::StoreFailure::Local { nodes: 3 }, 1_024)
    );
    let leases = rules.rules.iter().find_map(|rule| rule.store.as_ref()?.leases).unwrap();
    assert_eq!((leases.nodes, leases.ttl), (3, Duration::from_millis(80)));
    let address = &store.server.address;
    assert_eq!((&*address.to_string(), &*store.server.prefix), ("redis://10.0.0.7/1", "shop"));
    assert_eq!(address.password().map(|password| password.reveal()), Some("hidden"));
    assert_eq!(
        (store.server.to_string(), store.server.deadline.as_millis()),
        ("redis://10.0.0.7/1".into(), 20)
    );
    let park = rules.rules.iter().find_map(|rule| rule.park.as_ref()).unwrap();
    assert_eq!(
        (park.requests, park.requests_per_key, park.bytes, park.bytes_per_key, park.body),
        (5_000, 50, 128 << 20, 16 << 20, 128 << 10)
    );
    assert_eq!((park.age.as_secs(), park.tries, park.retry.as_secs()), (6 * 3600, 8, 2));
    assert_eq!(park.headers, Some(vec!["content-type".into()]));
    assert_eq!(rules.rules.last().map(|rule| rule.mode), Some(Mode::Off));
}

#[test]
fn the_files_mode_is_that_of_rules_without_one() {
    let text = format!(
        "version = 1\nmode = \"shadow\"\n{}{}",
        crate::rule("a", ""),
        crate::rule("b", "mode = \"enforce\"")
    );
    let modes: Vec<_> = crate::rules(&text).rules.iter().map(|rule| rule.mode).collect();
    assert_eq!(modes, [Mode::Shadow, Mode::Enforce]);
}

#[test]
fn the_cookbook_page_shows_the_rules_and_names_each() {
    let page = include_str!("../../../../docs/how-to/rules-cookbook.md");
    let (rules, tests) = include_str!("../../examples/cookbook.toml").split_once("\n[[test]]").unwrap();
    assert!(page.contains(rules.trim_end()), "the page shows other rules");
    let first = tests.split("\n[[test]]").next().unwrap();
    assert!(page.contains(&format!("[[test]]{}", first.trim_end())), "the page shows another test");
    let needs = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    for name in cookbook().rules.iter().map(|rule| format!("`{}`", rule.name)) {
        assert!(needs.clone().any(|line| line.contains(&name)), "{name}");
    }
}

#[test]
fn the_reference_shows_rules_and_errors_as_they_are() {
    let page = include_str!("../../../../docs/reference/rules.md");
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        assert!(!crate::rules(block).rules.is_empty());
    }
    let text = crate::errors::FOUR_MISTAKES;
    for error in
        page.split("```text\n").nth(1).and_then(|block| block.split("```").next()).unwrap().split("\n\n")
    {
        assert!(crate::reading(text).to_string().contains(error.trim_end()), "{error}");
    }
}
