//! Where a connection comes from: one server, or the master that Sentinel names.

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsMode,
};

use super::window::Window;
use crate::BuildError;

/// How many commands wait for the connection's task: all that are ever on their way, and a ping.
const BUFFER: usize = Window::MOST + 1;

/// A way to connect.
pub(crate) enum Source {
    One(Box<Client>),
    Sentinel(Box<SentinelClient>),
}

/// A connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Wire(pub(super) MultiplexedConnection);

/// The servers besides the one in the address.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    One,
    /// More addresses of the same cluster.
    Cluster(Vec<String>),
    /// The addresses of the sentinels.
    Sentinel(Vec<String>),
}

/// A server of a cluster. The others have its user, password and TLS.
#[derive(Clone, Debug)]
pub(crate) struct Seed(ConnectionInfo);

impl Seed {
    /// Those of a cluster, of which `url` is the first.
    pub(crate) fn all(url: &str, others: &[String]) -> Result<Vec<Self>, BuildError> {
        let urls = std::iter::once(url).chain(others.iter().map(String::as_str));
        let nodes: RedisResult<Vec<_>> = urls.map(IntoConnectionInfo::into_connection_info).collect();
        let nodes = nodes.map_err(|error| BuildError::Address(error.to_string()))?;
        let [first, ..] = &nodes[..] else { return Ok(Vec::new()) };
        let settings = first.redis_settings().clone();
        Ok(nodes.into_iter().map(|node| Self(node.set_redis_settings(settings.clone()))).collect())
    }

    pub(crate) fn source(&self) -> Result<Source, BuildError> {
        provide_cryptography();
        let client = Client::open(self.0.clone());
        client
            .map(|client| Source::One(Box::new(client)))
            .map_err(|error| BuildError::Address(error.to_string()))
    }

    /// The same for another server.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        let address = match self.0.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Self(self.0.clone().set_addr(address))
    }

    pub(crate) fn host(&self) -> &str {
        match self.0.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "127.0.0.1",
        }
    }
}

impl Source {
    /// `url` is the server, or has the name that the sentinels know the master by as its host.
    /// Users, passwords and TLS are those of `url`.
    pub(crate) fn new(url: &str, sentinels: Option<&[String]>) -> Result<Self, BuildError> {
        provide_cryptography();
        Self::try_new(url, sentinels).map_err(|error| BuildError::Address(error.to_string()))
    }

    fn try_new(url: &str, sentinels: Option<&[String]>) -> RedisResult<Self> {
        let first = url.into_connection_info()?;
        match sentinels {
            None => Ok(Self::One(Box::new(Client::open(first)?))),
            Some(urls) => {
                let others = urls.iter().map(|url| url.as_str().into_connection_info());
                let others = others.collect::<RedisResult<Vec<_>>>()?;
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
                let client = SentinelClient::build(others, name, Some(node), master)?;
                Ok(Self::Sentinel(Box::new(client)))
            }
        }
    }

    /// The address of the server, for logs. Without the password.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::One(client) => client.get_connection_info().addr().to_string(),
            Self::Sentinel(_) => "of Sentinel".to_owned(),
        }
    }

    /// Connects. Sentinel is asked each time which server is the master.
    pub(super) async fn connect(&mut self) -> RedisResult<Wire> {
        // The deadline of a request is not this client's: it does not include the wait for room.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(super::CONNECT))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BUFFER);
        match self {
            Self::One(client) => client.get_multiplexed_async_connection_with_config(&config).await,
            Self::Sentinel(client) => client.get_async_connection_with_config(&config).await,
        }
        .map(Wire)
    }
}

/// TLS needs a provider of cryptography, and panics if the process has chosen none.
fn provide_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error: another thread was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
