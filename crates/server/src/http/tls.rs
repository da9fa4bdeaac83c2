//! TLS of the management interface: with the administrator's certificate, or a self-signed one that
//! is made at the first start.

mod validity;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::data_directory::DataDirectory;
use validity::not_after;

const CERTIFICATE_NAME: &str = "tls.crt";
const KEY_NAME: &str = "tls.key";

/// The files of a certificate (with what it is signed by) and its key, both PEM.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// The certificate in the data directory; makes one for this address if there is none.
    pub(crate) fn own(directory: &DataDirectory, address: SocketAddr) -> Result<Self> {
        let files = Self {
            certificate: directory.path().join(CERTIFICATE_NAME),
            key: directory.path().join(KEY_NAME),
        };
        if !files.certificate.exists() || !files.key.exists() {
            let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
            let names = names.into_iter().chain([address.ip().to_string()]).chain(host_name());
            let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>())
                .context("cannot make a certificate for --https")?;
            directory.replace(KEY_NAME, made.signing_key.serialize_pem().as_bytes())?;
            directory.replace(CERTIFICATE_NAME, made.cert.pem().as_bytes())?;
        }
        Ok(files)
    }

    /// Fails if the files cannot be used.
    pub(crate) fn check(&self) -> Result<()> {
        self.server().map(drop)
    }

    /// TLS acceptor with this certificate.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor> {
        Ok(TlsAcceptor::from(Arc::new(self.server()?)))
    }

    fn server(&self) -> Result<ServerConfig> {
        let read = |path: &Path| format!("cannot read {} as PEM", path.display());
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| read(&self.certificate))?;
        EXPIRES.store(chain.first().and_then(|der| not_after(der)).unwrap_or(0), Ordering::Relaxed);
        let key = PrivateKeyDer::from_pem_file(&self.key).with_context(|| read(&self.key))?;
        let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .with_context(|| {
                let (certificate, key) = (self.certificate.display(), self.key.display());
                format!("{certificate} and {key} do not belong together: give a pair that does")
            })?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(server)
    }
}

/// When the certificate of --https expires, seconds since 1970; 0 without one, or if it does not
/// say.
static EXPIRES: AtomicU64 = AtomicU64::new(0);

/// When the certificate of --https expires, seconds since 1970.
pub(crate) fn expires() -> Option<u64> {
    Some(EXPIRES.load(Ordering::Relaxed)).filter(|&time| time > 0)
}

fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    (!name.is_empty()).then_some(name)
}
