//! Examples in the OpenAPI document. A test compares each with the schema of its place.

use serde_json::{Value, json};

use crate::Route;

const NAA: &str = "naa.62a09f1c5d3e4b7788a1b2c3d4e5f607";

/// A body that a route takes.
pub(crate) fn body_example(route: Route) -> Option<Value> {
    of_space(route).or_else(|| of_access(route)).or_else(|| of_operations(route))
}

fn of_space(route: Route) -> Option<Value> {
    Some(match route {
        Route::CreatePool => json!({
            "name": "fast", "devices": ["block:/dev/nvme1n1"], "size_bytes": 1_099_511_627_776_u64,
        }),
        Route::ExtendPool => json!({ "device": 0, "size_bytes": 2_199_023_255_552_u64 }),
        Route::AddDevice => json!({ "device": "block:/dev/nvme2n1" }),
        Route::AttachMember => json!({ "mirror": 0, "device": "block:/dev/nvme3n1" }),
        Route::SetSpares => json!({ "devices": ["block:/dev/nvme4n1"] }),
        Route::ControlResilver => json!({ "action": "pause" }),
        Route::RemoveDevice => json!({ "rate_bytes": 104_857_600 }),
        Route::ControlDeparture => json!({ "action": "pause" }),
        Route::ImportPool => json!({
            "devices": ["block:/dev/nvme1n1"], "rename": "fast", "dry_run": true,
        }),
        Route::ExportPool => json!({ "force": false }),
        Route::ResumePool => json!({ "mode": "read_write", "dry_run": true }),
        Route::SetPoolThresholds | Route::SetVolumeThresholds => {
            json!({ "soft_percent": 75, "hard_percent": 90 })
        }
        Route::SetSnapshotDeletion => json!({ "delete_scheduled_snapshots": true }),
        Route::SetFailBack => json!({ "preferred_controller": 1, "fail_back_seconds": 300 }),
        Route::StartScrub => json!({ "rate_bytes": 209_715_200 }),
        Route::CreateVolume => json!({
            "pool": "fast", "name": "vmfs-1", "size_bytes": 1_099_511_627_776_u64,
            "tags": { "env": "production" },
        }),
        Route::ResizeVolume => json!({ "size_bytes": 2_199_023_255_552_u64 }),
        Route::CloneVolume => json!({ "name": "vmfs-1-test" }),
        Route::RevertVolume => json!({ "snapshot": "vmfs-1.monday" }),
        Route::SetReservations => json!({ "hidden": true }),
        Route::SetIdentification | Route::SetVolumeIdentification => {
            json!({ "vendor": "GANTRY", "product": "Array" })
        }
        Route::SetPrimitives | Route::SetHostPrimitives | Route::SetVolumePrimitives => {
            json!({ "extended_copy": false, "unmap": true })
        }
        Route::SetVolumeLimits => json!({ "iops": 5000, "bytes_per_second": 209_715_200 }),
        Route::SetHostLimits => json!({ "iops": 20_000, "burst_ms": 2000, "share": 4 }),
        Route::CreateSnapshots => json!({
            "pool": "fast",
            "snapshots": [
                { "volume": "vmfs-1", "name": "vmfs-1.monday" },
                { "volume": "vmfs-2", "name": "vmfs-2.monday" },
            ],
        }),
        Route::LockSnapshot => json!({ "until": 1_830_297_600 }),
        Route::RenameVolume | Route::RenameSnapshot => json!({ "name": "vmfs-old" }),
        Route::SetPoolTags
        | Route::SetVolumeTags
        | Route::SetSnapshotTags
        | Route::SetHostTags
        | Route::SetGroupTags => {
            json!({ "tags": { "env": "production", "owner": "ann" } })
        }
        _ => return None,
    })
}

fn of_access(route: Route) -> Option<Value> {
    Some(match route {
        Route::MapVolume => json!({ "lun": 1, "read_only": false }),
        Route::CreateHost => json!({
            "name": "esx1", "initiators": ["iqn.1998-01.com.vmware:esx1-0a1b2c3d"],
        }),
        Route::ChangeHost => json!({
            "chap": { "user": "esx1", "secret": "twelve letters or more" },
        }),
        Route::SetGroup => json!({ "hosts": ["esx1", "esx2"] }),
        Route::CreatePortal => {
            json!({ "address": "192.0.2.10:3260", "target_portal_group_tag": 2 })
        }
        Route::SetPathState => json!({ "state": "standby" }),
        Route::SetDiscoveryChap => json!({ "user": "finder", "secret": "twelve letters or more" }),
        Route::Login => json!({ "user": "ann", "password": "correct horse battery" }),
        Route::ChangePassword => json!({
            "old": "correct horse battery", "new": "staple correct horse",
        }),
        Route::CreateUser => json!({
            "name": "ann", "role": "operator", "password": "correct horse battery",
        }),
        Route::ChangeUser => json!({ "role": "viewer" }),
        Route::CreateToken => {
            json!({ "name": "backup", "role": "operator", "expires_in_days": 90 })
        }
        _ => return None,
    })
}

