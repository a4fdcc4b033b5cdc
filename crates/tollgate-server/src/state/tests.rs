//! The state file is whole, old or new, at any time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate::{CallQuota, ManualClock, RestoreError};
use tollgate_rules::{Ask, PlainRequest, Scratch};

use tollgate_testing::folder;

use super::{StateError, begin, file};
use crate::clock::ServerClock;
use crate::core::{Core, ready};
use crate::server::Server;
use crate::settings::Settings;
use crate::start_error::StartError;

const BEGUN: u64 = 1_700_000_000;

/// A folder with rules.
struct Folder(folder::Folder);

impl Folder {
    fn new(rules: &str) -> Self {
        let folder = Self(folder::Folder::new());
        folder.rules(rules);
        folder
    }

    fn rules(&self, rules: &str) {
        self.0.write("rules.toml", format!("version = 1\n{rules}"));
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn settings(&self) -> Settings {
        settings(self.0.path())
    }
}

fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::new(folder.join("rules.toml"));
    settings.state = Some(folder.join("state"));
    settings.resp_max_keys = 100_000;
    settings
}

fn clock(unix: u64) -> ServerClock {
    Arc::new(ManualClock::starting_at(Duration::from_secs(unix)))
}

/// A server without listeners.
struct Quiet {
    core: Core,
}

impl Quiet {
    fn new(settings: &Settings, unix: u64) -> Self {
        let clock = clock(unix);
        let begun = begin(settings, &clock).unwrap_or_else(|error| panic!("{error}"));
        let mut core = Core::new(begun.file, clock, settings.resp_max_keys, false).unwrap();
        (core.envoy, core.state) = (begun.envoy, begun.report);
        if let Some(calls) = begun.calls {
            core.calls.put(calls);
        }
        Self { core }
    }

    fn spend(&self, cost: u64) {
        let ask = Ask { cost, ..Ask::default() };
        let mut handle = self.core.live.handle();
        assert!(handle.ask(&PlainRequest::default(), ask, &mut Scratch::default()).is_admitted());
    }

    fn left(&self) -> u64 {
        let ask = Ask { cost: 0, is_peek: true, ..Ask::default() };
        let (mut handle, mut scratch) = (self.core.live.handle(), Scratch::default());
        let verdict = handle.ask(&PlainRequest::default(), ask, &mut scratch);
        verdict.lines()[0].remaining
    }

    fn call(&self, key: &[u8], cost: u64) -> u64 {
        let quota = CallQuota::from_nanos(1_000_000_000, 100_000_000_000).unwrap().lend();
        self.core.calls.load().account(key).under(&quota).check_n(cost).remaining()
    }

    fn save(&self, path: &Path) -> std::io::Result<usize> {
        file::save(path, &self.core)
    }

    fn forgotten(&self) -> u64 {
        self.core.state.forgotten_rules.load(Relaxed)
    }
}

const DAILY: &str = "rule = [{ name = 'all', key = 'everyone', limits = '86400/d,burst=1000' }]";

#[test]
fn a_restart_forgets_no_debt() {
    let folder = Folder::new(DAILY);
    let server = Quiet::new(&folder.settings(), BEGUN);
    server.spend(300);
    assert_eq!(server.call(b"alice", 60), 40);
    assert_eq!(server.save(&folder.state()).unwrap(), 2);
    assert_eq!(fs::metadata(folder.state()).unwrap().permissions().mode() & 0o777, 0o600);
    let server = Quiet::new(&folder.settings(), BEGUN + 10);
    assert_eq!((server.left(), server.call(b"alice", 0)), (710, 50));
    // A clock that was set back forgives nothing, and no debt grows.
    let server = Quiet::new(&folder.settings(), BEGUN - 3_600);
    assert_eq!((server.left(), server.call(b"alice", 0)), (700, 40));
}

