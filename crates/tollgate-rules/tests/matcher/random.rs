//! Random rules and requests: the index and the explanations agree with a matcher that has no index
//! and judges rule by rule.

use tollgate_rules::Why;
use tollgate_testing::random::Random;

use super::naive::naive;
use super::*;

fn of<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    all[random.usize(..all.len())]
}

fn some(random: &mut Random, most: usize, all: &[&str]) -> Vec<String> {
    (0..random.usize(1..=most)).map(|_| of(random, all).to_owned()).collect()
}

fn one_in(random: &mut Random, n: u64) -> bool {
    random.u64(..n) == 0
}

const PATTERNS: [&str; 16] = [
    "*",
    "/**",
    "/",
    "/a",
    "/A",
    "/a/b",
    "/a/b/",
    "/a/{id}",
    "/{id}/b",
    "/a/*/c",
    "/{x}/{id}",
    "/a/**",
    "/a/b/**",
    "/{id}/**",
    "/a;p",
    "/a%2Fb",
];
const PIECES: [&str; 33] = [
    "/", "/", "/", "/", "a", "b", "A", "c", "/a", "/b", "/a/b", "//", "/.", "/..", "%61", "%2F", "%2f",
    "%5c", "%2e", ";", ";p", "%3b", "%ff", "/%2E%2e/", "%3Bp", "%252F", "%2561", "%253B", "%3F", "%0A",
    "%250a", ".", "%20",
];
const VALUES: [&str; 6] = ["x", "y", "xy", "X", "", "7"];
const COOKIES: [&str; 10] =
    ["x", "y", "7", "", "\"x\"", "%78", "\"\\170\\y\"", "\"%79", "\"%78%79\"", "x+%79"];
const WANTED: [&str; 7] = ["*", "x", "y", "x*", "*y", "X", "7"];
const HOSTS: [&str; 8] = ["a.test", "A.test.", "b.a.test:80", "u@a.test", "[a.test]", "b.a.test:x", "c", ""];
const CLIENTS: [&str; 5] = ["192.0.2.7", "::ffff:192.0.2.8", "2001:db8::1", "2001:db8:0:1::1", "10.0.0.1"];
const KEYS: [&str; 15] = [
    "client",
    "path",
    "path.id",
    "path.x",
    "route",
    "method",
    "host",
    "header.h",
    "header.i",
    "header.x-h",
    "query.q",
    "cookie.c",
    "label.l",
    "domain",
    "entry.e",
];

fn list(values: &[String]) -> String {
    format!("[{}]", values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", "))
}

fn conditions(random: &mut Random) -> String {
    let mut fields = Vec::new();
    if one_in(random, 2) {
        // The reader wants a pattern with the captures of the key, unless it is in a list.
        fields
            .push(format!("path = {}", list(&[some(random, 12, &PATTERNS), vec!["@none".into()]].concat())));
    }
    for (field, values) in [
        ("method", &["GET", "HEAD", "post", "*", "P*", "G*"][..]),
        ("host", &["*", "a.test", "*.A.test", "c*"]),
        ("client", &["*", "192.0.2.0/24", "2001:db8::/32", "2001:db8::1", "0.0.0.0/0"]),
        ("domain", &WANTED),
        ("header.h", &WANTED),
        ("header.I", &WANTED),
        ("header.x-h", &WANTED),
        ("query.q", &WANTED),
        ("cookie.c", &WANTED),
        ("label.l", &WANTED),
        ("entry.e", &WANTED),
    ] {
        if one_in(random, 8) {
            fields.push(format!("{field} = {}", list(&some(random, 2, values))));
        }
    }
    if fields.is_empty() {
        fields.push(format!("label.l = '{}'", of(random, &WANTED)));
    }
    format!("{{ {} }}", fields.join(", "))
}

fn alternatives(random: &mut Random) -> String {
    let count = random.usize(1..=2);
    format!("[{}]", (0..count).map(|_| conditions(random)).collect::<Vec<_>>().join(", "))
}

pub(super) const LIMITS: [&str; 6] = ["block", "20/min", "1/s,burst=20", "5/s,burst=20", "50/s", "unlimited"];

