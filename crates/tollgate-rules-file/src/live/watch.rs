//! A thread that watches a rules file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, Release},
};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tollgate::Clock;
use tollgate_rules::ExchangeError;

use crate::file::{Disk, Reading, read};
use crate::live::{LiveFile, ReloadError};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long a file must stay as it is before it is taken, as a part of the time between two looks:
/// a writer may not be done.
const QUIET: u32 = 5;

/// How often files are read that seem unchanged.
const BACKSTOP: Duration = Duration::from_secs(10);

/// How long after it a file's time may not tell of another change.
const COARSE: Duration = Duration::from_secs(2);

/// A thread that watches a rules file with all that it includes and its lists, and puts it in force
/// when it changes. Dropping it ends the thread.
///
/// It looks twice a second. What decides is the hash of the bytes, so that a rename, a
/// `ConfigMap`'s exchanged link and a change in place are one. A file that is in order is in force
/// within a second; of one that is not, `tell` gets the error, once, and the old rules stay in
/// force.
///
/// # Examples
///
/// ```no_run
/// use tollgate::TscClock;
/// use tollgate_rules_file::{Disk, LiveFile, Watched};
///
/// let file = LiveFile::open("rules.toml", &Disk, TscClock::new())?;
/// let _watched = Watched::spawn(file.clone(), "rules.toml", |reloaded| match reloaded {
///     Ok(generation) => println!("generation {generation} is in force"),
///     Err(error) => eprintln!("the old rules stay in force: {error}"),
/// })?;
/// // ... serve ...
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the file is watched until this is dropped"]
pub struct Watched {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread knows of the files.
struct Files {
    path: PathBuf,
    /// The hash that was last judged, good or bad.
    judged: [u8; 32],
    /// The files that were last read, with their directories: an `include` may name new files.
    paths: Vec<PathBuf>,
    /// What they looked like before they were read; `None`: read them again.
    seen: Option<Vec<Look>>,
    read_at: Instant,
    quiet: Duration,
}

/// What tells of a file, without its bytes, that it changed.
#[derive(PartialEq, Eq)]
struct Look {
    modified: SystemTime,
    len: u64,
    number: u64,
}

impl Watched {
    /// Watches the file at `path`, from which the rules in force were read. `tell` is called, by
    /// the thread, with the generation of each file that comes into force, and with each error.
    ///
    /// # Errors
    ///
    /// The operating system refuses a thread.
    pub fn spawn<C>(
        file: LiveFile<C>,
        path: impl Into<PathBuf>,
        tell: impl FnMut(Result<u64, &ReloadError>) + Send + 'static,
    ) -> std::io::Result<Self>
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        Self::spawn_every(INTERVAL, Arc::default(), file, path, tell)
    }

    /// [`spawn`](Self::spawn) with another time between two looks, whose number is counted in
    /// `looks` when each begins. For tests.
    #[doc(hidden)]
    pub fn spawn_every<C>(
        interval: Duration,
        looks: Arc<AtomicU64>,
        file: LiveFile<C>,
        path: impl Into<PathBuf>,
        mut tell: impl FnMut(Result<u64, &ReloadError>) + Send + 'static,
    ) -> std::io::Result<Self>
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        let judged = file.live().status().hash;
        let (paths, quiet) = (Vec::new(), interval / QUIET);
        let mut files =
            Files { path: path.into(), judged, paths, seen: None, read_at: Instant::now(), quiet };
        let watch = move || {
            while !is_over.load(Relaxed) {
                looks.fetch_add(1, Release); // A file that was written before is read by this look.
                if let Some(reading) = files.changed() {
                    let done = file.reload_reading(reading);
                    if let Err(ReloadError::Exchange(ExchangeError::Change { .. })) = done {
                        // It may pass later.
                        files.judged = file.live().status().hash;
                        files.seen = None;
                    }
                    tell(done.as_ref().copied());
                }
                file.live().forget_old();
                thread::park_timeout(interval);
            }
        };
        let thread = thread::Builder::new().name("tollgate-rules".into()).spawn(watch)?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Files {
    /// The files, if their bytes are others than when they were last judged, and stay so.
    fn changed(&mut self) -> Option<Reading> {
        let is_recent = self.read_at.elapsed() < BACKSTOP;
        if is_recent && self.seen.is_some() && self.seen == looks(&self.paths) {
            return None;
        }
        let hash = self.read().hash();
        if hash == self.judged {
            return None;
        }
        thread::sleep(self.quiet);
        let reading = self.read();
        if reading.hash() != hash {
            // It is being written. The next look is soon.
            self.seen = None;
            return None;
        }
        self.judged = hash;
        Some(reading)
    }

    fn read(&mut self) -> Reading {
        // Before the files are read: what changes meanwhile is seen at the next look.
        let seen = looks(&self.paths);
        let reading = read(&self.path, &Disk);
        self.read_at = Instant::now();
        let directories = reading.paths().iter().filter_map(|path| path.parent());
        let directories = directories.map(|path| if path == Path::new("") { Path::new(".") } else { path });
        let mut paths: Vec<PathBuf> = reading.paths().to_vec();
        paths.extend(directories.map(Path::to_owned));
        paths.sort();
        paths.dedup();
        self.seen = seen.filter(|_| paths == self.paths);
        self.paths = paths;
        reading
    }
}

/// What files look like; `None` if one is not there, or changed so lately that another change may
/// leave it looking the same.
fn looks(paths: &[PathBuf]) -> Option<Vec<Look>> {
    let look = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        let modified = metadata.modified().ok()?;
        let is_old = SystemTime::now().duration_since(modified).is_ok_and(|age| age > COARSE);
        is_old.then(|| Look { modified, len: metadata.len(), number: number(&metadata) })
    };
    paths.iter().map(look).collect()
}

#[cfg(unix)]
fn number(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn number(_: &fs::Metadata) -> u64 {
    0
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        // `tell` may hold it: the thread does not wait for its own end.
        if let Some(thread) = self.thread.take().filter(|own| own.thread().id() != thread::current().id()) {
            thread.thread().unpark();
            // A panic of `tell` ended it: there is nothing left to stop.
            let _ = thread.join();
        }
    }
}