#[test]
fn the_rules_of_today_take_over_the_state() {
    let folder = Folder::new(DAILY);
    let server = Quiet::new(&folder.settings(), BEGUN);
    server.spend(300);
    server.save(&folder.state()).unwrap();
    folder.rules(&DAILY.replace("'all'", "'each', was = 'all'").replace("1000", "2000"));
    let server = Quiet::new(&folder.settings(), BEGUN);
    assert_eq!((server.left(), server.forgotten()), (1_700, 0));
    folder.rules(&DAILY.replace("'86400/d,burst=1000'", "'sliding-log:1000/d'"));
    let server = Quiet::new(&folder.settings(), BEGUN);
    assert_eq!((server.left(), server.forgotten()), (1_000, 1), "it is forgotten, and told");
    folder.rules(&DAILY.replace("'everyone'", "'client'"));
    let server = Quiet::new(&folder.settings(), BEGUN);
    assert_eq!(server.forgotten(), 1, "a key was in debt");
    let server = Quiet::new(&folder.settings(), BEGUN + 100_000);
    assert_eq!(server.forgotten(), 0, "no key is in debt any more");
    folder.rules("nonsense");
    let error = begin(&folder.settings(), &clock(BEGUN)).map(drop).unwrap_err();
    assert!(matches!(error, StartError::Rules(_)), "{error}");
}

const CALLS: &str =
    "domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 9 } }]\n";

impl Quiet {
    /// What a call leaves of the limit by the files.
    fn hits(&self, hits: u32) -> u32 {
        let envoy = self.core.envoy.as_ref().expect("there are files");
        let call = ("shop", &[&[("user", "alice")][..]][..], hits);
        let decided = ready(envoy.decide(call, |_, answer, _| answer.statuses()[0].remaining));
        decided.expect("it is in order").expect("it has the domain")
    }
}

#[test]
fn a_restart_forgets_no_count_of_envoys_files() {
    let folder = Folder::new(DAILY);
    let mut settings = folder.settings();
    fs::write(folder.0.path().join("shop.yaml"), CALLS).unwrap();
    settings.envoy.push(folder.0.path().join("shop.yaml"));
    let server = Quiet::new(&settings, BEGUN);
    server.spend(300);
    server.call(b"alice", 60);
    assert_eq!(server.hits(4), 5);
    assert_eq!(server.save(&folder.state()).unwrap(), 3);
    let server = Quiet::new(&settings, BEGUN + 10);
    assert_eq!((server.hits(1), server.left(), server.call(b"alice", 0)), (4, 710, 50));
    // The number may change, as at a reload.
    server.save(&folder.state()).unwrap();
    fs::write(folder.0.path().join("shop.yaml"), CALLS.replace('9', "6")).unwrap();
    assert_eq!(Quiet::new(&settings, BEGUN + 10).hits(1), 0);
    // The other state outlasts a start without the files.
    let server = Quiet::new(&folder.settings(), BEGUN + 10);
    assert_eq!((server.left(), server.call(b"alice", 0)), (710, 50));
    let whole = fs::read(folder.state()).unwrap();
    for len in 0..whole.len() {
        fs::write(folder.state(), &whole[..len]).unwrap();
        let server = Quiet::new(&settings, BEGUN);
        assert_eq!((server.hits(1), server.left()), (5, 1_000), "{len} bytes");
    }
}

#[test]
fn a_restart_forgets_no_rule_that_is_gone() {
    let folder = Folder::new(DAILY);
    let other = DAILY.replace("'all'", "'other'").replace("1000", "2000");
    let server = Quiet::new(&folder.settings(), BEGUN);
    server.spend(300);
    folder.rules(&other);
    server.core.file.reload(&folder.settings().rules, &tollgate_rules_file::Disk).unwrap();
    assert_eq!(server.left(), 2_000);
    server.save(&folder.state()).unwrap();
    let server = Quiet::new(&folder.settings(), BEGUN + 10);
    assert_eq!(server.left(), 2_000);
    folder.rules(DAILY);
    server.core.file.reload(&folder.settings().rules, &tollgate_rules_file::Disk).unwrap();
    assert_eq!(server.left(), 710);
    // Gone before the restart, and there at the start.
    folder.rules(&other);
    server.core.file.reload(&folder.settings().rules, &tollgate_rules_file::Disk).unwrap();
    server.save(&folder.state()).unwrap();
    folder.rules(DAILY);
    assert_eq!(Quiet::new(&folder.settings(), BEGUN + 20).left(), 720);
}

