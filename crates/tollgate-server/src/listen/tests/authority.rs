//! An authority of a test, with the certificates of servers and clients.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::TlsFiles;

/// An authority, which signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for this name, and its key, as PEM.
    pub(crate) fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn write(&self, folder: &Path, name: &str, client_ca: Option<&Self>) -> TlsFiles {
        let path = |file: &str| folder.join(file);
        let (certificate, key) = self.sign(name);
        // As a renewal does: beside, and renamed.
        for (file, text) in [("cert.pem", certificate), ("key.pem", key)] {
            std::fs::write(path("beside"), text).unwrap();
            std::fs::rename(path("beside"), path(file)).unwrap();
        }
        if let Some(ca) = client_ca {
            std::fs::write(path("ca.pem"), ca.0.pem()).unwrap();
        }
        let client_ca = client_ca.map(|_| path("ca.pem"));
        TlsFiles { certificate: path("cert.pem"), key: path("key.pem"), client_ca }
    }

    /// A client that trusts this authority and shows this certificate.
    pub(crate) fn client(&self, own: Option<&(String, String)>) -> TlsConnector {
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
