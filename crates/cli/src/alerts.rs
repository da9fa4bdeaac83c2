//! Subcommands for alert receivers.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use api::{Alerts, Delivery, Mail, MailTls, Secret, Severity, Webhook};
use clap::{Subcommand, ValueEnum};
use reqwest::Method;

use crate::chap::read_secret;
use crate::commands::Invocation;
use crate::tables::{Table, severity_word, table};
use notation::format_time;

const ROUTE: &str = "/v1/alerts";

#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// Show who is told of events.
    Show,
    /// Tell a program by HTTP, or change how.
    Webhook {
        name: String,
        /// Where it listens: http:// or https://. Redirections are not followed.
        #[arg(value_name = "URL")]
        address: String,
        /// Tell events as bad as this, and worse.
        #[arg(long, value_enum, default_value_t = SeverityArgument::Warning)]
        severity: SeverityArgument,
        /// File with the key of the signature on its first line, 12 to 255 bytes; - for the standard
        /// input. When left out, a key that was set before stays.
        #[arg(long, value_name = "FILE", conflicts_with = "unsigned")]
        secret_file: Option<PathBuf>,
        /// Forget the key.
        #[arg(long)]
        unsigned: bool,
    },
    /// Send e-mail through a relay, or change how.
    Mail {
        /// Name or address, and port, for example mail.example.org:587.
        #[arg(long, value_name = "NAME:PORT")]
        relay: String,
        /// How the connection is encrypted.
        #[arg(long, value_enum, default_value_t = TlsArgument::Starttls)]
        tls: TlsArgument,
        /// Who logs in at the relay.
        #[arg(long)]
        user: Option<String>,
        /// File with the password on its first line; - for the standard input. When left out, one
        /// that was set before for the same relay and user stays.
        #[arg(long, value_name = "FILE", requires = "user")]
        password_file: Option<PathBuf>,
        /// The sender's address.
        #[arg(long)]
        from: String,
        /// A receiver's address; may be repeated.
        #[arg(long, required = true)]
        to: Vec<String>,
        /// Tell events as bad as this, and worse.
        #[arg(long, value_enum, default_value_t = SeverityArgument::Warning)]
        severity: SeverityArgument,
    },
    /// Tell a webhook no more.
    DeleteWebhook { name: String },
    /// Send no more e-mail.
    DeleteMail,
    /// Tell everybody something, now. Fails if somebody does not take it.
    Test,
    /// List the latest attempts to tell somebody.
    Deliveries,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SeverityArgument {
    Information,
    Warning,
    Error,
}

/// How a connection to a relay is encrypted.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TlsArgument {
    /// From the first byte, usually on port 465.
    Tls,
    /// By STARTTLS, usually on port 587; without it nothing is sent.
    Starttls,
    /// Not at all; then nobody can log in.
    None,
}

