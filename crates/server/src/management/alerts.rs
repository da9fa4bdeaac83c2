//! Alert receivers: shows which there are, and has them told.

use control::alerts;

use super::Management;

impl Management {
    /// Lets the receivers be told that are configured.
    pub(super) fn tell_receivers(&mut self) {
        self.events.alerts.configure(&self.configuration.alerts, &self.secrets);
    }

    pub(super) fn describe_alerts(&self) -> api::Alerts {
        alerts::describe(&self.configuration.alerts)
    }
}
