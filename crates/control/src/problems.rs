//! Conversion of errors into problems of the interface (RFC 9457).

use std::fmt::Display;

use api::{Problem, ProblemKind};
use array::ArrayError;
use block::BlockError;
use store::{ChangeError, CompareError, Failure, OpenError};

/// A refusal of a type that a program can act on; `detail` says to people what to do.
pub fn problem(kind: ProblemKind, detail: &impl Display) -> Problem {
    Problem::new(kind, detail.to_string())
}

/// The request's form is wrong.
pub fn bad_request(detail: &impl Display) -> Problem {
    problem(ProblemKind::InvalidRequest, detail)
}

/// The daemon could not do its part.
pub fn internal(detail: &impl Display) -> Problem {
    problem(ProblemKind::Failed, detail)
}

/// The request does not fit the state of things.
pub fn conflict(detail: &impl Display) -> Problem {
    problem(ProblemKind::Conflict, detail)
}

/// The pool that a request was about is served no more.
pub fn gone() -> Problem {
    let detail = "the pool was closed or deleted meanwhile: nothing was changed";
    problem(ProblemKind::PoolUnavailable, &detail)
}

/// Not this way.
pub fn forbidden(detail: &impl Display) -> Problem {
    problem(ProblemKind::NotAllowed, detail)
}

/// There is no such thing.
pub fn not_found(detail: &impl Display) -> Problem {
    problem(ProblemKind::NotFound, detail)
}

/// The daemon does not serve as it should.
pub fn unavailable(detail: &impl Display) -> Problem {
    problem(ProblemKind::NotReady, detail)
}

/// The pool is still being opened, so nobody knows what it holds.
pub fn is_opening(pool: &str) -> Problem {
    unavailable(&format!("pool '{pool}' is being opened: try again in a moment"))
}

/// The configuration does not allow it.
pub fn refused(error: &ArrayError) -> Problem {
    let is = |kind| problem(kind, error);
    match error {
        ArrayError::NotFound { kind, name } => named(is(ProblemKind::NotFound), kind, name),
        ArrayError::NotMapped(host) => is(ProblemKind::NotMapped).with("host", host.as_str()),
        ArrayError::NameTaken { kind, name } => named(is(ProblemKind::NameTaken), kind, name),
        ArrayError::DeviceTaken { device, pool } => {
            is(ProblemKind::DeviceTaken).with("device", device.as_str()).with("pool", pool.as_str())
        }
        ArrayError::InitiatorTaken { initiator, host } => is(ProblemKind::InitiatorTaken)
            .with("initiator", initiator.as_str())
            .with("host", host.as_str()),
        ArrayError::HostInUse(host) => is(ProblemKind::HostInUse).with("host", host.as_str()),
        ArrayError::HostInGroup { host, group } => {
            is(ProblemKind::HostInGroup).with("host", host.as_str()).with("group", group.as_str())
        }
        ArrayError::LunTaken { lun, host } => {
            is(ProblemKind::LunTaken).with("lun", *lun).with("host", host.as_str())
        }
        ArrayError::LunResting { lun, host, seconds } => is(ProblemKind::LunResting)
            .with("lun", *lun)
            .with("host", host.as_str())
            .with("seconds", *seconds),
        ArrayError::LunsUnknown { seconds } => {
            is(ProblemKind::LunsUnknown).with("seconds", *seconds)
        }
        ArrayError::LunHeld { lun, initiator } => {
            is(ProblemKind::LunHeld).with("lun", *lun).with("initiator", initiator.as_str())
        }
        ArrayError::LunFixed { current, host } => {
            is(ProblemKind::LunFixed).with("lun", *current).with("host", host.as_str())
        }
        ArrayError::StillMapped(hosts) => {
            is(ProblemKind::StillMapped).with("hosts", hosts.as_str())
        }
        ArrayError::PoolNotEmpty { pool, volumes } => {
            is(ProblemKind::PoolNotEmpty).with("pool", pool.as_str()).with("volumes", *volumes)
        }
        ArrayError::Locked { until } | ArrayError::LockShortened { until } => {
            is(ProblemKind::SnapshotLocked).with("until", *until)
        }
        ArrayError::TooMany { kind, max } => {
            is(ProblemKind::TooMany).with("object", *kind).with("max", *max)
        }
        ArrayError::InvalidName(_)
        | ArrayError::InvalidVolumePath(_)
        | ArrayError::InvalidDevice(_)
        | ArrayError::InvalidInitiatorName(_)
        | ArrayError::InvalidSize(_)
        | ArrayError::InvalidIdentification { .. }
        | ArrayError::InvalidPortal
        | ArrayError::InvalidChapName
        | ArrayError::SecretLength(_)
        | ArrayError::SecretShared
        | ArrayError::LockInThePast
        | ArrayError::LockTooLong
        | ArrayError::InvalidSchedule(_)
        | ArrayError::InvalidAlert(_)
        | ArrayError::InvalidTag(_)
        | ArrayError::InvalidLimit { .. }
        | ArrayError::InvalidThresholds
        | ArrayError::InvalidFailBack
        | ArrayError::LunTooLarge(_)
        | ArrayError::DeviceTwice(_) => bad_request(error),
        ArrayError::LunsExhausted => is(ProblemKind::LunsExhausted),
    }
}

