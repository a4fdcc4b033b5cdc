//! A thousand files in a directory as Kubernetes writes it, watched while requests are decided.
//!
//! One test, in a process of its own: it measures the process's memory.

#![cfg(unix)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tollgate::ManualClock;
use tollgate_rules::{Limit, Limits, LiveRules, PlainRequest, Scratch};
use tollgate_rules_file::{Disk, LiveFile, ReloadError, Watched};

const FILES: u64 = 1_000;
const THREADS: u8 = 3;
/// What the limits of a file admit: this and the file's number.
const LIMIT: u64 = 1_000_000;
/// The same of a file that is broken, and would show by its numbers.
const BROKEN: u64 = 2_000_000;
/// The time between two looks of the watcher, a hundredth of the usual.
const INTERVAL: Duration = Duration::from_millis(5);

/// A directory as a `ConfigMap` is mounted: `rules.toml -> ..data/rules.toml`, `..data -> ..7`.
struct Mounted {
    path: PathBuf,
    /// The number of directories so far.
    directories: u64,
}

impl Mounted {
    fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-rules-configmap-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let mut mounted = Self { path, directories: 0 };
        mounted.exchange(|file| fs::write(file, text).unwrap());
        symlink("..data/rules.toml", mounted.file()).unwrap();
        mounted
    }

    /// The path that is watched.
    fn file(&self) -> PathBuf {
        self.path.join("rules.toml")
    }

    fn directory(&self, number: u64) -> PathBuf {
        self.path.join(format!("..{number}"))
    }

    /// Exchanges the directory for another one, in which `write` writes the file.
    fn exchange(&mut self, write: impl FnOnce(PathBuf)) {
        let old = self.directory(self.directories);
        self.directories += 1;
        let new = self.directory(self.directories);
        fs::create_dir(&new).unwrap();
        write(new.join("rules.toml"));
        symlink(&new, self.path.join("..data_tmp")).unwrap();
        fs::rename(self.path.join("..data_tmp"), self.path.join("..data")).unwrap();
        let _ = fs::remove_dir_all(old);
    }

    /// Writes the file where it is, in two parts of which the first says nothing.
    fn write_in_place(&self, text: &str) {
        let at = text.rfind("limits").unwrap();
        let mut file = File::create(self.file()).unwrap();
        file.write_all(&text.as_bytes()[..at]).unwrap();
        std::thread::sleep(INTERVAL);
        let mut file = OpenOptions::new().append(true).open(self.file()).unwrap();
        file.write_all(&text.as_bytes()[at..]).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Three rules, by whose limits all three tell the file, and a test of them.
fn text(limit: u64) -> String {
    let rule = |name: &str, key: &str| {
        format!("[[rule]]\nname = '{name}'\nkey = '{key}'\nlimits = '{limit}/s,burst={limit}'\n")
    };
    let test = "[[test]]\nname = 't'\nsteps = [{ client = '192.0.2.1', expect = 'admitted' }]\n";
    format!("version = 1\n{test}{}{}{}", rule("a", "everyone"), rule("b", "client"), rule("c", "method"))
}

/// Breaks the file, each time in another way.
fn break_file(mounted: &mut Mounted, way: u64) {
    let text = text(BROKEN);
    match way % 8 {
        0 => mounted.exchange(|file| fs::write(file, &text[..text.len() - 9]).unwrap()),
        1 => mounted.exchange(|file| fs::write(file, text.replacen("key", "kye", 1)).unwrap()),
        2 => mounted.exchange(|file| fs::write(file, text.replace("'admitted'", "'refused'")).unwrap()),
        // It would forget debts.
        3 => {
            mounted.exchange(|file| fs::write(file, text.replace("'client'\nl", "'method'\nl")).unwrap());
        }
        4 => mounted.exchange(|file| fs::create_dir(file).unwrap()),
        5 => mounted.exchange(|_| ()),
        // A link to itself is unreadable, for the superuser, too.
        6 => mounted.exchange(|file| symlink("rules.toml", file).unwrap()),
        _ => mounted.exchange(|file| fs::write(file, [text.as_bytes(), b"# \xff\n"].concat()).unwrap()),
    }
}

/// The memory of this process that is in use, in bytes.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.and_then(|pages| pages.split(' ').nth(1)?.parse::<u64>().ok());
    resident.unwrap_or(0) * 4096
}

