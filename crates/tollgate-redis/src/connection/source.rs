//! Where a connection comes from: one server, or the master that Sentinel names.

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, RedisResult, TlsMode,
};
use tollgate_rules::{AddressError, StoreAddress, StorePlace};

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
    Cluster(Vec<StoreAddress>),
    /// The addresses of the sentinels.
    Sentinel(Vec<StoreAddress>),
}

/// An address as the client takes it.
fn info(address: &StoreAddress) -> RedisResult<ConnectionInfo> {
    let place = match address.place() {
        StorePlace::Socket(path) => ConnectionAddr::Unix(path.clone()),
        StorePlace::Host { name, port } => server(address.is_tls(), name, *port),
    };
    let protocol = if address.is_resp3() { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 };
    let mut settings =
        RedisConnectionInfo::default().set_db(address.database().into()).set_protocol(protocol);
    if let Some(user) = address.user() {
        settings = settings.set_username(user);
    }
    if let Some(password) = address.password() {
        settings = settings.set_password(password.reveal());
    }
    Ok(place.into_connection_info()?.set_redis_settings(settings))
}

fn server(is_tls: bool, host: &str, port: u16) -> ConnectionAddr {
    let host = host.to_owned();
    if is_tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}

/// The client says of an address only whether it is one, and [`StoreAddress`] has said so.
fn misfit(_: redis::RedisError) -> BuildError {
    BuildError::Address(AddressError::Together)
}

/// A server of a cluster. The others have its user, password and TLS.
#[derive(Clone, Debug)]
pub(crate) struct Seed(ConnectionInfo);

impl Seed {
    /// Those of a cluster, of which `first` is the first.
    pub(crate) fn all(first: &StoreAddress, others: &[StoreAddress]) -> Result<Vec<Self>, BuildError> {
        let nodes: RedisResult<Vec<_>> = std::iter::once(first).chain(others).map(info).collect();
        let nodes = nodes.map_err(misfit)?;
        let [first, ..] = &nodes[..] else { return Ok(Vec::new()) };
        let settings = first.redis_settings().clone();
        Ok(nodes.into_iter().map(|node| Self(node.set_redis_settings(settings.clone()))).collect())
    }

    pub(crate) fn source(&self) -> Result<Source, BuildError> {
        provide_cryptography();
        let client = Client::open(self.0.clone());
        client.map(|client| Source::One(Box::new(client))).map_err(misfit)
    }

    /// The same for another server.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        let is_tls = matches!(self.0.addr(), ConnectionAddr::TcpTls { .. });
        Self(self.0.clone().set_addr(server(is_tls, host, port)))
    }

    pub(crate) fn host(&self) -> &str {
        match self.0.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "127.0.0.1",
        }
    }
}

impl Source {
    /// `address` is the server, or has the name that the sentinels know the master by as its host.
    /// Users, passwords and TLS are those of `address`.
    pub(crate) fn new(
        address: &StoreAddress,
        sentinels: Option<&[StoreAddress]>,
    ) -> Result<Self, BuildError> {
        provide_cryptography();
        Self::try_new(address, sentinels).map_err(misfit)
    }

    fn try_new(address: &StoreAddress, sentinels: Option<&[StoreAddress]>) -> RedisResult<Self> {
        let first = info(address)?;
        match sentinels {
            None => Ok(Self::One(Box::new(Client::open(first)?))),
            Some(sentinels) => {
                let others = sentinels.iter().map(info).collect::<RedisResult<Vec<_>>>()?;
                let name = match address.place() {
                    StorePlace::Host { name, .. } => name.to_string(),
                    StorePlace::Socket(path) => path.display().to_string(),
                };
                let tls = address.is_tls().then_some(TlsMode::Secure);
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
