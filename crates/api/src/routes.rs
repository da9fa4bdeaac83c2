//! Every route, once.

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
    /// Delete a portal; its sessions are asked to log out.
    DeletePortal,
    /// The CHAP account of discovery sessions, from [`crate::Chap`].
    SetDiscoveryChap,
    /// Discovery without authentication.
    DeleteDiscoveryChap,
    /// All sessions.
    ListSessions,
}

/// Method, path and meaning of every route. Names in braces are parameters.
pub const ROUTES: [(Method, &str, Route); 26] = [
    (Method::Get, "/v1/target", Route::ShowTarget),
    (Method::Get, "/v1/pools", Route::ListPools),
    (Method::Post, "/v1/pools", Route::CreatePool),
    (Method::Get, "/v1/pools/{pool}", Route::ShowPool),
    (Method::Patch, "/v1/pools/{pool}", Route::ExtendPool),
    (Method::Delete, "/v1/pools/{pool}", Route::DeletePool),
    (Method::Get, "/v1/volumes", Route::ListVolumes),
    (Method::Post, "/v1/volumes", Route::CreateVolume),
    (Method::Get, "/v1/volumes/{pool}/{volume}", Route::ShowVolume),
    (Method::Patch, "/v1/volumes/{pool}/{volume}", Route::ResizeVolume),
    (Method::Delete, "/v1/volumes/{pool}/{volume}", Route::DeleteVolume),
    (Method::Put, "/v1/volumes/{pool}/{volume}/maps/{host}", Route::MapVolume),
    (Method::Delete, "/v1/volumes/{pool}/{volume}/maps/{host}", Route::UnmapVolume),
    (Method::Get, "/v1/hosts", Route::ListHosts),
    (Method::Post, "/v1/hosts", Route::CreateHost),
    (Method::Patch, "/v1/hosts/{host}", Route::ChangeHost),
    (Method::Delete, "/v1/hosts/{host}", Route::DeleteHost),
    (Method::Get, "/v1/groups", Route::ListGroups),
    (Method::Put, "/v1/groups/{group}", Route::SetGroup),
    (Method::Delete, "/v1/groups/{group}", Route::DeleteGroup),
    (Method::Get, "/v1/portals", Route::ListPortals),
    (Method::Post, "/v1/portals", Route::CreatePortal),
    (Method::Delete, "/v1/portals/{portal}", Route::DeletePortal),
    (Method::Put, "/v1/discovery/chap", Route::SetDiscoveryChap),
    (Method::Delete, "/v1/discovery/chap", Route::DeleteDiscoveryChap),
    (Method::Get, "/v1/sessions", Route::ListSessions),
];
