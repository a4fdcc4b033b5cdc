//! What a signal asks for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGHUP: read the rules again.
    Reload,
    /// SIGTERM or SIGINT: end.
    End,
}

/// The signals SIGHUP, SIGTERM and SIGINT of this process. From [`listen`](Self::listen) on they
/// end the process no longer: they wait until the server takes them.
///
/// # Examples
///
/// ```no_run
/// use tollgate_net::life::{Asked, Signals};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // First: a signal during the start would end the process.
/// let mut signals = Signals::listen()?;
/// while signals.next().await == Asked::Reload {
///     println!("the rules are read again");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals from now on, until the process ends: also after this is dropped.
    ///
    /// # Errors
    ///
    /// The operating system refuses to hand them over.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Asked {
        // A stream of signals never ends.
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }

    /// The next signal to end.
    pub async fn end(&mut self) {
        while self.next().await != Asked::End {}
    }
}
