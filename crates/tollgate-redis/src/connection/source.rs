//! Where a connection comes from: one server, a cluster, or the master that Sentinel names.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsMode,
};

use crate::BuildError;

/// How many commands wait for the connection's task; more wait outside of it.
const BUFFER: usize = 1_024;

/// How many commands may be without an answer. With more, none would meet its deadline.
const IN_FLIGHT: usize = 4_096;

/// How often a cluster's client sends a command again. It follows a slot to its new owner by this,
/// and it also repeats a command whose connection broke: so the store may charge twice more.
const CLUSTER_RETRIES: u32 = 2;

/// A way to connect.
pub(crate) enum Source {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
    Sentinel(Box<SentinelClient>),
}

/// A connection of any kind. Clones share it.
#[derive(Clone)]
pub(crate) enum Wire {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// The servers besides the one in the address.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    One,
    /// More addresses of the same cluster.
    Cluster(Vec<String>),
    /// The addresses of the sentinels.
    Sentinel(Vec<String>),
}

impl Source {
    /// `url` is the server, the first of the cluster's, or has the name that the sentinels know the
    /// master by as its host. Users, passwords and TLS are those of `url`.
    pub(crate) fn new(url: &str, topology: &Topology, deadline: Duration) -> Result<Self, BuildError> {
        provide_cryptography();
        Self::try_new(url, topology, deadline).map_err(|error| BuildError::Address(error.to_string()))
    }

    fn try_new(url: &str, topology: &Topology, deadline: Duration) -> RedisResult<Self> {
        let first = url.into_connection_info()?;
        let others = |urls: &[String]| -> RedisResult<Vec<ConnectionInfo>> {
            urls.iter().map(|url| url.as_str().into_connection_info()).collect()
        };
        match topology {
            Topology::One => Ok(Self::One(Box::new(Client::open(first)?))),
            Topology::Cluster(urls) => {
                let settings = first.redis_settings().clone();
                let others = others(urls)?.into_iter().map(|node| node.set_redis_settings(settings.clone()));
                let nodes = std::iter::once(first.clone()).chain(others);
                let builder = ClusterClient::builder(nodes)
                    .retries(CLUSTER_RETRIES)
                    .connection_timeout(super::CONNECT)
                    .response_timeout(deadline)
                    .connection_concurrency_limit(IN_FLIGHT);
                Ok(Self::Cluster(Box::new(builder.build()?)))
            }
            Topology::Sentinel(urls) => {
                let (name, tls) = match first.addr() {
                    ConnectionAddr::Tcp(name, _) => (name.clone(), None),
                    ConnectionAddr::TcpTls { host, insecure: false, .. } => {
                        (host.clone(), Some(TlsMode::Secure))
                    }
                    ConnectionAddr::TcpTls { host, .. } => (host.clone(), Some(TlsMode::Insecure)),
                    other => (other.to_string(), None),
                };
                let node = SentinelNodeConnectionInfo::default()
                    .set_redis_connection_info(first.redis_settings().clone());
                let node = tls.map_or(node.clone(), |tls| node.set_tls_mode(tls));
                let master = SentinelServerType::Master;
                let client = SentinelClient::build(others(urls)?, name, Some(node), master)?;
                Ok(Self::Sentinel(Box::new(client)))
            }
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Connects. Sentinel is asked each time which server is the master.
    pub(super) async fn connect(&mut self) -> RedisResult<Wire> {
        // The deadline of a request is not this client's: it does not include the wait for room.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(super::CONNECT))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BUFFER)
            .set_concurrency_limit(IN_FLIGHT);
        match self {
            Self::One(client) => {
                client.get_multiplexed_async_connection_with_config(&config).await.map(Wire::One)
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Wire::Cluster),
            Self::Sentinel(client) => client.get_async_connection_with_config(&config).await.map(Wire::One),
        }
    }
}

/// TLS needs a provider of cryptography, and panics if the process has chosen none.
fn provide_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error: another thread was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
