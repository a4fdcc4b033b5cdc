//! A thread that watches the files of envoyproxy/ratelimit.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tollgate_rules_file::{EnvoyConfig, Reading};

use super::{Core, Envoy};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long files must stay as they are before they are taken: a writer may not be done.
const QUIET: Duration = Duration::from_millis(100);

/// How often files are read that seem unchanged.
const BACKSTOP: Duration = Duration::from_secs(10);

/// How long after it a file's time may not tell of another change.
const COARSE: Duration = Duration::from_secs(2);

/// Puts the files in force when they change, until it is dropped. Of files with mistakes it tells
/// once, and the old ones stay in force.
#[derive(Debug)]
#[must_use = "the files are watched until this is dropped"]
pub(crate) struct EnvoyWatch {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl EnvoyWatch {
    /// Watches the files of `core`, if it has any.
    pub(crate) fn spawn(core: &Arc<Core>) -> io::Result<Option<Self>> {
        let Some(envoy) = &core.envoy else { return Ok(None) };
        let mut files =
            Files { judged: envoy.hash(), paths: Vec::new(), seen: None, read_at: Instant::now() };
        let (core, ended) = (Arc::clone(core), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&ended);
        let watch = move || {
            while let Some(envoy) = core.envoy.as_ref().filter(|_| !is_over.load(Relaxed)) {
                if let Some(reading) = files.changed(envoy) {
                    core.take_envoy(envoy, reading);
                }
                thread::park_timeout(INTERVAL);
            }
        };
        let thread = thread::Builder::new().name("tollgate-envoy".into()).spawn(watch)?;
        Ok(Some(Self { ended, thread: Some(thread) }))
    }
}

impl Drop for EnvoyWatch {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics only if an event's subscriber does.
            let _ = thread.join();
        }
    }
}

/// What the thread knows of the files.
struct Files {
    /// The hash that was last judged, good or bad.
    judged: [u8; 32],
    /// The files that were last read, with their directories.
    paths: Vec<PathBuf>,
    /// What they looked like before they were read; `None`: read them again.
    seen: Option<Vec<(SystemTime, u64, u64)>>,
    read_at: Instant,
}

impl Files {
    /// The files, if their bytes are others than when they were last judged, and stay so.
    fn changed(&mut self, envoy: &Envoy) -> Option<Reading<EnvoyConfig>> {
        let is_recent = self.read_at.elapsed() < BACKSTOP;
        if is_recent && self.seen.is_some() && self.seen == looks(&self.paths) {
            return None;
        }
        let hash = self.read(envoy).hash();
        if hash == self.judged {
            return None;
        }
        thread::sleep(QUIET);
        let reading = self.read(envoy);
        if reading.hash() != hash {
            // They are being written. The next look is soon.
            self.seen = None;
            return None;
        }
        self.judged = hash;
        Some(reading)
    }

    fn read(&mut self, envoy: &Envoy) -> Reading<EnvoyConfig> {
        // Before the files are read: what changes meanwhile is seen at the next look.
        let seen = looks(&self.paths);
        let reading = envoy.read();
        self.read_at = Instant::now();
        let read = envoy.paths().iter().chain(reading.paths());
        let mut paths: Vec<PathBuf> = read.flat_map(|path| [path.clone(), directory(path)]).collect();
        paths.sort();
        paths.dedup();
        self.seen = seen.filter(|_| paths == self.paths);
        self.paths = paths;
        reading
    }
}

fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What files look like; `None` if one is not there, or changed so lately that another change may
/// leave it looking the same.
fn looks(paths: &[PathBuf]) -> Option<Vec<(SystemTime, u64, u64)>> {
    let look = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        let modified = metadata.modified().ok()?;
        let is_old = SystemTime::now().duration_since(modified).is_ok_and(|age| age > COARSE);
        is_old.then(|| (modified, metadata.len(), metadata.ino()))
    };
    paths.iter().map(look).collect()
}
