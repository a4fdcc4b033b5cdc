//! What does finding the rules of a request cost, if three concern it, among 10 rules and among
//! 1,000?
//!
//! `cargo bench -p tollgate-rules --bench matcher`. Prints nanoseconds a request, the median of
//! rounds in which both take turns, and the ratio of the two, which may be 2.

use std::hint::black_box;
use std::time::Instant;

use tollgate_rules::{Found, Matcher, PlainRequest};
use tollgate_rules_file::{Memory, read};

const ROUNDS: usize = 101;
const REQUESTS: u32 = 2_000;

/// What sets rules apart, and the fields that say so, by the rule's number.
type Others = (&'static str, fn(usize) -> String);

/// Three rules that concern the request, and others that do not, by what sets them apart.
fn matcher(count: usize, other: impl Fn(usize) -> String) -> Matcher {
    let mut text = String::from(
        "version = 1
         memory_budget_mib = 4096
         rule = [{ name = 'all', key = 'client', limits = '10/s', except.path = '/health' },
                 { name = 'users', match.path = '/api/v1/users/{id}', key = 'label.user', limits = '5/s' },
                 { name = 'posts', match = { method = 'POST', path = '/api/**' }, key = ['client', 'header.x-api-key'],
                   limits = '1/s' },",
    );
    for number in 3..count {
        text += &format!("{{ name = 'r{number}', {}, key = 'client', limits = '1/s' }},\n", other(number));
    }
    let reading = read("rules.toml", &Memory::new("rules.toml", text + "]"));
    Matcher::new(&reading.into_rules().expect("no mistakes")).expect("the file was read")
}

fn time(matcher: &Matcher, request: &PlainRequest, found: &mut Found) -> f64 {
    let start = Instant::now();
    for _ in 0..REQUESTS {
        matcher.find(black_box(request), found);
        assert_eq!(black_box(&*found).concerned().len(), 3);
    }
    start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let pairs = [("x-api-key", "k-1"), ("user-agent", "curl/8"), ("accept", "*/*")];
    let request = PlainRequest {
        method: Some("POST".into()),
        host: Some("api.example.com".into()),
        target: Some("/api/v1/users/42?verbose=1".into()),
        client: Some([203, 0, 113, 9].into()),
        headers: pairs.iter().map(|(name, value)| ((*name).into(), value.as_bytes().into())).collect(),
        labels: vec![("user".into(), b"ada".to_vec())],
        ..PlainRequest::default()
    };
    let others: [Others; 6] = [
        ("path", |number| format!("match.path = '/api/v1/r{number}/{{id}}'")),
        ("method and path", |number| format!("match = {{ method = 'GET', path = '/x/r{number}/**' }}")),
        ("host", |number| format!("match.host = '*.t{number}.example.com'")),
        ("label", |number| format!("match.label.user = 'u{number}'")),
        ("client", |number| format!("match.client = '10.0.{}.{}'", number / 256, number % 256)),
        ("header and path", |number| {
            format!("match = {{ header.x-api-key = 'k{number}', path = '/api/**' }}")
        }),
    ];
    println!("{:<18}{:>12}{:>12}{:>8}", "others by", "10 rules", "1,000 rules", "ratio");
    for (name, other) in others {
        let (few, many) = (matcher(10, other), matcher(1_000, other));
        let mut found = Found::default();
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            times.0.push(time(&few, &request, &mut found));
            times.1.push(time(&many, &request, &mut found));
        }
        let (few, many) = (median(times.0), median(times.1));
        println!("{name:<18}{few:>9.0} ns{many:>9.0} ns{:>8.2}", many / few);
    }
}
