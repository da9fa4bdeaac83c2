//! Trust store for outgoing TLS: the certificate authorities that the operating system trusts.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// Settings for a connection by TLS 1.2 or 1.3. On a system without certificate authorities nobody
/// is trusted.
pub(crate) fn tls() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Explains a failed connection, in clear words if the certificate is not trusted.
pub(crate) fn explained(reason: String) -> String {
    // The second: an authority of the same name is trusted, but it is not the same.
    if ["UnknownIssuer", "BadSignature"].iter().any(|part| reason.contains(part)) {
        format!(
            "this system does not trust who signed the other end's certificate: add that \
             authority to those of the operating system ({reason})"
        )
    } else {
        reason
    }
}
