//! TLS of the link: a certificate that the controller makes for itself, and verifiers that know the
//! other side by the fingerprint of its certificate alone. No name, date or authority counts.

use std::sync::{Arc, Weak};

use anyhow::{Context, Result};
use control::link::Fingerprint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

use super::Shared;
use crate::data_directory::DataDirectory;

// Not `.json`: who copies an array's files to another controller must not copy its identity.
const CERTIFICATE_NAME: &str = "link.crt";
const KEY_NAME: &str = "link.key";

/// The name that handshakes carry, which nobody looks at.
pub(super) const NAME: &str = "gantry-controller";

/// This controller's certificate and key.
pub(super) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// Of the certificate.
    pub(super) fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

/// Certificate and key, to be handed to another process of this machine.
#[derive(Serialize, Deserialize)]
pub(super) struct Papers {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The fingerprint of a certificate.
pub(super) fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    Fingerprint(Sha256::digest(certificate.as_ref()).into())
}

impl Identity {
    /// Reads the certificate, or makes it at the first start.
    pub(super) fn load(directory: &DataDirectory) -> Result<Self> {
        let [certificate, key] =
            [CERTIFICATE_NAME, KEY_NAME].map(|name| directory.path().join(name));
        if !certificate.exists() || !key.exists() {
            let made = rcgen::generate_simple_self_signed([NAME.to_owned()])
                .context("cannot make a certificate for --link")?;
            directory.replace(KEY_NAME, made.signing_key.serialize_pem().as_bytes())?;
            directory.replace(CERTIFICATE_NAME, made.cert.pem().as_bytes())?;
        }
        let wrong = || {
            format!(
                "cannot read {} and {}: delete both and pair the controllers anew",
                certificate.display(),
                key.display()
            )
        };
        let certificate =
            CertificateDer::from_pem_file(&certificate).with_context(wrong)?.into_owned();
        let key = PrivateKeyDer::from_pem_file(&key).with_context(wrong)?;
        Ok(Self::with(certificate, key))
    }

    fn with(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Self {
        let fingerprint = fingerprint(&certificate);
        Self { certificate, key, fingerprint, provider: Arc::new(ring::default_provider()) }
    }

    /// As another process of this controller has it.
    pub(super) fn of(papers: Papers) -> Result<Self> {
        let key = PrivateKeyDer::try_from(papers.key).map_err(anyhow::Error::msg)?;
        Ok(Self::with(papers.certificate.into(), key))
    }

    pub(super) fn papers(&self) -> Papers {
        Papers { certificate: self.certificate.to_vec(), key: self.key.secret_der().to_vec() }
    }

    /// For connections to the controller that has a certificate, and to no other.
    pub(super) fn client(&self, to: Fingerprint) -> Result<ClientConfig> {
        let verifier = Arc::new(Pinned { to, provider: Arc::clone(&self.provider) });
        let config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        Ok(config.with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())?)
    }

    /// For connections of controllers that are known, and of others while a code may be used.
    pub(super) fn server(&self, shared: &Arc<Shared>) -> Result<ServerConfig> {
        let provider = Arc::clone(&self.provider);
        let verifier = Arc::new(Known { shared: Arc::downgrade(shared), provider });
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        // Every connection shows its certificate: one that is forgotten has no way around that.
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// The server must have this certificate.
#[derive(Debug)]
struct Pinned {
    to: Fingerprint,
    provider: Arc<CryptoProvider>,
}

/// The client must be known.
struct Known {
    shared: Weak<Shared>,
    provider: Arc<CryptoProvider>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Known")
    }
}

fn stranger() -> Error {
    Error::General("the other side has another certificate than was paired".to_owned())
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if fingerprint(end_entity) == self.to {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(stranger())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let shared = self.shared.upgrade().ok_or_else(stranger)?;
        if shared.owner_of(fingerprint(end_entity)).is_some() || shared.is_pairing() {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(stranger())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
