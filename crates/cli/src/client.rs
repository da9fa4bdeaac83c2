//! HTTP client of the command line, over the daemon's Unix socket or its address.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use api::Problem;
use reqwest::blocking::{Client as Http, ClientBuilder, Request, Response};
use reqwest::{Certificate, Method, StatusCode};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use terminal::printable;

use crate::arguments::Global;
use crate::printable::printable_value;
use crate::starting::Patience;

/// Where the daemon keeps its state unless told otherwise.
pub(crate) const DATA_DEFAULT: &str = "/var/lib/gantry";

/// The daemon's socket in its data directory.
const SOCKET_NAME: &str = "gantry.sock";

/// The longest answer that is read whole for a support bundle, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Creating a pool on a slow device may take a while; nothing takes longer than this.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct Client {
    http: Http,
    base: String,
    /// What to say when nobody answers.
    place: String,
    /// Whether that is a socket on this machine.
    is_local: bool,
    /// What is shown instead of a password, over the network.
    token: Option<String>,
    /// How long a daemon on this machine may take to start.
    patience: Patience,
}

impl Client {
    pub(crate) fn new(global: &Global) -> Result<Self> {
        match &global.url {
            Some(url) => Self::over_http(url, global),
            None => {
                let data = global.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
                Self::over_socket(&data, global.wait)
            }
        }
    }

