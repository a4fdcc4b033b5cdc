//! Starts everything, and ends it.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tollgate::TscClock;
use tollgate_rules::{Disk, LiveRules, ReloadError, Watched};

use crate::admin::{self, Admin};
use crate::core::{Core, Envoy, EnvoyFiles, EnvoyFilesError, EnvoyWatch, ServerClock};
use crate::listen::{Connection, Drain, ListenAddress, Listening, accept_all};
use crate::metrics::Listener;
use crate::settings::Settings;
use crate::{resp, rls, v1, web};

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
    v1: Arc<v1::Service>,
    admin: Arc<Admin>,
    settings: Settings,
    drain: Drain,
    addresses: Vec<(Listener, ListenAddress)>,
    accepting: Vec<JoinHandle<()>>,
    grpc: Arc<rls::Grpc>,
    _watched: Watched,
    _envoy_watch: Option<EnvoyWatch>,
}

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The rules file.
    Rules(ReloadError),
    /// The files of envoyproxy/ratelimit.
    Envoy(EnvoyFilesError),
    /// The table of `CL.THROTTLE`.
    Calls(tollgate::BuildError),
    /// The file with the administrator's token.
    AdminToken(io::Error),
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
        let envoy = envoy(&settings, &clock)?;
        let mut core = Core::new(live.clone(), clock, settings.resp_max_keys, settings.show_keys)
            .map_err(StartError::Calls)?;
        core.envoy = envoy;
        let (core, drain) = (Arc::new(core), Drain::default());
        let grpc = rls::Grpc::new(&core, settings.limits, &drain).await;
        let envoy_watch = EnvoyWatch::spawn(&core).map_err(StartError::Watch)?;
        let admin = Admin::new(&core, &settings, &drain).map_err(StartError::AdminToken)?;
        let counted = Arc::clone(&core);
        let told = move |reloaded: Result<u64, &ReloadError>| {
            counted.metrics.reloaded(reloaded.is_ok());
            match reloaded {
                Ok(generation) => tracing::info!(generation, "new rules are in force"),
                Err(error) => tracing::error!(%error, "the old rules stay in force"),
            }
        };
        let watched = Watched::spawn(live, &settings.rules, told);
        let mut server = Self {
            v1: Arc::new(v1::Service::new(Arc::clone(&core), &settings)),
            core,
            admin,
            drain,
            grpc: Arc::new(grpc),
            addresses: Vec::new(),
            accepting: Vec::new(),
            _watched: watched.map_err(StartError::Watch)?,
            _envoy_watch: envoy_watch,
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
        let (core, drain, limits) = (Arc::clone(&self.core), self.drain.clone(), self.settings.limits);
        let (grpc, v1) = (Arc::clone(&self.grpc), Arc::clone(&self.v1));
        let redis = Arc::new(resp::Shared::new(Arc::clone(&core), &self.settings));
        let admin = Arc::clone(&self.admin);
        let serve = move |connection: Connection| {
            let (core, drain, redis) = (Arc::clone(&core), drain.clone(), Arc::clone(&redis));
            let admin = Arc::clone(&admin);
            let (grpc, v1) = (Arc::clone(&grpc), Arc::clone(&v1));
            async move {
                let _open = core.metrics.connection(kind);
                match kind {
                    Listener::Http => v1::serve(v1, connection, drain).await,
                    Listener::Admin => admin::serve(admin, connection).await,
                    Listener::Grpc => grpc.serve(connection, drain).await,
                    Listener::Resp => resp::serve(redis, connection, drain, limits.read_timeout).await,
                }
            }
        };
        let refuse = move |connection: Connection| async move {
            match kind {
                Listener::Http | Listener::Admin => web::refuse(connection.stream).await,
                Listener::Grpc => rls::refuse(connection).await,
                Listener::Resp => resp::refuse(connection).await,
            }
        };
        tokio::spawn(accept_all(listening, limits.connections, self.drain.clone(), serve, refuse))
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The addresses that are listened on, with the ports that they have got: those of `http`,
    /// `admin`, `grpc` and `resp`, in this order.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.addresses.iter().map(|(_, address)| address)
    }

    /// Reads the rules file now, and puts it in force if it is in order. Returns the generation in
    /// force. Blocks while it reads. The [files of envoyproxy/ratelimit](Settings::envoy) are read
    /// with it; a mistake of theirs is logged.
    ///
    /// # Errors
    ///
    /// [`ReloadError`]; the old rules stay in force then.
    pub fn reload(&self) -> Result<u64, ReloadError> {
        self.core.reload_envoy();
        let done = self.core.live.reload_file(&self.settings.rules, &Disk);
        self.core.metrics.reloaded(done.is_ok());
        done
    }

    /// Ends the server: no more connections, each request in progress is answered, and after
    /// [`drain_timeout`](Settings::drain_timeout) what is left is closed.
    pub async fn end(self) {
        self.core.draining.cancel();
        tokio::time::sleep(self.settings.drain_delay).await;
        self.drain.ends.cancel();
        for accepting in self.accepting {
            // A task that panicked accepts no connections either.
            let _ = accepting.await;
        }
        self.drain.connections.close();
        let _ = tokio::time::timeout(self.settings.drain_timeout, self.drain.connections.wait()).await;
    }
}

/// The files of envoyproxy/ratelimit, if the settings name any.
fn envoy(settings: &Settings, clock: &ServerClock) -> Result<Option<Envoy>, StartError> {
    if settings.envoy.is_empty() {
        return Ok(None);
    }
    let files = EnvoyFiles {
        paths: settings.envoy.clone(),
        same_domain: settings.envoy_same_domain,
        charge: settings.envoy_charge,
        max_keys: settings.envoy_max_keys,
    };
    Envoy::open(files, Arc::clone(clock)).map(Some).map_err(StartError::Envoy)
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
            Self::Envoy(error) => error.fmt(f),
            Self::Calls(error) => error.fmt(f),
            Self::Listen { address, error } => write!(f, "{address} cannot be listened on: {error}"),
            Self::AdminToken(error) => write!(f, "the administrator's token cannot be read: {error}"),
            Self::Watch(error) => write!(f, "the rules file cannot be watched: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
