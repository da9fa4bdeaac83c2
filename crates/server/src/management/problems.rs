//! Refusals in the interface's form.

use std::fmt::Display;

use api::Problem;
use array::ArrayError;
use store::Failure;

fn problem(status: u16, title: &str, detail: &impl Display) -> Problem {
    Problem { status, title: title.to_owned(), detail: detail.to_string() }
}

/// The request's form is wrong.
pub(super) fn bad_request(detail: &impl Display) -> Problem {
    problem(400, "Invalid request", detail)
}

/// The daemon could not do its part.
pub(super) fn internal(detail: &impl Display) -> Problem {
    problem(500, "Failed", detail)
}

/// The request does not fit the state of things.
pub(super) fn conflict(detail: &impl Display) -> Problem {
    problem(409, "Conflict", detail)
}

/// The pool that a request was about is served no more.
pub(super) fn gone() -> Problem {
    conflict(&"the pool was closed or deleted meanwhile: nothing was changed")
}

/// Not this way.
pub(super) fn forbidden(detail: &impl Display) -> Problem {
    problem(403, "Forbidden", detail)
}

/// There is no such thing.
pub(super) fn not_found(detail: &impl Display) -> Problem {
    problem(404, "Not found", detail)
}

/// The daemon does not serve as it should.
pub(super) fn unavailable(detail: &impl Display) -> Problem {
    problem(503, "Not ready", detail)
}

/// The pool is still being opened, so nobody knows what it holds.
pub(super) fn is_opening(pool: &str) -> Problem {
    unavailable(&format!("pool '{pool}' is being opened: try again in a moment"))
}

/// The configuration does not allow it.
pub(super) fn refused(error: &ArrayError) -> Problem {
    match error {
        ArrayError::NotFound { .. } | ArrayError::NotMapped(_) => problem(404, "Not found", error),
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
        | ArrayError::LunTooLarge(_) => bad_request(error),
        _ => conflict(error),
    }
}

/// The pool could not do it.
pub(super) fn failed(failure: &Failure) -> Problem {
    match failure {
        Failure::Change(error) => conflict(error),
        Failure::Block(error) => conflict(error),
        Failure::Open(error) => internal(error),
    }
}
