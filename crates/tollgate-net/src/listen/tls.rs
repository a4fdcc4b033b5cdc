//! TLS, with certificates that may be exchanged.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_util::sync::CancellationToken;

use super::Stream;

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);

/// The files of a listener with TLS: `cert.pem,key.pem` or `cert.pem,key.pem,client-ca.pem`. They
/// are read again when they change.
///
/// # Examples
///
/// ```
/// use tollgate_net::listen::TlsFiles;
///
/// let files: TlsFiles = "/etc/tollgate/cert.pem,/etc/tollgate/key.pem".parse()?;
/// assert!(files.client_ca.is_none());
/// assert!("cert.pem".parse::<TlsFiles>().is_err());
/// # Ok::<(), tollgate_net::listen::BadTlsFiles>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and its authority, as PEM.
    pub certificate: PathBuf,
    /// The certificate's private key, as PEM.
    pub key: PathBuf,
    /// The authorities whose certificates clients must show, as PEM; `None`: clients show none.
    pub client_ca: Option<PathBuf>,
}

/// Text that does not name the files of a listener with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTlsFiles(String);

impl FromStr for TlsFiles {
    type Err = BadTlsFiles;

    fn from_str(text: &str) -> Result<Self, BadTlsFiles> {
        let bad = || BadTlsFiles(text.into());
        let mut paths = text.split(',').map(|path| (!path.is_empty()).then(|| PathBuf::from(path)));
        let mut needed = || paths.next().flatten().ok_or_else(bad);
        let (certificate, key) = (needed()?, needed()?);
        let client_ca = paths.next().map(|path| path.ok_or_else(bad)).transpose()?;
        if paths.next().is_some() {
            return Err(bad());
        }
        Ok(Self { certificate, key, client_ca })
    }
}

impl fmt::Display for BadTlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} does not name TLS files: write cert.pem,key.pem or cert.pem,key.pem,client-ca.pem",
            self.0
        )
    }
}

impl std::error::Error for BadTlsFiles {}

/// The certificate in force of a listener.
pub struct Tls {
    files: TlsFiles,
    protocols: &'static [&'static [u8]],
    current: ArcSwap<ServerConfig>,
}

/// The bytes of the files.
#[derive(PartialEq, Eq)]
struct Bytes {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files, and watches them until `ends`. `protocols` are what clients are offered.
    pub fn watch(
        files: &TlsFiles,
        protocols: &'static [&'static [u8]],
        ends: CancellationToken,
    ) -> io::Result<Arc<Self>> {
        let bytes = Bytes::read(files)?;
        let current = ArcSwap::from_pointee(bytes.config(files, protocols)?);
        let tls = Arc::new(Self { files: files.clone(), protocols, current });
        tokio::spawn(Arc::clone(&tls).keep_watching(bytes, ends));
        Ok(tls)
    }

    async fn keep_watching(self: Arc<Self>, mut judged: Bytes, ends: CancellationToken) {
        loop {
            tokio::select! {
                () = ends.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let tls = Arc::clone(&self);
            judged = match tokio::task::spawn_blocking(move || tls.look(judged)).await {
                Ok(judged) => judged,
                // The runtime ends.
                Err(_) => return,
            };
        }
    }

    /// Takes new files, if they are in order. Returns the bytes that were judged last.
    fn look(&self, judged: Bytes) -> Bytes {
        // A file that is not there is being exchanged, or gone: the certificate in force stays.
        let Ok(bytes) = Bytes::read(&self.files) else { return judged };
        if bytes == judged {
            return judged;
        }
        let certificate = self.files.certificate.display();
        match bytes.config(&self.files, self.protocols) {
            Ok(config) => {
                self.current.store(Arc::new(config));
                tracing::info!(%certificate, "new TLS files are in force");
            }
            Err(error) => tracing::error!(%certificate, %error, "the old TLS files stay in force"),
        }
        bytes
    }

    /// Makes a stream with TLS of one of TCP.
    pub(super) async fn handshake(&self, stream: Stream, within: Duration) -> io::Result<Stream> {
        let Stream::Tcp(stream) = stream else { return Ok(stream) };
        let shaken = TlsAcceptor::from(self.current.load_full()).accept(stream);
        match tokio::time::timeout(within, shaken).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(stream?))),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Bytes {
    fn read(files: &TlsFiles) -> io::Result<Self> {
        let read = |path: &Path| {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("{} cannot be read: {error}", path.display()))
            };
            std::fs::read(path).map_err(named)
        };
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    /// The settings of these bytes. An error names the file that is wrong.
    fn config(&self, files: &TlsFiles, protocols: &[&[u8]]) -> io::Result<ServerConfig> {
        let wrong = |what: &str, error: &dyn fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
        };
        let certificate = format!("the certificate {}", files.certificate.display());
        let key = format!("the key {}", files.key.display());
        let authorities = files.client_ca.as_deref().unwrap_or(Path::new("")).display();
        let authorities = format!("the clients' authorities {authorities}");
        let certificates = |bytes: &[u8], what: &str| -> io::Result<Vec<_>> {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
            let all = all.map_err(|error| wrong(what, &error))?;
            if all.is_empty() { Err(wrong(what, &"it has no certificate")) } else { Ok(all) }
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("TLS", &error))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(bytes) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(bytes, &authorities)? {
                    roots.add(root).map_err(|error| wrong(&authorities, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| wrong(&authorities, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(&self.certificate, &certificate)?;
        let secret = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| wrong(&key, &error))?;
        let config = builder.with_single_cert(chain, secret);
        let mut config = config.map_err(|error| wrong(&format!("{certificate} and {key}"), &error))?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}