/// It is about the object of that kind and name.
fn named(problem: Problem, kind: &str, name: &str) -> Problem {
    problem.with("object", kind).with("name", name)
}

/// The pool could not do it.
pub fn failed(failure: &Failure) -> Problem {
    match failure {
        Failure::Change(error) => change_refused(error),
        Failure::Compare(error) => not_compared(error),
        Failure::Block(error) => block_refused(error),
        Failure::Open(error) => not_opened(error),
    }
}

fn block_refused(error: &BlockError) -> Problem {
    match error {
        // Also while the daemon stops: another attempt may succeed when it runs again.
        BlockError::Closed | BlockError::ReadOnly => problem(ProblemKind::PoolUnavailable, error),
        BlockError::OutOfSpace | BlockError::SpaceComing => problem(ProblemKind::PoolFull, error),
        BlockError::NoSuchVolume => problem(ProblemKind::NotFound, error).with("object", "volume"),
        BlockError::OutOfRange
        | BlockError::Miscompare { .. }
        | BlockError::Medium { .. }
        | BlockError::Snapshot
        | BlockError::DifferentPool
        | BlockError::Busy => conflict(error),
    }
}

fn not_compared(error: &CompareError) -> Problem {
    let is = |kind| problem(kind, error);
    match error {
        CompareError::NoSuchSnapshot | CompareError::Deleted => {
            is(ProblemKind::NotFound).with("object", "snapshot")
        }
        CompareError::NotASnapshot => is(ProblemKind::IsVolume),
        CompareError::Offset { .. } | CompareError::ExtentCount => bad_request(error),
        CompareError::Busy => is(ProblemKind::Busy),
        CompareError::Unreadable { .. } => is(ProblemKind::DeviceFailed),
        CompareError::Closed => is(ProblemKind::PoolUnavailable),
    }
}

fn not_opened(error: &OpenError) -> Problem {
    let is = |kind| problem(kind, error);
    match error {
        OpenError::NoSpace => is(ProblemKind::NoSpaceBelow),
        OpenError::Size => bad_request(error),
        OpenError::Device(_) => is(ProblemKind::DeviceFailed),
        OpenError::Foreign
        | OpenError::OtherPool
        | OpenError::Unknown { .. }
        | OpenError::Short { .. }
        | OpenError::Missing { .. }
        | OpenError::MembersMissing { .. }
        | OpenError::WrongDevice { .. }
        | OpenError::Damaged(_)
        | OpenError::JournalLost(_) => is(ProblemKind::PoolUnavailable),
    }
}

fn change_refused(error: &ChangeError) -> Problem {
    let is = |kind| problem(kind, error);
    match error {
        ChangeError::NameTaken(name) => {
            is(ProblemKind::NameTaken).with("object", "volume").with("name", name.as_str())
        }
        ChangeError::NoSuchVolume => is(ProblemKind::NotFound).with("object", "volume"),
        ChangeError::TooManyVolumes => is(ProblemKind::TooMany).with("object", "volumes"),
        ChangeError::TooManyDevices => is(ProblemKind::TooMany).with("object", "devices"),
        ChangeError::NoSpace => is(ProblemKind::PoolFull),
        ChangeError::NoRoom => is(ProblemKind::NoSpaceBelow),
        ChangeError::ReadOnly | ChangeError::Closed => is(ProblemKind::PoolUnavailable),
        ChangeError::Snapshot => is(ProblemKind::IsSnapshot),
        ChangeError::NoSpaceToShare { needed_bytes } => {
            is(ProblemKind::NoSpaceToShare).with("needed_bytes", *needed_bytes)
        }
        ChangeError::DeviceSize => is(ProblemKind::DeviceNotLarger),
        ChangeError::NoSpaceToLeave { needed_bytes } => {
            is(ProblemKind::NoSpaceToLeave).with("needed_bytes", *needed_bytes)
        }
        ChangeError::FirstDevice
        | ChangeError::LeavingAlready
        | ChangeError::DeviceLeaves
        | ChangeError::Degraded { .. }
        | ChangeError::SpaceMapsDamaged
        | ChangeError::NothingLeaves
        | ChangeError::NotEmpty => conflict(error),
        ChangeError::NoSuchDevice => is(ProblemKind::NotFound).with("object", "device"),
        ChangeError::TooManyMembers => is(ProblemKind::TooMany).with("object", "members"),
        ChangeError::NoSuchMember => is(ProblemKind::NotFound).with("object", "member"),
        ChangeError::MemberTaken
        | ChangeError::MemberPresent
        | ChangeError::MemberBusy
        | ChangeError::LastMember
        | ChangeError::WitnessRefused
        | ChangeError::NotThatMember
        | ChangeError::NotResilvering => conflict(error),
        ChangeError::MemberSize => bad_request(error),
        ChangeError::MemberFailed | ChangeError::Device(_) => is(ProblemKind::DeviceFailed),
        ChangeError::VolumeSize | ChangeError::VolumeName | ChangeError::GroupSize => {
            bad_request(error)
        }
    }
}
