//! Starts everything, and ends it.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;
use tollgate_net::life::{Asked, Signals, Systemd};
use tollgate_net::listen::{
    Bounds, Connection, Drain, ListenAddress, Listening, Mishap, Tls, Uses, accept_all,
};
use tollgate_net::listen::{GRPC_REFUSAL, HTTP_REFUSAL, RESP_REFUSAL, Room, Shares, Stream, refuse};
use tollgate_net::workers::{Workers, beside};
use tollgate_proxy::park::{FilePark, Parks};
use tollgate_proxy::proxy::{Proxy, Shared, States, UpstreamError};
use tollgate_redis::rules::EnvoyStore;
use tollgate_rules::Verdict;
use tollgate_rules_file::{Disk, ReloadError, Watched, read};

use crate::admin::{self, Admin};
use crate::clock::{ServerClock, WakingClock};
use crate::core::{Core, EnvoyWatch, unserved};
use crate::metrics::Listener;
use crate::settings::Settings;
use crate::start_error::StartError;
use crate::state::{Begun, Keeper, StateLock};
use crate::{resp, rls, v1};

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
/// server.end().await?;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    core: Arc<Core>,
    v1: Arc<v1::Service>,
    proxy: Option<Arc<Proxy>>,
    admin: Arc<Admin>,
    settings: Settings,
    drain: Drain,
    workers: Arc<Workers>,
    addresses: Vec<(Listener, ListenAddress)>,
    accepting: TaskTracker,
    grpc: Arc<rls::Grpc>,
    state: Option<Keeper>,
    /// Until the last save.
    _state_lock: Option<StateLock>,
    watched: Watched,
    _envoy_watch: Option<EnvoyWatch>,
    /// Without the server, no listener and no task of it goes on.
    _ends: DropGuard,
}

