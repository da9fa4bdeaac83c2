//! E-mail alerts by SMTP through a relay (RFC 5321).

use std::time::{Duration, UNIX_EPOCH};

use api::AlertMessage;
use array::{MailTls, Secret};
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};

use super::{Failure, printable, word};
use crate::limits::ALERT_TIMEOUT;

/// Characters of a subject.
const SUBJECT_MAX: usize = 120;

/// Receivers of e-mail, and the relay.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Mail {
    pub(super) settings: array::Mail,
    pub(super) password: Option<Secret>,
}

impl Mail {
    pub(super) async fn send(&self, message: &AlertMessage) -> Result<(), Failure> {
        let mail = self.compose(message).map_err(|reason| Failure::lasting(reason.to_string()))?;
        let transport = self.transport().map_err(|e| Failure::lasting(e.to_string()))?;
        match transport.send(mail).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_permanent() => Err(Failure::lasting(error.to_string())),
            Err(error) => Err(Failure::temporary(error.to_string())),
        }
    }

    fn transport(&self) -> anyhow::Result<AsyncSmtpTransport<Tokio1Executor>> {
        let (host, port) = self.settings.relay_parts()?;
        let host = host.trim_matches(['[', ']']);
        let tls = match self.settings.tls {
            MailTls::None => Tls::None,
            // Without STARTTLS nothing is sent.
            MailTls::Starttls => Tls::Required(TlsParameters::new(host.to_owned())?),
            MailTls::Tls => Tls::Wrapper(TlsParameters::new(host.to_owned())?),
        };
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
            .port(port)
            .tls(tls)
            .timeout(Some(ALERT_TIMEOUT));
        Ok(match (&self.settings.user, &self.password) {
            (Some(user), Some(password)) => {
                let password = password.expose().to_owned();
                builder.credentials(Credentials::new(user.clone(), password)).build()
            }
            _ => builder.build(),
        })
    }

    fn compose(&self, message: &AlertMessage) -> anyhow::Result<Message> {
        let mut builder = Message::builder().from(self.settings.from.parse()?);
        for receiver in &self.settings.to {
            builder = builder.to(receiver.parse()?);
        }
        let moment = UNIX_EPOCH + Duration::from_secs(message.time);
        let text = format!(
            "{} {}\r\n\r\nSeverity: {}\r\nTime: {}\r\nEvent: {}\r\nArray: {}\r\n",
            message.object,
            message.message,
            word(message.severity),
            humantime::format_rfc3339_seconds(moment),
            message.number,
            message.array
        );
        let mail = builder
            .date(moment)
            .subject(subject(message))
            .header(ContentType::TEXT_PLAIN)
            .body(text)?;
        Ok(mail)
    }
}

fn subject(message: &AlertMessage) -> String {
    let test = if message.test { "test: " } else { "" };
    let severity = word(message.severity);
    let text = format!("[gantry] {test}{severity}: {} {}", message.object, message.message);
    printable(&text).chars().take(SUBJECT_MAX).collect()
}