fn of_operations(route: Route) -> Option<Value> {
    Some(match route {
        Route::SetSchedule => json!({
            "volumes": ["fast/vmfs-1", "fast/vmfs-2"], "every_seconds": 3600, "keep": 24,
        }),
        Route::PairControllers => json!({ "address": "192.0.2.1:3262" }),
        Route::SetMaintenance => json!({ "on": true }),
        Route::JoinController => json!({ "code": "1=192.0.2.1:3262/FINGERPRINT/SECRET" }),
        Route::SetAlerts => json!({
            "webhooks": [
                { "name": "chat", "url": "https://chat.example/hook", "severity": "warning" },
            ],
        }),
        Route::ImportConfiguration => json!({
            "version": 1,
            "hosts": [
                { "name": "esx1", "initiators": ["iqn.1998-01.com.vmware:esx1-0a1b2c3d"] },
            ],
            "volumes": [{ "volume": "fast/vmfs-1", "maps": [{ "host": "esx1" }] }],
        }),
        _ => return None,
    })
}

/// An answer of a route.
pub(crate) fn answer_example(route: Route) -> Option<Value> {
    Some(match route {
        Route::MapVolume => json!({
            "volume": "fast/vmfs-1", "host": "esx1", "lun": 1, "read_only": false,
        }),
        Route::ShowSnapshot => snapshot(),
        Route::ShowChanges => json!({
            "pool": "fast", "snapshot": "vmfs-1.tuesday", "naa": NAA, "base": "vmfs-1.monday",
            "base_naa": NAA, "size_bytes": 1_099_511_627_776_u64, "offset": 0,
            "extents": [
                { "offset": 1_048_576, "length": 8192, "state": "data" },
                { "offset": 3_145_728, "length": 1_048_576, "state": "zero" },
            ],
            "next_offset": null, "map_pages": 9,
        }),
        Route::CreateSnapshots | Route::ListSnapshots => json!([snapshot()]),
        Route::CreateHost | Route::ShowHost | Route::ChangeHost | Route::SetHostTags => json!({
            "name": "esx1", "initiators": ["iqn.1998-01.com.vmware:esx1-0a1b2c3d"],
            "chap_user": null, "mutual_chap": false, "tags": { "rack": "7" },
            "primitives": primitives(), "limits": limits(), "share": 1,
        }),
        Route::ShowPrimitives | Route::SetPrimitives => primitives(),
        Route::SetGroup | Route::ShowGroup | Route::SetGroupTags => json!({
            "name": "cluster-1", "hosts": ["esx1", "esx2"], "tags": { "site": "north" },
        }),
        Route::CreateToken => json!({
            "id": "0123456789abcdef", "name": "backup", "user": "ann", "role": "operator",
            "created": 1_795_000_000, "expires": 1_802_776_000, "parent": null,
            "secret": "5f3759df".repeat(8),
        }),
        Route::ShowMe => json!({
            "user": "ann", "role": "operator", "csrf": null, "must_change_password": false,
        }),
        Route::ImportConfiguration => json!({
            "dry_run": false, "changes": ["host esx1 is created"],
        }),
        _ => return None,
    })
}

fn primitives() -> Value {
    json!({
        "compare_and_write": true, "extended_copy": false, "write_same": true, "unmap": true,
    })
}

fn limits() -> Value {
    json!({ "iops": 5000, "bytes_per_second": null, "burst_ms": 100 })
}

fn snapshot() -> Value {
    json!({
        "pool": "fast", "name": "vmfs-1.monday", "volume": "vmfs-1", "created": 1_795_000_000,
        "naa": NAA, "size_bytes": 1_099_511_627_776_u64, "mapped_bytes": 214_748_364_800_u64,
        "shared_bytes": 214_748_364_800_u64, "lun": null, "hosts": [], "locked_until": null,
        "schedule": null, "tags": { "env": "production" },
    })
}
