//! What each route takes and gives, as JSON Schema.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::{
    AddDevice, Alerts, AuditEntry, ChangeHost, ChangePassword, ChangeUser, Chap, CloneVolume,
    Configuration, CreateHost, CreatePool, CreatePortal, CreateSnapshots, CreateToken, CreateUser,
    CreateVolume, Delivery, Discovery, Event, Finding, Forecast, Group, Host, Identification,
    Imported, Live, LockMap, LockSnapshot, Login, LunMap, MapVolume, Me, NewToken, OffloadLedger,
    Pool, Portal, Reclaim, Rename, ResizePool, ResizeVolume, ResumePool, RevertVolume, Route,
    Schedule, Scrub, SeriesHistory, SeriesName, Session, SetGroup, SetPathState, SetReservations,
    SetSchedule, SetSnapshotDeletion, SetTags, Snapshot, StartScrub, Target, Task, Thresholds,
    Token, User, Volume,
};

/// What a route takes and gives.
pub(crate) struct Shape {
    /// The body, if one is taken.
    pub(crate) body: Option<Typed>,
    /// Whether the body may be left out.
    pub(crate) body_optional: bool,
    /// Whether a body can be read as what is taken.
    pub(crate) fits: fn(&[u8]) -> serde_json::Result<()>,
    /// The answer when all is well.
    pub(crate) answer: Typed,
}

/// A schema, and those that it refers to.
pub(crate) struct Typed {
    pub(crate) schema: Value,
    pub(crate) components: Vec<(String, RefOr<Schema>)>,
}

impl Shape {
    fn gives(answer: Typed) -> Self {
        Self { body: None, body_optional: false, fits: |_| Ok(()), answer }
    }

    fn takes<T: ToSchema + DeserializeOwned>(self) -> Self {
        Self { body: Some(one::<T>()), fits: fits::<T>, ..self }
    }

    fn may_take<T: ToSchema + DeserializeOwned>(self) -> Self {
        Self { body_optional: true, ..self.takes::<T>() }
    }
}

fn fits<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<T>(body).map(drop)
}

fn one<T: ToSchema>() -> Typed {
    let mut components = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut components);
    let schema = json!({ "$ref": format!("#/components/schemas/{}", T::name()) });
    Typed { schema, components }
}

fn list<T: ToSchema>() -> Typed {
    let Typed { schema, components } = one::<T>();
    Typed { schema: json!({ "type": "array", "items": schema }), components }
}

fn nothing() -> Typed {
    let schema = json!({ "type": "object", "additionalProperties": false });
    Typed { schema, components: Vec::new() }
}

fn text() -> Typed {
    Typed { schema: json!({ "type": "string" }), components: Vec::new() }
}

fn object() -> Typed {
    Typed { schema: json!({ "type": "object" }), components: Vec::new() }
}

/// What a route takes and gives; nothing if the table has no row for it, which a test forbids.
pub(crate) fn shape(route: Route) -> Option<Shape> {
    let of_array = || space_shape(route).or_else(|| operations_shape(route));
    access_shape(route).or_else(of_array).or_else(|| seen_shape(route))
}

/// Running the array day by day.
fn operations_shape(route: Route) -> Option<Shape> {
    Some(match route {
        Route::LockSnapshot => Shape::gives(one::<Snapshot>()).takes::<LockSnapshot>(),
        Route::ListSchedules => Shape::gives(list::<Schedule>()),
        Route::ShowSchedule => Shape::gives(one::<Schedule>()),
        Route::SetSchedule => Shape::gives(one::<Schedule>()).takes::<SetSchedule>(),
        Route::DeleteSchedule => Shape::gives(nothing()),
        Route::ListTasks => Shape::gives(list::<Task>()),
        Route::ShowTask | Route::CancelTask => Shape::gives(one::<Task>()),
        Route::ShowAlerts => Shape::gives(one::<Alerts>()),
        Route::SetAlerts => Shape::gives(one::<Alerts>()).takes::<Alerts>(),
        Route::TestAlerts | Route::ListDeliveries => Shape::gives(list::<Delivery>()),
        Route::ShowConfiguration => Shape::gives(one::<Configuration>()),
        Route::ImportConfiguration => Shape::gives(one::<Imported>()).takes::<Configuration>(),
        _ => return None,
    })
}

