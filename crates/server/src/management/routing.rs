//! Request routing: which function answers which route. One table says which routes belong to which
//! noun; each noun has an enumeration of its own, so that a route which is nowhere, or in no arm,
//! does not compile.

use api::{Problem, Route};
use axum::body::Bytes;
use control::chap::{self, DiscoveryChange};
use control::hosts::{self, Change};
use control::{
    alerts, departures, identification, lun_maps, members, portals, primitives, rate_limits,
    schedules, settings, volumes,
};
use store::ResilverChange;

use super::describe::list_volumes;
use super::export::export;
use super::hosts::fold_initiator;
use super::metrics::show_metrics;
use super::offload::{explain_offload, list_offload};
use super::problems::not_found;
use super::sessions::{list_sessions, show_session, show_target};
use super::snapshots::list_snapshots;
use super::statistics::{
    describe_history, describe_series, list_forecasts, list_locks, list_reclaim, show_live,
};
use super::{Management, Parameters, Progress, read, read_or_default, read_secret};
use crate::data_plane::DataPlane;
use crate::iscsi::Sessions;

macro_rules! nouns {
    ($($(#[$meta:meta])* $noun:ident: $routes:ident { $($route:ident)* })*) => {
        /// A route, by what it is about.
        #[derive(Clone, Copy)]
        enum Noun {
            $($noun($routes),)*
        }

        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug)]
            enum $routes {
                $($route,)*
            }
        )*

        impl From<Route> for Noun {
            fn from(route: Route) -> Self {
                match route {
                    $($(Route::$route => Self::$noun($routes::$route),)*)*
                }
            }
        }
    };
}

nouns! {
    /// Pools, their devices and scrubs.
    Pools: PoolRoutes {
        ListPools CreatePool ShowPool ExtendPool AddDevice ResumePool SetPoolThresholds
        RemoveDevice ControlDeparture AttachMember DetachMember ReturnMember ControlResilver SetSpares
        SwitchPool SetSnapshotDeletion SetFailBack ShowScrub StartScrub StopScrub DeletePool SetPoolTags ImportPool
    }
    /// Volumes, and who sees them.
    Volumes: VolumeRoutes {
        ListVolumes CreateVolume ShowVolume ResizeVolume DeleteVolume CloneVolume RevertVolume
        SetVolumeThresholds SetReservations SetVolumePrimitives SetVolumeLimits SetVolumeIdentification DeleteVolumeIdentification
        MapVolume UnmapVolume RenameVolume SetVolumeTags
    }
    /// Snapshots and their schedules.
    Snapshots: SnapshotRoutes {
        ListSnapshots CreateSnapshots ShowSnapshot ShowChanges DeleteSnapshot LockSnapshot ListSchedules
        ShowSchedule SetSchedule DeleteSchedule RenameSnapshot SetSnapshotTags
    }
    /// Hosts, groups of them, and what they must prove.
    Hosts: HostRoutes {
        ListHosts ShowHost CreateHost ChangeHost DeleteHost ListGroups ShowGroup SetGroup
        DeleteGroup ShowDiscovery SetDiscoveryChap DeleteDiscoveryChap SetHostTags SetHostPrimitives
        SetHostLimits
        SetGroupTags
    }
    /// Portals and their paths.
    Portals: PortalRoutes { ListPortals CreatePortal SetPathState ShowPortal DeletePortal }
    /// The array as a whole.
    Array: ArrayRoutes {
        ShowTarget ShowIdentification SetIdentification ShowPrimitives SetPrimitives ListSessions ShowSession CloseSession ListEvents ListTasks
        ShowTask CancelTask PauseTask ResumeTask ShowAlerts SetAlerts ListDeliveries ShowConfiguration ImportConfiguration
        ExportPool ShowRecoveryKey ListControllers PairControllers SetMaintenance
    }
    /// What hosts did, and how the array is.
    Statistics: StatisticsRoutes {
        ShowOffload ExplainOffload ShowLive ListSeries ShowHistory ListLocks ListReclaim
        ListForecasts ShowMetrics ShowReadiness
    }
    /// What other threads answer, so that nobody asks the reactor.
    Elsewhere: ElsewhereRoutes {
        TestAlerts JoinController ForgetController ShowHealth Login Logout ShowMe ChangePassword ListUsers CreateUser ShowUser
        ChangeUser DeleteUser ListTokens CreateToken DeleteToken ListAudit Stream ShowOpenApi
    }
}

