//! Problem details for HTTP (RFC 9457): why a request is refused, each of a type that stays the
//! same, so that a program can tell them apart without reading sentences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// What every type begins with (RFC 8141).
const NAMESPACE: &str = "urn:gantry:problem:";

/// Why a request was refused (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The type: `urn:gantry:problem:` and a name of the table. A program decides by this.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The HTTP status code.
    pub status: u16,
    /// The type in words, the same for every occurrence.
    pub title: String,
    /// This occurrence, and what to do about it, for people.
    pub detail: String,
    /// What the sentence is about, for programs: names and numbers.
    #[serde(flatten)]
    pub members: BTreeMap<String, Value>,
}

impl Problem {
    /// A problem of a type; `detail` says what to do about it.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let row = kind.row();
        Self {
            kind: kind.urn(),
            status: row.status,
            title: row.title.to_owned(),
            detail: detail.into(),
            members: BTreeMap::new(),
        }
    }

    /// Adds something that a program can read: a name or a number.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Whether it is of this type.
    pub fn is(&self, kind: ProblemKind) -> bool {
        self.kind.strip_prefix(NAMESPACE) == Some(kind.row().name)
    }
}

/// One line of the table of types.
#[derive(Clone, Copy, Debug)]
pub struct ProblemRow {
    /// What comes after `urn:gantry:problem:`.
    pub name: &'static str,
    /// The HTTP status code.
    pub status: u16,
    /// The title.
    pub title: &'static str,
    /// What is the matter, and what a program may do.
    pub meaning: &'static str,
    /// Names of what a program can read in it.
    pub members: &'static [&'static str],
}

/// The types, from one table.
macro_rules! problems {
    ($($kind:ident $name:literal $status:literal $title:literal [$($member:literal),*] $meaning:literal;)*) => {
        /// The types of problems. They never change their meaning, and none is taken away.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProblemKind {
            $(#[doc = $meaning] $kind,)*
        }

        impl ProblemKind {
            /// All of them, by status.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its line of the table.
            pub const fn row(self) -> ProblemRow {
                match self {
                    $(Self::$kind => ProblemRow {
                        name: $name,
                        status: $status,
                        title: $title,
                        meaning: $meaning,
                        members: &[$($member),*],
                    },)*
                }
            }
        }
    };
}