#[test]
fn a_damaged_file_is_put_aside() {
    let folder = Folder::new(DAILY);
    let server = Quiet::new(&folder.settings(), BEGUN);
    server.spend(300);
    server.call(b"alice", 60);
    server.save(&folder.state()).unwrap();
    let whole = fs::read(folder.state()).unwrap();
    for len in 0..whole.len() {
        fs::write(folder.state(), &whole[..len]).unwrap();
        let mut settings = folder.settings();
        settings.strict_state = true;
        let strict = begin(&settings, &clock(BEGUN)).map(drop);
        assert!(matches!(strict, Err(StartError::State { .. })), "{len} bytes");
        assert_eq!(fs::read(folder.state()).unwrap(), &whole[..len], "it stays where it is");
    }
    let server = Quiet::new(&folder.settings(), BEGUN);
    assert_eq!(server.left(), 1_000);
    assert!(!folder.state().exists());
    assert_eq!(fs::read(folder.0.path().join("state.bad")).unwrap(), &whole[..whole.len() - 1]);

    fs::write(folder.state(), [&whole[..], b"x"].concat()).unwrap();
    let restored = |path: &Path| file::restore(path, 100_000, None, &clock(BEGUN)).map(drop);
    assert!(matches!(restored(&folder.state()), Err(StateError::Longer)));
    fs::write(folder.state(), "version = 1").unwrap();
    assert!(matches!(restored(&folder.state()), Err(StateError::Restore(RestoreError::Foreign { .. }))));
    fs::write(folder.state(), &whole).unwrap();
    assert!(restored(&folder.state()).is_ok());
}

#[test]
fn a_directory_is_not_put_aside_as_a_damaged_file() {
    let folder = Folder::new(DAILY);
    fs::create_dir(folder.state()).unwrap();
    let error = begin(&folder.settings(), &clock(BEGUN)).map(drop).unwrap_err();
    assert!(error.to_string().contains("it is no file"), "{error}");
    assert!(folder.state().is_dir());
}

#[test]
fn calls_without_room_are_told_and_forgotten() {
    let folder = Folder::new(DAILY);
    let server = Quiet::new(&folder.settings(), BEGUN);
    server.spend(300);
    for key in 0_u32..5_000 {
        server.call(&key.to_le_bytes(), 90);
    }
    server.save(&folder.state()).unwrap();
    let mut settings = folder.settings();
    settings.resp_max_keys = 10;
    let server = Quiet::new(&settings, BEGUN);
    assert_eq!((server.left(), server.call(&1_u32.to_le_bytes(), 0)), (700, 100));
}

