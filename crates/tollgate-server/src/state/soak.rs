//! Full load while rules are exchanged, state is saved and the server restarts: every key stays
//! within its bound, and memory does not grow.
//!
//! It takes four seconds, or `TOLLGATE_SOAK_SECONDS`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{CallQuota, TscClock};
use tollgate_rules::{Ask, PlainRequest};
use tollgate_rules_file::Disk;
use tollgate_testing::random::Random;

use super::{Keeper, begin};
use crate::clock::ServerClock;
use crate::core::Core;
use crate::settings::Settings;

const THREADS: u64 = 4;

/// The keys that are counted. More come and go beside them.
const KEYS: u32 = 50;

/// The keys of the flood, of which the tables cannot hold all.
const FLOOD: u32 = 50_000;

/// The most that any of the files admits of a key: so many a second, and as many at once.
const MOST: u64 = 50;

/// The memory that may come beside the memory after a third of the time.
const GROWTH: usize = 16 << 20;

/// The rules that take turns. Each has other numbers or other conditions. The burst stays: a
/// smaller one forgets the debt beyond it.
fn rules(turn: u32) -> String {
    let rate = [MOST, MOST / 2, MOST][turn as usize % 3];
    let except = ["", "except.path = '/health',", "except.method = 'PUT',"][turn as usize % 3];
    let each = format!("name = 'each', key = 'client', limits = '{rate}/s,burst={MOST}', max_keys = 20_000");
    format!(
        "version = 1\nrule = [{{ {except} {each} }}, {{ name = 'all', key = 'everyone', limits = '1000000000/s' }}]"
    )
}

/// What the keys were admitted, by rules and by calls.
struct Admitted {
    rules: Vec<AtomicU64>,
    calls: Vec<AtomicU64>,
    decisions: AtomicU64,
}

fn started(settings: &Settings) -> Arc<Core> {
    let clock: ServerClock = Arc::new(TscClock::new());
    let begun = begin(settings, &clock).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(begun.report.forgotten_rules.load(Relaxed), 0);
    let core = Core::new(begun.file, clock, settings.resp_max_keys, false).unwrap();
    if let Some(calls) = begun.calls {
        core.calls.put(calls);
    }
    Arc::new(core)
}

/// Asks as fast as it can.
fn load(core: &Core, admitted: &Admitted, is_over: &AtomicBool, seed: u64) {
    let quota = CallQuota::from_nanos(1_000_000_000 / MOST, 1_000_000_000).unwrap().lend();
    let mut random = Random::with_seed(seed);
    let mut request = PlainRequest::default();
    while !is_over.load(Relaxed) {
        let key = if random.u32(..4) == 0 { KEYS + random.u32(..FLOOD) } else { random.u32(..KEYS) };
        request.client = Some(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + key)));
        let by_rules = core.decider().ask(&request, Ask::default()).is_admitted();
        // A full table admits nothing.
        let by_call = core.calls.load().account(key.to_le_bytes()).under(&quota).check().is_allowed();
        if key < KEYS {
            admitted.rules[key as usize].fetch_add(u64::from(by_rules), Relaxed);
            admitted.calls[key as usize].fetch_add(u64::from(by_call), Relaxed);
        }
        admitted.decisions.fetch_add(2, Relaxed);
    }
}

/// The memory that this process uses, in bytes.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Exchanges rules until `until`. Every fourth file is broken.
fn reload(core: &Core, file: &Path, until: Instant, turn: &mut u32) {
    while Instant::now() < until {
        *turn += 1;
        let is_broken = turn.is_multiple_of(4);
        std::fs::write(file, if is_broken { "nonsense".into() } else { rules(*turn) }).unwrap();
        let reloaded = core.file.reload(file, &Disk);
        assert_eq!(reloaded.is_err(), is_broken, "{reloaded:?}");
        thread::sleep(Duration::from_millis(50));
    }
    std::fs::write(file, rules(*turn)).unwrap();
}

#[test]
fn every_key_stays_within_its_bound_under_full_load() {
    let seconds = std::env::var("TOLLGATE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(4)) / 3;
    let folder: PathBuf = std::env::temp_dir().join(format!("tollgate-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut settings = Settings::new(folder.join("rules.toml"));
    settings.state = Some(folder.join("state"));
    settings.strict_state = true;
    settings.resp_max_keys = 20_000;
    std::fs::write(&settings.rules, rules(0)).unwrap();

    let zeros = || (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let admitted = Admitted { rules: zeros(), calls: zeros(), decisions: AtomicU64::new(0) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (begun, mut turn, mut first) = (Instant::now(), 0, None);
    // Three servers, one after the other: each begins with the state of the one before.
    for _ in 0..3 {
        let core = started(&settings);
        let ends = tokio_util::sync::CancellationToken::new();
        let path = settings.state.clone().unwrap();
        let keeper = {
            let _entered = runtime.enter();
            Keeper::spawn(Arc::clone(&core), path, Duration::from_millis(100), ends.clone())
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let (core, admitted, is_over) = (&core, &admitted, &is_over);
                scope.spawn(move || load(core, admitted, is_over, seed));
            }
            reload(&core, &settings.rules, Instant::now() + length, &mut turn);
            is_over.store(true, Relaxed);
        });
        ends.cancel();
        runtime.block_on(keeper.finish()).unwrap();
        assert_eq!(core.state.failed_saves.load(Relaxed), 0);
        let used = memory();
        assert!(used <= *first.get_or_insert(used) + GROWTH, "{used} bytes, and {first:?} at first");
    }
    let most = MOST + begun.elapsed().as_millis() as u64 * MOST / 1_000 + 1;
    for (what, keys) in [("rules", &admitted.rules), ("calls", &admitted.calls)] {
        let counts: Vec<u64> = keys.iter().map(|key| key.load(Relaxed)).collect();
        let largest = *counts.iter().max().unwrap();
        assert!(largest <= most, "{what}: {largest} of at most {most}");
        assert!(largest > MOST, "{what}: the limit was reached, and refilled");
    }
    println!("{} decisions, {turn} files", admitted.decisions.load(Relaxed));
    std::fs::remove_dir_all(&folder).unwrap();
}
