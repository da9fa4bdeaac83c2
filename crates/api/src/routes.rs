//! Every route, once.

use crate::Role;

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

/// One thing that can be asked of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The target, its portals and counters.
    ShowTarget,
    /// All pools.
    ListPools,
    /// A new pool from [`crate::CreatePool`].
    CreatePool,
    /// One pool.
    ShowPool,
    /// A larger device, from [`crate::ResizePool`].
    ExtendPool,
    /// A device joins a pool, from [`crate::AddDevice`].
    AddDevice,
    /// Open a pool anew that takes no writes or is unavailable, from [`crate::ResumePool`].
    ResumePool,
    /// When someone is told how full a pool is, from [`crate::Thresholds`].
    SetPoolThresholds,
    /// Whether a pool deletes scheduled snapshots, from [`crate::SetSnapshotDeletion`].
    SetSnapshotDeletion,
    /// All labels of a pool, from [`crate::SetTags`].
    SetPoolTags,
    /// How a pool's scrub is doing.
    ShowScrub,
    /// A scrub, or another rate for it, from [`crate::StartScrub`].
    StartScrub,
    /// End a scrub that is under way.
    StopScrub,
    /// Forget an empty pool.
    DeletePool,
    /// All volumes of all pools.
    ListVolumes,
    /// A new volume from [`crate::CreateVolume`].
    CreateVolume,
    /// One volume.
    ShowVolume,
    /// Another size, from [`crate::ResizeVolume`].
    ResizeVolume,
    /// Delete an unmapped volume.
    DeleteVolume,
    /// A new volume with the content of a volume or snapshot, from [`crate::CloneVolume`].
    CloneVolume,
    /// A volume takes back what a snapshot kept, from [`crate::RevertVolume`].
    RevertVolume,
    /// When someone is told how full a volume is, from [`crate::Thresholds`].
    SetVolumeThresholds,
    /// Whether hosts may reserve a volume, from [`crate::SetReservations`].
    SetReservations,
    /// A volume's own vendor and product, from [`crate::Identification`].
    SetVolumeIdentification,
    /// A volume tells the array's vendor and product again.
    DeleteVolumeIdentification,
    /// Another name for a volume, from [`crate::Rename`]; hosts notice nothing.
    RenameVolume,
    /// All labels of a volume, from [`crate::SetTags`].
    SetVolumeTags,
    /// All snapshots of all pools.
    ListSnapshots,
    /// New snapshots of one moment, from [`crate::CreateSnapshots`].
    CreateSnapshots,
    /// One snapshot.
    ShowSnapshot,
    /// Delete an unmapped snapshot.
    DeleteSnapshot,
    /// Another name for a snapshot, from [`crate::Rename`].
    RenameSnapshot,
    /// All labels of a snapshot, from [`crate::SetTags`].
    SetSnapshotTags,
    /// Keep a snapshot until a moment, from [`crate::LockSnapshot`].
    LockSnapshot,
    /// Let a host see a volume, from [`crate::MapVolume`].
    MapVolume,
    /// Take a volume away from a host.
    UnmapVolume,
    /// All hosts.
    ListHosts,
    /// A new host from [`crate::CreateHost`].
    CreateHost,
    /// Other initiators or another CHAP account for a host, from [`crate::ChangeHost`].
    ChangeHost,
    /// Delete a host that sees no volume of its own.
    DeleteHost,
    /// All labels of a host, from [`crate::SetTags`].
    SetHostTags,
    /// All groups of hosts.
    ListGroups,
    /// A group's members, from [`crate::SetGroup`]; creates it if need be.
    SetGroup,
    /// Delete a group that no volume is mapped to.
    DeleteGroup,
    /// All portals.
    ListPortals,
    /// A new portal from [`crate::CreatePortal`].
    CreatePortal,
    /// Another state for a target portal group, from [`crate::SetPathState`].
    SetPathState,
    /// One portal.
    ShowPortal,
    /// Delete a portal; its sessions are asked to log out.
    DeletePortal,
    /// The vendor and product that volumes tell which have none of their own.
    ShowIdentification,
    /// Another vendor and product for them, from [`crate::Identification`].
    SetIdentification,
    /// Whether discovery wants a proof.
    ShowDiscovery,
    /// The CHAP account of discovery sessions, from [`crate::Chap`].
    SetDiscoveryChap,
    /// Discovery without authentication.
    DeleteDiscoveryChap,
    /// All sessions.
    ListSessions,
    /// End the session with this target session identifying handle; its initiator may log in again.
    CloseSession,
    /// What happened, oldest first.
    ListEvents,
    /// All schedules of snapshots.
    ListSchedules,
    /// One schedule.
    ShowSchedule,
    /// A schedule is made or changed, from [`crate::SetSchedule`].
    SetSchedule,
    /// Delete a schedule; its snapshots stay.
    DeleteSchedule,
    /// Long work, newest first.
    ListTasks,
    /// One task.
    ShowTask,
    /// End a task before its time.
    CancelTask,
    /// Who is told of events; secrets are not shown.
    ShowAlerts,
    /// Other receivers, from [`crate::Alerts`].
    SetAlerts,
    /// Tell every receiver something, now, and say whether it worked.
    TestAlerts,
    /// The latest attempts to tell somebody, newest first.
    ListDeliveries,
    /// All that is configured; with `with_secrets=true`, which the socket alone takes, the secrets
    /// too.
    ShowConfiguration,
    /// Make the array as a file says, from [`crate::Configuration`]; with `dry_run=true` only say
    /// what would change.
    ImportConfiguration,
    /// The offload ledger.
    ShowOffload,
    /// What was not offloaded, and why, newest first.
    ExplainOffload,
    /// Rates of the last second.
    ShowLive,
    /// The names of all series.
    ListSeries,
    /// A part of the series `series`: the last `seconds`, 300 if left out, up to a week.
    ShowHistory,
    /// Who contends for which blocks, by volume.
    ListLocks,
    /// What became of space that volumes gave up.
    ListReclaim,
    /// When pools will be full.
    ListForecasts,
    /// Metrics in the text format of Prometheus.
    ShowMetrics,
    /// Whether the daemon runs.
    ShowHealth,
    /// Whether the daemon serves.
    ShowReadiness,
    /// Begins a session in a browser, from [`crate::Login`].
    Login,
    /// Ends the session.
    Logout,
    /// Who is asking.
    ShowMe,
    /// Another password for oneself, from [`crate::ChangePassword`].
    ChangePassword,
    /// All users.
    ListUsers,
    /// A new user from [`crate::CreateUser`].
    CreateUser,
    /// One user.
    ShowUser,
    /// Another role or password for a user, from [`crate::ChangeUser`].
    ChangeUser,
    /// Delete a user and the user's tokens.
    DeleteUser,
    /// One's own tokens; an administrator sees all.
    ListTokens,
    /// A new token from [`crate::CreateToken`].
    CreateToken,
    /// Delete a token, which is good for nothing from then on.
    DeleteToken,
    /// Who asked for which change, newest first.
    ListAudit,
    /// One host.
    ShowHost,
    /// One group of hosts.
    ShowGroup,
    /// What happens, as it happens: server-sent events.
    Stream,
    /// This interface, as an OpenAPI document.
    ShowOpenApi,
}