/// Whether a request is about what the controller has that has the pools, so that another one hands it on: not what
/// each daemon says of itself, nor what names devices that this machine need not have as the other one has them.
pub(super) fn is_for_owner(route: Route) -> bool {
    match Noun::from(route) {
        Noun::Pools(route) => !matches!(
            route,
            PoolRoutes::ListPools
                | PoolRoutes::ShowPool
                | PoolRoutes::CreatePool
                | PoolRoutes::ImportPool
                | PoolRoutes::ResumePool
        ),
        Noun::Volumes(_) | Noun::Snapshots(_) | Noun::Hosts(_) => true,
        Noun::Array(route) => matches!(
            route,
            ArrayRoutes::ExportPool
                | ArrayRoutes::ShowIdentification
                | ArrayRoutes::SetIdentification
                | ArrayRoutes::ShowPrimitives
                | ArrayRoutes::SetPrimitives
                | ArrayRoutes::ListTasks
                | ArrayRoutes::ShowTask
                | ArrayRoutes::CancelTask
                | ArrayRoutes::PauseTask
                | ArrayRoutes::ResumeTask
        ),
        Noun::Portals(_) | Noun::Statistics(_) | Noun::Elsewhere(_) => false,
    }
}

/// Whether a request lists what lies in pools, or goes on in them, of all of them.
pub(super) fn is_list_of_all(route: Route) -> bool {
    matches!(route, Route::ListVolumes | Route::ListSnapshots | Route::ListTasks)
}

/// Whether a request makes pools, or has the array forget them.
pub(super) fn is_of_pools(route: Route) -> bool {
    matches!(route, Route::CreatePool | Route::ImportPool | Route::DeletePool | Route::ExportPool)
}

/// Whether a request changes what several controllers that have pools may change in turn. What replaces all of the
/// configuration is for one that has them all.
pub(super) fn is_in_turn(route: Route) -> bool {
    let is_of_all = match Noun::from(route) {
        Noun::Volumes(_) | Noun::Snapshots(_) | Noun::Hosts(_) => true,
        Noun::Array(route) => {
            matches!(route, ArrayRoutes::SetIdentification | ArrayRoutes::SetPrimitives)
        }
        Noun::Portals(route) => matches!(route, PortalRoutes::SetPathState),
        Noun::Pools(_) | Noun::Statistics(_) | Noun::Elsewhere(_) => false,
    };
    is_of_all || is_of_pools(route)
}

/// Whether a request replaces all of the configuration.
pub(super) fn is_of_everything(route: Route) -> bool {
    matches!(route, Route::ImportConfiguration)
}

