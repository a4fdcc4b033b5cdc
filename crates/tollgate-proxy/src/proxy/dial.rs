//! Connections to an upstream.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::either::Either;

use super::failed::{Failed, Failure};
use crate::{ProxySettings, Upstream};

/// Why upstreams cannot be reached at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum UpstreamError {
    /// A listener needs one, and there is none.
    None,
    /// The authorities of upstreams over TLS.
    Authorities {
        /// The file; `None`: those that this machine trusts.
        file: Option<PathBuf>,
        /// The mistake.
        error: io::Error,
    },
    /// The host of an upstream over TLS is neither a name nor an address.
    Host(Upstream),
    /// An upstream is a listener of this proxy.
    Itself(Upstream),
}

/// Makes connections to one upstream.
#[derive(Clone)]
pub(super) struct Dial {
    upstream: Arc<Upstream>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

/// A connection to an upstream, with TLS or without.
pub(super) type Dialled = Either<TcpStream, Box<TlsStream<TcpStream>>>;

impl Dial {
    pub(super) fn new(upstream: &Arc<Upstream>, settings: &ProxySettings) -> Result<Self, UpstreamError> {
        let tls = match upstream.is_tls {
            false => None,
            true => {
                let mut config = client_config(settings.upstream_ca.as_deref())?;
                let protocol: &[u8] = if upstream.is_http2 { b"h2" } else { b"http/1.1" };
                config.alpn_protocols = vec![protocol.to_vec()];
                let name = ServerName::try_from(upstream.host().to_owned());
                let name = name.map_err(|_| UpstreamError::Host((**upstream).clone()))?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Self { upstream: Arc::clone(upstream), tls, timeout: settings.connect_timeout })
    }

    /// How long a connection may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Connects, in the time that this may take.
    pub(super) async fn connect(self) -> Result<Dialled, Failed> {
        let timeout = self.timeout;
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {timeout:?}"));
        let connected = tokio::time::timeout(timeout, self.connect_some_time()).await;
        connected.map_err(|_| Failed::of_dial(&late()))?
    }

    async fn connect_some_time(self) -> Result<Dialled, Failed> {
        let stream = TcpStream::connect((self.upstream.host(), self.upstream.port())).await;
        let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        let stream = stream.map_err(|error| Failed::of_dial(&error))?;
        Ok(match self.tls {
            None => Either::Left(stream),
            Some((tls, name)) => {
                // TCP may fail with the same words.
                let named =
                    |error: io::Error| Failed::new(Failure::Tls, &io::Error::other(format!("TLS: {error}")));
                Either::Right(Box::new(tls.connect(name, stream).await.map_err(named)?))
            }
        })
    }
}

fn client_config(file: Option<&Path>) -> Result<ClientConfig, UpstreamError> {
    let wrong = |error: io::Error| UpstreamError::Authorities { file: file.map(Path::to_owned), error };
    let certificates: Vec<CertificateDer<'static>> = match file {
        Some(file) => CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|error| wrong(io::Error::other(error)))?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(wrong(io::Error::new(io::ErrorKind::NotFound, "there is no certificate")));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| wrong(io::Error::other(error)))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("a proxy needs an upstream: --upstream http://HOST:PORT"),
            Self::Authorities { file: Some(file), error } => {
                write!(f, "the authorities of upstreams in {} cannot be read: {error}", file.display())
            }
            Self::Authorities { file: None, error } => {
                write!(
                    f,
                    "the authorities that this machine trusts cannot be read: {error}; name them: --upstream-ca FILE"
                )
            }
            Self::Host(upstream) => write!(f, "the host of {upstream} is neither a name nor an address"),
            Self::Itself(upstream) => write!(
                f,
                "--upstream {upstream} is this proxy's own --listen: requests would go round without end; \
                 name the server behind, or listen on another port"
            ),
        }
    }
}

impl std::error::Error for UpstreamError {}
