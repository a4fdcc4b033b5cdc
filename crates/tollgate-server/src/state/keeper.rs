//! Saves every minute, and at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::file;
use crate::core::Core;

/// A task that saves the state, again and again.
pub(crate) struct Keeper {
    core: Arc<Core>,
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Saves at each interval, until `ends`.
    pub(crate) fn spawn(core: Arc<Core>, path: PathBuf, interval: Duration, ends: CancellationToken) -> Self {
        let (kept, file) = (Arc::clone(&core), path.clone());
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = ends.cancelled() => return,
                    () = tokio::time::sleep(interval) => {}
                }
                save(Arc::clone(&kept), file.clone()).await;
            }
        });
        Self { core, path, task }
    }

    /// Saves for the last time, after a save that goes on.
    pub(crate) async fn finish(self) {
        // A task that panicked saves nothing either.
        let _ = self.task.await;
        save(self.core, self.path).await;
    }
}

async fn save(core: Arc<Core>, path: PathBuf) {
    let saved = tokio::task::spawn_blocking(move || {
        let (begun, file) = (Instant::now(), path.display());
        match file::save(&path, &core) {
            Ok(debts) => {
                let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                core.state.saved_at.store(unix.map_or(0, |unix| unix.as_secs()), Relaxed);
                tracing::debug!(%file, debts, took = ?begun.elapsed(), "state was saved");
            }
            Err(error) => {
                core.state.failed_saves.fetch_add(1, Relaxed);
                tracing::error!(%file, %error, "STATE IS NOT SAVED: the file is as it was before");
            }
        }
    });
    if let Err(error) = saved.await {
        tracing::error!(%error, "STATE IS NOT SAVED");
    }
}