impl Server {
    /// Reads the rules, restores the state, binds all listeners, and serves from now on: clients on
    /// [threads of its own](Settings::threads), administrators and parked requests in tasks of the
    /// runtime.
    ///
    /// It raises the soft limit of file descriptors of this process to the hard one, and shares
    /// them among the listeners: with too few, a listener takes fewer
    /// [connections](crate::Limits::connections).
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing is served then.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        for (listener, addresses) in settings.listeners() {
            let known = addresses.iter().filter(|address| !matches!(address, ListenAddress::Inherited(_)));
            known.into_iter().try_for_each(|address| judge(&settings, listener, address))?;
        }
        // Before the listeners: a port in use would hide the file's mistakes.
        let reading = read(&settings.rules, &Disk);
        if reading.rules().is_none() {
            return Err(StartError::Rules(ReloadError::File(Box::new(reading))));
        }
        let drain = Drain::default();
        // If a later step fails, the tasks that were begun end.
        let begun = drain.ends.clone().drop_guard();
        let bound = bind(&settings, &drain)?;
        for (_, listening) in bound.iter().filter(|(listener, _)| *listener == Listener::Proxy) {
            if let ListenAddress::Tcp(address) = listening.address()
                && let Some(own) =
                    settings.forward.upstreams.iter().find(|upstream| upstream.leads_to(*address))
            {
                return Err(StartError::Upstream(UpstreamError::Itself(own.clone())));
            }
        }
        let waking = Arc::new(WakingClock::new());
        let clock: ServerClock = Arc::clone(&waking) as _;
        let Begun { file, calls, envoy, report, lock } = crate::state::begin(&settings, &clock)?;
        let mut core = Core::new(file.clone(), clock, settings.resp_max_keys, settings.show_keys)
            .map_err(StartError::Calls)?;
        (core.envoy, core.state) = (envoy, report);
        if let (Some(envoy), Some(store)) = (&mut core.envoy, &settings.envoy_store) {
            let store = EnvoyStore::open(store, settings.envoy_store_failure);
            envoy.store = Some(store.map_err(StartError::EnvoyStore)?);
        }
        if let Some(calls) = calls {
            core.calls.put(calls);
        }
        let park = settings
            .park
            .as_ref()
            .map(|path| FilePark::open(path).map_err(|error| StartError::Park { path: path.clone(), error }));
        core.parks = Arc::new(Parks::new(park.transpose()?, Handle::current()));
        let core = Arc::new(core);
        let windows = Arc::clone(&core);
        let realign = move |unix_at_zero| {
            let windows = Arc::clone(&windows);
            // It may wait for a reload.
            async move { beside(move || windows.realign(unix_at_zero)).await?.map_err(io::Error::other) }
        };
        tokio::spawn(drain.ends.clone().run_until_cancelled_owned(waking.keep(realign)));
        core.open_stores().await;
        let grpc = Arc::new(rls::Grpc::new(&core, settings.limits, &drain).await);
        let envoy_watch = EnvoyWatch::spawn(&core).map_err(StartError::Watch)?;
        let admin = Admin::new(&core, &settings, &drain).map_err(StartError::AdminToken)?;
        let counted = Arc::clone(&core);
        let told = move |reloaded: Result<u64, &ReloadError>| {
            counted.reloaded(reloaded.is_ok());
            match reloaded {
                Ok(generation) => tracing::info!(generation, "new rules are in force"),
                Err(error) => tracing::error!(%error, "the old rules stay in force"),
            }
        };
        let watched = Watched::spawn(file, &settings.rules, told).map_err(StartError::Watch)?;
        let state = settings.state.as_ref().map(|path| {
            Keeper::spawn(Arc::clone(&core), path.clone(), settings.state_interval, drain.ends.clone())
        });
        let (addresses, accepting) = (Vec::new(), TaskTracker::new());
        let v1 = Arc::new(v1::Service::new(Arc::clone(&core), &settings));
        tokio::spawn(drain.ends.clone().run_until_cancelled_owned(Arc::clone(&v1).forget_ended_tickets()));
        let tells = Arc::clone(&core.metrics).tell_protocol_errors();
        tokio::spawn(drain.ends.clone().run_until_cancelled_owned(tells));
        // The proxy makes pools for each thread, so first see whether so many threads start.
        let workers = Workers::start(settings.threads.get()).map_err(StartError::Threads)?;
        let states = States::new(&core.clock).map_err(StartError::States)?;
        let proxy = match settings.proxy.is_empty() {
            true => None,
            false => Some(start_proxy(&core, &settings, states, &drain).map_err(StartError::Upstream)?),
        };
        let mut server = Self {
            v1,
            proxy,
            core,
            admin,
            settings,
            drain,
            workers: Arc::new(workers),
            addresses,
            accepting,
            grpc,
            state,
            _state_lock: lock,
            watched,
            _envoy_watch: envoy_watch,
            _ends: begun,
        };
        // What an administrator asks may take long, and other connections do not wait for it.
        let none = Arc::new(Workers::start(0).map_err(StartError::Threads)?);
        // Last: all else that the process keeps open is open.
        let shares = server.share_descriptors(&bound);
        for (listener, listening) in bound {
            server.addresses.push((listener, listening.address().clone()));
            let is_admin = listener == Listener::Admin;
            let share = shares.map(|shares| if is_admin { shares.admin } else { shares.each });
            let room = Room::of(server.settings.limits.connections, share);
            let workers = if is_admin { &none } else { &server.workers };
            server.accept(listener, listening, room, workers);
        }
        Ok(server)
    }

    /// Shares the file descriptors among the listeners, and says how.
    fn share_descriptors(&self, bound: &[(Listener, Listening)]) -> Option<Shares> {
        let count = |kind| bound.iter().filter(|(listener, _)| *listener == kind).count();
        let (admins, proxies) = (count(Listener::Admin), count(Listener::Proxy));
        let shares = Shares::claim(admins, bound.len() - admins + proxies);
        if let Some(Shares { all, kept, each, .. }) = shares {
            let (most, upstreams) = (self.settings.limits.connections, proxies * each);
            let connections = Room::of(most, Some(each)).most;
            tracing::info!(all, kept, upstreams, connections, "file descriptors are shared");
            if connections < most {
                tracing::warn!(
                    connections,
                    "a listener takes fewer connections than --max-connections {most}: raise LimitNOFILE"
                );
            }
        }
        shares
    }

    fn accept(&self, kind: Listener, listening: Listening, room: Room, workers: &Arc<Workers>) {
        let (core, limits) = (Arc::clone(&self.core), self.settings.limits);
        let (counts, trusting) = (Arc::clone(core.metrics.counts(kind)), Arc::clone(&self.core));
        let (grpc, v1, proxy) = (Arc::clone(&self.grpc), Arc::clone(&self.v1), self.proxy.clone());
        let redis = Arc::new(resp::Shared::new(Arc::clone(&core), &self.settings));
        let admin = Arc::clone(&self.admin);
        let serve = move |connection: Connection| {
            let (core, redis, admin) = (Arc::clone(&core), Arc::clone(&redis), Arc::clone(&admin));
            let (grpc, v1, proxy) = (Arc::clone(&grpc), Arc::clone(&v1), proxy.clone());
            async move {
                let _open = core.metrics.counts(kind).connection();
                // Boxed: each takes the memory of its own kind, not that of the largest.
                match kind {
                    Listener::Http => Box::pin(v1::serve(v1, connection)).await,
                    Listener::Admin => Box::pin(admin::serve(admin, connection)).await,
                    Listener::Grpc => Box::pin(grpc.serve(connection)).await,
                    Listener::Resp => Box::pin(resp::serve(redis, connection, limits.read_timeout)).await,
                    Listener::Proxy => {
                        if let Some(proxy) = proxy {
                            Box::pin(proxy.serve(connection)).await;
                        }
                    }
                }
            }
        };
        let refuse = move |stream: Stream| async move {
            let answer = match kind {
                Listener::Http | Listener::Admin | Listener::Proxy => HTTP_REFUSAL,
                Listener::Grpc => GRPC_REFUSAL,
                Listener::Resp => RESP_REFUSAL,
            };
            refuse(stream, answer).await;
        };
        counts.add_most(room.most);
        let unfinished = Arc::clone(counts.unfinished());
        unfinished.bound(limits.unfinished_bytes.unwrap_or_else(|| usual_unfinished(&self.core)));
        let count =
            move |mishap: Mishap, client: Option<IpAddr>| counts.protocol_error(mishap.kind(), client);
        let is_trusted = move |address: IpAddr| {
            let rules = trusting.live.rules();
            rules.rules().clients.trusted_proxies.iter().any(|network| network.contains(&address))
        };
        let bounds = Bounds { room, of_client: limits.client_connections, handshake: limits.read_timeout };
        let (drain, workers) = (self.drain.clone(), Arc::clone(workers));
        let uses = Uses { serve, refuse, count, unfinished, is_trusted: Box::new(is_trusted) };
        self.accepting.spawn(accept_all(listening, bounds, drain, workers, uses));
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The addresses that are listened on, with the ports that they have got: those of `http`,
    /// `admin`, `grpc`, `resp` and `proxy`, in this order.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.addresses.iter().map(|(_, address)| address)
    }

    /// Reads the rules file now, and puts it in force if it is in order. Returns the generation in
    /// force. Blocks while it reads. The [files of envoyproxy/ratelimit](Settings::envoy) are read
    /// with it; a mistake of theirs is logged, and counted as a reload that failed.
    ///
    /// # Errors
    ///
    /// [`ReloadError`]; the old rules stay in force then.
    pub fn reload(&self) -> Result<u64, ReloadError> {
        reload(&self.core, &self.settings.rules)
    }

    /// Serves until SIGTERM or SIGINT, and then [ends](Self::end). SIGHUP reads the rules again. A
    /// second signal to end ends the waiting: connections are closed at once, and the state is
    /// saved. A third ends the process. Signals that came since [`Signals::listen`] count, too.
    ///
    /// Under systemd it tells when the server is ready, reloads and ends, and serves the watchdog.
    ///
    /// # Errors
    ///
    /// The state is not saved at the end.
    pub async fn run(self, mut signals: Signals) -> io::Result<()> {
        for (listener, address) in &self.addresses {
            let tls = self.settings.tls(*listener).is_some() && matches!(address, ListenAddress::Tcp(_));
            tracing::info!(%address, tls, "listening for {}", listener.name());
        }
        self.core.warn_of_rules();
        self.warn_of_unserved();
        let generation = self.core.live.status().generation;
        let rules = self.core.live.rules().rules().rules.len();
        let file = self.settings.rules.display();
        tracing::info!(%file, rules, generation, "serving");
        if let Some(envoy) = &self.core.envoy {
            envoy.tell_where_counts_are();
        }
        let systemd =
            Systemd::ready(&format!("{rules} rules, generation {generation}"), Arc::clone(&self.workers));
        while signals.next().await == Asked::Reload {
            systemd.reloading();
            self.reload_by_signal().await;
            systemd.reloaded(&format!("generation {}", self.core.live.status().generation));
        }
        systemd.stopping();
        tracing::info!(
            delay = ?self.settings.drain_delay,
            timeout = ?self.settings.drain_timeout,
            "draining: another signal ends at once"
        );
        self.end_by(async {
            signals.end().await;
            tracing::warn!("not waiting for connections any longer");
            tokio::spawn(async move {
                signals.end().await;
                std::process::exit(1);
            });
        })
        .await?;
        tracing::info!("ended");
        Ok(())
    }

    /// Warns of rules that an open listener cannot keep. They are in force none the less.
    fn warn_of_unserved(&self) {
        let set = self.core.live.rules();
        for (listener, _) in &self.addresses {
            for problem in unserved(set.rules(), *listener, self.core.parks.has_file()) {
                let (code, hint) = (problem.code.as_str(), problem.hint.unwrap_or_default());
                tracing::warn!(code, %hint, "{}: {}", listener.name(), problem.message);
            }
        }
    }

    async fn reload_by_signal(&self) {
        let (core, file) = (Arc::clone(&self.core), self.settings.rules.clone());
        match beside(move || reload(&core, &file)).await {
            Ok(Ok(generation)) => match self.core.last_error() {
                None => tracing::info!(generation, "SIGHUP: what the files say is in force"),
                Some(error) => tracing::error!(
                    generation,
                    %error,
                    "SIGHUP: the rules file is in force, the files of envoyproxy/ratelimit are not"
                ),
            },
            Ok(Err(error)) => tracing::error!(%error, "SIGHUP: the old rules stay in force"),
            Err(error) => tracing::error!(%error, "SIGHUP: the old rules stay in force"),
        }
    }

    /// Ends the server. For [`drain_delay`](Settings::drain_delay) it still serves and says that it
    /// is not ready. Then there are no more connections, each request in progress is answered, and
    /// after [`drain_timeout`](Settings::drain_timeout) the rest is closed. Then the state is
    /// saved.
    ///
    /// The [threads](Settings::threads) end with the future, also if it is dropped before: that
    /// cuts off connections that are still open.
    ///
    /// # Errors
    ///
    /// The state is not saved.
    pub async fn end(self) -> io::Result<()> {
        self.end_by(std::future::pending()).await
    }

    /// Ends the server, without waiting for more once `hurry` is there.
    async fn end_by(self, hurry: impl Future<Output = ()>) -> io::Result<()> {
        let Self { core, settings, drain, accepting, state, watched, .. } = self;
        core.draining.cancel();
        accepting.close();
        let drained = async {
            tokio::time::sleep(settings.drain_delay).await;
            drain.ends.cancel();
            accepting.wait().await;
            drain.connections.close();
            if tokio::time::timeout(settings.drain_timeout, drain.connections.wait()).await.is_err() {
                tracing::warn!(connections = drain.connections.len(), "closing what is still open");
            }
        };
        tokio::select! {
            () = drained => {}
            () = hurry => {}
        }
        drain.ends.cancel();
        accepting.wait().await;
        // What is charged after the last save would be forgotten.
        drain.close().await;
        drop(watched);
        core.parks.close().await;
        match state {
            Some(state) => state.finish().await,
            None => Ok(()),
        }
    }
}

