//! Limits of `quota_mode`, which several threads ask in files of envoyproxy/ratelimit.
//!
//! Time stands still. A limit of this mode may be over in an admitted call, but not all of them. So
//! of each key no more hits are OK in admitted calls than its limit, and each of those is counted.
//! Reloads change the numbers and the modes meanwhile, and a restart finds the same counts.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_rules_file::EnvoyCharge;
use tollgate_testing::folder::Folder;
use tollgate_testing::random::Random;

use crate::program::number;
use crate::rooms::{Rooms, settings};

const THREADS: u64 = 3;
const CALLS: u64 = 40;

/// The reloads of a program. Each raises the limits.
const RELOADS: u64 = 4;

/// The values of each limit, which are its keys.
const VALUES: usize = 3;

/// A limit of the file.
struct Limit {
    name: &'static str,
    most: u64,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Quota,
    /// Of `quota_mode`, and never over.
    Shadow,
}

const LIMITS: [Limit; 5] = [
    Limit { name: "team", most: 20, mode: Mode::Quota },
    Limit { name: "user", most: 9, mode: Mode::Quota },
    Limit { name: "plan", most: 14, mode: Mode::Quota },
    Limit { name: "address", most: 25, mode: Mode::Plain },
    Limit { name: "trial", most: 5, mode: Mode::Shadow },
];

/// The file after so many reloads, of which every other one swaps the first two modes.
fn file(turn: u64) -> String {
    let mut text = "domain: shop\ndescriptors:\n".to_owned();
    for Limit { name, most, mode } in &LIMITS {
        let (is_swapped, is_shadow) = (turn % 2 == 1, *mode == Mode::Shadow);
        let is_quota = is_shadow || (*mode == Mode::Quota) != is_swapped;
        let limit = format!("{{ unit: day, requests_per_unit: {} }}", most + turn);
        text += &format!(
            "  - {{ key: {name}, quota_mode: {is_quota}, shadow_mode: {is_shadow}, rate_limit: {limit} }}\n"
        );
    }
    text
}

/// The hits of a key.
#[derive(Default)]
struct Hits {
    /// Of descriptors that were OK in admitted calls.
    admitted: AtomicU64,
    /// Of all others, which may be counted.
    others: AtomicU64,
}

type Counts = [[Hits; VALUES]; LIMITS.len()];

fn descriptor(limit: usize, value: usize, hits: u64) -> Value {
    let entry = json!({ "key": LIMITS[limit].name, "value": value.to_string() });
    json!({ "entries": [entry], "hitsAddend": hits.to_string() })
}

/// Whether each descriptor of a call is over its limit, and how much is left.
fn statuses(said: &Value) -> Vec<(bool, u64)> {
    let status = |status: &Value| {
        (status["code"] == "OVER_LIMIT", status["limitRemaining"].as_u64().unwrap_or_default())
    };
    said["statuses"].as_array().unwrap().iter().map(status).collect()
}

fn ask(rooms: &Rooms, counts: &Counts, random: &mut Random, has_reloads: bool) {
    let asked: Vec<_> = (0..=random.u64(..4))
        .map(|_| {
            let (limit, value) = (random.usize(..LIMITS.len()), random.usize(..VALUES));
            (limit, value, random.u64(1..=2))
        })
        .collect();
    let descriptors: Vec<_> =
        asked.iter().map(|&(limit, value, hits)| descriptor(limit, value, hits)).collect();
    let (status, said) = rooms.post("/json", &json!({ "domain": "shop", "descriptors": descriptors }));
    assert!(status == 200 || status == 429, "{status}: {said}");
    let over: Vec<bool> = statuses(&said).into_iter().map(|(is_over, _)| is_over).collect();
    for ((limit, value, hits), is_over) in asked.iter().zip(&over) {
        let Hits { admitted, others } = &counts[*limit][*value];
        let hits_of = if status == 200 && !is_over { admitted } else { others };
        hits_of.fetch_add(*hits, SeqCst);
    }
    if has_reloads {
        // The modes are not known, but a call all of whose limits are over is refused by any.
        assert!(status == 429 || over.contains(&false), "{said}");
        return;
    }
    let of = |is_quota: bool| {
        let is_of = move |(limit, ..): &(usize, usize, u64)| (LIMITS[*limit].mode != Mode::Plain) == is_quota;
        asked.iter().zip(&over).filter(move |(one, _)| is_of(one)).map(|(_, is_over)| *is_over)
    };
    let is_refused =
        of(false).any(|is_over| is_over) || of(true).count() > 0 && of(true).all(|is_over| is_over);
    assert_eq!(status == 429, is_refused, "{said}");
}

/// What of each key is left.
fn left(rooms: &Rooms) -> [[u64; VALUES]; LIMITS.len()] {
    std::array::from_fn(|limit| {
        std::array::from_fn(|value| {
            let call = json!({ "domain": "shop", "descriptors": [descriptor(limit, value, 0)] });
            statuses(&rooms.post("/json", &call).1)[0].1
        })
    })
}

/// Returns whether an admitted call used up a limit.
fn play(seed: u64) -> bool {
    let folder = Folder::new();
    let (charge, reloads) = match seed % 4 {
        0 => (EnvoyCharge::Each, 0),
        1 => (EnvoyCharge::Together, 0),
        2 => (EnvoyCharge::Each, RELOADS),
        _ => (EnvoyCharge::Together, RELOADS),
    };
    let mut settings = settings(&folder);
    settings.envoy_charge = charge;
    std::fs::write(&settings.rules, "version = 1").unwrap();
    std::fs::write(&settings.envoy[0], file(0)).unwrap();
    let rooms = Rooms::begin(settings.clone(), Duration::from_secs(1_700_000_123));
    let counts = Counts::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rooms, counts, mut random) = (&rooms, &counts, Random::with_seed(seed * THREADS + thread));
            scope.spawn(move || (0..CALLS).for_each(|_| ask(rooms, counts, &mut random, reloads > 0)));
        }
        for turn in 1..=reloads {
            std::fs::write(&rooms.settings.envoy[0], file(turn)).unwrap();
            assert_eq!(rooms.reload("version = 1", None), 200);
            rooms.save();
        }
    });
    let found = left(&rooms);
    let mut is_used_up = false;
    for ((limit, counts), left) in LIMITS.iter().zip(&counts).zip(&found) {
        let most = limit.most + reloads;
        for (value, (hits, left)) in counts.iter().zip(left).enumerate() {
            let (admitted, others) = (hits.admitted.load(SeqCst), hits.others.load(SeqCst));
            let what = format!("{} {value}: {admitted} and {others}, {left} left of {most}", limit.name);
            assert!(admitted <= most || limit.mode == Mode::Shadow, "{what}");
            let (least, all) = (admitted.min(most), (admitted + others).min(most));
            let least = if charge == EnvoyCharge::Each { all } else { least };
            assert!((least..=all).contains(&(most - left)), "{what}");
            is_used_up |= limit.mode == Mode::Quota && admitted == most;
        }
    }
    // A restart finds the same.
    rooms.save();
    let again = Rooms::begin(settings, rooms.unix());
    assert_eq!(left(&again), found);
    is_used_up
}

#[test]
fn threads_are_admitted_no_more_than_quotas_allow() {
    let (first, programs) = (number("TOLLGATE_SEED", 0), number("TOLLGATE_PROGRAMS", 60));
    let mut used_up = 0;
    for seed in first..first + programs {
        let played = std::panic::catch_unwind(|| play(seed));
        used_up += u64::from(played.unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic)
        }));
    }
    assert!(used_up > programs / 10, "{used_up} of {programs} programs used up a limit");
}
