//! Authorities of tests, with the certificates of servers and clients.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// An authority, which signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// One with a name of its own: of issuers with one name, rustls would find a bad signature.
    #[expect(clippy::new_without_default, reason = "each is another authority")]
    pub fn new() -> Self {
        static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, AUTHORITIES.fetch_add(1, Relaxed).to_string());
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for this name, and its key, as PEM.
    pub fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// Its own certificate as PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes a certificate for this name, its key, and the authority of the clients. Returns the
    /// paths as the options of the server take them.
    pub fn write(&self, folder: &Path, name: &str, client_ca: Option<&Self>) -> String {
        let path = |file: &str| folder.join(file);
        let (certificate, key) = self.sign(name);
        let mut files = format!("{},{}", path("cert.pem").display(), path("key.pem").display());
        // As a renewal does: beside, and renamed.
        for (file, text) in [("cert.pem", certificate), ("key.pem", key)] {
            std::fs::write(path("beside"), text).unwrap();
            std::fs::rename(path("beside"), path(file)).unwrap();
        }
        if let Some(ca) = client_ca {
            std::fs::write(path("ca.pem"), ca.pem()).unwrap();
            files += &format!(",{}", path("ca.pem").display());
        }
        files
    }

    /// What accepts clients with a certificate for this name, and speaks these protocols.
    pub fn acceptor(&self, name: &str, protocols: &[&[u8]]) -> TlsAcceptor {
        let (certificate, key) = self.sign(name);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// A client that trusts this authority and shows this certificate.
    pub fn client(&self, own: Option<&(String, String)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.0.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}