/// How many bytes of unfinished requests a listener holds, if the settings do not say: a sixteenth
/// of the memory for the rules, of which a ninth has room for the largest request.
fn usual_unfinished(core: &Core) -> usize {
    const LEAST: usize = 16 << 20;
    (core.live.rules().rules().memory_budget / 16).max(LEAST)
}

/// Starts the proxy over the rules of the server, whose metrics tell of both.
fn start_proxy(
    core: &Arc<Core>,
    settings: &Settings,
    states: States,
    drain: &Drain,
) -> Result<Arc<Proxy>, UpstreamError> {
    let shared = Shared {
        generations: Arc::clone(&core.generations),
        parks: Arc::clone(&core.parks),
        counts: Arc::clone(core.metrics.counts(Listener::Proxy)),
        limits: settings.limits,
    };
    let (counted, threads) = (Arc::clone(&core.metrics), settings.threads.get());
    let on_verdict = move |verdict: &Verdict<'_, ServerClock>| counted.acquired(Listener::Proxy, verdict);
    let proxy = Proxy::new(shared, &settings.forward, threads, states, drain, on_verdict)?;
    core.metrics.tell_upstreams(proxy.upstream_counts().cloned().collect());
    Ok(proxy)
}

/// Reads the rules file now, and the files of envoyproxy/ratelimit.
fn reload(core: &Core, file: &Path) -> Result<u64, ReloadError> {
    core.reload_envoy();
    let done = core.file.reload(file, &Disk);
    core.reloaded(done.is_ok());
    done
}

