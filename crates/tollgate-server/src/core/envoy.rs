//! The files of envoyproxy/ratelimit in force, and who asks them.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use tollgate::RestoreError;
use tollgate::saved::{Reader, Writer};
use tollgate_redis::rules::EnvoyStore;
use tollgate_rules::{NotRestored, SetError};
use tollgate_rules_file::{
    Disk, EnvoyAnswer, EnvoyCallError, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoyDescriptor, EnvoyHandle,
    EnvoyLimit, EnvoySet, Reading, SameDomain,
};

use super::{Core, FREE};
use crate::clock::ServerClock;
use crate::metrics::EnvoyFilesShown;
use crate::settings::Settings;

/// Where files of envoyproxy/ratelimit are, and how calls are decided by them.
#[derive(Clone, Debug)]
pub(crate) struct EnvoyFiles {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) same_domain: SameDomain,
    pub(crate) charge: EnvoyCharge,
    pub(crate) max_keys: usize,
}

/// Why files of envoyproxy/ratelimit are not in force.
#[derive(Debug)]
#[non_exhaustive]
pub enum EnvoyFilesError {
    /// They have mistakes.
    Files(Box<Reading<EnvoyConfig>>),
    /// Their limits cannot be built.
    Limits(SetError),
}

/// The files in force.
pub(crate) struct Envoy {
    files: EnvoyFiles,
    set: EnvoySet<ServerClock>,
    /// What keeps the counts; `None`: the set does.
    pub(crate) store: Option<EnvoyStore>,
    /// The hash of the files that are in force.
    hash: Mutex<[u8; 32]>,
    /// Why those that were last read are not; `None`: they are.
    last_error: Mutex<Option<String>>,
    free: ArrayQueue<Box<Asked>>,
}

/// A handle of the limits with its buffers.
struct Asked {
    handle: EnvoyHandle<ServerClock>,
    answer: EnvoyAnswer,
}

impl EnvoyFiles {
    /// Those that the settings name; `None`: they name none.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let is_named = !settings.envoy.is_empty();
        is_named.then(|| Self {
            paths: settings.envoy.clone(),
            same_domain: settings.envoy_same_domain,
            charge: settings.envoy_charge,
            max_keys: settings.envoy_max_keys,
        })
    }
}

impl Envoy {
    /// Reads the files, and puts them in force.
    pub(crate) fn open(files: EnvoyFiles, clock: ServerClock) -> Result<Self, EnvoyFilesError> {
        let reading = read(&files);
        let hash = reading.hash();
        let config = reading.into_rules().map_err(|reading| EnvoyFilesError::Files(Box::new(reading)))?;
        let set =
            EnvoySet::new(config, files.charge, files.max_keys, clock).map_err(EnvoyFilesError::Limits)?;
        Ok(Self {
            files,
            set,
            store: None,
            hash: Mutex::new(hash),
            last_error: Mutex::default(),
            free: ArrayQueue::new(FREE),
        })
    }

    /// Takes the counts that were saved. Returns what of them is forgotten.
    pub(crate) fn resume(
        &mut self,
        clock: ServerClock,
        input: &mut Reader<impl Read>,
    ) -> Result<Vec<NotRestored>, RestoreError> {
        let EnvoyFiles { charge, max_keys, .. } = self.files;
        let config = self.set.handle().config().clone();
        let (set, forgotten) = EnvoySet::restore_from(config, charge, max_keys, clock, input)?;
        self.set = set;
        Ok(forgotten)
    }

    /// Aligns the windows to another Unix time of the clock's zero.
    pub(crate) fn realign(&self, unix_at_zero: Duration) -> Result<(), SetError> {
        self.set.realign(unix_at_zero)
    }

    /// Writes down the counts. Returns how many.
    pub(crate) fn save(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        self.set.save_in(out)
    }

    /// The files, as they are now.
    pub(crate) fn read(&self) -> Reading<EnvoyConfig> {
        read(&self.files)
    }

    /// The files in force, for metrics and operators.
    pub(crate) fn shown(&self) -> EnvoyFilesShown {
        let (hash, generation, handle) = (self.hash(), self.set.generation(), self.set.handle());
        let hits = |limit: &EnvoyLimit| (limit.clone(), handle.hits(limit.index));
        let limits = handle.config().limits().iter().map(hits).collect();
        let store = self.store.as_ref().map(|store| store.address().to_owned());
        EnvoyFilesShown { generation, hash, limits, store }
    }

