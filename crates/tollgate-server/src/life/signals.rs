//! What a signal asks for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGHUP: read the rules again.
    Reload,
    /// SIGTERM or SIGINT: end.
    End,
}

/// The signals of this process. While it is there, none of them ends the process.
pub(crate) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Asked {
        // A stream of signals never ends.
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }

    /// The next signal to end.
    pub(crate) async fn end(&mut self) {
        while self.next().await != Asked::End {}
    }
}
