//! Webhook alerts: a POST of JSON, signed (HMAC-SHA256) if there is a secret.

use api::AlertMessage;
use array::Secret;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use sha2::Sha256;

use super::Failure;
use crate::limits::ALERT_TIMEOUT;
use crate::trust;

/// HMAC-SHA256 (RFC 2104) of the body, as 'sha256=' and 64 hexadecimal digits.
const SIGNATURE: &str = "X-Gantry-Signature";

/// A program that is told by HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) secret: Option<Secret>,
}

impl Webhook {
    pub(super) async fn send(&self, message: &AlertMessage) -> Result<(), Failure> {
        let body = serde_json::to_vec(message).map_err(|e| Failure::lasting(e.to_string()))?;
        let client = client().map_err(|error| Failure::lasting(error.to_string()))?;
        let mut request = client.post(&self.url).header("Content-Type", "application/json");
        if let Some(secret) = &self.secret {
            request = request.header(SIGNATURE, signature(secret, &body));
        }
        let answer = request.body(body).send().await;
        // The URL may be a secret by itself.
        let answer = answer.map_err(|error| Failure::temporary(chain(&error.without_url())))?;
        judge(answer.status())
    }
}

/// A redirection could lead anywhere, and a proxy is nobody whom the administrator named.
fn client() -> Result<Client, reqwest::Error> {
    Client::builder()
        .tls_backend_preconfigured(trust::tls())
        .redirect(Policy::none())
        .no_proxy()
        .timeout(ALERT_TIMEOUT)
        .user_agent(concat!("gantryd/", env!("CARGO_PKG_VERSION")))
        .build()
}

fn signature(secret: &Secret, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes());
    let mut mac = mac.expect("HMAC takes keys of any length");
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    digest.iter().fold("sha256=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn judge(status: StatusCode) -> Result<(), Failure> {
    let refused = format!("answered {status}");
    let is_temporary = status.is_server_error()
        || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status);
    match (status.is_success(), is_temporary) {
        (true, _) => Ok(()),
        (_, true) => Err(Failure::temporary(refused)),
        _ if status.is_redirection() => {
            Err(Failure::lasting(format!("{refused}; redirections are not followed")))
        }
        _ => Err(Failure::lasting(refused)),
    }
}

/// An error and what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_signed_as_rfc_4231_has_it() {
        // RFC 4231 4.3; its key is shorter than a secret may be, so a password stands for it.
        let key = Secret::password("Jefe".to_owned()).unwrap();
        assert_eq!(
            signature(&key, b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn only_what_may_be_better_later_is_tried_again() {
        for (status, is_final) in
            [(500, false), (503, false), (429, false), (408, false), (404, true), (302, true)]
        {
            let failure = judge(StatusCode::from_u16(status).unwrap()).unwrap_err();
            assert_eq!(failure.is_final, is_final, "{status}");
        }
        for status in [200, 202, 204] {
            assert!(judge(StatusCode::from_u16(status).unwrap()).is_ok());
        }
    }
}
