//! The resident memory of a limiter, as the operating system counts it. This file is a test binary
//! of its own, so that no other test's memory is counted.
#![cfg(target_os = "linux")]

use std::fs;
use std::time::Duration;

use tollgate::{Builder, Limiter, ManualClock, Rate, SlidingLog, TokenBucket};

/// Returns the resident bytes of memory that this process asked for, from the page tables: the
/// number in `statm` may be off by some dozen pages for each processor. Pages of the program's file
/// do not count: up to sixteen of them come with the first instruction of new code.
fn resident() -> usize {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes << 10
}

/// Returns the minor page faults of this process.
fn faults() -> usize {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(7).unwrap().parse().unwrap()
}

/// Returns whether the system can commit pages ahead: Linux from 5.14 on.
fn commits_ahead() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(14))
}

fn builder() -> Builder<u64, TokenBucket, 1, ManualClock> {
    Limiter::builder(TokenBucket::new(Rate::per_hour(1))).per().clock(ManualClock::new())
}

/// Returns the bytes that `keys` keys take in this limiter.
fn taken(builder: Builder<u64, TokenBucket, 1, ManualClock>, keys: u64) -> usize {
    let before = resident();
    let limiter = builder.build().unwrap();
    let admitted = (0..keys).filter(|key| limiter.check(key).is_allowed()).count() as u64;
    assert!(admitted * 1_000 >= keys * 990, "all but a few have room: {admitted} of {keys}");
    resident() - before
}

/// Returns how many bytes a key takes at most while so many keys come, none of which recovers. They
/// are far fewer than the table has room for, and the first ten thousand do not count. Which shards
/// grow at the same time is random: of 60 runs four took more than 52 bytes, and none more than 53.
fn most_while_growing(keys: u64) -> f64 {
    let before = resident();
    let limiter = builder().max_keys(20_000_000).build().unwrap();
    let mut most = 0.0_f64;
    for key in 0..keys {
        assert!(limiter.check(key).is_allowed());
        if key >= 10_000 && key.is_multiple_of(1_000) {
            most = most.max((resident() - before) as f64 / key as f64);
        }
    }
    most
}

#[test]
fn memory_matches_the_documentation() {
    // Load the code and the test's own memory first.
    let _ = taken(builder(), 10);
    let before = resident();
    let idle: Vec<_> = (0..100).map(|_| builder().build().unwrap()).collect();
    assert!(idle.iter().all(|limiter| limiter.check(1).is_allowed()));
    let each = (resident() - before) / idle.len();
    assert!(each < 64 << 10, "an idle limiter of default settings takes {each} bytes");

    // A log's table does not grow, but its untouched memory is not resident.
    let before = resident();
    let log = || Limiter::builder(SlidingLog::new(Rate::per_minute(100))).per::<u64>().build().unwrap();
    let idle: Vec<_> = (0..10).map(|_| log()).collect();
    assert!(idle.iter().all(|limiter| limiter.check(1).is_allowed()));
    let each = (resident() - before) / idle.len();
    assert!(each < 64 << 10, "an idle log of default settings takes {each} bytes");

    let bytes = taken(builder(), 10_000);
    assert!(bytes < 1 << 20, "10,000 keys take {bytes} bytes");

    // A sixteenth of ten million keys, which fill their table equally.
    let before = faults();
    let bytes = taken(builder().max_keys(625_000), 625_000);
    assert!(bytes <= 34 * 625_000, "625,000 keys take {bytes} bytes");
    let (faults, pages) = (faults() - before, bytes / 4096);
    // Linux counts a page that is committed ahead as one fault, and a touched page as two: for the
    // read and for the write.
    assert!(!commits_ahead() || faults < pages + pages / 4, "{faults} faults for {pages} pages");
    let before = resident();
    let clock = ManualClock::new();
    let limiter = builder().clock(clock.clone()).max_keys(625_000).build().unwrap();
    assert!((0..100_000).all(|key| limiter.check(key).is_allowed()));
    assert!(resident() - before > 2 << 20);
    clock.advance(Duration::from_secs(3_600));
    let mut saved = Vec::new();
    limiter.save(&mut saved).unwrap();
    drop(limiter);
    let limiter = builder().clock(clock).max_keys(625_000).restore(&saved[..]).unwrap();
    assert!(limiter.check(1).is_allowed());
    let bytes = resident().saturating_sub(before);
    assert!(bytes < 256 << 10, "after a spike that has run out {bytes} bytes are still taken");

    assert!(builder().max_keys(10_000_000).memory().unwrap() <= 34 * 10_000_000);
    let most = most_while_growing(1_000_000);
    assert!(most <= 56.0, "a key of a growing table takes up to {most} bytes");

    // A log's rings do not migrate. A save and a restore return their memory.
    let before = resident();
    let clock = ManualClock::new();
    let log = || {
        Limiter::builder(SlidingLog::new(Rate::per_hour(100)))
            .per::<u64>()
            .max_keys(20_000)
            .clock(clock.clone())
    };
    let limiter = log().build().unwrap();
    assert!((0..10_000).all(|key| limiter.check(key).is_allowed()));
    clock.advance(Duration::from_secs(3_601));
    assert!((0..100).all(|key| limiter.check_n(key, 40).is_allowed()));
    assert!(resident() - before > 16 << 20);
    let mut saved = Vec::new();
    limiter.save(&mut saved).unwrap();
    drop(limiter);
    let limiter = log().restore(&saved[..]).unwrap();
    let bytes = resident().saturating_sub(before);
    assert!(bytes < 2 << 20, "after a spike that has run out a restored log takes {bytes} bytes");
    assert!((0..100).all(|key| limiter.check_n(key, 60).is_allowed() && !limiter.check(key).is_allowed()));
}
