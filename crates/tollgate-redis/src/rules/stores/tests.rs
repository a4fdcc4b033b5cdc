//! What the reader of rules lets pass is built and kept by its stores: random files.

use std::fmt::Write;

use tollgate::ManualClock;
use tollgate_rules::LiveRules;
use tollgate_rules_file::{Memory, read};
use tollgate_testing::random::Random;

use super::*;

/// How many files are drawn.
const FILES: u64 = 10_000;

fn one<'t>(random: &mut Random, of: &[&'t str]) -> &'t str {
    of[random.usize(..of.len())]
}

/// A number that people write, or one of any size.
fn number(random: &mut Random) -> u64 {
    match random.u32(..12) {
        0 => random.u64(..3),
        1 => 1 << random.u32(..40),
        2 => random.u64(..) >> random.u32(..64),
        3 | 4 => random.u64(1..=10_000),
        _ => random.u64(1..=100),
    }
}

fn time(random: &mut Random) -> String {
    let unit = one(random, &["ms", "s", "s", "min", "min", "h", "d", "w"]);
    match random.u32(..10) {
        0 => format!("{}{unit}", random.u64(..10_000)),
        1 => format!("{}us", random.u64(1..100_000)),
        _ => format!("{}{unit}", random.u64(1..=60)),
    }
}

/// A limit that a store keeps, mostly, where the rule has one.
fn limit(random: &mut Random, is_stored: bool) -> String {
    let rate = format!("{}/{}", number(random), time(random));
    let fits = is_stored && random.u32(..8) > 0;
    let kind = random.u32(..if fits { 6 } else { 13 });
    let mut limit = match kind {
        0 => format!("leaky-bucket:{rate},capacity={}", number(random)),
        1 => format!("fixed-window:{rate}"),
        2 => format!("sliding-window:{rate}"),
        3 => format!("sliding-log:{rate}"),
        4 => format!("{rate},burst={}", number(random)),
        5 => rate,
        6 => format!("fixed-window:{rate},first-hit"),
        7 => format!("sliding-window:{rate},subwindows={}", random.u32(1..8)),
        8 => format!("sliding-window:{rate},subwindows={}", random.u32(..26)),
        9 => format!("{rate},burst={},intervals", number(random)),
        10 => format!("in-flight:{}", number(random)),
        11 => format!("in-flight:{},ttl={}", number(random), time(random)),
        _ => format!("{rate},burst={},initial={}", number(random), number(random)),
    };
    if random.u32(..16) == 0 {
        limit += one(random, &[",count=all", ",queue", ",mode=meter"]);
    }
    limit
}

/// One limit, or several.
fn limits(random: &mut Random, is_stored: bool) -> String {
    let several = match random.u32(..16) {
        0 => random.usize(1..=9),
        1 | 2 => 2,
        3 => return "\"block\"".into(),
        _ => return format!("{:?}", limit(random, is_stored)),
    };
    format!("{:?}", (0..several).map(|_| limit(random, is_stored)).collect::<Vec<_>>())
}

const ADDRESSES: [&str; 24] = [
    "redis://h",
    "valkey://10.0.0.7:7000/2",
    "redis://app:hunter2@cache.test",
    "redis://:p%23w@[::1]:6379/0",
    "redis+unix:///run/redis.sock?db=1&pass=p",
    "redis://h/15?protocol=resp3",
    "redis://app:hunter2#x@127.0.0.1:6379",
    "redis://app:hunter2?x@127.0.0.1:6379",
    "redis://app:hunter2/x@127.0.0.1:6379",
    "redis://app:hunter2#x",
    "redis://h:+6379",
    "redis://h:0",
    "redis://h:65536",
    "redis://h?protocol=resp9",
    "redis://h?timeout=5",
    "redis://[zz]",
    "redis://h|x",
    "redis://h\\\\x",
    "redis://0.0.0.0",
    "redis://[::]",
    "redis://:%ff@h",
    "rediss://h#insecure",
    "unix://h",
    "redis://\u{e9}",
];

/// An address, mostly one that there is.
fn address(random: &mut Random) -> &'static str {
    let right = if random.u32(..8) > 0 { 0..6 } else { 0..ADDRESSES.len() };
    ADDRESSES[random.usize(right)]
}

