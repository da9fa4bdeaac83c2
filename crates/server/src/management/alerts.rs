//! Routes of alert receivers: which webhooks and e-mail addresses get events.

use api::Problem;
use array::{Alerts, Configuration, Secrets};
use control::alerts::{self, Known};

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
        alerts::describe(&self.configuration.alerts)
    }

    pub(super) fn parse_alerts(&self, request: api::Alerts) -> Result<(Alerts, Secrets), Problem> {
        let known = Known { alerts: &self.configuration.alerts, secrets: &self.secrets };
        alerts::parse(request, known)
    }
}