impl Route {
    /// Whether the answer is plain text instead of JSON.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::ShowMetrics | Self::ShowHealth | Self::ShowReadiness)
    }

    /// The role that one needs at least. What is not said here is for administrators.
    pub const fn role(self, method: Method) -> Role {
        match self {
            Self::ListUsers | Self::ShowUser | Self::ListAudit => Role::Admin,
            // The address of a webhook often is a secret.
            Self::ShowAlerts | Self::ListDeliveries | Self::ShowConfiguration => Role::Admin,
            // Everybody's own business: the session, the password, one's own tokens.
            Self::Logout | Self::ChangePassword | Self::CreateToken | Self::DeleteToken => {
                Role::Viewer
            }
            Self::CreateVolume
            | Self::ResizeVolume
            | Self::DeleteVolume
            | Self::CloneVolume
            | Self::RevertVolume
            | Self::SetVolumeThresholds
            | Self::SetReservations
            | Self::SetVolumeIdentification
            | Self::DeleteVolumeIdentification
            | Self::RenameVolume
            | Self::SetVolumeTags
            | Self::RenameSnapshot
            | Self::SetSnapshotTags
            | Self::SetHostTags
            | Self::CreateSnapshots
            | Self::DeleteSnapshot
            | Self::LockSnapshot
            | Self::SetSchedule
            | Self::DeleteSchedule
            | Self::MapVolume
            | Self::UnmapVolume
            | Self::CreateHost
            | Self::ChangeHost
            | Self::DeleteHost
            | Self::SetGroup
            | Self::DeleteGroup
            | Self::CloseSession => Role::Operator,
            _ if matches!(method, Method::Get) => Role::Viewer,
            _ => Role::Admin,
        }
    }

    /// Whether everybody who reaches the daemon may ask.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Login | Self::ShowHealth | Self::ShowReadiness | Self::ShowOpenApi)
    }

    /// Whether it is about who asks, and so is never repeated for another.
    pub const fn is_about_oneself(self) -> bool {
        matches!(self, Self::Login | Self::Logout | Self::ChangePassword)
    }

    /// The route that shows the object which this one changes, for `If-Match`.
    pub const fn object(self) -> Option<Self> {
        Some(match self {
            Self::ExtendPool
            | Self::AddDevice
            | Self::ResumePool
            | Self::SetPoolThresholds
            | Self::SetSnapshotDeletion
            | Self::SetPoolTags
            | Self::StartScrub
            | Self::StopScrub
            | Self::DeletePool => Self::ShowPool,
            Self::ResizeVolume
            | Self::DeleteVolume
            | Self::RevertVolume
            | Self::SetVolumeThresholds
            | Self::SetReservations
            | Self::SetVolumeIdentification
            | Self::DeleteVolumeIdentification
            | Self::RenameVolume
            | Self::SetVolumeTags
            | Self::MapVolume
            | Self::UnmapVolume => Self::ShowVolume,
            Self::DeleteSnapshot
            | Self::LockSnapshot
            | Self::RenameSnapshot
            | Self::SetSnapshotTags => Self::ShowSnapshot,
            Self::SetSchedule | Self::DeleteSchedule => Self::ShowSchedule,
            Self::SetAlerts => Self::ShowAlerts,
            Self::SetIdentification => Self::ShowIdentification,
            Self::CancelTask => Self::ShowTask,
            Self::ChangeHost | Self::DeleteHost | Self::SetHostTags => Self::ShowHost,
            Self::SetGroup | Self::DeleteGroup => Self::ShowGroup,
            Self::DeletePortal => Self::ShowPortal,
            Self::SetDiscoveryChap | Self::DeleteDiscoveryChap => Self::ShowDiscovery,
            Self::ChangeUser | Self::DeleteUser => Self::ShowUser,
            _ => return None,
        })
    }

    /// How the list that is answered is divided into pages, if it is one.
    pub const fn listing(self) -> Option<Listing> {
        match self {
            Self::ListPools
            | Self::ListHosts
            | Self::ListGroups
            | Self::ListUsers
            | Self::ListSchedules => Some(Listing::by(&["name"])),
            Self::ListTasks => Some(Listing { key: &["id"], newest_first: true }),
            Self::ListVolumes | Self::ListSnapshots => Some(Listing::by(&["pool", "name"])),
            Self::ListPortals => Some(Listing::by(&["address"])),
            Self::ListSessions => Some(Listing::by(&["initiator", "isid", "tsih"])),
            Self::ListEvents => Some(Listing::by(&["number"])),
            Self::ListSeries => Some(Listing::by(&["series"])),
            Self::ListLocks | Self::ListReclaim => Some(Listing::by(&["volume"])),
            Self::ListForecasts => Some(Listing::by(&["pool"])),
            Self::ListTokens => Some(Listing::by(&["id"])),
            Self::ListAudit => Some(Listing { key: &["number"], newest_first: true }),
            Self::ExplainOffload => {
                Some(Listing::by(&["host", "volume", "kind", "source", "code", "reason"]))
            }
            Self::ListDeliveries => {
                Some(Listing { key: &["time", "receiver", "event"], newest_first: true })
            }
            _ => None,
        }
    }
}

