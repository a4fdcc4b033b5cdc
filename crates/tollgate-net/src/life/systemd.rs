//! What systemd is told: `Type=notify-reload` and `WatchdogSec=`.

use std::sync::Arc;

use sd_notify::NotifyState;
use tokio::task::JoinHandle;

use crate::workers::Workers;

/// Tells the service manager what the server does. Without one, nothing happens.
pub struct Systemd {
    watchdog: Option<JoinHandle<()>>,
}

impl Systemd {
    /// Serving begins. From now on the watchdog is told that the runtime and all threads turn.
    pub fn ready(status: &str, workers: Arc<Workers>) -> Self {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
        let watchdog = sd_notify::watchdog_enabled().map(|limit| {
            tokio::spawn(async move {
                let mut turns = tokio::time::interval(limit / 2);
                loop {
                    turns.tick().await;
                    workers.take_turns().await;
                    tell(&[NotifyState::Watchdog]);
                }
            })
        });
        Self { watchdog }
    }

    /// The rules are read again.
    pub fn reloading(&self) {
        // Without the time, systemd would wait for it.
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// The rules have been read, and are in force or not.
    pub fn reloaded(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The server ends. The watchdog is told until the process has ended.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.abort();
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd was not told");
    }
}