/// Pools, volumes and snapshots.
fn space_shape(route: Route) -> Option<Shape> {
    Some(match route {
        Route::ListPools => Shape::gives(list::<Pool>()),
        Route::CreatePool => Shape::gives(one::<Pool>()).takes::<CreatePool>(),
        Route::ShowPool => Shape::gives(one::<Pool>()),
        Route::ExtendPool => Shape::gives(one::<Pool>()).takes::<ResizePool>(),
        Route::AddDevice => Shape::gives(one::<Pool>()).takes::<AddDevice>(),
        Route::SetPoolThresholds => Shape::gives(one::<Pool>()).takes::<Thresholds>(),
        Route::ResumePool => Shape::gives(one::<Pool>()).may_take::<ResumePool>(),
        Route::ShowScrub => Shape::gives(one::<Scrub>()),
        Route::StartScrub => Shape::gives(one::<Scrub>()).may_take::<StartScrub>(),
        Route::ListVolumes => Shape::gives(list::<Volume>()),
        Route::CreateVolume => Shape::gives(one::<Volume>()).takes::<CreateVolume>(),
        Route::ShowVolume => Shape::gives(one::<Volume>()),
        Route::ResizeVolume => Shape::gives(one::<Volume>()).takes::<ResizeVolume>(),
        Route::CloneVolume => Shape::gives(one::<Volume>()).takes::<CloneVolume>(),
        Route::RevertVolume => Shape::gives(one::<Volume>()).takes::<RevertVolume>(),
        Route::SetVolumeThresholds => Shape::gives(one::<Volume>()).takes::<Thresholds>(),
        Route::SetReservations => Shape::gives(one::<Volume>()).takes::<SetReservations>(),
        Route::SetSnapshotDeletion => Shape::gives(one::<Pool>()).takes::<SetSnapshotDeletion>(),
        Route::SetPoolTags => Shape::gives(one::<Pool>()).takes::<SetTags>(),
        Route::RenameVolume => Shape::gives(one::<Volume>()).takes::<Rename>(),
        Route::SetVolumeTags => Shape::gives(one::<Volume>()).takes::<SetTags>(),
        Route::RenameSnapshot => Shape::gives(one::<Snapshot>()).takes::<Rename>(),
        Route::SetSnapshotTags => Shape::gives(one::<Snapshot>()).takes::<SetTags>(),
        Route::ListSnapshots => Shape::gives(list::<Snapshot>()),
        Route::CreateSnapshots => Shape::gives(list::<Snapshot>()).takes::<CreateSnapshots>(),
        Route::ShowSnapshot => Shape::gives(one::<Snapshot>()),
        Route::SetVolumeIdentification => Shape::gives(one::<Volume>()).takes::<Identification>(),
        Route::StopScrub
        | Route::DeletePool
        | Route::DeleteVolume
        | Route::DeleteVolumeIdentification
        | Route::DeleteSnapshot => Shape::gives(nothing()),
        _ => return None,
    })
}

/// Who may come in, where, and what they see; who may administer.
fn access_shape(route: Route) -> Option<Shape> {
    Some(match route {
        Route::MapVolume => Shape::gives(one::<LunMap>()).may_take::<MapVolume>(),
        Route::ListHosts => Shape::gives(list::<Host>()),
        Route::ShowHost => Shape::gives(one::<Host>()),
        Route::CreateHost => Shape::gives(one::<Host>()).takes::<CreateHost>(),
        Route::ChangeHost => Shape::gives(one::<Host>()).takes::<ChangeHost>(),
        Route::SetHostTags => Shape::gives(one::<Host>()).takes::<SetTags>(),
        Route::ListGroups => Shape::gives(list::<Group>()),
        Route::ShowGroup => Shape::gives(one::<Group>()),
        Route::SetGroup => Shape::gives(one::<Group>()).takes::<SetGroup>(),
        Route::ListPortals => Shape::gives(list::<Portal>()),
        Route::ShowPortal => Shape::gives(one::<Portal>()),
        Route::ShowDiscovery => Shape::gives(one::<Discovery>()),
        Route::CreatePortal => Shape::gives(one::<Portal>()).takes::<CreatePortal>(),
        Route::SetPathState => Shape::gives(one::<SetPathState>()).takes::<SetPathState>(),
        Route::ShowIdentification => Shape::gives(one::<Identification>()),
        Route::SetIdentification => Shape::gives(one::<Identification>()).takes::<Identification>(),
        Route::SetDiscoveryChap => Shape::gives(one::<Discovery>()).takes::<Chap>(),
        Route::Login => Shape::gives(one::<Me>()).takes::<Login>(),
        Route::ShowMe => Shape::gives(one::<Me>()),
        Route::ChangePassword => Shape::gives(nothing()).takes::<ChangePassword>(),
        Route::ListUsers => Shape::gives(list::<User>()),
        Route::ShowUser => Shape::gives(one::<User>()),
        Route::CreateUser => Shape::gives(one::<User>()).takes::<CreateUser>(),
        Route::ChangeUser => Shape::gives(one::<User>()).takes::<ChangeUser>(),
        Route::ListTokens => Shape::gives(list::<Token>()),
        Route::CreateToken => Shape::gives(one::<NewToken>()).takes::<CreateToken>(),
        Route::UnmapVolume
        | Route::DeleteHost
        | Route::DeleteGroup
        | Route::DeletePortal
        | Route::CloseSession
        | Route::DeleteDiscoveryChap
        | Route::Logout
        | Route::DeleteUser
        | Route::DeleteToken => Shape::gives(nothing()),
        _ => return None,
    })
}

/// What is seen of the array.
fn seen_shape(route: Route) -> Option<Shape> {
    Some(match route {
        Route::ShowTarget => Shape::gives(one::<Target>()),
        Route::ListSessions => Shape::gives(list::<Session>()),
        Route::ListEvents => Shape::gives(list::<Event>()),
        Route::ShowOffload => Shape::gives(one::<OffloadLedger>()),
        Route::ExplainOffload => Shape::gives(list::<Finding>()),
        Route::ShowLive => Shape::gives(one::<Live>()),
        Route::ListSeries => Shape::gives(list::<SeriesName>()),
        Route::ShowHistory => Shape::gives(one::<SeriesHistory>()),
        Route::ListLocks => Shape::gives(list::<LockMap>()),
        Route::ListReclaim => Shape::gives(list::<Reclaim>()),
        Route::ListForecasts => Shape::gives(list::<Forecast>()),
        Route::ListAudit => Shape::gives(list::<AuditEntry>()),
        Route::ShowOpenApi => Shape::gives(object()),
        Route::ShowMetrics | Route::ShowHealth | Route::ShowReadiness | Route::Stream => {
            Shape::gives(text())
        }
        _ => return None,
    })
}
