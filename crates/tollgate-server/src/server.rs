//! Starts everything, and ends it.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tollgate::TscClock;
use tollgate_rules::{Disk, LiveRules, ReloadError, Watched};

use crate::core::{Core, ServerClock};
use crate::listen::{Connection, Drain, ListenAddress, Listening, accept_all};
use crate::metrics::Listener;
use crate::settings::Settings;
use crate::{admin, resp, rls, v1};

/// A running server.
///
/// # Examples
///
/// ```no_run
/// use tollgate_server::{Server, Settings};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut settings = Settings::new("rules.toml");
/// settings.resp.push("127.0.0.1:6380".parse()?);
/// let server = Server::start(settings).await?;
/// tokio::signal::ctrl_c().await?;
/// server.end().await;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    core: Arc<Core>,
    settings: Settings,
    drain: Drain,
    addresses: Vec<(Listener, ListenAddress)>,
    accepting: Vec<JoinHandle<()>>,
    _watched: Watched,
}

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The rules file.
    Rules(ReloadError),
    /// The table of `CL.THROTTLE`.
    Calls(tollgate::BuildError),
    /// An address.
    Listen {
        /// The address.
        address: ListenAddress,
        /// Why it was not bound.
        error: io::Error,
    },
    /// The thread that watches the rules file.
    Watch(io::Error),
}

impl Server {
    /// Reads the rules, binds all listeners, and serves from now on, in tasks of the runtime.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing is served then.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let clock: ServerClock = Arc::new(TscClock::new());
        let live = LiveRules::open(&settings.rules, &Disk, Arc::clone(&clock)).map_err(StartError::Rules)?;
        let core = Core::new(live.clone(), clock, settings.resp_max_keys).map_err(StartError::Calls)?;
        let watched = Watched::spawn(live, &settings.rules, |reloaded| match reloaded {
            Ok(generation) => tracing::info!(generation, "new rules are in force"),
            Err(error) => tracing::error!(%error, "the old rules stay in force"),
        });
        let mut server = Self {
            core: Arc::new(core),
            drain: Drain::default(),
            addresses: Vec::new(),
            accepting: Vec::new(),
            _watched: watched.map_err(StartError::Watch)?,
            settings,
        };
        server.listen()?;
        Ok(server)
    }

    /// Binds all listeners, and only then takes connections.
    fn listen(&mut self) -> Result<(), StartError> {
        let settings = &self.settings;
        let named = [
            (Listener::Http, &settings.http),
            (Listener::Admin, &settings.admin),
            (Listener::Grpc, &settings.grpc),
            (Listener::Resp, &settings.resp),
        ];
        let mut bound = Vec::new();
        for (kind, addresses) in named {
            for address in addresses {
                let listening = Listening::bind(address)
                    .map_err(|error| StartError::Listen { address: address.clone(), error })?;
                bound.push((kind, listening));
            }
        }
        for (kind, listening) in bound {
            self.addresses.push((kind, listening.address().clone()));
            let accepting = self.accept(kind, listening);
            self.accepting.push(accepting);
        }
        Ok(())
    }

    fn accept(&self, kind: Listener, listening: Listening) -> JoinHandle<()> {
        let (core, drain, most) =
            (Arc::clone(&self.core), self.drain.clone(), self.settings.limits.connections);
        let serve = move |connection: Connection| {
            let (core, drain) = (Arc::clone(&core), drain.clone());
            async move {
                core.metrics.connection(kind);
                match kind {
                    Listener::Http => v1::serve(core, connection, drain).await,
                    Listener::Admin => admin::serve(core, connection, drain).await,
                    Listener::Grpc => rls::serve(core, connection, drain).await,
                    Listener::Resp => resp::serve(core, connection, drain).await,
                }
            }
        };
        let refuse = |connection: Connection| async move { drop(connection) };
        tokio::spawn(accept_all(listening, most, self.drain.clone(), serve, refuse))
    }

    /// The addresses that are listened on, with the ports that they have got: those of `http`,
    /// `admin`, `grpc` and `resp`, in this order.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.addresses.iter().map(|(_, address)| address)
    }

    /// Reads the rules file now, and puts it in force if it is in order. Returns the generation in
    /// force. Blocks while it reads.
    ///
    /// # Errors
    ///
    /// [`ReloadError`]; the old rules stay in force then.
    pub fn reload(&self) -> Result<u64, ReloadError> {
        self.core.live.reload_file(&self.settings.rules, &Disk)
    }

    /// Ends the server: no more connections, each request in progress is answered, and after
    /// [`drain_timeout`](Settings::drain_timeout) what is left is closed.
    pub async fn end(self) {
        self.drain.ends.cancel();
        for accepting in self.accepting {
            // A task that panicked accepts no connections either.
            let _ = accepting.await;
        }
        self.drain.connections.close();
        let _ = tokio::time::timeout(self.settings.drain_timeout, self.drain.connections.wait()).await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(error) => error.fmt(f),
            Self::Calls(error) => error.fmt(f),
            Self::Listen { address, error } => write!(f, "{address} cannot be listened on: {error}"),
            Self::Watch(error) => write!(f, "the rules file cannot be watched: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
