//! Settings of alert receivers, webhooks and e-mail, read and described. A secret that is not sent
//! stays, if it is known and nobody else would see it.

use std::collections::BTreeMap;

use api::{Problem, Severity};
use array::{AlertLevel, Alerts, ArrayError, Mail, MailTls, Secret, Secrets, Webhook};

use crate::Effect;
use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::problems::{bad_request, refused};

/// Other receivers of alerts than before.
#[derive(Clone, Debug)]
pub struct Change(pub api::Alerts);

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, _: &dyn View) -> Result<Applied, Problem> {
        put(draft, self.0.clone())?;
        let answer = Answer::of(&describe(&draft.array.alerts))?;
        Ok(Applied::new(Touched::Nobody, answer).with(vec![Effect::ConfigureReceivers]))
    }
}

/// Puts receivers into a draft, in place of all that it has. Returns whether they, or their secrets,
/// are others.
pub(crate) fn put(draft: &mut Draft, wanted: api::Alerts) -> Result<bool, Problem> {
    let known = Known { alerts: &draft.array.alerts, secrets: &draft.secrets };
    let (alerts, of_alerts) = parse(wanted, known)?;
    alerts.check().map_err(|error| refused(&error))?;
    let secrets = &mut draft.secrets;
    let is_same = alerts == draft.array.alerts
        && of_alerts.webhooks == secrets.webhooks
        && of_alerts.mail == secrets.mail;
    draft.array.alerts = alerts;
    (secrets.webhooks, secrets.mail) = (of_alerts.webhooks, of_alerts.mail);
    Ok(!is_same)
}

/// What a draft has, and what of it a request may leave out.
#[derive(Clone, Copy)]
struct Known<'a> {
    /// Settings without secrets.
    alerts: &'a Alerts,
    /// Their secrets, among others.
    secrets: &'a Secrets,
}

/// Settings, and the secrets that belong to them: new ones, and those that stay.
fn parse(request: api::Alerts, known: Known<'_>) -> Result<(Alerts, Secrets), Problem> {
    let (mut webhooks, mut secrets) = (BTreeMap::new(), Secrets::default());
    for webhook in request.webhooks {
        let name = webhook.name.clone();
        let secret = webhook_secret(&webhook, known)?;
        let level = parse_level(webhook.severity);
        let parsed = Webhook { url: webhook.url, level, signed: secret.is_some() };
        secrets.webhooks.extend(secret.map(|secret| (name.clone(), secret)));
        if webhooks.insert(name.clone(), parsed).is_some() {
            return Err(refused(&ArrayError::NameTaken { kind: "webhook", name }));
        }
    }
    let mail = match request.mail {
        Some(mail) => {
            secrets.mail = mail_password(&mail, known)?;
            Some(parse_mail(mail))
        }
        None => None,
    };
    Ok((Alerts { webhooks, mail }, secrets))
}

fn webhook_secret(webhook: &api::Webhook, known: Known<'_>) -> Result<Option<Secret>, Problem> {
    match (&webhook.secret, webhook.signed) {
        (Some(_), Some(false)) => {
            Err(bad_request(&"a webhook that is not signed has no secret: leave one of them out"))
        }
        (Some(secret), _) => Ok(Some(Secret::new(secret.0.clone()).map_err(|e| refused(&e))?)),
        (None, Some(false)) => Ok(None),
        (None, wanted) => {
            let kept = known.secrets.webhooks.get(&webhook.name).cloned();
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
fn mail_password(mail: &api::Mail, known: Known<'_>) -> Result<Option<Secret>, Problem> {
    let Some(user) = &mail.user else {
        return match mail.password {
            Some(_) => Err(bad_request(&"a password needs a user: name one")),
            None => Ok(None),
        };
    };
    if let Some(password) = &mail.password {
        return Ok(Some(Secret::password(password.0.clone()).map_err(|e| refused(&e))?));
    }
    let same = known.alerts.mail.as_ref().is_some_and(|before| {
        before.relay == mail.relay
            && before.tls == parse_tls(mail.tls)
            && before.user.as_ref() == Some(user)
    });
    match known.secrets.mail.clone().filter(|_| same) {
        Some(kept) => Ok(Some(kept)),
        None => Err(bad_request(
            &"the password of this user at this relay is not known: send it, or leave out the user",
        )),
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
pub fn describe(alerts: &Alerts) -> api::Alerts {
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

#[cfg(test)]
mod tests;
