//! The routes of the management interface: one row each says all about it (docs/decisions/0101).

mod row;
#[cfg(test)]
mod tests;

use crate::shapes::{gives, list, nothing, object, one, text};
use crate::{
    AddDevice, Alerts, AttachMember, AuditEntry, ChangeHost, ChangePassword, ChangeUser, Chap,
    CloneVolume, Configuration, ControlDeparture, ControlResilver, Controller, CreateHost,
    CreatePool, CreatePortal, CreateSnapshots, CreateToken, CreateUser, CreateVolume, Delivery,
    Discovery, Event, ExportPool, Finding, Forecast, Group, Host, Identification, ImportPool,
    Imported, JoinController, Live, LockMap, LockSnapshot, Login, LunMap, Maintenance, MapVolume,
    Me, NewToken, OffloadLedger, PairController, Paired, PairingCode, Pool, PoolImport, Portal,
    Primitives, Reclaim, RecoveryKey, RemoveDevice, Rename, ResizePool, ResizeVolume, ResumePool,
    RevertVolume, Role, Schedule, Scrub, SeriesHistory, SeriesName, Session, SetFailBack, SetGroup,
    SetHostLimits, SetPathState, SetPrimitives, SetRateLimits, SetReservations, SetSchedule,
    SetSnapshotDeletion, SetSpares, SetTags, Snapshot, SnapshotChanges, StartScrub, Target, Task,
    Thresholds, Token, User, Volume,
};
use row::{delete, get, patch, post, put};

pub use row::{Format, Listing, Row};

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Create.
    Post,
    /// Set, idempotent.
    Put,
    /// Change a part.
    Patch,
    /// Remove.
    Delete,
}

