//! The store behind its breakers: one server, or the masters of a cluster.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tollgate_rules::StoreAddress;

use crate::cluster::{Cluster, PROBE, slot};
use crate::connection::{Connection, Seed, Source, Topology};
use crate::guard::{BreakerCounts, Guard, Probe};
use crate::script::Script;
use crate::{BuildError, Failed, FailureKind};

/// The connections of a [`Redis`](crate::Redis), and what stands between them and the checks.
pub(crate) enum Store {
    One { connection: Arc<Connection>, guard: Arc<Guard> },
    Cluster(Arc<Cluster>),
}

impl Store {
    /// Begins to connect. Needs a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Addresses that do not fit together.
    pub(crate) fn open(
        address: &StoreAddress,
        topology: &Topology,
        prefix: &str,
        deadline: Duration,
    ) -> Result<Self, BuildError> {
        let sentinels = match topology {
            Topology::Cluster(others) => {
                return Ok(Self::Cluster(Cluster::open(Seed::all(address, others)?, prefix, deadline)?));
            }
            Topology::One => None,
            Topology::Sentinel(sentinels) => Some(&sentinels[..]),
        };
        let source = Source::new(address, sentinels)?;
        let server = source.name();
        let connection = Arc::new(Connection::open(source, deadline));
        let (probe, pulse) = (probe(&connection, prefix), connection.pulse());
        let guard = Guard::new(server, deadline, probe, pulse, Handle::current());
        Ok(Self::One { connection, guard })
    }

    /// Waits for the first connection, or for its failure.
    ///
    /// # Errors
    ///
    /// A server that refuses the password or scripts. That no server is there is no error.
    pub(crate) async fn connected(&self, prefix: &str) -> Result<(), BuildError> {
        if let Self::Cluster(cluster) = self {
            cluster.first_map().await?;
        }
        if let (Some(failed), Self::One { guard, .. }) = (self.try_script(prefix).await?, self) {
            guard.unreachable(&failed);
        }
        self.warn_of_eviction().await;
        Ok(())
    }

    /// Runs a script that writes nothing, once there is a connection. Returns how it failed, if the
    /// server is not there; an error if it is there and refuses.
    async fn try_script(&self, prefix: &str) -> Result<Option<Failed>, BuildError> {
        let script = Script::new("return 1");
        let name = format!("{prefix}:{{k:}}:build");
        let body = |command: &mut Cmd| {
            command.arg(1).arg(&name);
        };
        let answer = match self {
            Self::One { connection, .. } => match connection.first_attempt().await {
                Ok(()) => connection.run(&script, body).await.map(drop),
                Err(failed) => Err(failed),
            },
            Self::Cluster(cluster) => {
                cluster.first_attempt().await;
                cluster.run(cluster.until(cluster.now()), &script, body).await.map(drop)
            }
        };
        match answer {
            Ok(()) => Ok(None),
            Err(failed) if matches!(failed.kind, FailureKind::Auth | FailureKind::Script) => {
                Err(BuildError::Refused(failed))
            }
            Err(failed) => Ok(Some(failed)),
        }
    }

    /// Warns if a server evicts keys: an evicted key is as good as new. Not every user may ask.
    async fn warn_of_eviction(&self) {
        for answer in self.config("maxmemory-policy").await {
            match answer.as_deref() {
                Ok([(_, policy)]) if policy != "noeviction" => tracing::warn!(
                    policy,
                    "the store may evict keys, and each costs a burst: set maxmemory-policy to noeviction"
                ),
                _ => {}
            }
        }
    }

    /// The settings of each server that match `pattern`, with their names.
    pub(crate) async fn config(&self, pattern: &str) -> Vec<Result<Vec<(String, String)>, Failed>> {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(pattern);
        let connections = match self {
            Self::One { connection, .. } => vec![Arc::clone(connection)],
            Self::Cluster(cluster) => cluster.connections(),
        };
        let ask = async |connection: Arc<Connection>| {
            let answer = connection.ask(Instant::now() + connection.deadline(), &command).await?;
            redis::from_redis_value(answer).map_err(|_| Failed::answer("it tells no settings"))
        };
        join_all(connections.into_iter().map(ask)).await
    }

