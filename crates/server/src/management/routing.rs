//! Which function answers which route. One table says which routes belong to which noun; each noun
//! has an enumeration of its own, so that a route which is nowhere, or in no arm, does not compile.

use api::{Problem, Route};
use axum::body::Bytes;

use super::identification::describe_identification;
use super::problems::not_found;
use super::{Management, Parameters, Progress, find_volume, read, read_or_default, read_secret};
use crate::core::Core;

macro_rules! nouns {
    ($($(#[$meta:meta])* $noun:ident { $($route:ident)* })*) => {
        /// A route, by what it is about.
        #[derive(Clone, Copy)]
        enum Noun {
            $($noun($noun),)*
        }

        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug)]
            enum $noun {
                $($route,)*
            }
        )*

        impl From<Route> for Noun {
            fn from(route: Route) -> Self {
                match route {
                    $($(Route::$route => Self::$noun($noun::$route),)*)*
                }
            }
        }
    };
}

nouns! {
    /// Pools, their devices and scrubs.
    Pools {
        ListPools CreatePool ShowPool ExtendPool AddDevice SetPoolThresholds ShowScrub StartScrub
        StopScrub DeletePool
    }
    /// Volumes, and who sees them.
    Volumes {
        ListVolumes CreateVolume ShowVolume ResizeVolume DeleteVolume CloneVolume RevertVolume
        SetVolumeThresholds SetReservations SetVolumeIdentification DeleteVolumeIdentification
        MapVolume UnmapVolume
    }
    /// Snapshots and their schedules.
    Snapshots {
        ListSnapshots CreateSnapshots ShowSnapshot DeleteSnapshot LockSnapshot ListSchedules
        ShowSchedule SetSchedule DeleteSchedule
    }
    /// Hosts, groups of them, and what they must prove.
    Hosts {
        ListHosts ShowHost CreateHost ChangeHost DeleteHost ListGroups ShowGroup SetGroup
        DeleteGroup ShowDiscovery SetDiscoveryChap DeleteDiscoveryChap
    }
    /// Portals and their paths.
    Portals { ListPortals CreatePortal SetPathState ShowPortal DeletePortal }
    /// The array as a whole.
    Array {
        ShowTarget ShowIdentification SetIdentification ListSessions ListEvents ListTasks ShowTask
        CancelTask ShowAlerts SetAlerts ListDeliveries ShowConfiguration ImportConfiguration
    }
    /// What hosts did, and how the array is.
    Statistics {
        ShowOffload ExplainOffload ShowLive ListSeries ShowHistory ListLocks ListReclaim
        ListForecasts ShowMetrics ShowReadiness
    }
    /// What other threads answer, so that nobody asks the reactor.
    Elsewhere {
        TestAlerts ShowHealth Login Logout ShowMe ChangePassword ListUsers CreateUser ShowUser
        ChangeUser DeleteUser ListTokens CreateToken DeleteToken ListAudit Stream ShowOpenApi
    }
}

/// What a request says.
#[derive(Clone, Copy)]
struct Request<'a> {
    parameters: &'a Parameters,
    body: &'a Bytes,
}

impl Management {
    /// Begins what a route asks for.
    pub(super) fn route(
        &mut self,
        core: &mut Core,
        sessions: Vec<api::Session>,
        route: Route,
        parameters: &Parameters,
        body: &Bytes,
    ) -> Result<Progress, Problem> {
        let request = Request { parameters, body };
        match Noun::from(route) {
            Noun::Pools(route) => self.route_pools(core, route, request),
            Noun::Volumes(route) => self.route_volumes(core, route, request),
            Noun::Snapshots(route) => self.route_snapshots(core, route, request),
            Noun::Hosts(route) => self.route_hosts(route, request),
            Noun::Portals(route) => self.route_portals(route, request),
            Noun::Array(route) => self.route_array(core, sessions, route, request),
            Noun::Statistics(route) => self.route_statistics(core, &sessions, route, parameters),
            Noun::Elsewhere(route) => {
                Err(not_found(&format!("another part of gantryd answers {route:?}")))
            }
        }
    }

    fn route_pools(
        &mut self,
        core: &mut Core,
        route: Pools,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let pool = parameters.get("pool");
        match route {
            Pools::ListPools => Ok(Progress::answer(&self.describe_pools(core))),
            Pools::CreatePool => self.create_pool(core, read(body)?),
            Pools::ShowPool => Ok(Progress::answer(&self.describe_pool(core, pool)?)),
            Pools::DeletePool => self.delete_pool(core, pool),
            Pools::ExtendPool => self.extend_pool(core, pool, &read(body)?),
            Pools::AddDevice => self.add_device(core, pool, &read(body)?),
            Pools::SetPoolThresholds => self.set_pool_thresholds(pool, read(body)?),
            Pools::ShowScrub => self.show_scrub(core, pool),
            Pools::StartScrub => self.start_scrub(core, pool, &read_or_default(body)?),
            Pools::StopScrub => self.stop_scrub(core, pool),
        }
    }

