//! A certificate authority that only this test trusts.

use std::sync::Arc;

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// An authority, and a server at 127.0.0.1 that it vouches for.
pub(crate) struct Authority {
    /// Its own certificate, PEM.
    pub(crate) certificate: String,
    pub(crate) server: Arc<ServerConfig>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let of_server = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        let of_server = of_server.signed_by(&key, &issuer)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![of_server.der().clone()], key.into())?;
        Ok(Self { certificate, server: Arc::new(server) })
    }
}