impl Method {
    /// As it is written in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Makes [`Route`] and the table of its rows, in one order.
macro_rules! routes {
    ($($(#[$doc:meta])* $route:ident: $row:expr,)*) => {
        /// One thing that can be asked of the array.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Route {
            $($(#[$doc])* $route,)*
        }

        /// The row of every route, in the order of [`Route`].
        pub const ROUTES: &[Row] = &[$($row.of(Route::$route)),*];
    };
}

impl Route {
    /// Whether it changes nothing.
    pub const fn only_reads(self) -> bool {
        matches!(self.row().method, Method::Get)
    }

    /// All that is said about it.
    pub const fn row(self) -> &'static Row {
        &ROUTES[self as usize]
    }
}

routes! {
    /// The target, its portals and counters.
    ShowTarget: get("/v1/target", Role::Viewer, || gives(one::<Target>())),
    /// All pools.
    ListPools: get("/v1/pools", Role::Viewer, || gives(list::<Pool>())).listed_by(&["name"]),
    /// A new pool from [`crate::CreatePool`].
    CreatePool: post("/v1/pools", Role::Admin, || gives(one::<Pool>()).takes::<CreatePool>()),
    /// One pool.
    ShowPool: get("/v1/pools/{pool}", Role::Viewer, || gives(one::<Pool>())),
    /// A larger device, from [`crate::ResizePool`].
    ExtendPool: patch("/v1/pools/{pool}", Role::Admin,
        || gives(one::<Pool>()).takes::<ResizePool>())
        .changes(Route::ShowPool),
    /// Forget an empty pool; with `force=true` one that is not open, whatever it holds.
    DeletePool: delete("/v1/pools/{pool}", Role::Admin, || gives(nothing()))
        .changes(Route::ShowPool),
    /// A device joins a pool, from [`crate::AddDevice`].
    AddDevice: post("/v1/pools/{pool}/devices", Role::Admin,
        || gives(one::<Pool>()).takes::<AddDevice>())
        .changes(Route::ShowPool),
    /// A device leaves a pool, from [`crate::RemoveDevice`]: what is on it moves to the others. A mirror
    /// leaves with all of its members.
    RemoveDevice: post("/v1/pools/{pool}/devices/{device}/remove", Role::Admin,
        || gives(one::<Pool>()).may_take::<RemoveDevice>())
        .changes(Route::ShowPool),
    /// Pause, resume or give up the leaving of a device, from [`crate::ControlDeparture`].
    ControlDeparture: post("/v1/pools/{pool}/departure", Role::Admin,
        || gives(one::<Pool>()).takes::<ControlDeparture>())
        .changes(Route::ShowPool),
    /// A device joins a mirror of a pool, from [`crate::AttachMember`].
    AttachMember: post("/v1/pools/{pool}/members", Role::Admin,
        || gives(one::<Pool>()).takes::<AttachMember>())
        .changes(Route::ShowPool),
    /// A member leaves its mirror.
    DetachMember: delete("/v1/pools/{pool}/members/{member}", Role::Admin, || gives(nothing()))
        .changes(Route::ShowPool),
    /// Look at once whether a lost member is there again.
    ReturnMember: post("/v1/pools/{pool}/members/{member}/return", Role::Admin,
        || gives(one::<Pool>()))
        .changes(Route::ShowPool),
    /// Pause, resume or give up the filling of members, from [`crate::ControlResilver`].
    ControlResilver: post("/v1/pools/{pool}/resilver", Role::Admin,
        || gives(one::<Pool>()).takes::<ControlResilver>())
        .changes(Route::ShowPool),
    /// All spares of a pool, from [`crate::SetSpares`].
    SetSpares: put("/v1/pools/{pool}/spares", Role::Admin,
        || gives(one::<Pool>()).takes::<SetSpares>())
        .changes(Route::ShowPool),
    /// Take over a pool that this array does not know, from [`crate::ImportPool`].
    ImportPool: post("/v1/pool-imports", Role::Admin,
        || gives(one::<PoolImport>()).takes::<ImportPool>()),
    /// Give a pool away, from [`crate::ExportPool`]: another array may import it.
    ExportPool: post("/v1/pools/{pool}/export", Role::Admin,
        || gives(nothing()).may_take::<ExportPool>()),
    /// The recovery key, over the daemon's own socket.
    ShowRecoveryKey: post("/v1/recovery-key", Role::Admin, || gives(one::<RecoveryKey>())),
    /// Open a pool anew that takes no writes or is unavailable, from [`crate::ResumePool`].
    ResumePool: post("/v1/pools/{pool}/resume", Role::Admin,
        || gives(one::<Pool>()).may_take::<ResumePool>())
        .changes(Route::ShowPool),
    /// Give a pool up, so that another controller of the array takes it; with `force=true` also if none of those
    /// that are known would take it, or none of its hosts has a path there.
    SwitchPool: post("/v1/pools/{pool}/switch", Role::Admin, || gives(one::<Pool>()))
        .changes(Route::ShowPool),
    /// When someone is told how full a pool is, from [`crate::Thresholds`].
    SetPoolThresholds: put("/v1/pools/{pool}/thresholds", Role::Admin,
        || gives(one::<Pool>()).takes::<Thresholds>())
        .changes(Route::ShowPool),
    /// Whether a pool deletes scheduled snapshots, from [`crate::SetSnapshotDeletion`].
    SetSnapshotDeletion: put("/v1/pools/{pool}/snapshot-deletion", Role::Admin,
        || gives(one::<Pool>()).takes::<SetSnapshotDeletion>())
        .changes(Route::ShowPool),
    /// Which controller should have a pool, from [`crate::SetFailBack`].
    SetFailBack: put("/v1/pools/{pool}/fail-back", Role::Admin,
        || gives(one::<Pool>()).takes::<SetFailBack>())
        .changes(Route::ShowPool),
    /// All labels of a pool, from [`crate::SetTags`].
    SetPoolTags: put("/v1/pools/{pool}/tags", Role::Admin,
        || gives(one::<Pool>()).takes::<SetTags>())
        .changes(Route::ShowPool),
    /// How a pool's scrub is doing.
    ShowScrub: get("/v1/pools/{pool}/scrub", Role::Viewer, || gives(one::<Scrub>())),
    /// A scrub, or another rate for it, from [`crate::StartScrub`].
    StartScrub: put("/v1/pools/{pool}/scrub", Role::Admin,
        || gives(one::<Scrub>()).may_take::<StartScrub>())
        .changes(Route::ShowPool),
    /// End a scrub that is under way.
    StopScrub: delete("/v1/pools/{pool}/scrub", Role::Admin, || gives(nothing()))
        .changes(Route::ShowPool),
    /// All volumes of all pools.
    ListVolumes: get("/v1/volumes", Role::Viewer, || gives(list::<Volume>()))
        .listed_by(&["pool", "name"]),
    /// A new volume from [`crate::CreateVolume`].
    CreateVolume: post("/v1/volumes", Role::Operator,
        || gives(one::<Volume>()).takes::<CreateVolume>()),
    /// One volume.
    ShowVolume: get("/v1/volumes/{pool}/{volume}", Role::Viewer, || gives(one::<Volume>())),
    /// Another size, from [`crate::ResizeVolume`].
    ResizeVolume: patch("/v1/volumes/{pool}/{volume}", Role::Operator,
        || gives(one::<Volume>()).takes::<ResizeVolume>())
        .changes(Route::ShowVolume),
    /// Delete an unmapped volume.
    DeleteVolume: delete("/v1/volumes/{pool}/{volume}", Role::Operator, || gives(nothing()))
        .changes(Route::ShowVolume),
    /// A new volume with the content of a volume or snapshot, from [`crate::CloneVolume`].
    CloneVolume: post("/v1/volumes/{pool}/{volume}/clones", Role::Operator,
        || gives(one::<Volume>()).takes::<CloneVolume>()),
    /// A volume takes back what a snapshot kept, from [`crate::RevertVolume`].
    RevertVolume: post("/v1/volumes/{pool}/{volume}/revert", Role::Operator,
        || gives(one::<Volume>()).takes::<RevertVolume>())
        .changes(Route::ShowVolume),
    /// When someone is told how full a volume is, from [`crate::Thresholds`].
    SetVolumeThresholds: put("/v1/volumes/{pool}/{volume}/thresholds", Role::Operator,
        || gives(one::<Volume>()).takes::<Thresholds>())
        .changes(Route::ShowVolume),
    /// Whether hosts may reserve a volume, from [`crate::SetReservations`].
    SetReservations: put("/v1/volumes/{pool}/{volume}/reservations", Role::Operator,
        || gives(one::<Volume>()).takes::<SetReservations>())
        .changes(Route::ShowVolume),
    /// A volume's own vendor and product, from [`crate::Identification`].
    SetVolumeIdentification: put("/v1/volumes/{pool}/{volume}/identification", Role::Operator,
        || gives(one::<Volume>()).takes::<Identification>())
        .changes(Route::ShowVolume),
    /// A volume tells the array's vendor and product again.
    DeleteVolumeIdentification: delete("/v1/volumes/{pool}/{volume}/identification", Role::Operator,
        || gives(nothing()))
        .changes(Route::ShowVolume),
    /// Which primitives are on for a volume, from [`crate::SetPrimitives`].
    SetVolumePrimitives: patch("/v1/volumes/{pool}/{volume}/primitives", Role::Operator,
        || gives(one::<Volume>()).takes::<SetPrimitives>())
        .changes(Route::ShowVolume),
    /// The most work that hosts get done on a volume, from [`crate::SetRateLimits`].
    SetVolumeLimits: patch("/v1/volumes/{pool}/{volume}/limits", Role::Operator,
        || gives(one::<Volume>()).takes::<SetRateLimits>())
        .changes(Route::ShowVolume),
    /// Another name for a volume, from [`crate::Rename`]; hosts notice nothing.
    RenameVolume: post("/v1/volumes/{pool}/{volume}/rename", Role::Operator,
        || gives(one::<Volume>()).takes::<Rename>())
        .changes(Route::ShowVolume),
    /// All labels of a volume, from [`crate::SetTags`].
    SetVolumeTags: put("/v1/volumes/{pool}/{volume}/tags", Role::Operator,
        || gives(one::<Volume>()).takes::<SetTags>())
        .changes(Route::ShowVolume),
    /// All snapshots of all pools.
    ListSnapshots: get("/v1/snapshots", Role::Viewer, || gives(list::<Snapshot>()))
        .listed_by(&["pool", "name"]),
    /// New snapshots of one moment, from [`crate::CreateSnapshots`].
    CreateSnapshots: post("/v1/snapshots", Role::Operator,
        || gives(list::<Snapshot>()).takes::<CreateSnapshots>()),
    /// One snapshot.
    ShowSnapshot: get("/v1/snapshots/{pool}/{snapshot}", Role::Viewer, || gives(one::<Snapshot>())),
    /// What differs between a snapshot and another one, `base`, or what it holds.
    ShowChanges: get("/v1/snapshots/{pool}/{snapshot}/changes", Role::Viewer,
        || gives(one::<SnapshotChanges>())),
    /// Delete an unmapped snapshot.
    DeleteSnapshot: delete("/v1/snapshots/{pool}/{snapshot}", Role::Operator, || gives(nothing()))
        .changes(Route::ShowSnapshot),
    /// Another name for a snapshot, from [`crate::Rename`].
    RenameSnapshot: post("/v1/snapshots/{pool}/{snapshot}/rename", Role::Operator,
        || gives(one::<Snapshot>()).takes::<Rename>())
        .changes(Route::ShowSnapshot),
    /// All labels of a snapshot, from [`crate::SetTags`].
    SetSnapshotTags: put("/v1/snapshots/{pool}/{snapshot}/tags", Role::Operator,
        || gives(one::<Snapshot>()).takes::<SetTags>())
        .changes(Route::ShowSnapshot),
    /// Let a host see a volume, from [`crate::MapVolume`].
    MapVolume: put("/v1/volumes/{pool}/{volume}/maps/{host}", Role::Operator,
        || gives(one::<LunMap>()).may_take::<MapVolume>())
        .changes(Route::ShowVolume),
    /// Take a volume away from a host.
    UnmapVolume: delete("/v1/volumes/{pool}/{volume}/maps/{host}", Role::Operator,
        || gives(nothing()))
        .changes(Route::ShowVolume),
    /// All hosts.
    ListHosts: get("/v1/hosts", Role::Viewer, || gives(list::<Host>())).listed_by(&["name"]),
    /// A new host from [`crate::CreateHost`].
    CreateHost: post("/v1/hosts", Role::Operator, || gives(one::<Host>()).takes::<CreateHost>()),
    /// One host.
    ShowHost: get("/v1/hosts/{host}", Role::Viewer, || gives(one::<Host>())),
    /// Other initiators or another CHAP account for a host, from [`crate::ChangeHost`].
    ChangeHost: patch("/v1/hosts/{host}", Role::Operator,
        || gives(one::<Host>()).takes::<ChangeHost>())
        .changes(Route::ShowHost),
    /// Which primitives are on for a host, from [`crate::SetPrimitives`].
    SetHostPrimitives: patch("/v1/hosts/{host}/primitives", Role::Operator,
        || gives(one::<Host>()).takes::<SetPrimitives>())
        .changes(Route::ShowHost),
    /// The most work that a host gets done, and its share, from [`crate::SetHostLimits`].
    SetHostLimits: patch("/v1/hosts/{host}/limits", Role::Operator,
        || gives(one::<Host>()).takes::<SetHostLimits>())
        .changes(Route::ShowHost),
    /// Delete a host that sees no volume of its own.
    DeleteHost: delete("/v1/hosts/{host}", Role::Operator, || gives(nothing()))
        .changes(Route::ShowHost),
    /// All labels of a host, from [`crate::SetTags`].
    SetHostTags: put("/v1/hosts/{host}/tags", Role::Operator,
        || gives(one::<Host>()).takes::<SetTags>())
        .changes(Route::ShowHost),
    /// All groups of hosts.
    ListGroups: get("/v1/groups", Role::Viewer, || gives(list::<Group>())).listed_by(&["name"]),
    /// One group of hosts.
    ShowGroup: get("/v1/groups/{group}", Role::Viewer, || gives(one::<Group>())),
    /// A group's members, from [`crate::SetGroup`]; creates it if need be.
    SetGroup: put("/v1/groups/{group}", Role::Operator,
        || gives(one::<Group>()).takes::<SetGroup>())
        .changes(Route::ShowGroup),
    /// All labels of a group, from [`crate::SetTags`].
    SetGroupTags: put("/v1/groups/{group}/tags", Role::Operator,
        || gives(one::<Group>()).takes::<SetTags>())
        .changes(Route::ShowGroup),
    /// Delete a group that no volume is mapped to.
    DeleteGroup: delete("/v1/groups/{group}", Role::Operator, || gives(nothing()))
        .changes(Route::ShowGroup),
    /// All portals.
    ListPortals: get("/v1/portals", Role::Viewer, || gives(list::<Portal>()))
        .listed_by(&["address"]),
    /// A new portal from [`crate::CreatePortal`].
    CreatePortal: post("/v1/portals", Role::Admin,
        || gives(one::<Portal>()).takes::<CreatePortal>()),
    /// One portal.
    ShowPortal: get("/v1/portals/{portal}", Role::Viewer, || gives(one::<Portal>())),
    /// Another state for a target portal group, from [`crate::SetPathState`].
    SetPathState: put("/v1/portal-groups/{group}/state", Role::Admin,
        || gives(one::<SetPathState>()).takes::<SetPathState>()),
    /// Delete a portal; its sessions are asked to log out.
    DeletePortal: delete("/v1/portals/{portal}", Role::Admin, || gives(nothing()))
        .changes(Route::ShowPortal),
    /// The vendor and product that volumes tell which have none of their own.
    ShowIdentification: get("/v1/identification", Role::Viewer, || gives(one::<Identification>())),
    /// Another vendor and product for them, from [`crate::Identification`].
    SetIdentification: put("/v1/identification", Role::Admin,
        || gives(one::<Identification>()).takes::<Identification>())
        .changes(Route::ShowIdentification),
    /// Which primitives are on for everybody.
    ShowPrimitives: get("/v1/primitives", Role::Viewer, || gives(one::<Primitives>())),
    /// Others of them, from [`crate::SetPrimitives`].
    SetPrimitives: patch("/v1/primitives", Role::Admin,
        || gives(one::<Primitives>()).takes::<SetPrimitives>())
        .changes(Route::ShowPrimitives),
    /// Whether discovery wants a proof.
    ShowDiscovery: get("/v1/discovery/chap", Role::Viewer, || gives(one::<Discovery>())),
    /// The CHAP account of discovery sessions, from [`crate::Chap`].
    SetDiscoveryChap: put("/v1/discovery/chap", Role::Admin,
        || gives(one::<Discovery>()).takes::<Chap>())
        .changes(Route::ShowDiscovery),
    /// Discovery without authentication.
    DeleteDiscoveryChap: delete("/v1/discovery/chap", Role::Admin, || gives(nothing()))
        .changes(Route::ShowDiscovery),
    /// The controllers of the array, and how each pool is served.
    ListControllers: get("/v1/controllers", Role::Viewer, || gives(list::<Controller>()))
        .listed_by(&["number"]),
    /// A code by which another controller joins this one, once, from [`crate::PairController`].
    PairControllers: post("/v1/controllers/pair", Role::Admin,
        || gives(one::<PairingCode>()).may_take::<PairController>()),
    /// Join the controller that gave a code, from [`crate::JoinController`].
    JoinController: post("/v1/controllers/join", Role::Admin,
        || gives(one::<Paired>()).takes::<JoinController>()),
    /// The controller that is asked gives its pools to others and takes none, or not any more, from
    /// [`crate::Maintenance`].
    SetMaintenance: put("/v1/controllers/maintenance", Role::Admin,
        || gives(one::<Maintenance>()).takes::<Maintenance>()),
    /// Forget another controller: it is not heard any more.
    ForgetController: delete("/v1/controllers/{controller}", Role::Admin, || gives(nothing())),
    /// All sessions.
    ListSessions: get("/v1/sessions", Role::Viewer, || gives(list::<Session>()))
        .listed_by(&["initiator", "isid", "tsih"]),
    /// The session with this target session identifying handle.
    ShowSession: get("/v1/sessions/{session}", Role::Viewer, || gives(one::<Session>())),
    /// End the session with this target session identifying handle; its initiator may log in again.
    CloseSession: delete("/v1/sessions/{session}", Role::Operator, || gives(nothing())),
    /// What happened, oldest first.
    ListEvents: get("/v1/events", Role::Viewer, || gives(list::<Event>())).listed_by(&["number"]),
    /// Keep a snapshot until a moment, from [`crate::LockSnapshot`].
    LockSnapshot: put("/v1/pools/{pool}/snapshots/{snapshot}/lock", Role::Operator,
        || gives(one::<Snapshot>()).takes::<LockSnapshot>())
        .changes(Route::ShowSnapshot),
    /// All schedules of snapshots.
    ListSchedules: get("/v1/schedules", Role::Viewer, || gives(list::<Schedule>()))
        .listed_by(&["name"]),
    /// One schedule.
    ShowSchedule: get("/v1/schedules/{schedule}", Role::Viewer, || gives(one::<Schedule>())),
    /// A schedule is made or changed, from [`crate::SetSchedule`].
    SetSchedule: put("/v1/schedules/{schedule}", Role::Operator,
        || gives(one::<Schedule>()).takes::<SetSchedule>())
        .changes(Route::ShowSchedule),
    /// Delete a schedule; its snapshots stay.
    DeleteSchedule: delete("/v1/schedules/{schedule}", Role::Operator, || gives(nothing()))
        .changes(Route::ShowSchedule),
    /// Long work, newest first.
    ListTasks: get("/v1/tasks", Role::Viewer, || gives(list::<Task>())).newest_first_by(&["id"]),
    /// One task.
    ShowTask: get("/v1/tasks/{task}", Role::Viewer, || gives(one::<Task>())),
    /// End a task before its time.
    CancelTask: post("/v1/tasks/{task}/cancel", Role::Admin, || gives(one::<Task>()))
        .changes(Route::ShowTask),
    /// Let a task rest.
    PauseTask: post("/v1/tasks/{task}/pause", Role::Admin, || gives(one::<Task>()))
        .changes(Route::ShowTask),
    /// Let a task that rests go on.
    ResumeTask: post("/v1/tasks/{task}/resume", Role::Admin, || gives(one::<Task>()))
        .changes(Route::ShowTask),
    /// Who is told of events; secrets are not shown.
    ShowAlerts: get("/v1/alerts", Role::Admin, || gives(one::<Alerts>())),
    /// Other receivers, from [`crate::Alerts`].
    SetAlerts: put("/v1/alerts", Role::Admin, || gives(one::<Alerts>()).takes::<Alerts>())
        .changes(Route::ShowAlerts),
    /// Tell every receiver something, now, and say whether it worked.
    TestAlerts: post("/v1/alerts/test", Role::Admin, || gives(list::<Delivery>())),
    /// The latest attempts to tell somebody, newest first.
    ListDeliveries: get("/v1/alerts/deliveries", Role::Admin, || gives(list::<Delivery>()))
        .newest_first_by(&["time", "receiver", "event"]),
    /// All that is configured; with `with_secrets=true`, which the socket alone takes, the secrets
    /// too.
    ShowConfiguration: get("/v1/configuration", Role::Admin, || gives(one::<Configuration>())),
    /// Make the array as a file says, from [`crate::Configuration`]; with `dry_run=true` only say
    /// what would change.
    ImportConfiguration: post("/v1/configuration", Role::Admin,
        || gives(one::<Imported>()).takes::<Configuration>()),
    /// The offload ledger.
    ShowOffload: get("/v1/offload", Role::Viewer, || gives(one::<OffloadLedger>())),
    /// What was not offloaded, and why, newest first.
    ExplainOffload: get("/v1/offload/explain", Role::Viewer, || gives(list::<Finding>()))
        .listed_by(&["host", "volume", "kind", "source", "code", "reason"]),
    /// Rates of the last second.
    ShowLive: get("/v1/statistics/live", Role::Viewer, || gives(one::<Live>())),
    /// The names of all series.
    ListSeries: get("/v1/statistics/series", Role::Viewer, || gives(list::<SeriesName>()))
        .listed_by(&["series"]),
    /// A part of the series `series`: the last `seconds`, 300 if left out, up to a week.
    ShowHistory: get("/v1/statistics/history", Role::Viewer, || gives(one::<SeriesHistory>())),
    /// Who contends for which blocks, by volume.
    ListLocks: get("/v1/locks", Role::Viewer, || gives(list::<LockMap>())).listed_by(&["volume"]),
    /// What became of space that volumes gave up.
    ListReclaim: get("/v1/reclaim", Role::Viewer, || gives(list::<Reclaim>()))
        .listed_by(&["volume"]),
    /// When pools will be full.
    ListForecasts: get("/v1/forecast", Role::Viewer, || gives(list::<Forecast>()))
        .listed_by(&["pool"]),
    /// Metrics in the text format of Prometheus.
    ShowMetrics: get("/metrics", Role::Viewer, || gives(text())).as_text(),
    /// Whether the daemon runs.
    ShowHealth: get("/healthz", Role::Viewer, || gives(text())).as_text().to_everybody(),
    /// Whether the daemon serves.
    ShowReadiness: get("/readyz", Role::Viewer, || gives(text())).as_text().to_everybody(),
    /// Begins a session in a browser, from [`crate::Login`].
    Login: post("/v1/login", Role::Admin, || gives(one::<Me>()).takes::<Login>())
        .to_everybody()
        .about_oneself(),
    /// Ends the session.
    Logout: post("/v1/logout", Role::Viewer, || gives(nothing())).about_oneself(),
    /// Who is asking.
    ShowMe: get("/v1/me", Role::Viewer, || gives(one::<Me>())),
    /// Another password for oneself, from [`crate::ChangePassword`].
    ChangePassword: put("/v1/me/password", Role::Viewer,
        || gives(nothing()).takes::<ChangePassword>())
        .about_oneself(),
    /// All users.
    ListUsers: get("/v1/users", Role::Admin, || gives(list::<User>())).listed_by(&["name"]),
    /// A new user from [`crate::CreateUser`].
    CreateUser: post("/v1/users", Role::Admin, || gives(one::<User>()).takes::<CreateUser>()),
    /// One user.
    ShowUser: get("/v1/users/{user}", Role::Admin, || gives(one::<User>())),
    /// Another role or password for a user, from [`crate::ChangeUser`].
    ChangeUser: patch("/v1/users/{user}", Role::Admin,
        || gives(one::<User>()).takes::<ChangeUser>())
        .changes(Route::ShowUser),
    /// Delete a user and the user's tokens.
    DeleteUser: delete("/v1/users/{user}", Role::Admin, || gives(nothing()))
        .changes(Route::ShowUser),
    /// One's own tokens; an administrator sees all.
    ListTokens: get("/v1/tokens", Role::Viewer, || gives(list::<Token>())).listed_by(&["id"]),
    /// A new token from [`crate::CreateToken`].
    CreateToken: post("/v1/tokens", Role::Viewer,
        || gives(one::<NewToken>()).takes::<CreateToken>()),
    /// Delete a token, which is good for nothing from then on.
    DeleteToken: delete("/v1/tokens/{token}", Role::Viewer, || gives(nothing())),
    /// Who asked for which change, newest first.
    ListAudit: get("/v1/audit", Role::Admin, || gives(list::<AuditEntry>()))
        .newest_first_by(&["number"]),
    /// What happens, as it happens: server-sent events.
    Stream: get("/v1/stream", Role::Viewer, || gives(text())).as_it_is(),
    /// This interface, as an OpenAPI document.
    ShowOpenApi: get("/v1/openapi.json", Role::Viewer, || gives(object()))
        .to_everybody()
        .as_it_is(),
}