    /// Whether keys of different slots lie on different servers.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    pub(crate) fn deadline(&self) -> Duration {
        match self {
            Self::One { connection, .. } => connection.deadline(),
            Self::Cluster(cluster) => cluster.deadline(),
        }
    }

    /// The time since the store was opened: the time of the breakers and of the deny caches.
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::One { guard, .. } => guard.now(),
            Self::Cluster(cluster) => cluster.now(),
        }
    }

    /// The runtime of the connections and of all that is not awaited.
    pub(crate) fn runtime(&self) -> &Handle {
        match self {
            Self::One { guard, .. } => guard.runtime(),
            Self::Cluster(cluster) => cluster.runtime(),
        }
    }

    /// The end of the deadline of a trip that begins at this time.
    pub(crate) fn until(&self, sent: Duration) -> Instant {
        match self {
            Self::One { guard, .. } => guard.until(sent),
            Self::Cluster(cluster) => cluster.until(sent),
        }
    }

    /// What a check of the key with this name fails with at once, while its breaker is open.
    pub(crate) fn not_sent(&self, name: impl FnOnce() -> String) -> Option<Failed> {
        match self {
            Self::One { guard, .. } => guard.not_sent(),
            Self::Cluster(cluster) => cluster.not_sent(slot::of_name(name().as_bytes())),
        }
    }

    /// Makes a trip of one or several requests that ends by `until`. Breakers that are open fail it
    /// at once.
    ///
    /// # Errors
    ///
    /// As [`Guard::trip`].
    pub(crate) async fn trip<T>(
        &self,
        until: Instant,
        trip: impl Future<Output = Result<T, Failed>> + Unpin,
    ) -> Result<T, Failed> {
        match self {
            Self::One { guard, .. } => guard.trip(until, trip).await,
            Self::Cluster(cluster) => cluster.trip(until, trip).await,
        }
    }

    /// Executes a script, within the deadline. `body` appends the number of keys, the keys and the
    /// arguments.
    pub(crate) async fn run(&self, script: &Script, body: impl Fn(&mut Cmd)) -> Result<Value, Failed> {
        match self {
            Self::One { connection, .. } => connection.run(script, body).await,
            Self::Cluster(cluster) => cluster.run(cluster.until(cluster.now()), script, body).await,
        }
    }

    /// The same as a part of a [`trip`](Self::trip), which has the timer.
    pub(crate) async fn run_in_trip(
        &self,
        until: Instant,
        script: &Script,
        body: impl Fn(&mut Cmd),
    ) -> Result<Value, Failed> {
        match self {
            Self::One { connection, .. } => connection.run_until(until, script, body, false).await?.value(),
            // Large: a single server must not make room for it.
            Self::Cluster(cluster) => Box::pin(cluster.run(until, script, body)).await,
        }
    }

    pub(crate) fn counts(&self) -> BreakerCounts {
        match self {
            Self::One { guard, .. } => guard.counts(),
            Self::Cluster(cluster) => cluster.counts(),
        }
    }
}

