//! What does deciding a request by three rules cost, beside three checks of the engine?
//!
//! `cargo bench -p tollgate-rules --bench decide`. Prints nanoseconds a request, the median of
//! rounds in which all take turns: finding the rules, three checks by the engine, and the whole
//! check. The ratio is of the check without the finding to the engine's, and may be 1.3.

use std::hint::black_box;
use std::time::Instant;

use tollgate::{Limiter, Quota, TscClock};
use tollgate_rules::{Found, LiveRules, PlainRequest, Scratch};
use tollgate_rules_file::{Memory, read};

const ROUNDS: usize = 101;
const REQUESTS: u32 = 2_000;
const LIMITS: [&str; 3] = ["1000000000/s", "900000000/s", "fixed-window:800000000/s"];

fn time(mut check: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..REQUESTS {
        assert!(black_box(check()));
    }
    start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let [all, client, user] = LIMITS;
    let text = format!(
        "version = 1\nrule = [{{ name = 'all', key = 'everyone', limits = '{all}' }},\
         {{ name = 'client', key = 'client', limits = '{client}' }},\
         {{ name = 'user', key = 'label.user', limits = '{user}' }}]"
    );
    let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().expect("no mistakes");
    let clock = TscClock::new();
    let live = LiveRules::new(rules, [0; 32], clock.clone()).expect("there is memory");
    let (mut handle, mut scratch, mut found) = (live.handle(), Scratch::default(), Found::default());
    let request = PlainRequest {
        client: Some([203, 0, 113, 9].into()),
        labels: vec![("user".into(), b"ada".to_vec())],
        ..PlainRequest::default()
    };
    let engine = LIMITS.map(|limit| {
        let quota: Quota = limit.parse().expect("a limit");
        Limiter::builder([quota]).per::<[u8]>().clock(clock.clone()).build().expect("there is memory")
    });
    let set = live.rules();
    set.matcher().find(&request, &mut found);
    let keys: Vec<Vec<u8>> = found.concerned().iter().map(|one| found.key(one).to_vec()).collect();
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        times[0].push(time(|| {
            set.matcher().find(black_box(&request), &mut found);
            found.concerned().len() == 3
        }));
        times[1].push(time(|| {
            let mut checks = engine.iter().zip(&keys);
            checks.all(|(limiter, key)| limiter.check(black_box(key)).is_allowed())
        }));
        times[2].push(time(|| handle.check(black_box(&request), &mut scratch).is_admitted()));
    }
    let [find, engine, check] = times.each_mut().map(|times| median(times));
    println!("find {find:.1} ns, three checks {engine:.1} ns, decide {check:.1} ns");
    println!("without finding: {:.2} times three checks", (check - find) / engine);
}
