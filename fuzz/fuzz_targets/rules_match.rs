//! Any request against the rules of the cookbook and some more: no panic, and the rules that `find`
//! finds by its index are those that `explain` judges one by one.

#![no_main]

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tollgate_rules::{Found, Matcher, PlainRequest, Why};
use tollgate_rules_file::{Memory, read};

const COOKBOOK: &str = include_str!("../../crates/tollgate-rules-file/examples/cookbook.toml");

/// Rules by hosts, cookies and captures, which the cookbook has few of.
const MORE: &str = r#"
[[rule]]
name = "more"
match = [{ host = "*.example.com", path = ["/{a}/{b}/c", "/{a}/**"] }, { cookie.sid = ["a*b", "*"] },
    { header.authorization = ["bearer *", "Basic YTpi"] }]
except = { path = ["/Health/", "/a%2Fb"], query.q = "*x*" }
key = ["path.a", "route", "path", "cookie.sid", "query.q", "host", "header.authorization"]
limits = "1/s"
cost = { from = "query.cost", default = 2 }
replaces = ["posts", "search"]
"#;

static MATCHER: LazyLock<Matcher> = LazyLock::new(|| {
    let source = Memory::new("rules.toml", format!("{COOKBOOK}{MORE}"))
        .file("banned.txt", "203.0.113.9\n")
        .file("pro-keys.txt", "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n");
    let rules = read("rules.toml", &source).into_rules().unwrap_or_else(|reading| panic!("{reading}"));
    Matcher::new(&rules).expect("the file was read")
});

thread_local! {
    static FOUND: RefCell<Found> = RefCell::default();
}

const HEADERS: [&str; 6] = ["x-api-key", "cookie", "host", "X-API-Key", "X_Api_Key", "authorization"];
const LABELS: [&str; 6] = ["user", "plan", "tokens", "cost", "account", "model"];
const ENTRIES: [&str; 2] = ["to_number", "message_type"];

#[derive(Arbitrary, Debug)]
struct Input<'b> {
    target: &'b [u8],
    method: Option<&'b str>,
    host: Option<&'b str>,
    client: Option<[u8; 16]>,
    is_v4: bool,
    headers: Vec<(u8, &'b [u8])>,
    labels: Vec<(u8, &'b [u8])>,
    domain: bool,
    entries: Vec<(u8, &'b [u8])>,
}

fn named(names: &[&str], pairs: &[(u8, &[u8])]) -> Vec<(String, Vec<u8>)> {
    let named =
        |(name, value): &(u8, &[u8])| (names[usize::from(*name) % names.len()].into(), value.to_vec());
    pairs.iter().take(16).map(named).collect()
}

fuzz_target!(|input: Input<'_>| {
    let client = input.client.map(|bytes| match input.is_v4 {
        true => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        false => IpAddr::from(bytes),
    });
    let request = PlainRequest {
        method: input.method.map(Into::into),
        host: input.host.map(Into::into),
        target: Some(input.target.to_vec()),
        client,
        headers: named(&HEADERS, &input.headers),
        labels: named(&LABELS, &input.labels),
        domain: input.domain.then(|| "messaging".into()),
        entries: named(&ENTRIES, &input.entries),
    };
    FOUND.with_borrow_mut(|found| {
        MATCHER.find(&request, found);
        let own: Vec<_> = found.concerned().iter().map(|one| (one.rule, one.tier, one.cost)).collect();
        assert!(found.concerned().iter().all(|one| found.key(one).len() <= 8 * 4098));
        let explained: Vec<_> = MATCHER
            .explain(&request)
            .into_iter()
            .filter_map(|one| match one.why {
                Why::Concerns { tier, cost, .. } => Some((one.rule, tier, cost)),
                _ => None,
            })
            .collect();
        assert_eq!(own, explained, "{request:?}");
    });
});