problems! {
    InvalidRequest "invalid-request" 400 "Invalid request" []
        "Malformed, an unknown field, or a value out of range; the same request never succeeds.";
    DeviceMissing "device-missing" 400 "Invalid request" []
        "A pool has at least one device, and none was named.";
    DeviceSizeMissing "device-size-missing" 400 "Invalid request" []
        "A device that does not have a size of its own needs one.";
    DeviceAmbiguous "device-ambiguous" 400 "Invalid request" ["devices"]
        "The pool has several devices, and it was not said which one is meant.";
    NotLoggedIn "not-logged-in" 401 "Not logged in" []
        "Nobody is logged in.";
    TokenNotValid "token-not-valid" 401 "Not logged in" []
        "The token is not known, or its time is over.";
    WrongLogin "wrong-login" 401 "Not logged in" []
        "User or password is wrong.";
    NotAllowed "not-allowed" 403 "Not allowed" ["role"]
        "It is known who asks, and that needs another role, or another way.";
    ForeignPage "foreign-page" 403 "Forbidden" []
        "A web page from elsewhere asked, or the header X-Gantry-Csrf was missing.";
    PasswordMustBeChanged "password-must-be-changed" 403 "Password must be changed" []
        "Nothing else is allowed before.";
    NotSetUp "not-set-up" 403 "Not set up" []
        "The first password was not changed yet, so other machines are not let in.";
    WrongPassword "wrong-password" 403 "Not allowed" []
        "The old password is wrong.";
    TokenTooWide "token-too-wide" 403 "Not allowed" []
        "A token allows no more than its user and the token by which it is made.";
    TokenTooLong "token-too-long" 403 "Not allowed" ["end"]
        "A token lasts no longer than the one by which it is made.";
    NotFound "not-found" 404 "Not found" ["object", "name"]
        "There is no such object.";
    NotMapped "not-mapped" 404 "Not found" ["host"]
        "The volume is not mapped to that host or group.";
    NoSuchPath "no-such-path" 404 "Not found" []
        "There is nothing at this path.";
    MethodNotAllowed "method-not-allowed" 405 "Method not allowed" []
        "The path takes other methods: see the header Allow.";
    TooSlow "too-slow" 408 "Too slow" []
        "The body did not arrive in time; the request may be sent again.";
    Conflict "conflict" 409 "Conflict" []
        "It does not fit the state of things, for a reason without a type of its own.";
    NameTaken "name-taken" 409 "Conflict" ["object", "name"]
        "There is an object of that name already.";
    DeviceTaken "device-taken" 409 "Conflict" ["device", "pool"]
        "The device belongs to a pool already.";
    InitiatorTaken "initiator-taken" 409 "Conflict" ["initiator", "host"]
        "The initiator belongs to another host.";
    HostInUse "host-in-use" 409 "Conflict" ["host"]
        "The host still has volumes mapped.";
    HostInGroup "host-in-group" 409 "Conflict" ["host", "group"]
        "The host is still in a group.";
    LunTaken "lun-taken" 409 "Conflict" ["lun", "host"]
        "The LUN number is another volume for that host or group.";
    LunResting "lun-resting" 409 "Conflict" ["lun", "host", "seconds"]
        "The LUN number was another volume for that host or group, and rests for so many seconds.";
    LunsUnknown "luns-unknown" 409 "Conflict" ["seconds"]
        "An earlier generation of the configuration is in use: LUN numbers that no volume has rest for so many seconds.";
    LunHeld "lun-held" 409 "Conflict" ["lun", "initiator"]
        "The LUN number was another volume for a session of that initiator, which may mean it still.";
    LunFixed "lun-fixed" 409 "Conflict" ["lun", "host"]
        "That host or group sees the volume as another LUN number.";
    LunsExhausted "luns-exhausted" 409 "Conflict" []
        "Every LUN number stands for a volume, or rests.";
    StillMapped "still-mapped" 409 "Conflict" ["hosts"]
        "The volume is still mapped, and hosts may be using it: unmap it first.";
    PoolNotEmpty "pool-not-empty" 409 "Conflict" ["pool", "volumes"]
        "The pool still holds volumes.";
    PoolNotOpen "pool-not-open" 409 "Conflict" ["pool", "volumes", "luns", "snapshots", "schedules"]
        "The pool is not open; deleted with `force=true` it is forgotten, with so many things that are known of it.";
    PoolUnavailable "pool-unavailable" 409 "Conflict" ["pool"]
        "The pool cannot be served, or takes no changes; another attempt may succeed later.";
    PoolFull "pool-full" 409 "Conflict" []
        "The pool has not enough free space.";
    NoSpaceBelow "no-space-below" 409 "Conflict" []
        "The file system that holds the device has no space for what a pool must always have.";
    NoSpaceToShare "no-space-to-share" 409 "Conflict" ["needed_bytes"]
        "A snapshot, clone or revert would share so much that locks and metadata of hosts might find no space.";
    NoSpaceToLeave "no-space-to-leave" 409 "Conflict" ["needed_bytes"]
        "The pool's other devices have no room for what is on one that is to leave, and for what is promised.";
    DeviceNotLarger "device-not-larger" 409 "Conflict" []
        "A device only grows.";
    DeviceFailed "device-failed" 409 "Conflict" []
        "A device failed to do its part.";
    SnapshotLocked "snapshot-locked" 409 "Conflict" ["until"]
        "The snapshot is locked until a moment, in seconds since 1970.";
    ShrinkNotConfirmed "shrink-not-confirmed" 409 "Conflict" ["size_bytes"]
        "A smaller size destroys data, and was not confirmed; `size_bytes` is the size that it has.";
    IsSnapshot "is-snapshot" 409 "Conflict" []
        "It is a snapshot, and this is for volumes.";
    IsVolume "is-volume" 409 "Conflict" []
        "It is a volume, and this is for snapshots.";
    NotItsSnapshot "not-its-snapshot" 409 "Conflict" ["snapshot"]
        "The snapshot is of another volume.";
    InSchedule "in-schedule" 409 "Conflict" ["schedule"]
        "A schedule names the volume: take it out of the schedule first.";
    PortalFixed "portal-fixed" 409 "Conflict" []
        "The portal was given to the daemon at its start, and stays.";
    LastAdministrator "last-administrator" 409 "Conflict" ["user"]
        "Nobody would be an administrator any more.";
    TooMany "too-many" 409 "Conflict" ["object", "max"]
        "There are as many of them as there can be.";
    KeyUnderWay "key-under-way" 409 "Conflict" []
        "The first request with this Idempotency-Key is under way: ask again.";
    Changed "changed" 412 "Changed" []
        "The object is not what If-Match names any more: look again, then repeat.";
    NotThere "not-there" 412 "Not there" []
        "There is no such object, so it is not what If-Match names.";
    AlreadyThere "already-there" 412 "Already there" []
        "The object is there, or is the version that If-None-Match names.";
    NoVersion "no-version" 412 "No version" []
        "Nothing here has a version that If-Match or If-None-Match could name.";
    TooLarge "too-large" 413 "Too large" ["max_bytes"]
        "The body is too large.";
    UnsupportedMediaType "unsupported-media-type" 415 "Unsupported media type" []
        "The body is not declared as application/json.";
    KeyUsedBefore "key-used-before" 422 "Key used before" []
        "The Idempotency-Key was used for another request.";
    TooManyAttempts "too-many-attempts" 429 "Too many attempts" []
        "Too many wrong passwords, or too many at a time: see the header Retry-After.";
    TooManyStreams "too-many-streams" 429 "Too many streams" []
        "Too many streams of events are open.";
    Failed "failed" 500 "Failed" []
        "The daemon could not do its part: see its log.";
    NotHealthy "not-healthy" 503 "Not healthy" []
        "The daemon does not go on.";
    NotReady "not-ready" 503 "Not ready" []
        "The daemon does not serve as it should.";
    Stopping "stopping" 503 "Stopping" []
        "The daemon is stopping.";
    Busy "busy" 503 "Busy" []
        "Too much is under way: try again.";
}

