//! Which function answers what is about running the array day by day.

use api::{Problem, Route};
use axum::body::Bytes;

use super::{Management, Parameters, Progress, read, read_secret};
use crate::core::Core;

/// Whether a route is one of these.
pub(super) fn has(route: Route) -> bool {
    matches!(
        route,
        Route::LockSnapshot
            | Route::ListSchedules
            | Route::ShowSchedule
            | Route::SetSchedule
            | Route::DeleteSchedule
            | Route::ListTasks
            | Route::ShowTask
            | Route::CancelTask
            | Route::ShowAlerts
            | Route::SetAlerts
            | Route::ListDeliveries
            | Route::ShowConfiguration
            | Route::ImportConfiguration
    )
}

impl Management {
    pub(super) fn route_operations(
        &mut self,
        core: &mut Core,
        route: Route,
        parameters: &Parameters,
        body: &Bytes,
    ) -> Result<Progress, Problem> {
        let schedule = parameters.get("schedule");
        match route {
            Route::LockSnapshot => self.lock_snapshot(core, parameters, read(body)?),
            Route::ListSchedules => Ok(Progress::answer(&self.describe_schedules())),
            Route::ShowSchedule => Ok(Progress::answer(&self.describe_schedule(schedule)?)),
            Route::SetSchedule => self.set_schedule(core, schedule, &read(body)?),
            Route::DeleteSchedule => self.delete_schedule(schedule),
            Route::ListTasks => Ok(self.list_tasks(core)),
            Route::ShowTask => self.show_task(core, parameters.get("task")),
            Route::CancelTask => self.cancel_task(core, parameters.get("task")),
            Route::ShowAlerts => Ok(Progress::answer(&self.describe_alerts())),
            Route::SetAlerts => self.set_alerts(read_secret(body)?),
            Route::ListDeliveries => Ok(Progress::answer(&self.events.alerts.deliveries())),
            Route::ShowConfiguration => self.export(core, parameters),
            Route::ImportConfiguration => self.import(core, parameters, read_secret(body)?),
            _ => unreachable!("every other route is in the tables above"),
        }
    }
}
