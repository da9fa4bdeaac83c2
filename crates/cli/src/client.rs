//! Talks to the daemon over its socket or its HTTP address.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::Problem;
use reqwest::Method;
use reqwest::blocking::{Client as Http, ClientBuilder};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arguments::Global;

/// Where the daemon keeps its state unless told otherwise.
const DATA_DEFAULT: &str = "/var/lib/gantry";

/// The daemon's socket in its data directory.
const SOCKET_NAME: &str = "gantry.sock";

/// Creating a pool on a slow device may take a while; nothing takes longer than this.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct Client {
    http: Http,
    base: String,
    /// What to say when nobody answers.
    place: String,
}

impl Client {
    pub(crate) fn new(global: &Global) -> Result<Self> {
        match &global.url {
            Some(url) => Self::over_http(url),
            None => {
                let data = global.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
                Self::over_socket(&data)
            }
        }
    }

    fn over_http(url: &str) -> Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        let authorities = match base.starts_with("https:") {
            true => rustls_native_certs::load_native_certs().certs,
            false => Vec::new(),
        };
        let http = builder(authorities)?.build()?;
        Ok(Self { http, place: base.clone(), base })
    }

    fn over_socket(data: &Path) -> Result<Self> {
        let socket = data.join(SOCKET_NAME);
        Ok(Self {
            place: socket.display().to_string(),
            http: builder(Vec::new())?.unix_socket(socket).build()?,
            base: "http://localhost".to_owned(),
        })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Method::GET, path, None::<&()>)
    }

    /// Sends `body` and returns the object that it created or changed.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        self.call(method, path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        self.call(Method::DELETE, path, None::<&()>)
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().map_err(|error| self.unreachable(&error))?;
        let success = response.status().is_success();
        let status = response.status();
        let text = response.text().context("the daemon's answer broke off")?;
        if !success {
            match serde_json::from_str::<Problem>(&text) {
                Ok(problem) => bail!("{}", problem.detail),
                Err(_) => bail!("{} answered {status}: is it a Gantry daemon?", self.place),
            }
        }
        let text = if text.is_empty() { "null" } else { &text };
        serde_json::from_str(text).context("the daemon speaks another version of this interface")
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        if error.is_timeout() {
            return anyhow::anyhow!("{} did not answer within {TIMEOUT:?}", self.place);
        }
        anyhow::anyhow!(
            "no daemon answers at {}: start 'gantryd --data DIR', or name its directory with --data",
            self.place
        )
    }
}

/// By TLS, only who has a certificate of these authorities is trusted.
fn builder(authorities: Vec<CertificateDer<'_>>) -> Result<ClientBuilder> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(ClientBuilder::new().timeout(TIMEOUT).no_proxy().tls_backend_preconfigured(tls))
}