    fn route_volumes(
        &mut self,
        core: &mut Core,
        route: Volumes,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        match route {
            Volumes::ListVolumes => Ok(Progress::answer(&self.describe_volumes(core))),
            Volumes::CreateVolume => self.create_volume(core, &read(body)?),
            Volumes::ShowVolume => {
                let (pool, id) = find_volume(core, parameters)?;
                Ok(Progress::answer(&self.describe_volume(core, pool, id)?))
            }
            Volumes::ResizeVolume => self.resize_volume(core, parameters, &read(body)?),
            Volumes::DeleteVolume => self.delete_volume(core, parameters),
            Volumes::CloneVolume => self.clone_volume(core, parameters, &read(body)?),
            Volumes::RevertVolume => self.revert_volume(core, parameters, &read(body)?),
            Volumes::MapVolume => self.map_volume(core, parameters, &read_or_default(body)?),
            Volumes::UnmapVolume => self.unmap_volume(core, parameters),
            Volumes::SetReservations => self.set_reservations(core, parameters, read(body)?),
            Volumes::SetVolumeThresholds => {
                self.set_volume_thresholds(core, parameters, read(body)?)
            }
            Volumes::SetVolumeIdentification => {
                self.set_volume_identification(core, parameters, &read(body)?)
            }
            Volumes::DeleteVolumeIdentification => {
                self.delete_volume_identification(core, parameters)
            }
        }
    }

    fn route_snapshots(
        &mut self,
        core: &mut Core,
        route: Snapshots,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let schedule = parameters.get("schedule");
        match route {
            Snapshots::ListSnapshots => Ok(Progress::answer(&self.describe_snapshots(core))),
            Snapshots::CreateSnapshots => self.create_snapshots(core, &read(body)?),
            Snapshots::ShowSnapshot => {
                Ok(Progress::answer(&self.describe_snapshot(core, parameters)?))
            }
            Snapshots::DeleteSnapshot => self.delete_snapshot(core, parameters),
            Snapshots::LockSnapshot => self.lock_snapshot(core, parameters, read(body)?),
            Snapshots::ListSchedules => Ok(Progress::answer(&self.describe_schedules())),
            Snapshots::ShowSchedule => Ok(Progress::answer(&self.describe_schedule(schedule)?)),
            Snapshots::SetSchedule => self.set_schedule(core, schedule, &read(body)?),
            Snapshots::DeleteSchedule => self.delete_schedule(schedule),
        }
    }

    fn route_hosts(
        &mut self,
        route: Hosts,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let (host, group) = (parameters.get("host"), parameters.get("group"));
        match route {
            Hosts::ListHosts => Ok(Progress::answer(&self.describe_hosts())),
            Hosts::ShowHost => Ok(Progress::answer(&self.show_host(host)?)),
            Hosts::CreateHost => self.create_host(read_secret(body)?),
            Hosts::ChangeHost => self.change_host(host, read_secret(body)?),
            Hosts::DeleteHost => self.delete_host(host),
            Hosts::ListGroups => Ok(Progress::answer(&self.describe_groups())),
            Hosts::ShowGroup => Ok(Progress::answer(&self.show_group(group)?)),
            Hosts::SetGroup => self.set_group(group, read(body)?),
            Hosts::DeleteGroup => self.delete_group(group),
            Hosts::ShowDiscovery => Ok(Progress::answer(&self.describe_discovery())),
            Hosts::SetDiscoveryChap => self.set_discovery_chap(read_secret(body)?),
            Hosts::DeleteDiscoveryChap => self.delete_discovery_chap(),
        }
    }

    fn route_portals(
        &mut self,
        route: Portals,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let portal = parameters.get("portal");
        match route {
            Portals::ListPortals => Ok(Progress::answer(&self.describe_portals())),
            Portals::ShowPortal => Ok(Progress::answer(&self.show_portal(portal)?)),
            Portals::CreatePortal => self.create_portal(&read(body)?),
            Portals::SetPathState => self.set_path_state(parameters.get("group"), read(body)?),
            Portals::DeletePortal => self.delete_portal(portal),
        }
    }

    fn route_array(
        &mut self,
        core: &mut Core,
        sessions: Vec<api::Session>,
        route: Array,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let task = parameters.get("task");
        match route {
            Array::ShowTarget => Ok(Progress::answer(&self.describe_target(core, sessions))),
            Array::ListSessions => Ok(Progress::answer(&sessions)),
            Array::ShowIdentification => {
                Ok(Progress::answer(&describe_identification(self.configuration.identification)))
            }
            Array::SetIdentification => self.set_identification(read(body)?),
            Array::ListEvents => Ok(Progress::answer(&self.describe_events())),
            Array::ListTasks => Ok(self.list_tasks(core)),
            Array::ShowTask => self.show_task(core, task),
            Array::CancelTask => self.cancel_task(core, task),
            Array::ShowAlerts => Ok(Progress::answer(&self.describe_alerts())),
            Array::SetAlerts => self.set_alerts(read_secret(body)?),
            Array::ListDeliveries => Ok(Progress::answer(&self.events.alerts.deliveries())),
            Array::ShowConfiguration => self.export(core, parameters),
            Array::ImportConfiguration => self.import(core, parameters, read_secret(body)?),
        }
    }

    fn route_statistics(
        &self,
        core: &Core,
        sessions: &[api::Session],
        route: Statistics,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        Ok(match route {
            Statistics::ShowOffload => Progress::answer(&self.describe_offload(core)),
            Statistics::ExplainOffload => Progress::answer(&self.explain_offload(core)),
            Statistics::ShowLive => Progress::answer(&self.describe_live(core)),
            Statistics::ListSeries => Progress::answer(&super::statistics::describe_series(core)),
            Statistics::ShowHistory => {
                Progress::answer(&super::statistics::describe_history(core, parameters)?)
            }
            Statistics::ListLocks => Progress::answer(&super::statistics::describe_locks(core)),
            Statistics::ListReclaim => Progress::answer(&super::statistics::describe_reclaim(core)),
            Statistics::ListForecasts => {
                Progress::answer(&super::statistics::describe_forecasts(core))
            }
            Statistics::ShowMetrics => Progress::answer(&self.metrics(core, sessions)),
            Statistics::ShowReadiness => Progress::answer(&self.readiness(core)?),
        })
    }
}
