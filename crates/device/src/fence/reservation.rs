//! Persistent reservation of a block device, Write Exclusive – Registrants Only, through the kernel's
//! ioctls (linux/pr.h): only who is registered may write, and a registration that was preempted is no
//! more.
//!
//! Who is registered is read by PERSISTENT RESERVE IN through SG_IO, or by the kernel's own ioctls where
//! it has them (NVMe; Linux 6.19). A device that knows no reservations cannot be fenced.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::holders::{State, look};
use super::{Breaking, Holder, ReservationKey};
use crate::error::OpenError;

const IOC_PR_REGISTER: u64 = 0x4018_70c8;
const IOC_PR_RESERVE: u64 = 0x4010_70c9;
const IOC_PR_PREEMPT_ABORT: u64 = 0x4018_70cc;

/// `PR_WRITE_EXCLUSIVE_REG_ONLY`.
const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u32 = 3;

/// `PR_FL_IGNORE_KEY`: whatever this initiator port was registered with before.
const IGNORE_KEY: u32 = 1;

/// Times that an ioctl is tried while the device answers CHECK CONDITION: a unit attention is told once
/// for each condition.
const TRIES: usize = 8;

/// How a device is registered: `struct pr_registration`; also `struct pr_preempt`, whose last two fields
/// are type and flags.
#[repr(C)]
struct Keys {
    old: u64,
    new: u64,
    first: u32,
    second: u32,
}

/// `struct pr_reservation`.
#[repr(C)]
struct Reserve {
    key: u64,
    kind: u32,
    flags: u32,
}

/// How the device answered.
#[derive(Debug)]
enum Refusal {
    /// It, or its driver, knows no reservations.
    Unsupported,
    /// RESERVATION CONFLICT.
    Conflict,
    Os(io::Error),
}

/// A reservation that this process holds. It is given back when this value goes.
#[derive(Debug)]
pub(crate) struct Reservation {
    file: File,
    key: ReservationKey,
}

impl Reservation {
    /// Reserves a device; `None` if it knows no reservations.
    ///
    /// # Errors
    /// [`OpenError::Held`] if somebody else is registered whose lock is not to be broken: nothing was
    /// changed then.
    pub(crate) fn take(
        path: &Path,
        file: &File,
        key: ReservationKey,
        breaking: &Breaking,
    ) -> Result<Option<Self>, OpenError> {
        let os = |what| move |source| OpenError::Os { path: path.to_owned(), what, source };
        let state = Self::look_for_others(path, file, key, breaking)?;
        let copy = file.try_clone().map_err(os("open it once more"))?;
        match register(file, 0, key.0, IGNORE_KEY) {
            Ok(()) => {}
            Err(Refusal::Unsupported) => return Ok(None),
            Err(Refusal::Conflict) => return Err(unknown(path)),
            Err(Refusal::Os(error)) => return Err(os(REGISTER)(error)),
        }
        // From here on the registration goes with this value.
        let taken = Self { file: copy, key };
        taken.preempt(&state).map_err(os("break the reservation of somebody else"))?;
        match taken.reserve() {
            Ok(()) => {}
            Err(Refusal::Conflict) => {
                let state = look(file).map_err(os(READ))?;
                return Err(held(path, others_or_unknown(&state, key)));
            }
            Err(Refusal::Unsupported) => {
                return Err(os("reserve it")(io::ErrorKind::Unsupported.into()));
            }
            Err(Refusal::Os(error)) => return Err(os("reserve it")(error)),
        }
        let state = look(file).map_err(os(READ))?;
        let others = others_of(&state, key);
        if others.is_empty() { Ok(Some(taken)) } else { Err(held(path, others)) }
    }

    /// Who is registered; changes nothing.
    ///
    /// # Errors
    /// As for [`Self::take`].
    pub(crate) fn look_for_others(
        path: &Path,
        file: &File,
        key: ReservationKey,
        breaking: &Breaking,
    ) -> Result<State, OpenError> {
        let os = |source| OpenError::Os { path: path.to_owned(), what: READ, source };
        let state = look(file).map_err(os)?;
        let others = others_of(&state, key);
        let may_take = others.iter().all(|holder| breaking.includes(holder));
        if may_take { Ok(state) } else { Err(held(path, others)) }
    }