fn rule(random: &mut Random, number: usize, star: &[bool]) -> String {
    let mut text = format!("[[rule]]\nname = 'r{number}'\nlimits = '{}'\n", of(random, &LIMITS));
    if !one_in(random, 5) {
        text += &format!("match = {}\n", alternatives(random));
    }
    if one_in(random, 3) {
        text += &format!("except = {}\n", alternatives(random));
    }
    text += &match random.usize(..4) {
        0 => "key = 'everyone'\n".to_owned(),
        _ => {
            let mut parts = some(random, 3, &KEYS);
            parts.sort();
            parts.dedup();
            let has_path = text.lines().any(|line| line.starts_with("match") && line.contains("path ="));
            parts.retain(|part| has_path || !["path.id", "path.x", "route"].contains(&part.as_str()));
            if parts.is_empty() { "key = 'client'\n".into() } else { format!("key = {}\n", list(&parts)) }
        }
    };
    text += &format!("missing = '{}'\n", of(random, &["share", "refuse", "pass"]));
    text += &format!("mode = '{}'\n", of(random, &["enforce", "enforce", "enforce", "shadow", "off"]));
    if star[number] {
        text += "replaces = ['*']\n";
    } else if one_in(random, 2) {
        let names: Vec<_> = (0..number).filter(|&other| !star[other] && one_in(random, 3)).collect();
        if !names.is_empty() {
            let names: Vec<_> = names.iter().map(|number| format!("r{number}")).collect();
            text += &format!("replaces = {}\n", list(&names));
        }
    }
    if one_in(random, 3) {
        text += &match random.usize(..3) {
            0 => format!("cost = {}\n", random.usize(..9)),
            1 => format!(
                "cost = {{ from = '{}', default = {} }}\n",
                of(random, &["query.q", "label.l"]),
                random.usize(..9)
            ),
            _ => {
                let mut case =
                    || format!("{{ match = {}, is = {} }}", alternatives(random), random.usize(..9));
                format!("cost = [{}, {}]\n", case(), case())
            }
        };
    }
    for tier in 0..random.usize(..3) {
        let (applies, limits) = (alternatives(random), of(random, &LIMITS));
        text += &format!("[[rule.tier]]\nname = 't{tier}'\nmatch = {applies}\nlimits = '{limits}'\n");
    }
    text
}

fn request(random: &mut Random) -> PlainRequest {
    let mut target = String::from(of(random, &["/", "/", "/", "/", "http://a.test/", "", "*"]));
    for _ in 0..random.usize(..6) {
        target += of(random, &PIECES);
    }
    if one_in(random, 3) {
        target += &format!("?q={}&r=1", of(random, &VALUES));
        if one_in(random, 3) {
            target += &format!("&q={}", of(random, &VALUES));
        }
    }
    let fields = |random: &mut Random, names: &[&str]| {
        let count = random.usize(..4);
        let pair = |random: &mut Random| (of(random, names).to_owned(), of(random, &VALUES).into());
        (0..count).map(|_| pair(random)).collect::<Vec<(String, Vec<u8>)>>()
    };
    let mut headers = fields(random, &["h", "H", "i", "j", "x-h", "X_H"]);
    if one_in(random, 3) {
        headers.push(("Cookie".into(), format!("b=1; c={}", of(random, &COOKIES)).into()));
    }
    PlainRequest {
        method: (!one_in(random, 8))
            .then(|| of(random, &["GET", "HEAD", "get", "head", "POST", "PUT"]).into()),
        host: one_in(random, 2).then(|| of(random, &HOSTS).into()),
        target: (!one_in(random, 20)).then(|| target.into()),
        client: (!one_in(random, 8)).then(|| of(random, &CLIENTS).parse().unwrap()),
        headers,
        labels: fields(random, &["l", "m"]),
        domain: one_in(random, 3).then(|| of(random, &VALUES).into()),
        entries: fields(random, &["e"]),
    }
}

#[test]
fn random_requests_meet_the_rules_of_a_naive_matcher() {
    let random = &mut Random::with_seed(18);
    let (mut found, mut buffers, mut concerned) = (0, Found::default(), 0);
    for round in 0..100 {
        let count = random.usize(1..=20);
        let star: Vec<bool> = (0..count).map(|_| one_in(random, 8)).collect();
        let mut text = format!("paths.fold = {}\nlists.none = []\n", !one_in(random, 4));
        (0..count).for_each(|number| text += &rule(random, number, &star));
        let rules = rules(&text);
        let matcher = Matcher::new(&rules).unwrap();
        for _ in 0..50 {
            let request = request(random);
            let target = request.target.as_deref().map(String::from_utf8_lossy);
            matcher.find(&request, &mut buffers);
            let right = naive(&rules, &request);
            let own: Vec<_> = buffers
                .concerned()
                .iter()
                .map(|found| {
                    let key = buffers.key(found).to_vec();
                    (found.rule, found.tier, found.cost, found.is_refused_without_key, key)
                })
                .collect();
            assert_eq!(own, right, "round {round}, {target:?}\n{request:?}\n{text}");
            let explained: Vec<_> = matcher
                .explain(&request)
                .into_iter()
                .filter_map(|explanation| match explanation.why {
                    Why::Concerns { tier, cost, is_refused_without_key, .. } => {
                        Some((explanation.rule, tier, cost, is_refused_without_key))
                    }
                    _ => None,
                })
                .collect();
            let own: Vec<_> =
                own.into_iter().map(|(rule, tier, cost, refused, _)| (rule, tier, cost, refused)).collect();
            assert_eq!(explained, own, "round {round}, {target:?}\n{request:?}\n{text}");
            (found, concerned) = (found + own.len(), concerned + usize::from(!own.is_empty()));
        }
    }
    assert!(found > 5_000 && concerned > 2_500, "{found} rules concerned {concerned} requests");
}