/// Refuses an address that other machines reach, unless clients must show who they are.
fn judge(settings: &Settings, listener: Listener, address: &ListenAddress) -> Result<(), StartError> {
    if settings.may_open(listener, address) {
        return Ok(());
    }
    Err(StartError::Open { listener: listener.name(), address: address.clone() })
}

/// Binds all listeners. None takes connections yet.
fn bind(settings: &Settings, drain: &Drain) -> Result<Vec<(Listener, Listening)>, StartError> {
    let mut bound = Vec::new();
    for (listener, addresses) in settings.listeners() {
        let protocols: &'static [&'static [u8]] = match listener {
            Listener::Http | Listener::Admin | Listener::Proxy => &[b"h2", b"http/1.1"],
            Listener::Grpc => &[b"h2"],
            Listener::Resp => &[],
        };
        let tls = settings.tls(listener).filter(|_| !addresses.is_empty());
        let tls = tls.map(|files| Tls::watch(files, protocols, drain.ends.clone())).transpose();
        let tls = tls.map_err(|error| StartError::Tls { listener: listener.name(), error })?;
        for address in addresses {
            let listening = Listening::bind(address, tls.clone()).map_err(|error| StartError::Listen {
                listener: listener.name(),
                address: address.clone(),
                error,
            })?;
            judge(settings, listener, listening.address())?;
            bound.push((listener, listening));
        }
    }
    Ok(bound)
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