#[test]
fn a_full_disk_keeps_the_old_file() {
    // A process of its own, whose files may have few bytes: writes beyond fail as on a full disk.
    if let Ok(folder) = std::env::var("TOLLGATE_FULL_DISK") {
        let server = Quiet::new(&settings(Path::new(&folder)), BEGUN);
        for key in 0_u32..5_000 {
            server.call(&key.to_le_bytes(), 90);
        }
        let error = server.save(&Path::new(&folder).join("state")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge, "{error}");
        return;
    }
    let folder = Folder::new(DAILY);
    let server = Quiet::new(&folder.settings(), BEGUN);
    server.spend(300);
    server.save(&folder.state()).unwrap();
    let whole = fs::read(folder.state()).unwrap();
    let child = Command::new("sh")
        // 16 KiB; the signal of that limit is ignored, so that the write fails instead.
        .args(["-c", "trap '' XFSZ; ulimit -f 32; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "state::tests::a_full_disk_keeps_the_old_file"])
        .env("TOLLGATE_FULL_DISK", folder.0.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(fs::read(folder.state()).unwrap(), whole);
    assert!(!folder.0.path().join("state.new").exists(), "its room is free again");
    assert_eq!(Quiet::new(&folder.settings(), BEGUN).left(), 700);
}

#[test]
fn a_kill_during_a_save_leaves_a_whole_file() {
    // A process of its own, which saves one state after the other until it is killed.
    if let Ok(folder) = std::env::var("TOLLGATE_KILLED") {
        let server = Quiet::new(&settings(Path::new(&folder)), BEGUN);
        for key in 0_u32..2_000 {
            // Those that were saved before owe it already.
            if server.call(&key.to_le_bytes(), 0) == 100 {
                server.call(&key.to_le_bytes(), 50);
            }
        }
        loop {
            server.save(&Path::new(&folder).join("state")).unwrap();
            server.spend(1);
        }
    }
    let folder = Folder::new("rule = [{ name = 'all', key = 'everyone', limits = '100000000/d' }]");
    let mut last = 100_000_000;
    for round in 0_u32..100 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "state::tests::a_kill_during_a_save_leaves_a_whole_file"])
            .env("TOLLGATE_KILLED", folder.0.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        let is_changed = |since: &Option<std::time::SystemTime>| {
            fs::metadata(folder.state()).is_ok_and(|file| file.modified().ok() != *since)
        };
        let before = fs::metadata(folder.state()).and_then(|file| file.modified()).ok();
        while !is_changed(&before) && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_micros(200));
        }
        // At any point of the saves that follow.
        std::thread::sleep(Duration::from_micros(u64::from(round) * 137 % 5_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut settings = folder.settings();
        settings.strict_state = true;
        let server = Quiet::new(&settings, BEGUN);
        assert!(server.left() <= last, "round {round}: {} after {last}", server.left());
        last = server.left();
        assert_eq!(server.call(&7_u32.to_le_bytes(), 0), 50, "round {round}");
    }
    assert!(last < 100_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_decided_after_the_last_save() {
    let folder = Folder::new(DAILY);
    let mut settings = folder.settings();
    settings.http.push("127.0.0.1:0".parse().unwrap());
    settings.drain_delay = Duration::ZERO;
    settings.drain_timeout = Duration::from_millis(50);
    let server = Server::start(settings).await.unwrap();
    let address = server.addresses().next().unwrap().to_string();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.end().await.unwrap();
    // The request is complete only now.
    let _ = client.write_all(b"}").await;
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    assert_eq!(String::from_utf8_lossy(&answer), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_saves_to_a_state_file() {
    let folder = Folder::new(DAILY);
    let server = Server::start(folder.settings()).await.unwrap();
    let error = begin(&folder.settings(), &clock(BEGUN)).map(drop).unwrap_err();
    let StartError::State { error: in_use, .. } = &error else { panic!("{error}") };
    let own = std::process::id();
    assert!(matches!(**in_use, StateError::InUse { holder: Some(holder) } if holder == own), "{error}");
    assert!(error.to_string().contains("end that one first"), "{error}");
    server.end().await.unwrap();
    assert!(begin(&folder.settings(), &clock(BEGUN)).is_ok());
}

#[test]
fn a_lock_changes_no_other_programs_file() {
    let folder = Folder::new(DAILY);
    let (lock, other) = (folder.0.path().join("state.lock"), folder.0.path().join("other"));
    fs::write(&other, "12").unwrap();
    std::os::unix::fs::symlink(&other, &lock).unwrap();
    let begun = begin(&folder.settings(), &clock(BEGUN)).unwrap_or_else(|error| panic!("{error}"));
    assert!(begun.lock.is_none());
    assert_eq!(fs::read(&other).unwrap(), b"12");
    fs::remove_file(&lock).unwrap();
    fs::write(&lock, "[[package]]").unwrap();
    let begun = begin(&folder.settings(), &clock(BEGUN)).unwrap_or_else(|error| panic!("{error}"));
    assert!(begun.lock.is_some());
    assert_eq!(fs::read(&lock).unwrap(), b"[[package]]");
}

#[test]
fn a_server_starts_without_a_lock_file() {
    let folder = Folder::new(DAILY);
    fs::create_dir(folder.0.path().join("state.lock")).unwrap();
    let begun = begin(&folder.settings(), &clock(BEGUN)).unwrap_or_else(|error| panic!("{error}"));
    assert!(begun.lock.is_none());
}
