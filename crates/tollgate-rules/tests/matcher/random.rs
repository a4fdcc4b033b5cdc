//! Random rules and requests: the index and the explanations agree with a matcher that has no index
//! and judges rule by rule.

use tollgate_rules::Why;

use super::naive::naive;
use super::*;

/// A small generator of numbers that look random: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn some(&mut self, most: usize, all: &[&str]) -> Vec<String> {
        let count = 1 + self.below(most);
        (0..count).map(|_| self.of(all).to_owned()).collect()
    }

    fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
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
const PIECES: [&str; 29] = [
    "/", "/", "/", "/", "a", "b", "A", "c", "/a", "/b", "/a/b", "//", "/.", "/..", "%61", "%2F", "%2f",
    "%5c", "%2e", ";", ";p", "%3b", "%ff", "/%2E%2e/", "%3Bp", "%252F", "%2561", "%253B", "%3F",
];
const VALUES: [&str; 6] = ["x", "y", "xy", "X", "", "7"];
const WANTED: [&str; 7] = ["*", "x", "y", "x*", "*y", "X", "7"];
const HOSTS: [&str; 6] = ["a.test", "A.test.", "b.a.test:80", "u@a.test", "c", ""];
const CLIENTS: [&str; 5] = ["192.0.2.7", "::ffff:192.0.2.8", "2001:db8::1", "2001:db8:0:1::1", "10.0.0.1"];
const KEYS: [&str; 14] = [
    "client", "path", "path.id", "path.x", "route", "method", "host", "header.h", "header.i", "query.q",
    "cookie.c", "label.l", "domain", "entry.e",
];

fn list(values: &[String]) -> String {
    format!("[{}]", values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", "))
}

fn conditions(random: &mut Random) -> String {
    let mut fields = Vec::new();
    if random.is(2) {
        // The reader wants a pattern with the captures of the key, unless it is in a list.
        fields.push(format!("path = {}", list(&[random.some(12, &PATTERNS), vec!["@none".into()]].concat())));
    }
    for (field, values) in [
        ("method", &["GET", "HEAD", "post", "*", "P*", "G*"][..]),
        ("host", &["*", "a.test", "*.A.test", "c*"]),
        ("client", &["*", "192.0.2.0/24", "2001:db8::/32", "2001:db8::1", "0.0.0.0/0"]),
        ("domain", &WANTED),
        ("header.h", &WANTED),
        ("header.I", &WANTED),
        ("query.q", &WANTED),
        ("cookie.c", &WANTED),
        ("label.l", &WANTED),
        ("entry.e", &WANTED),
    ] {
        if random.is(8) {
            fields.push(format!("{field} = {}", list(&random.some(2, values))));
        }
    }
    if fields.is_empty() {
        fields.push(format!("label.l = '{}'", random.of(&WANTED)));
    }
    format!("{{ {} }}", fields.join(", "))
}

fn alternatives(random: &mut Random) -> String {
    let count = 1 + random.below(2);
    format!("[{}]", (0..count).map(|_| conditions(random)).collect::<Vec<_>>().join(", "))
}

pub(super) const LIMITS: [&str; 6] = ["block", "20/min", "1/s,burst=20", "5/s,burst=20", "50/s", "unlimited"];

fn rule(random: &mut Random, number: usize, star: &[bool]) -> String {
    let mut text = format!("[[rule]]\nname = 'r{number}'\nlimits = '{}'\n", random.of(&LIMITS));
    if !random.is(5) {
        text += &format!("match = {}\n", alternatives(random));
    }
    if random.is(3) {
        text += &format!("except = {}\n", alternatives(random));
    }
    text += &match random.below(4) {
        0 => "key = 'everyone'\n".to_owned(),
        _ => {
            let mut parts = random.some(3, &KEYS);
            parts.sort();
            parts.dedup();
            let has_path = text.lines().any(|line| line.starts_with("match") && line.contains("path ="));
            parts.retain(|part| has_path || !["path.id", "path.x", "route"].contains(&part.as_str()));
            if parts.is_empty() { "key = 'client'\n".into() } else { format!("key = {}\n", list(&parts)) }
        }
    };
    text += &format!("missing = '{}'\n", random.of(&["share", "refuse", "pass"]));
    text += &format!("mode = '{}'\n", random.of(&["enforce", "enforce", "enforce", "shadow", "off"]));
    if star[number] {
        text += "replaces = ['*']\n";
    } else if random.is(2) {
        let names: Vec<_> = (0..number).filter(|&other| !star[other] && random.is(3)).collect();
        if !names.is_empty() {
            let names: Vec<_> = names.iter().map(|number| format!("r{number}")).collect();
            text += &format!("replaces = {}\n", list(&names));
        }
    }
    if random.is(3) {
        text += &match random.below(3) {
            0 => format!("cost = {}\n", random.below(9)),
            1 => format!(
                "cost = {{ from = '{}', default = {} }}\n",
                random.of(&["query.q", "label.l"]),
                random.below(9)
            ),
            _ => {
                let mut case = || format!("{{ match = {}, is = {} }}", alternatives(random), random.below(9));
                format!("cost = [{}, {}]\n", case(), case())
            }
        };
    }
    for tier in 0..random.below(3) {
        let (applies, limits) = (alternatives(random), random.of(&LIMITS));
        text += &format!("[[rule.tier]]\nname = 't{tier}'\nmatch = {applies}\nlimits = '{limits}'\n");
    }
    text
}

fn request(random: &mut Random) -> PlainRequest {
    let mut target = String::from(random.of(&["/", "/", "/", "/", "http://a.test/", "", "*"]));
    for _ in 0..random.below(6) {
        target += random.of(&PIECES);
    }
    if random.is(3) {
        target += &format!("?q={}&r=1", random.of(&VALUES));
        if random.is(3) {
            target += &format!("&q={}", random.of(&VALUES));
        }
    }
    let fields = |random: &mut Random, names: &[&str]| {
        let count = random.below(4);
        let pair = |random: &mut Random| (random.of(names).to_owned(), random.of(&VALUES).into());
        (0..count).map(|_| pair(random)).collect::<Vec<(String, Vec<u8>)>>()
    };
    let mut headers = fields(random, &["h", "H", "i", "j"]);
    if random.is(3) {
        headers.push(("Cookie".into(), format!("b=1; c={}", random.of(&VALUES)).into()));
    }
    PlainRequest {
        method: (!random.is(8)).then(|| random.of(&["GET", "HEAD", "get", "head", "POST", "PUT"]).into()),
        host: random.is(2).then(|| random.of(&HOSTS).into()),
        target: (!random.is(20)).then(|| target.into()),
        client: (!random.is(8)).then(|| random.of(&CLIENTS).parse().unwrap()),
        headers,
        labels: fields(random, &["l", "m"]),
        domain: random.is(3).then(|| random.of(&VALUES).into()),
        entries: fields(random, &["e"]),
    }
}

#[test]
fn random_requests_meet_the_rules_of_a_naive_matcher() {
    let random = &mut Random(18);
    let (mut found, mut buffers, mut concerned) = (0, Found::default(), 0);
    for round in 0..100 {
        let count = 1 + random.below(20);
        let star: Vec<bool> = (0..count).map(|_| random.is(8)).collect();
        let mut text = format!("paths.fold = {}\nlists.none = []\n", !random.is(4));
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
