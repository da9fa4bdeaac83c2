//! Password hashing (Argon2id) in a thread of the lowest priority (nice 19), one at a time, so that
//! a flood of passwords never takes the cores from hosts. Attempts wait in one of two bounded
//! queues, so that strangers cannot fill the queue of known users.

use std::sync::{Mutex, PoisonError};

use access::PasswordHash;
use api::{Problem, ProblemKind};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::{Answered, no_random, refused};
use crate::data_directory::random_bytes;
use crate::http::answers::problem;
use crate::http::router::stopping;
use crate::limits::{PASSWORDS_WAITING_MAX, PASSWORDS_WAITING_OF_ONE_MAX};

/// The priority of the thread: it runs when nothing else wants to.
const NICE: i32 = 19;

/// The turn to hash; each takes tens of milliseconds of a core and 19 MiB.
static TURN: Semaphore = Semaphore::const_new(1);

/// Users who are logged in, or who are known where they log in.
pub(super) static KNOWN: Queue = Queue::new();

/// Everybody else.
pub(super) static STRANGERS: Queue = Queue::new();

/// Passwords that wait for their turn, or are looked at. The two queues take turns.
pub(super) struct Queue {
    first: Semaphore,
    /// Who waits: an address, or a user.
    waiting: Mutex<Vec<String>>,
}

/// A place in a queue; ends when it is dropped.
struct Place {
    queue: &'static Queue,
    who: String,
}

/// The turn, and the place in the queue until it is over.
struct Turn {
    _turn: SemaphorePermit<'static>,
    _first: SemaphorePermit<'static>,
    _place: Place,
}

impl Queue {
    const fn new() -> Self {
        Self { first: Semaphore::const_new(1), waiting: Mutex::new(Vec::new()) }
    }

    fn enter(&'static self, who: &str) -> Answered<Place> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let own = waiting.iter().filter(|other| *other == who).count();
        if waiting.len() >= PASSWORDS_WAITING_MAX || own >= PASSWORDS_WAITING_OF_ONE_MAX {
            return Err(busy());
        }
        waiting.push(who.to_owned());
        Ok(Place { queue: self, who: who.to_owned() })
    }

    async fn turn(&'static self, who: &str) -> Answered<Turn> {
        let place = self.enter(who)?;
        let first = self.first.acquire().await.map_err(|_| stopping())?;
        let turn = TURN.acquire().await.map_err(|_| stopping())?;
        Ok(Turn { _turn: turn, _first: first, _place: place })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = waiting.iter().position(|other| *other == self.who) {
            waiting.swap_remove(index);
        }
    }
}

/// The hash of a new password, for somebody who is logged in.
pub(super) async fn hash(password: String) -> Answered<PasswordHash> {
    let turn = KNOWN.turn("a new password").await?;
    let work = move || {
        let salt = random_bytes().map_err(|_| no_random())?;
        PasswordHash::new(&password, &salt).map_err(|error| refused(&error))
    };
    on_a_thread(turn, work).await?
}

/// Whether a password is the right one, if `check` allows looking at it once its turn has come.
pub(super) async fn is_right(
    queue: &'static Queue,
    who: &str,
    hash: Option<PasswordHash>,
    password: String,
    check: impl FnOnce() -> Answered<()>,
) -> Answered<bool> {
    let turn = queue.turn(who).await?;
    check()?;
    let work = move || match hash {
        Some(hash) => hash.is_of(&password),
        None => {
            // As slow as for a user that there is, so that time does not tell names.
            let _ = PasswordHash::new("nobody has this one", &[0; 16]);
            false
        }
    };
    on_a_thread(turn, work).await
}

/// Does the work in a thread of its own, which keeps the turn until it is done even if nobody waits
/// for the result any more.
async fn on_a_thread<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Answered<T> {
    let (sender, result) = oneshot::channel();
    let work = move || {
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "passwords are hashed at the usual priority");
        }
        // The caller may have hung up.
        let _ = sender.send(work());
        drop(turn);
    };
    let thread = std::thread::Builder::new().name("password".to_owned());
    thread.spawn(work).map_err(|_| failed())?;
    result.await.map_err(|_| failed())
}

fn busy() -> Problem {
    let detail = "too many passwords wait to be looked at: try again in a second";
    problem(ProblemKind::TooManyAttempts, detail)
}

fn failed() -> Problem {
    problem(ProblemKind::Failed, "a password could not be hashed: is there memory left?")
}

#[cfg(test)]
mod tests {
    use super::*;

    static QUEUE: Queue = Queue::new();

    #[test]
    fn nobody_fills_a_queue_and_whoever_leaves_makes_room() {
        let mut places = Vec::new();
        for address in 0..PASSWORDS_WAITING_MAX / PASSWORDS_WAITING_OF_ONE_MAX {
            let who = address.to_string();
            for _ in 0..PASSWORDS_WAITING_OF_ONE_MAX {
                places.push(QUEUE.enter(&who).unwrap());
            }
            assert_eq!(QUEUE.enter(&who).map(drop).unwrap_err().status, 429);
        }
        assert_eq!(QUEUE.enter("another").map(drop).unwrap_err().status, 429);
        places.pop();
        drop(QUEUE.enter("another").unwrap());
        drop(places);
        assert!(QUEUE.waiting.lock().unwrap().is_empty());
    }
}
