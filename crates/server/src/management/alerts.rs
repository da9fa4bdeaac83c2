//! Routes of alert receivers: which webhooks and e-mail addresses get events.

use std::collections::BTreeMap;

use api::{Problem, Severity};
use array::{
    AlertLevel, Alerts, ArrayError, Configuration, Mail, MailTls, Secret, Secrets, Webhook,
};

use super::problems::{bad_request, refused};
use super::{Management, Progress};

impl Management {
    pub(super) fn set_alerts(&mut self, request: api::Alerts) -> Result<Progress, Problem> {
        let (alerts, secrets) = self.parse_alerts(request)?;
        let change = |configuration: &mut Configuration, all: &mut Secrets| {
            alerts.check()?;
            configuration.alerts = alerts;
            (all.webhooks, all.mail) = (secrets.webhooks, secrets.mail);
            Ok(())
        };
        self.change_with_secrets(change, |management, _, ()| {
            management.tell_receivers();
            Ok(Progress::answer(&management.describe_alerts()))
        })
    }

    /// Lets the receivers be told that are configured.
    pub(super) fn tell_receivers(&mut self) {
        self.events.alerts.configure(&self.configuration.alerts, &self.secrets);
    }

    pub(super) fn describe_alerts(&self) -> api::Alerts {
        describe(&self.configuration.alerts)
    }

    /// Settings, and the secrets that belong to them: new ones, and those that stay.
    pub(super) fn parse_alerts(&self, request: api::Alerts) -> Result<(Alerts, Secrets), Problem> {
        let (mut webhooks, mut secrets) = (BTreeMap::new(), Secrets::default());
        for webhook in request.webhooks {
            let name = webhook.name.clone();
            let secret = self.webhook_secret(&webhook)?;
            let level = parse_level(webhook.severity);
            let parsed = Webhook { url: webhook.url, level, signed: secret.is_some() };
            secrets.webhooks.extend(secret.map(|secret| (name.clone(), secret)));
            if webhooks.insert(name.clone(), parsed).is_some() {
                return Err(refused(&ArrayError::NameTaken { kind: "webhook", name }));
            }
        }
        let mail = match request.mail {
            Some(mail) => {
                secrets.mail = self.mail_password(&mail)?;
                Some(parse_mail(mail))
            }
            None => None,
        };
        Ok((Alerts { webhooks, mail }, secrets))
    }

    fn webhook_secret(&self, webhook: &api::Webhook) -> Result<Option<Secret>, Problem> {
        match (&webhook.secret, webhook.signed) {
            (Some(_), Some(false)) => Err(bad_request(
                &"a webhook that is not signed has no secret: leave one of them out",
            )),
            (Some(secret), _) => Ok(Some(Secret::new(secret.0.clone()).map_err(|e| refused(&e))?)),
            (None, Some(false)) => Ok(None),
            (None, wanted) => {
                let kept = self.secrets.webhooks.get(&webhook.name).cloned();
                match (kept, wanted) {
                    (None, Some(true)) => Err(bad_request(&format!(
                        "the secret of webhook '{}' is not known: send it, or 'signed': false",
                        webhook.name
                    ))),
                    (kept, _) => Ok(kept),
                }
            }
        }
    }

    /// A password that was given for one relay is not shown to another one.
    fn mail_password(&self, mail: &api::Mail) -> Result<Option<Secret>, Problem> {
        let Some(user) = &mail.user else {
            return match mail.password {
                Some(_) => Err(bad_request(&"a password needs a user: name one")),
                None => Ok(None),
            };
        };
        if let Some(password) = &mail.password {
            return Ok(Some(Secret::password(password.0.clone()).map_err(|e| refused(&e))?));
        }
        let same = self.configuration.alerts.mail.as_ref().is_some_and(|before| {
            before.relay == mail.relay
                && before.tls == parse_tls(mail.tls)
                && before.user.as_ref() == Some(user)
        });
        match self.secrets.mail.clone().filter(|_| same) {
            Some(kept) => Ok(Some(kept)),
            None => Err(bad_request(
                &"the password of this user at this relay is not known: send it, or leave out the user",
            )),
        }
    }
}

fn parse_mail(mail: api::Mail) -> Mail {
    Mail {
        relay: mail.relay,
        tls: parse_tls(mail.tls),
        user: mail.user,
        from: mail.from,
        to: mail.to,
        level: parse_level(mail.severity),
    }
}

fn parse_level(severity: Severity) -> AlertLevel {
    match severity {
        Severity::Information => AlertLevel::Information,
        Severity::Warning => AlertLevel::Warning,
        Severity::Error => AlertLevel::Error,
    }
}

/// Who is told of events, without secrets.
pub(super) fn describe(alerts: &Alerts) -> api::Alerts {
    let webhooks = alerts.webhooks.iter().map(|(name, webhook)| api::Webhook {
        name: name.clone(),
        url: webhook.url.clone(),
        severity: describe_level(webhook.level),
        secret: None,
        signed: Some(webhook.signed),
    });
    let mail = alerts.mail.as_ref().map(|mail| api::Mail {
        relay: mail.relay.clone(),
        tls: describe_tls(mail.tls),
        user: mail.user.clone(),
        password: None,
        from: mail.from.clone(),
        to: mail.to.clone(),
        severity: describe_level(mail.level),
    });
    api::Alerts { webhooks: webhooks.collect(), mail }
}

fn describe_level(level: AlertLevel) -> Severity {
    match level {
        AlertLevel::Information => Severity::Information,
        AlertLevel::Warning => Severity::Warning,
        AlertLevel::Error => Severity::Error,
    }
}

fn parse_tls(tls: api::MailTls) -> MailTls {
    match tls {
        api::MailTls::Tls => MailTls::Tls,
        api::MailTls::Starttls => MailTls::Starttls,
        api::MailTls::None => MailTls::None,
    }
}

fn describe_tls(tls: MailTls) -> api::MailTls {
    match tls {
        MailTls::Tls => api::MailTls::Tls,
        MailTls::Starttls => api::MailTls::Starttls,
        MailTls::None => api::MailTls::None,
    }
}
