//! Saves every minute, and at the end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate_net::workers::beside;

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
                // It is logged and counted; the next one may succeed.
                let _ = save(Arc::clone(&kept), file.clone(), false).await;
            }
        });
        Self { core, path, task }
    }

    /// Saves for the last time, after a save that goes on.
    pub(crate) async fn finish(self) -> io::Result<()> {
        // A task that panicked saves nothing either.
        let _ = self.task.await;
        save(self.core, self.path, true).await
    }
}

/// Saves the state. A failure is logged and counted, also that of a save that panicked.
async fn save(core: Arc<Core>, path: PathBuf, is_last: bool) -> io::Result<()> {
    let (begun, kept, file) = (Instant::now(), Arc::clone(&core), path.clone());
    let work = move || file::save(&file, &kept);
    let saved = match is_last {
        false => beside(work).await,
        // No thread serves any more, and the process may be killed if this takes long.
        true => tokio::task::spawn_blocking(work).await.map_err(io::Error::other),
    };
    let (saved, file) = (saved.and_then(|saved| saved), path.display());
    match saved {
        Ok(debts) => {
            let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            core.state.saved_at.store(unix.map_or(0, |unix| unix.as_secs()), Relaxed);
            tracing::debug!(%file, debts, took = ?begun.elapsed(), "state was saved");
            Ok(())
        }
        Err(error) => {
            core.state.failed_saves.fetch_add(1, Relaxed);
            tracing::error!(%file, %error, "STATE IS NOT SAVED: the file is as it was before");
            Err(io::Error::new(error.kind(), format!("the state is not saved in {file}: {error}")))
        }
    }
}