    /// Logs who keeps the counts.
    pub(crate) fn tell_where_counts_are(&self) {
        match &self.store {
            Some(store) => {
                let (store, on_failure) = (store.address(), store.on_failure());
                tracing::info!(store, ?on_failure, "counts of --envoy files are kept in a store");
            }
            None => tracing::info!(
                "counts of --envoy files are this process's: two servers with them admit twice as much; \
                 --envoy-store redis://... shares them"
            ),
        }
    }

    /// Where they are.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.files.paths
    }

    /// The hash of the files in force.
    pub(crate) fn hash(&self) -> [u8; 32] {
        *self.hash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts these files in force. On an error the old ones stay. Returns whether they are others.
    pub(crate) fn reload(&self, reading: Reading<EnvoyConfig>) -> Result<bool, EnvoyFilesError> {
        let new = reading.hash();
        let config = reading.into_rules().map_err(|reading| EnvoyFilesError::Files(Box::new(reading)))?;
        // Held while they are put in force: of two reloads at once the hash is that of the later.
        let mut hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        if *hash == new {
            return Ok(false);
        }
        self.set.reload(config).map_err(EnvoyFilesError::Limits)?;
        *hash = new;
        Ok(true)
    }

    /// Decides a call, and has `act` take the answer with the files that decided. `None` if they do
    /// not have its domain: then nothing was counted.
    ///
    /// It waits for the store, if there is one.
    pub(crate) async fn decide<D: EnvoyDescriptor, T>(
        &self,
        (domain, descriptors, hits_addend): (&str, &[D], u32),
        act: impl FnOnce(EnvoyCode, &EnvoyAnswer, &EnvoyConfig) -> T,
    ) -> Result<Option<T>, EnvoyCallError> {
        let fresh = || Box::new(Asked { handle: self.set.handle(), answer: EnvoyAnswer::default() });
        let mut asked = self.free.pop().unwrap_or_else(fresh);
        let Asked { handle, answer } = &mut *asked;
        let decided = match &self.store {
            None => handle.decide(domain, descriptors, hits_addend, answer),
            Some(store) => match handle.find(domain, descriptors, hits_addend, answer) {
                // Boxed, so that calls without a store have no room for it.
                Ok(()) => Ok(Box::pin(store.decide(handle, answer)).await),
                Err(error) => Err(error),
            },
        };
        let decided = decided.map(|code| {
            let config = handle.config();
            config.has_domain(domain).then(|| act(code, answer, config))
        });
        // Beyond the free ones that are kept it is dropped.
        let _ = self.free.push(asked);
        decided
    }
}

impl Core {
    /// Reads the files of envoyproxy/ratelimit now, if there are any, and puts them in force if
    /// they are in order. Blocks while it reads.
    pub(crate) fn reload_envoy(&self) {
        if let Some(envoy) = &self.envoy {
            self.take_envoy(envoy, envoy.read());
        }
    }

    /// Puts these files of envoyproxy/ratelimit in force if they are in order. Logs and counts it.
    pub(super) fn take_envoy(&self, envoy: &Envoy, reading: Reading<EnvoyConfig>) {
        let done = envoy.reload(reading);
        match &done {
            Ok(true) => tracing::info!("new files of envoyproxy/ratelimit are in force"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the old files of envoyproxy/ratelimit stay in force"),
        }
        if !matches!(done, Ok(false)) {
            self.metrics.reloaded(done.is_ok());
            // Each would keep the counters of the files before until its next call.
            while envoy.free.pop().is_some() {}
        }
        *envoy.last_error.lock().unwrap_or_else(PoisonError::into_inner) =
            done.err().map(|error| error.to_string());
    }

    /// Why the rules file, or the files of envoyproxy/ratelimit, are not in force as they were last
    /// read.
    pub(crate) fn last_error(&self) -> Option<String> {
        let of_rules = self.file.last_error().map(|error| error.to_string());
        of_rules.or_else(|| {
            self.envoy.as_ref()?.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
        })
    }
}

fn read(files: &EnvoyFiles) -> Reading<EnvoyConfig> {
    EnvoyConfig::read(&files.paths, files.same_domain, &Disk)
}

impl fmt::Display for EnvoyFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(reading) => reading.fmt(f),
            Self::Limits(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EnvoyFilesError {}