impl Invocation {
    pub(crate) fn alert(&self, command: &AlertCommand) -> Result<()> {
        match command {
            AlertCommand::Show => self.show(&self.client.get::<Alerts>(ROUTE)?, alerts_table),
            AlertCommand::Webhook { name, address, severity, secret_file, unsigned } => {
                let webhook = Webhook {
                    name: name.clone(),
                    url: address.clone(),
                    severity: (*severity).into(),
                    secret: secret(secret_file.as_deref())?,
                    signed: unsigned.then_some(false),
                };
                let mut alerts = self.client.get::<Alerts>(ROUTE)?;
                alerts.webhooks.retain(|other| other.name != *name);
                alerts.webhooks.push(webhook);
                self.set_alerts(&alerts, &format!("Events are told to webhook {name}."))
            }
            AlertCommand::Mail { relay, tls, user, password_file, from, to, severity } => {
                let mail = Mail {
                    relay: relay.clone(),
                    tls: (*tls).into(),
                    user: user.clone(),
                    password: secret(password_file.as_deref())?,
                    from: from.clone(),
                    to: to.clone(),
                    severity: (*severity).into(),
                };
                let before = self.client.get::<Alerts>(ROUTE)?;
                let alerts = Alerts { mail: Some(mail), ..before };
                self.set_alerts(&alerts, &format!("Events are told to {}.", to.join(", ")))
            }
            AlertCommand::DeleteWebhook { name } => {
                let mut alerts = self.client.get::<Alerts>(ROUTE)?;
                if !alerts.webhooks.iter().any(|webhook| webhook.name == *name) {
                    bail!("there is no webhook named '{name}': 'gantry alert show' lists them");
                }
                alerts.webhooks.retain(|webhook| webhook.name != *name);
                self.set_alerts(&alerts, &format!("Webhook {name} is told no more."))
            }
            AlertCommand::DeleteMail => {
                let before = self.client.get::<Alerts>(ROUTE)?;
                self.set_alerts(&Alerts { mail: None, ..before }, "No more e-mail is sent.")
            }
            AlertCommand::Test => self.test_alerts(),
            AlertCommand::Deliveries => {
                let deliveries = self.client.get::<Vec<Delivery>>("/v1/alerts/deliveries")?;
                self.show(&deliveries, |list| deliveries_table(list))
            }
        }
    }

    fn set_alerts(&self, alerts: &Alerts, sentence: &str) -> Result<()> {
        self.changed::<Alerts>(Method::PUT, ROUTE, alerts, |_| sentence.to_owned())
    }

    fn test_alerts(&self) -> Result<()> {
        let deliveries: Vec<Delivery> = self.client.post(&format!("{ROUTE}/test"))?;
        self.show(&deliveries, |list| deliveries_table(list))?;
        if deliveries.is_empty() {
            bail!("nobody is told of events: see 'gantry alert webhook' and 'gantry alert mail'");
        }
        match deliveries.iter().find(|delivery| !delivery.ok) {
            Some(failed) => bail!("{} was not told: {}", failed.receiver, failed.detail),
            None => Ok(()),
        }
    }
}

fn secret(file: Option<&Path>) -> Result<Option<Secret>> {
    file.map(read_secret).transpose()
}

fn alerts_table(alerts: &Alerts) -> Table {
    let mut rows = table(&["RECEIVER", "FROM", "WHERE", "PROOF"]);
    for webhook in &alerts.webhooks {
        let proof = if webhook.signed == Some(true) { "signed" } else { "-" };
        rows.add_row([
            format!("webhook {}", webhook.name),
            severity_word(webhook.severity).to_owned(),
            webhook.url.clone(),
            proof.to_owned(),
        ]);
    }
    if let Some(mail) = &alerts.mail {
        rows.add_row([
            "mail".to_owned(),
            severity_word(mail.severity).to_owned(),
            format!("{} through {}", mail.to.join(", "), mail.relay),
            mail.user.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    rows
}

fn deliveries_table(deliveries: &[Delivery]) -> Table {
    let mut rows = table(&["TIME", "RECEIVER", "EVENT", "TOLD", "WHY NOT"]);
    for delivery in deliveries {
        rows.add_row([
            format_time(delivery.time),
            delivery.receiver.clone(),
            delivery.event.to_string(),
            if delivery.ok { "yes" } else { "no" }.to_owned(),
            delivery.detail.clone(),
        ]);
    }
    rows
}

impl From<SeverityArgument> for Severity {
    fn from(argument: SeverityArgument) -> Self {
        match argument {
            SeverityArgument::Information => Self::Information,
            SeverityArgument::Warning => Self::Warning,
            SeverityArgument::Error => Self::Error,
        }
    }
}

impl From<TlsArgument> for MailTls {
    fn from(argument: TlsArgument) -> Self {
        match argument {
            TlsArgument::Tls => Self::Tls,
            TlsArgument::Starttls => Self::Starttls,
            TlsArgument::None => Self::None,
        }
    }
}