/// Whether a request changes one pool and its devices, and nothing that is said of anything else.
pub(super) fn is_of_one_pool(route: Route) -> bool {
    matches!(
        route,
        Route::ExtendPool
            | Route::AddDevice
            | Route::RemoveDevice
            | Route::ControlDeparture
            | Route::AttachMember
            | Route::DetachMember
            | Route::ReturnMember
            | Route::ControlResilver
            | Route::SetSpares
            | Route::SetPoolThresholds
            | Route::SetSnapshotDeletion
            | Route::SetFailBack
            | Route::StartScrub
            | Route::StopScrub
            | Route::SetPoolTags
    )
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
        plane: &mut DataPlane,
        sessions: &Sessions,
        route: Route,
        parameters: &Parameters,
        body: &Bytes,
    ) -> Result<Progress, Problem> {
        let request = Request { parameters, body };
        match Noun::from(route) {
            Noun::Pools(route) => self.route_pools(plane, route, request),
            Noun::Volumes(route) => self.route_volumes(plane, route, request),
            Noun::Snapshots(route) => self.route_snapshots(plane, route, request),
            Noun::Hosts(route) => self.route_hosts(plane, route, request),
            Noun::Portals(route) => self.route_portals(plane, route, request),
            Noun::Array(route) => self.route_array(plane, sessions, route, request),
            Noun::Statistics(route) => self.route_statistics(plane, route, parameters),
            Noun::Elsewhere(route) => {
                Err(not_found(&format!("another part of gantryd answers {route:?}")))
            }
        }
    }

    fn route_pools(
        &mut self,
        plane: &mut DataPlane,
        route: PoolRoutes,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let pool = parameters.get("pool");
        match route {
            PoolRoutes::ListPools => Ok(self.list_pools()),
            PoolRoutes::CreatePool => self.create_pool(plane, &read(body)?),
            PoolRoutes::ShowPool => Ok(Progress::answer(&self.describe_pool(plane, pool)?)),
            PoolRoutes::DeletePool => self.delete_pool(plane, parameters),
            PoolRoutes::ExtendPool => self.extend_pool(plane, pool, &read(body)?),
            PoolRoutes::AddDevice => self.add_device(plane, pool, &read(body)?),
            PoolRoutes::RemoveDevice => {
                let (device, request) = (parameters.get("device"), read_or_default(body)?);
                self.begin_procedure(plane, |view| departures::remove(pool, device, &request, view))
            }
            PoolRoutes::ControlDeparture => {
                let request = read(body)?;
                self.begin_procedure(plane, |view| departures::control(pool, &request, view))
            }
            PoolRoutes::AttachMember => {
                let request = read(body)?;
                self.begin_procedure(plane, |view| members::attach(pool, &request, view))
            }
            PoolRoutes::DetachMember => {
                let member = parameters.get("member");
                self.begin_procedure(plane, |view| {
                    members::detach(members::find(pool, member, view)?, view)
                })
            }
            PoolRoutes::ReturnMember => {
                let member = parameters.get("member");
                self.begin_procedure(plane, |view| members::ask_back(pool, member, view))
            }
            PoolRoutes::ControlResilver => self.control_resilver(plane, pool, &read(body)?),
            PoolRoutes::SetSpares => {
                let request = read(body)?;
                self.begin_procedure(plane, |view| members::set_spares(pool, &request, view))
            }
            PoolRoutes::ResumePool => {
                self.importing.remove(pool);
                self.resume_pool(plane, pool, &read_or_default(body)?)
            }
            PoolRoutes::SwitchPool => self.switch_by_hand(plane, parameters),
            PoolRoutes::SetPoolThresholds => {
                self.make(plane, &settings::set_pool_thresholds(pool, read(body)?))
            }
            PoolRoutes::SetSnapshotDeletion => {
                self.make(plane, &settings::set_snapshot_deletion(pool, read(body)?))
            }
            PoolRoutes::SetFailBack => {
                self.make(plane, &settings::set_fail_back(pool, read(body)?))
            }
            PoolRoutes::ShowScrub => self.show_scrub(plane, pool),
            PoolRoutes::StartScrub => self.start_scrub(plane, pool, &read_or_default(body)?),
            PoolRoutes::SetPoolTags => self.make(plane, &settings::tag_pool(pool, read(body)?)),
            PoolRoutes::ImportPool => self.import_pool(plane, read_secret(body)?),
            PoolRoutes::StopScrub => self.stop_scrub(plane, pool),
        }
    }

    fn route_volumes(
        &mut self,
        plane: &mut DataPlane,
        route: VolumeRoutes,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let host = parameters.get("host");
        match route {
            VolumeRoutes::ListVolumes => Ok(list_volumes()),
            VolumeRoutes::CreateVolume => self.create_volume(plane, &read(body)?),
            VolumeRoutes::ShowVolume => {
                let (pool, id) = self.find(plane, "volume", parameters.volume())?;
                Ok(Progress::answer(&self.describe_volume(plane, pool, id)?))
            }
            VolumeRoutes::ResizeVolume => self.resize_volume(plane, parameters, &read(body)?),
            VolumeRoutes::DeleteVolume => self.delete_volume(plane, parameters),
            VolumeRoutes::CloneVolume => self.clone_volume(plane, parameters, &read(body)?),
            VolumeRoutes::RevertVolume => self.revert_volume(plane, parameters, &read(body)?),
            VolumeRoutes::RenameVolume => self.rename_volume(plane, parameters, &read(body)?),
            VolumeRoutes::SetVolumeTags => {
                let (request, found) = (read(body)?, self.found_volume(plane, parameters)?);
                self.make(plane, &volumes::tag_volume(request, found)?)
            }
            VolumeRoutes::MapVolume => {
                let request = read_or_default(body)?;
                let found = self.found_volume(plane, parameters)?;
                self.make(plane, &lun_maps::map(&request, found, host)?)
            }
            VolumeRoutes::UnmapVolume => {
                let found = self.found_volume(plane, parameters)?;
                self.make(plane, &lun_maps::unmap(&found, host))
            }
            VolumeRoutes::SetReservations => {
                let (request, found) = (read(body)?, self.found_volume(plane, parameters)?);
                self.make(plane, &volumes::set_reservations(request, &found))
            }
            VolumeRoutes::SetVolumePrimitives => {
                let (request, found) = (read(body)?, self.found_volume(plane, parameters)?);
                self.make(
                    plane,
                    &primitives::set_of_volume(&found, request, parameters.get("asker")),
                )
            }
            VolumeRoutes::SetVolumeLimits => {
                let (request, found) = (read(body)?, self.found_volume(plane, parameters)?);
                let asker = parameters.get("asker");
                self.make(plane, &rate_limits::set_of_volume(&found, request, asker))
            }
            VolumeRoutes::SetVolumeThresholds => {
                let (request, found) = (read(body)?, self.found_volume(plane, parameters)?);
                self.make(plane, &volumes::set_thresholds(request, &found))
            }
            VolumeRoutes::SetVolumeIdentification => {
                let request = read(body)?;
                let found = self.found_volume(plane, parameters)?;
                self.make(plane, &volumes::set_identification(&request, &found)?)
            }
            VolumeRoutes::DeleteVolumeIdentification => {
                let found = self.found_volume(plane, parameters)?;
                self.make(plane, &volumes::delete_identification(&found))
            }
        }
    }

    fn route_snapshots(
        &mut self,
        plane: &mut DataPlane,
        route: SnapshotRoutes,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let schedule = parameters.get("schedule");
        match route {
            SnapshotRoutes::ListSnapshots => Ok(list_snapshots()),
            SnapshotRoutes::CreateSnapshots => self.create_snapshots(plane, &read(body)?),
            SnapshotRoutes::ShowSnapshot => {
                Ok(Progress::answer(&self.describe_snapshot(plane, parameters)?))
            }
            SnapshotRoutes::ShowChanges => self.compare_snapshots(plane, parameters),
            SnapshotRoutes::DeleteSnapshot => self.delete_snapshot(plane, parameters),
            SnapshotRoutes::RenameSnapshot => self.rename_snapshot(plane, parameters, &read(body)?),
            SnapshotRoutes::SetSnapshotTags => {
                let (request, found) = (read(body)?, self.found_snapshot(plane, parameters)?);
                self.make(plane, &volumes::tag_snapshot(request, found)?)
            }
            SnapshotRoutes::LockSnapshot => {
                let (request, found) = (read(body)?, self.found_snapshot(plane, parameters)?);
                self.make(plane, &volumes::lock(request, found)?)
            }
            SnapshotRoutes::ListSchedules => Ok(self.list_schedules()),
            SnapshotRoutes::ShowSchedule => {
                Ok(Progress::answer(&self.describe_schedule(schedule)?))
            }
            SnapshotRoutes::SetSchedule => {
                self.make(plane, &schedules::set(schedule, &read(body)?)?)
            }
            SnapshotRoutes::DeleteSchedule => {
                self.make(plane, &schedules::Setting::Delete(schedule.to_owned()))
            }
        }
    }

    fn route_hosts(
        &mut self,
        plane: &DataPlane,
        route: HostRoutes,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let (host, group) = (parameters.get("host"), parameters.get("group"));
        match route {
            HostRoutes::ListHosts => Ok(self.list_hosts()),
            HostRoutes::ShowHost => Ok(Progress::answer(&self.show_host(host)?)),
            HostRoutes::CreateHost => {
                self.make(plane, &hosts::create(read_secret(body)?, fold_initiator)?)
            }
            HostRoutes::ChangeHost => {
                self.make(plane, &hosts::change(host, read_secret(body)?, fold_initiator)?)
            }
            HostRoutes::SetHostPrimitives => self
                .make(plane, &primitives::set_of_host(host, read(body)?, parameters.get("asker"))),
            HostRoutes::SetHostLimits => self
                .make(plane, &rate_limits::set_of_host(host, read(body)?, parameters.get("asker"))),
            HostRoutes::SetHostTags => self.make(plane, &settings::tag_host(host, read(body)?)),
            HostRoutes::DeleteHost => self.make(plane, &Change::DeleteHost(host.to_owned())),
            HostRoutes::ListGroups => Ok(self.list_groups()),
            HostRoutes::ShowGroup => Ok(Progress::answer(&self.show_group(group)?)),
            HostRoutes::SetGroup => self.make(plane, &hosts::set_group(group, read(body)?)),
            HostRoutes::SetGroupTags => self.make(plane, &settings::tag_group(group, read(body)?)),
            HostRoutes::DeleteGroup => self.make(plane, &Change::DeleteGroup(group.to_owned())),
            HostRoutes::ShowDiscovery => Ok(Progress::answer(&self.describe_discovery())),
            HostRoutes::SetDiscoveryChap => {
                self.make(plane, &DiscoveryChange::Set(chap::parse(read_secret(body)?)?))
            }
            HostRoutes::DeleteDiscoveryChap => self.make(plane, &DiscoveryChange::Delete),
        }
    }

    fn route_portals(
        &mut self,
        plane: &DataPlane,
        route: PortalRoutes,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let portal = parameters.get("portal");
        match route {
            PortalRoutes::ListPortals => Ok(Progress::answer(&self.describe_portals())),
            PortalRoutes::ShowPortal => Ok(Progress::answer(&self.show_portal(portal)?)),
            PortalRoutes::CreatePortal => self.create_portal(plane, &read(body)?),
            PortalRoutes::SetPathState => {
                let group = parameters.get("group");
                self.make(plane, &portals::set_state(group, read(body)?)?)
            }
            PortalRoutes::DeletePortal => self.make(plane, &portals::delete(portal)?),
        }
    }

    fn route_array(
        &mut self,
        plane: &mut DataPlane,
        sessions: &Sessions,
        route: ArrayRoutes,
        Request { parameters, body }: Request<'_>,
    ) -> Result<Progress, Problem> {
        let task = parameters.get("task");
        match route {
            ArrayRoutes::ShowTarget => Ok(show_target(sessions)),
            ArrayRoutes::ListSessions => Ok(list_sessions(sessions)),
            ArrayRoutes::ShowSession => show_session(sessions, parameters.get("session")),
            ArrayRoutes::CloseSession => self.close_session(sessions, parameters.get("session")),
            ArrayRoutes::ShowIdentification => {
                Ok(Progress::answer(&identification::describe(self.configuration.identification)))
            }
            ArrayRoutes::SetIdentification => self.make(plane, &identification::set(&read(body)?)?),
            ArrayRoutes::ShowPrimitives => {
                Ok(Progress::answer(&primitives::describe(self.configuration.switches_off)))
            }
            ArrayRoutes::SetPrimitives => {
                self.make(plane, &primitives::set(read(body)?, parameters.get("asker")))
            }
            ArrayRoutes::ListEvents => Ok(self.list_events()),
            ArrayRoutes::ListTasks => Ok(self.list_tasks(plane)),
            ArrayRoutes::ShowTask => self.show_task(plane, task),
            ArrayRoutes::CancelTask => self.cancel_task(plane, task),
            ArrayRoutes::PauseTask => self.pause_task(plane, task, ResilverChange::Pause),
            ArrayRoutes::ResumeTask => self.pause_task(plane, task, ResilverChange::Resume),
            ArrayRoutes::ShowAlerts => Ok(Progress::answer(&self.describe_alerts())),
            ArrayRoutes::SetAlerts => self.make(plane, &alerts::Change(read_secret(body)?)),
            ArrayRoutes::ListDeliveries => Ok(Progress::answer(&self.events.alerts.deliveries())),
            ArrayRoutes::ShowConfiguration => export(parameters),
            ArrayRoutes::ExportPool => {
                let pool = parameters.get("pool");
                self.export_pool(plane, sessions, (pool, &read_or_default(body)?))
            }
            ArrayRoutes::ListControllers => Ok(Progress::answer(&self.list_controllers(plane))),
            ArrayRoutes::PairControllers => self.pair_controllers(body),
            ArrayRoutes::SetMaintenance => self.set_maintenance(plane, read(body)?),
            ArrayRoutes::ShowRecoveryKey => self.show_recovery_key(parameters),
            ArrayRoutes::ImportConfiguration => self.import(plane, parameters, read_secret(body)?),
        }
    }

    fn route_statistics(
        &self,
        plane: &DataPlane,
        route: StatisticsRoutes,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        Ok(match route {
            StatisticsRoutes::ShowOffload => list_offload(plane),
            StatisticsRoutes::ExplainOffload => explain_offload(plane),
            StatisticsRoutes::ShowLive => show_live(plane),
            StatisticsRoutes::ListSeries => {
                let series = describe_series(plane);
                Progress::later(move || series)
            }
            StatisticsRoutes::ShowHistory => {
                let history = describe_history(plane, parameters)?;
                Progress::later(move || history)
            }
            StatisticsRoutes::ListLocks => list_locks(plane),
            StatisticsRoutes::ListReclaim => list_reclaim(),
            StatisticsRoutes::ListForecasts => list_forecasts(plane),
            StatisticsRoutes::ShowMetrics => show_metrics(plane),
            StatisticsRoutes::ShowReadiness => Progress::answer(&self.readiness(plane)?),
        })
    }
}