/// A field of a rule; with a store, mostly one that goes with it.
fn field(random: &mut Random, is_stored: bool) -> String {
    let number = number(random);
    let fits = random.u32(..8) > 0;
    match random.u32(if !fits {
        0..18
    } else if is_stored {
        0..10
    } else {
        5..18
    }) {
        0 => "on_failure = \"allow\"".into(),
        1 | 2 => format!("on_failure = {{ local = {number} }}"),
        3 => format!("deny_cache = {}", number % 5_000),
        4 => format!("leases = {{ nodes = {number}, ttl = {:?} }}", time(random)),
        5 => "on_refusal = \"park\"".into(),
        6 => "charge_if.status = [401, 403]".into(),
        7 => "mode = \"shadow\"".into(),
        8 => {
            let limits = limits(random, is_stored);
            format!("tier = [{{ name = \"t\", match.label.plan = \"x\", limits = {limits} }}]")
        }
        9 => format!("match.path = {:?}", one(random, &["/a", "/a/**", "/{id}/b", "x"])),
        10 => format!("max_keys = {number}"),
        11 | 12 => format!("ban = \"{}d\"", random.u64(1..=5_000)),
        13 => format!("ban = {:?}", time(random)),
        14 => format!("max_wait = {:?}", time(random)),
        15 => format!("cost = {}", random.u64(..4)),
        16 => "inherit = \"proportional\"".into(),
        _ => "missing = \"refuse\"".into(),
    }
}

fn rule(random: &mut Random, name: u32) -> String {
    let is_stored = random.u32(..3) == 0;
    let key = one(random, &["\"client\"", "\"everyone\"", "\"header.x-key\"", "[\"client\", \"path\"]"]);
    let limits = limits(random, is_stored);
    let mut text = format!("[[rule]]\nname = \"r{name}\"\nkey = {key}\nlimits = {limits}\n");
    if is_stored {
        let store = if random.u32(..4) == 0 { "cache" } else { address(random) };
        let _ = writeln!(text, "store = {store:?}");
    }
    let mut fields: Vec<String> = Vec::new();
    for _ in 0..random.u32(..3) {
        let field = field(random, is_stored);
        let name = |line: &str| line.split([' ', '.']).next().map(str::to_owned);
        if !fields.iter().any(|known| name(known) == name(&field)) {
            fields.push(field);
        }
    }
    text + &fields.iter().map(|field| format!("{field}\n")).collect::<String>()
}

fn file(random: &mut Random) -> String {
    let mut file = "version = 1\n".to_owned();
    if random.u32(..8) == 0 {
        let _ = writeln!(file, "memory_budget_mib = {}", random.u64(..4_000));
    }
    for name in 0..random.u32(1..=2) {
        file += &rule(random, name);
    }
    if file.contains("\"cache\"") || random.u32(..8) == 0 {
        let (url, deadline) = (address(random), time(random));
        let _ = writeln!(file, "[stores.cache]\nurl = {url:?}");
        if random.u32(..4) == 0 {
            let _ = writeln!(file, "deadline = {deadline:?}\nprefix = \"shop\"");
        }
        if random.u32(..4) == 0 {
            let other = address(random);
            let _ = writeln!(file, "{} = [{other:?}]", one(random, &["cluster", "sentinels"]));
        }
    }
    file
}

/// `rules check` is the reader, and so is the first half of a start: what it lets pass, the second
/// half must build.
#[test]
fn what_the_check_lets_pass_is_served() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut served, mut stored) = (0, 0);
    for seed in 0..FILES {
        let text = file(&mut Random::with_seed(seed));
        let Ok(rules) = read("rules.toml", &Memory::new("rules.toml", &*text)).into_rules() else { continue };
        served += 1;
        let live = LiveRules::new(rules, [0; 32], ManualClock::new());
        let live = live.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let plans = plan::of(live.rules().rules());
        if plans.iter().flatten().all(Option::is_none) {
            continue;
        }
        stored += 1;
        let _entered = runtime.enter();
        let stores = Stores::default();
        let mut known = stores.known.lock().unwrap();
        for plan in plans.iter().flatten().flatten() {
            assert!(known.build(plan).is_some(), "{plan:?}\n{text}");
        }
    }
    println!("{served} of {FILES} files are served, {stored} of them with stores");
    // Enough of each are drawn.
    assert!((FILES / 5..FILES * 4 / 5).contains(&served) && stored > FILES / 50, "{served}, {stored}");
}