    fn over_http(url: &str, global: &Global) -> Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        let builder = if base.starts_with("https:") {
            encrypted(builder(), global.ca.as_deref())?
        } else {
            unencrypted()
        };
        let token = read_token(global.token_file.as_deref())?;
        Ok(Self {
            http: builder.build()?,
            place: base.clone(),
            is_local: false,
            base,
            token,
            patience: Patience::none(),
        })
    }

    fn over_socket(data: &Path, wait: Option<u64>) -> Result<Self> {
        let socket = data.join(SOCKET_NAME);
        Ok(Self {
            place: socket.display().to_string(),
            is_local: true,
            http: unencrypted().unix_socket(socket).build()?,
            base: "http://localhost".to_owned(),
            token: None,
            patience: Patience::new(data, wait),
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

    /// Asks for something that needs no more words.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Method::POST, path, None::<&()>)
    }

    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        self.call(Method::DELETE, path, None::<&()>).map(|IgnoredAny| ())
    }

    /// The answer to a question as text, or the words of its refusal. A daemon that is starting is not
    /// waited for.
    ///
    /// # Errors
    /// When nobody answers within the time.
    pub(crate) fn ask_once(
        &self,
        path: &str,
        patience: Duration,
    ) -> Result<Result<String, String>> {
        let mut request = self.http.get(format!("{}{path}", self.base)).timeout(patience);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let silent = |error: reqwest::Error| {
            if error.is_timeout() {
                return anyhow::anyhow!("{} did not answer within {patience:?}", self.place);
            }
            self.unreachable(&error)
        };
        let response = request.send().map_err(silent)?;
        let status = response.status();
        let mut text = String::new();
        if let Err(error) = response.take(ANSWER_BYTES_MAX).read_to_string(&mut text) {
            return Ok(Err(format!("the answer broke off: {error}")));
        }
        if status.is_success() {
            return Ok(Ok(text));
        }
        let problem = serde_json::from_str::<Problem>(&text);
        Ok(Err(problem.map_or_else(|_| status.to_string(), |problem| problem.detail)))
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
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = self.answer_of(&request.build()?)?;
        let success = response.status().is_success();
        let status = response.status();
        let text = response.text().context("the daemon's answer broke off")?;
        if !success {
            match serde_json::from_str::<Problem>(&text) {
                Ok(problem) => bail!("{}", printable(&self.explain(problem))),
                Err(_) => bail!("{} answered {status}: is it a Gantry daemon?", self.place),
            }
        }
        let text = if text.is_empty() { "null" } else { &text };
        let other_version = "the daemon speaks another version of this interface";
        let value = serde_json::from_str(text).context(other_version)?;
        serde_json::from_value(printable_value(value)).context(other_version)
    }

    /// Sends a request; waits for a daemon on this machine that is starting. What is sent again was
    /// not begun: nobody took the connection, or the answer was 503.
    fn answer_of(&self, request: &Request) -> Result<Response> {
        let mut waiting = self.patience.begin();
        loop {
            let again = request.try_clone().context("a request without a stream can be copied")?;
            let is_starting = match self.http.execute(again) {
                Ok(response) if response.status() != StatusCode::SERVICE_UNAVAILABLE => {
                    return Ok(response);
                }
                Err(error) if !is_absent(&error) => return Err(self.unreachable(&error)),
                other => other,
            };
            if !waiting.goes_on(&self.place) {
                return is_starting.map_err(|error| self.unreachable(&error));
            }
        }
    }

    /// What to do about a refusal, in words of the command line.
    fn explain(&self, problem: Problem) -> String {
        match (problem.status, &self.token) {
            (401, None) => format!(
                "{} wants a token: put one in the variable GANTRY_TOKEN or name its file with \
                 --token-file; 'gantry token create' on the array's own machine makes one",
                self.place
            ),
            (401, Some(_)) => format!(
                "{} does not know the token, or its time is over: 'gantry token create' on the \
                 array's own machine makes another",
                self.place
            ),
            _ => crate::advice::explain(&problem),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        if error.is_timeout() {
            return anyhow::anyhow!("{} did not answer within {TIMEOUT:?}", self.place);
        }
        if let Some(reason) = certificate_error(error) {
            return anyhow::anyhow!(
                "{} is not trusted ({reason}): name the certificate of the daemon with --ca FILE",
                self.place
            );
        }
        if is_forbidden(error) {
            return anyhow::anyhow!(
                "{} belongs to another user: use sudo, or --url with a token",
                self.place
            );
        }
        let advice = if self.is_local {
            "start 'gantryd --data DIR', or name its directory with --data"
        } else {
            "see whether gantryd runs there and has this address as --http or --https"
        };
        anyhow::anyhow!("no daemon answers at {}: {advice}", self.place)
    }
}

/// Reads no certificates, which takes longer than most commands.
fn unencrypted() -> ClientBuilder {
    builder().tls_certs_only([])
}

fn builder() -> ClientBuilder {
    // Fails only when one is installed already, which then is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ClientBuilder::new().timeout(TIMEOUT).no_proxy()
}

/// Trusts one certificate, or those that this machine trusts.
fn encrypted(builder: ClientBuilder, ca: Option<&Path>) -> Result<ClientBuilder> {
    let Some(path) = ca else { return Ok(builder) };
    let read = || format!("cannot read {} as PEM", path.display());
    let text = fs::read(path).with_context(read)?;
    Ok(builder.tls_certs_only(Certificate::from_pem_bundle(&text).with_context(read)?))
}

/// The token in a file, else the one in the environment. It is never on the command line, which
/// others see.
pub(crate) fn read_token(file: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = file else { return Ok(std::env::var("GANTRY_TOKEN").ok()) };
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the token in {}", path.display()))?;
    match text.lines().next() {
        Some(token) if !token.is_empty() => Ok(Some(token.trim().to_owned())),
        _ => bail!("there is no token in {}: put it on the first line", path.display()),
    }
}

/// Whether the system keeps this user away from the socket.
fn is_forbidden(error: &reqwest::Error) -> bool {
    system_errors(error).any(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether nobody listens at the socket, so that nothing was sent.
fn is_absent(error: &reqwest::Error) -> bool {
    let absent = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    system_errors(error).any(|error| absent.contains(&error.kind()))
}

fn system_errors(error: &reqwest::Error) -> impl Iterator<Item = &io::Error> {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>())
}

/// What is wrong with the certificate, if that is why nobody answered.
fn certificate_error(error: &reqwest::Error) -> Option<String> {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref()).find_map(tls_error).map(ToString::to_string)
}

/// The TLS error in an error of input and output, however deep.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    inner.downcast_ref().or_else(|| tls_error(inner.downcast_ref()?))
}