/// Ends the threads, also by a panic.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Decides requests until `is_over`: each by the numbers of one file, and of none from before the
/// request.
fn decide(live: &LiveRules<ManualClock>, thread: u8, is_over: &AtomicBool, in_force: &AtomicU64) -> u64 {
    let (mut handle, mut scratch, mut decided) = (live.handle(), Scratch::default(), 0);
    let request = PlainRequest { client: Some([192, 0, 2, thread].into()), ..PlainRequest::default() };
    while !is_over.load(SeqCst) {
        let before = in_force.load(SeqCst);
        let verdict = handle.check(&request, &mut scratch);
        let limits: Vec<u64> = verdict.lines().iter().map(|line| line.limit).collect();
        assert!(verdict.is_admitted());
        drop(verdict);
        assert!(limits.len() == 3 && limits.iter().all(|limit| *limit == limits[0]), "{limits:?}");
        assert!((LIMIT + before..BROKEN).contains(&limits[0]), "{} after {before}", limits[0]);
        let Limits::Each(own) = &handle.rules().rules().rules[2].limits else { unreachable!() };
        let Limit::Quota(own) = own[0] else { unreachable!() };
        assert_eq!(own.limit(), limits[0], "the numbers of other rules");
        decided += 1;
        // The watcher needs a core, too.
        std::thread::yield_now();
    }
    decided
}

/// What the watcher tells.
type Told = Result<u64, String>;

/// Waits for a report that is as it should be; reports of half-written files are skipped.
/// Returns the number of the look that found it.
fn wait_for(told: &Receiver<(Told, u64)>, is_meant: impl Fn(&Told) -> bool) -> u64 {
    let end = Instant::now() + Duration::from_secs(5);
    let left = || end.saturating_duration_since(Instant::now());
    loop {
        let (done, look) = told.recv_timeout(left()).expect("it is told of every change");
        if is_meant(&done) {
            return look;
        }
    }
}

#[test]
fn a_thousand_exchanged_files_come_into_force_whole() {
    let mut mounted = Mounted::new(&text(LIMIT));
    let clock = ManualClock::new();
    let file = LiveFile::open(mounted.file(), &Disk, clock.clone()).unwrap();
    let (send, told) = channel();
    let looks = Arc::new(AtomicU64::new(0));
    let looked = Arc::clone(&looks);
    let tell = move |done: Result<u64, &ReloadError>| {
        let _ = send.send((done.map_err(ToString::to_string), looked.load(SeqCst)));
    };
    let watched =
        Watched::spawn_every(INTERVAL, Arc::clone(&looks), file.clone(), mounted.file(), tell).unwrap();
    let (is_over, in_force) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut after_warm_up = 0;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let (live, is_over, in_force) = (file.live(), &is_over, &in_force);
        let start = |thread| scope.spawn(move || decide(live, thread, is_over, in_force));
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        let over = Over(is_over);
        let mut generation = 1;
        for number in 1..=FILES {
            if number % 10 == 0 {
                break_file(&mut mounted, number / 10);
                wait_for(&told, Result::is_err);
                assert_eq!(live.status().generation, generation, "file {number}");
                assert!(file.last_error().is_some());
                continue;
            }
            let text = text(LIMIT + number);
            if number % 10 == 5 {
                mounted.write_in_place(&text);
            } else {
                mounted.exchange(|file| fs::write(file, &text).unwrap());
            }
            generation += 1;
            let begun = looks.load(SeqCst);
            let look = wait_for(&told, |told| *told == Ok(generation));
            // The look that had begun may have read the file before. In seconds it would depend on
            // the machine: two looks are half a second apart, and a tenth goes by between both
            // readings of a look.
            assert!(look <= begun + 1, "file {number}: {begun} looks had begun, the {look}th found it");
            in_force.store(number, SeqCst);
            // A debt outlives a few changes.
            clock.advance(Duration::from_millis(200));
            if number == FILES / 5 + 1 {
                after_warm_up = resident();
            }
        }
        drop(over);
        let decided: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(decided > FILES, "{decided} requests");
    });
    drop(watched);
    let grown = resident().saturating_sub(after_warm_up);
    println!("{:?}, {grown} bytes more", began.elapsed());
    // Each change of a rule is about six kilobytes that are kept: 3 rules, 720 files.
    assert!(grown < 14 << 20, "{grown} bytes more");
}