/// The probes of a single server write a key of their own.
fn probe(connection: &Arc<Connection>, prefix: &str) -> Probe {
    let (connection, key) = (Arc::clone(connection), format!("{prefix}:{{k:}}:probe"));
    let script = Arc::new(Script::new(PROBE));
    Box::new(move || {
        let (connection, script, key) = (connection.clone(), script.clone(), key.clone());
        Box::pin(async move {
            let body = |command: &mut Cmd| {
                command.arg(1).arg(&key);
            };
            connection.run(&script, body).await.map(drop)
        })
    })
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("breaker", &self.counts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::OnceLock;

    use super::*;
    use crate::{Charged, fake};

    #[tokio::test]
    async fn no_check_begins_while_its_masters_breaker_is_open() {
        static PORT: OnceLock<u16> = OnceLock::new();
        let answer = |words: &[String]| match &*words[0] {
            "CLUSTER" => format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{}\r\n", PORT.get().unwrap()),
            _ => "-LOADING the data\r\n".to_owned(),
        };
        let url = fake::serve(answer).await;
        PORT.set(url.rsplit_once(':').unwrap().1.parse().unwrap()).unwrap();
        let topology = Topology::Cluster(Vec::new());
        let store = Store::open(&fake::address(&url), &topology, "tg1", Duration::from_secs(10)).unwrap();
        store.connected("tg1").await.unwrap();
        let name = || "tg1:{k:alice}:api".to_owned();
        assert_eq!(store.not_sent(name), None);
        let (script, body) = (Script::new("return 1"), |command: &mut Cmd| {
            command.arg(1).arg(name());
        });
        for _ in 0..5 {
            assert!(store.run(&script, body).await.is_err());
        }
        assert_eq!(store.not_sent(name).map(|failed| failed.kind), Some(FailureKind::BreakerOpen));
    }

    /// A server that answers one request after the other, each after 10 ms, and twice as many
    /// clients as it could answer in time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn load_alone_never_opens_the_breaker() {
        let answer = |_: &[String]| {
            std::thread::sleep(Duration::from_millis(10));
            ":1\r\n".to_owned()
        };
        let (url, deadline) = (fake::serve(answer).await, Duration::from_millis(200));
        let store = Arc::new(Store::open(&fake::address(&url), &Topology::One, "tg1", deadline).unwrap());
        store.connected("tg1").await.unwrap();
        let begun = Instant::now();
        let client = |_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let (script, mut counts) = (Script::new("return 1"), [[0; 3]; 2]);
                while begun.elapsed() < Duration::from_secs(4) {
                    let until = store.until(store.now());
                    let ask = pin!(store.run_in_trip(until, &script, |command| {
                        command.arg(0);
                    }));
                    let kind = match store.trip(until, ask).await {
                        Ok(_) => 0,
                        Err(failed) if failed.kind == FailureKind::Timeout => 1,
                        Err(failed) => {
                            assert_eq!((failed.kind, failed.charged), (FailureKind::Busy, Charged::No));
                            2
                        }
                    };
                    counts[usize::from(begun.elapsed() > Duration::from_secs(2))][kind] += 1;
                }
                counts
            })
        };
        let mut counts = [[0; 3]; 2];
        for client in join_all((0..40).map(client)).await {
            for (sum, more) in counts.iter_mut().flatten().zip(client.unwrap().iter().flatten()) {
                *sum += more;
            }
        }
        assert_eq!(store.counts(), BreakerCounts::default(), "{counts:?}");
        // Once it is known how much the server can answer, little else is sent.
        let [_, [answered, late, busy]] = counts;
        assert!(answered > 50 && late < answered && busy > 0, "{counts:?}");
    }

    /// The servers tell the map late, as after a start.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_waits_for_the_first_map() {
        static PORT: OnceLock<u16> = OnceLock::new();
        let answer = |words: &[String]| match &*words[0] {
            "CLUSTER" => {
                std::thread::sleep(Duration::from_millis(100));
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{}\r\n", PORT.get().unwrap())
            }
            _ => ":1\r\n".to_owned(),
        };
        let url = fake::serve(answer).await;
        PORT.set(url.rsplit_once(':').unwrap().1.parse().unwrap()).unwrap();
        let topology = Topology::Cluster(Vec::new());
        let store = Store::open(&fake::address(&url), &topology, "tg1", Duration::from_secs(10)).unwrap();
        let (script, body) = (Script::new("return 1"), |command: &mut Cmd| {
            command.arg(1).arg("tg1:{k:alice}:api");
        });
        assert_eq!(store.run(&script, body).await, Ok(Value::Int(1)));
    }

    #[tokio::test]
    async fn a_request_waits_for_no_second_map() {
        // A port that nothing listens on.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (url, topology) = (format!("redis://{free}"), Topology::Cluster(Vec::new()));
        let store = Store::open(&fake::address(&url), &topology, "tg1", Duration::from_secs(60)).unwrap();
        let (script, body) = (Script::new("return 1"), |command: &mut Cmd| {
            command.arg(1).arg("tg1:{k:alice}:api");
        });
        for _ in 0..2 {
            assert_eq!(store.run(&script, body).await.unwrap_err().kind, FailureKind::Unready);
        }
    }
}