impl ProblemKind {
    /// The type as it is sent.
    pub fn urn(self) -> String {
        format!("{NAMESPACE}{}", self.row().name)
    }

    /// The type that says no more than a status code does.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => Self::NotLoggedIn,
            403 => Self::NotAllowed,
            404 => Self::NoSuchPath,
            405 => Self::MethodNotAllowed,
            408 => Self::TooSlow,
            409 => Self::Conflict,
            412 => Self::Changed,
            413 => Self::TooLarge,
            415 => Self::UnsupportedMediaType,
            422 => Self::KeyUsedBefore,
            429 => Self::TooManyAttempts,
            503 => Self::Busy,
            400..=499 => Self::InvalidRequest,
            _ => Self::Failed,
        }
    }
}

/// The schema of a problem: four fields that are always there, and what its type adds.
pub(crate) fn schema() -> Value {
    let kinds: Vec<String> = ProblemKind::ALL.iter().map(|kind| kind.urn()).collect();
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "description": "Why a request was refused (RFC 9457). A program decides by `type`.",
        "required": ["type", "status", "title", "detail"],
        "properties": {
            "type": {
                "type": "string",
                "description": "The type, which never changes its meaning.",
                "enum": kinds,
            },
            "status": { "type": "integer", "format": "int32", "minimum": 400, "maximum": 599 },
            "title": text("The type in words, the same for every occurrence."),
            "detail": text("This occurrence, and what to do about it, for people."),
        },
        "additionalProperties": true,
    })
}

/// An example of each status, as it is answered.
pub(crate) fn example(status: u16) -> Option<Problem> {
    let kind = *ProblemKind::ALL.iter().find(|kind| kind.row().status == status)?;
    let example = match status {
        404 => Problem::new(kind, "there is no volume named 'p/v'")
            .with("object", "volume")
            .with("name", "p/v"),
        409 => Problem::new(
            ProblemKind::PoolNotEmpty,
            "pool 'p' still holds 2 volume(s): delete them first",
        )
        .with("pool", "p")
        .with("volumes", 2),
        _ => Problem::new(kind, kind.row().meaning),
    };
    Some(example)
}