/// How a list is divided into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The fields that tell its elements apart, and by which they are sorted; joined by '/' they
    /// are what `after` names.
    pub key: &'static [&'static str],
    /// Whether the greatest key comes first.
    pub newest_first: bool,
}

impl Listing {
    const fn by(key: &'static [&'static str]) -> Self {
        Self { key, newest_first: false }
    }
}

/// Method, path and meaning of every route. Names in braces are parameters.
pub const ROUTES: &[(Method, &str, Route)] = &[
    (Method::Get, "/v1/target", Route::ShowTarget),
    (Method::Get, "/v1/pools", Route::ListPools),
    (Method::Post, "/v1/pools", Route::CreatePool),
    (Method::Get, "/v1/pools/{pool}", Route::ShowPool),
    (Method::Patch, "/v1/pools/{pool}", Route::ExtendPool),
    (Method::Delete, "/v1/pools/{pool}", Route::DeletePool),
    (Method::Post, "/v1/pools/{pool}/devices", Route::AddDevice),
    (Method::Post, "/v1/pools/{pool}/resume", Route::ResumePool),
    (Method::Put, "/v1/pools/{pool}/thresholds", Route::SetPoolThresholds),
    (Method::Put, "/v1/pools/{pool}/snapshot-deletion", Route::SetSnapshotDeletion),
    (Method::Put, "/v1/pools/{pool}/tags", Route::SetPoolTags),
    (Method::Get, "/v1/pools/{pool}/scrub", Route::ShowScrub),
    (Method::Put, "/v1/pools/{pool}/scrub", Route::StartScrub),
    (Method::Delete, "/v1/pools/{pool}/scrub", Route::StopScrub),
    (Method::Get, "/v1/volumes", Route::ListVolumes),
    (Method::Post, "/v1/volumes", Route::CreateVolume),
    (Method::Get, "/v1/volumes/{pool}/{volume}", Route::ShowVolume),
    (Method::Patch, "/v1/volumes/{pool}/{volume}", Route::ResizeVolume),
    (Method::Delete, "/v1/volumes/{pool}/{volume}", Route::DeleteVolume),
    (Method::Post, "/v1/volumes/{pool}/{volume}/clones", Route::CloneVolume),
    (Method::Post, "/v1/volumes/{pool}/{volume}/revert", Route::RevertVolume),
    (Method::Put, "/v1/volumes/{pool}/{volume}/thresholds", Route::SetVolumeThresholds),
    (Method::Put, "/v1/volumes/{pool}/{volume}/reservations", Route::SetReservations),
    (Method::Put, "/v1/volumes/{pool}/{volume}/identification", Route::SetVolumeIdentification),
    (
        Method::Delete,
        "/v1/volumes/{pool}/{volume}/identification",
        Route::DeleteVolumeIdentification,
    ),
    (Method::Post, "/v1/volumes/{pool}/{volume}/rename", Route::RenameVolume),
    (Method::Put, "/v1/volumes/{pool}/{volume}/tags", Route::SetVolumeTags),
    (Method::Get, "/v1/snapshots", Route::ListSnapshots),
    (Method::Post, "/v1/snapshots", Route::CreateSnapshots),
    (Method::Get, "/v1/snapshots/{pool}/{snapshot}", Route::ShowSnapshot),
    (Method::Delete, "/v1/snapshots/{pool}/{snapshot}", Route::DeleteSnapshot),
    (Method::Post, "/v1/snapshots/{pool}/{snapshot}/rename", Route::RenameSnapshot),
    (Method::Put, "/v1/snapshots/{pool}/{snapshot}/tags", Route::SetSnapshotTags),
    (Method::Put, "/v1/volumes/{pool}/{volume}/maps/{host}", Route::MapVolume),
    (Method::Delete, "/v1/volumes/{pool}/{volume}/maps/{host}", Route::UnmapVolume),
    (Method::Get, "/v1/hosts", Route::ListHosts),
    (Method::Post, "/v1/hosts", Route::CreateHost),
    (Method::Get, "/v1/hosts/{host}", Route::ShowHost),
    (Method::Patch, "/v1/hosts/{host}", Route::ChangeHost),
    (Method::Delete, "/v1/hosts/{host}", Route::DeleteHost),
    (Method::Put, "/v1/hosts/{host}/tags", Route::SetHostTags),
    (Method::Get, "/v1/groups", Route::ListGroups),
    (Method::Get, "/v1/groups/{group}", Route::ShowGroup),
    (Method::Put, "/v1/groups/{group}", Route::SetGroup),
    (Method::Delete, "/v1/groups/{group}", Route::DeleteGroup),
    (Method::Get, "/v1/portals", Route::ListPortals),
    (Method::Post, "/v1/portals", Route::CreatePortal),
    (Method::Get, "/v1/portals/{portal}", Route::ShowPortal),
    (Method::Put, "/v1/portal-groups/{group}/state", Route::SetPathState),
    (Method::Delete, "/v1/portals/{portal}", Route::DeletePortal),
    (Method::Get, "/v1/identification", Route::ShowIdentification),
    (Method::Put, "/v1/identification", Route::SetIdentification),
    (Method::Get, "/v1/discovery/chap", Route::ShowDiscovery),
    (Method::Put, "/v1/discovery/chap", Route::SetDiscoveryChap),
    (Method::Delete, "/v1/discovery/chap", Route::DeleteDiscoveryChap),
    (Method::Get, "/v1/sessions", Route::ListSessions),
    (Method::Delete, "/v1/sessions/{session}", Route::CloseSession),
    (Method::Get, "/v1/events", Route::ListEvents),
    (Method::Put, "/v1/pools/{pool}/snapshots/{snapshot}/lock", Route::LockSnapshot),
    (Method::Get, "/v1/schedules", Route::ListSchedules),
    (Method::Get, "/v1/schedules/{schedule}", Route::ShowSchedule),
    (Method::Put, "/v1/schedules/{schedule}", Route::SetSchedule),
    (Method::Delete, "/v1/schedules/{schedule}", Route::DeleteSchedule),
    (Method::Get, "/v1/tasks", Route::ListTasks),
    (Method::Get, "/v1/tasks/{task}", Route::ShowTask),
    (Method::Post, "/v1/tasks/{task}/cancel", Route::CancelTask),
    (Method::Get, "/v1/alerts", Route::ShowAlerts),
    (Method::Put, "/v1/alerts", Route::SetAlerts),
    (Method::Post, "/v1/alerts/test", Route::TestAlerts),
    (Method::Get, "/v1/alerts/deliveries", Route::ListDeliveries),
    (Method::Get, "/v1/configuration", Route::ShowConfiguration),
    (Method::Post, "/v1/configuration", Route::ImportConfiguration),
    (Method::Get, "/v1/offload", Route::ShowOffload),
    (Method::Get, "/v1/offload/explain", Route::ExplainOffload),
    (Method::Get, "/v1/statistics/live", Route::ShowLive),
    (Method::Get, "/v1/statistics/series", Route::ListSeries),
    (Method::Get, "/v1/statistics/history", Route::ShowHistory),
    (Method::Get, "/v1/locks", Route::ListLocks),
    (Method::Get, "/v1/reclaim", Route::ListReclaim),
    (Method::Get, "/v1/forecast", Route::ListForecasts),
    (Method::Get, "/metrics", Route::ShowMetrics),
    (Method::Get, "/healthz", Route::ShowHealth),
    (Method::Get, "/readyz", Route::ShowReadiness),
    (Method::Post, "/v1/login", Route::Login),
    (Method::Post, "/v1/logout", Route::Logout),
    (Method::Get, "/v1/me", Route::ShowMe),
    (Method::Put, "/v1/me/password", Route::ChangePassword),
    (Method::Get, "/v1/users", Route::ListUsers),
    (Method::Post, "/v1/users", Route::CreateUser),
    (Method::Get, "/v1/users/{user}", Route::ShowUser),
    (Method::Patch, "/v1/users/{user}", Route::ChangeUser),
    (Method::Delete, "/v1/users/{user}", Route::DeleteUser),
    (Method::Get, "/v1/tokens", Route::ListTokens),
    (Method::Post, "/v1/tokens", Route::CreateToken),
    (Method::Delete, "/v1/tokens/{token}", Route::DeleteToken),
    (Method::Get, "/v1/audit", Route::ListAudit),
    (Method::Get, "/v1/stream", Route::Stream),
    (Method::Get, "/v1/openapi.json", Route::ShowOpenApi),
];
