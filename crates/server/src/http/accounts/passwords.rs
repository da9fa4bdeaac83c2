//! Hashing of passwords, beside the thread that serves everybody.

use access::PasswordHash;
use tokio::sync::Semaphore;

use super::{Answered, no_random, refused};
use crate::data_directory::random_bytes;
use crate::http::answers::problem;
use crate::http::router::stopping;

/// Passwords that are hashed at a time; each takes tens of milliseconds of a core and 19 MiB.
const HASHES_MAX: usize = 2;

/// Turns to hash.
static TURNS: Semaphore = Semaphore::const_new(HASHES_MAX);

/// The hash of a new password.
pub(super) async fn hash(password: String) -> Answered<PasswordHash> {
    let turn = TURNS.acquire().await.map_err(|_| stopping())?;
    let work = move || {
        let salt = random_bytes().map_err(|_| no_random())?;
        PasswordHash::new(&password, &salt).map_err(|error| refused(&error))
    };
    let hash = tokio::task::spawn_blocking(work).await.map_err(|_| failed())?;
    drop(turn);
    hash
}

/// Whether a password is the right one, if `check` allows looking at it once its turn has come.
pub(super) async fn is_right(
    hash: Option<PasswordHash>,
    password: String,
    check: impl FnOnce() -> Answered<()>,
) -> Answered<bool> {
    let turn = TURNS.acquire().await.map_err(|_| stopping())?;
    check()?;
    let work = move || match hash {
        Some(hash) => hash.is_of(&password),
        None => {
            // As slow as for a user that there is, so that time does not tell names.
            let _ = PasswordHash::new("nobody has this one", &[0; 16]);
            false
        }
    };
    let right = tokio::task::spawn_blocking(work).await.map_err(|_| failed());
    drop(turn);
    right
}

fn failed() -> api::Problem {
    problem(500, "Failed", "a password could not be hashed: is there memory left?")
}