    /// Takes the registrations of all others away, and ends what they have under way. The same is done
    /// to another initiator port with the own key: that of an earlier start of this machine.
    fn preempt(&self, state: &State) -> io::Result<()> {
        let mut victims: Vec<u64> = state.registrants.iter().map(|one| one.key).collect();
        victims.sort_unstable();
        victims.dedup();
        let held_by_own_key =
            |one: &super::status::Registrant| one.key == self.key.0 && one.is_holder;
        let must_move = state.registrants.iter().any(held_by_own_key) && self.reserve().is_err();
        for victim in victims.into_iter().filter(|&key| key != self.key.0 || must_move) {
            let (kind, flags) = (WRITE_EXCLUSIVE_REGISTRANTS_ONLY, 0);
            let keys = Keys { old: self.key.0, new: victim, first: kind, second: flags };
            match call(&self.file, IOC_PR_PREEMPT_ABORT, &keys) {
                Ok(()) => {}
                // Somebody else did it meanwhile, or it let go: what is read afterwards decides.
                Err(Refusal::Conflict) => {}
                Err(Refusal::Unsupported) => return Err(io::ErrorKind::Unsupported.into()),
                Err(Refusal::Os(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn reserve(&self) -> Result<(), Refusal> {
        let kind = WRITE_EXCLUSIVE_REGISTRANTS_ONLY;
        call(&self.file, IOC_PR_RESERVE, &Reserve { key: self.key.0, kind, flags: 0 })
    }

    /// How others see its holder.
    pub(crate) fn identity(&self) -> String {
        ReservationKey::identity(self.key.0)
    }

    /// Whether somebody else has taken the device. Unknown if that cannot be read: then a write tells.
    pub(crate) fn is_lost(&self) -> bool {
        look(&self.file).is_ok_and(|state| !others_of(&state, self.key).is_empty())
    }
}

/// The registration ends, and with it the reservation. If it was preempted the device refuses this,
/// and nothing changes: the own key is named, so that it never registers anew.
impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = register(&self.file, self.key.0, 0, 0);
    }
}

const READ: &str = "read its reservations (gantryd needs the capability CAP_SYS_RAWIO for that; without \
                    it start it with --reserve-devices off)";

const REGISTER: &str = "reserve it (gantryd needs the capabilities CAP_SYS_ADMIN and CAP_SYS_RAWIO for \
                        that; without them start it with --reserve-devices off)";

fn held(path: &Path, holders: Vec<Holder>) -> OpenError {
    OpenError::Held { path: path.to_owned(), holders, owner_beat: None }
}

fn unknown(path: &Path) -> OpenError {
    held(path, vec![Holder { identity: String::new(), place: None }])
}

fn others_or_unknown(state: &State, key: ReservationKey) -> Vec<Holder> {
    let others = others_of(state, key);
    if others.is_empty() { vec![Holder { identity: String::new(), place: None }] } else { others }
}

/// Who else is registered, one for each key.
fn others_of(state: &State, key: ReservationKey) -> Vec<Holder> {
    let mut found: Vec<(u64, Vec<&str>)> = Vec::new();
    for one in state.registrants.iter().filter(|one| one.key != key.0) {
        let at = found.iter().position(|(key, _)| *key == one.key);
        let at = at.unwrap_or_else(|| {
            found.push((one.key, Vec::new()));
            found.len() - 1
        });
        let ports = &mut found[at].1;
        ports.extend(one.port.as_deref().filter(|port| !ports.contains(port)));
    }
    let holder = |(key, ports): (u64, Vec<&str>)| Holder {
        identity: ReservationKey::identity(key),
        place: (!ports.is_empty()).then(|| ports.join(", ")),
    };
    found.into_iter().map(holder).collect()
}

fn register(file: &File, old: u64, new: u64, flags: u32) -> Result<(), Refusal> {
    call(file, IOC_PR_REGISTER, &Keys { old, new, first: flags, second: 0 })
}

/// Runs an ioctl of `linux/pr.h`. 0 is success; a positive result is the status that the device gave.
fn call<T>(file: &File, request: u64, argument: &T) -> Result<(), Refusal> {
    for _ in 0..TRIES {
        // SAFETY: the argument is the structure of that ioctl, which the kernel only reads.
        let result =
            unsafe { libc::ioctl(file.as_raw_fd(), request as _, std::ptr::from_ref(argument)) };
        match result {
            0 => return Ok(()),
            1.. if result & 0xff == 0x18 => return Err(Refusal::Conflict),
            // CHECK CONDITION: a unit attention, or a real one that stays.
            1.. if result & 0xff == 0x02 => {}
            1.. => return Err(Refusal::Os(io::Error::other(format!("status {result:#x}")))),
            _ => return Err(refusal(io::Error::last_os_error())),
        }
    }
    Err(Refusal::Unsupported)
}

fn refusal(error: io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL | libc::ENOSYS) => Refusal::Unsupported,
        Some(libc::EBADE) => Refusal::Conflict,
        _ => Refusal::Os(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::Registrant;
    use super::*;

    fn registrant(key: u64, port: &str) -> Registrant {
        Registrant { key, is_holder: key == 7, port: Some(port.to_owned()) }
    }

    #[test]
    fn others_are_told_once_for_each_key_with_all_their_ports() {
        let registrants =
            vec![registrant(7, "a"), registrant(9, "c"), registrant(7, "b"), registrant(7, "a")];
        let told: Vec<String> = others_of(&State { registrants }, ReservationKey(9))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(told, ["key 0x0000000000000007 (a, b)"]);
    }

    /// A file stands for every device without reservations.
    #[test]
    fn what_knows_no_reservations_is_not_reserved() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let key = ReservationKey::new(1).unwrap();
        let taken = Reservation::take(file.path(), file.as_file(), key, &Breaking::NONE);
        assert!(matches!(taken, Ok(None)), "{taken:?}");
    }
}
