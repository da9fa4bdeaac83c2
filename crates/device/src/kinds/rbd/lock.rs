//! Exclusive lock of an image and the cluster's blocklist, which is what fences: a client whose lock is
//! taken is blocklisted for ten years before, so that nothing of it arrives late.
//!
//! librbd would blocklist it by itself, for the cluster's default of an hour, and a client that was frozen
//! for longer then overwrote what its successor wrote. So librbd never finds a lock to break here: the
//! lock of a client that watches the image is respected, and that of one that does not is broken first.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::path::Path;
use std::ptr::null_mut;

use super::image::{BLOCKLISTED, Image, SETTINGS, checked, text};
use super::library::Watcher;
use super::os;
use crate::error::OpenError;
use crate::fence::{Breaking, Holder};

/// Only one client has the lock, and it does not move to another one that writes
/// (`RBD_LOCK_MODE_EXCLUSIVE`).
const EXCLUSIVE: c_int = 0;

/// errno: the lock is with somebody else.
const LOCKED: i32 = libc::EROFS;

/// Seconds that a former client stays on the blocklist: ten years. An entry that was made is never
/// changed by a later one.
const BLOCKLIST_SECONDS: u32 = 315_360_000;

/// Clients of which a list is read at once.
const WATCHERS_MAX: usize = 64;

/// Times that the lock is looked at while it goes from one client to another.
const TRIES: usize = 3;

impl Image {
    /// Takes the lock: if it is free, if its holder is one of those to be broken, and if its holder does
    /// not watch the image any more, which the cluster finds half a minute after it has died.
    pub(super) fn take_lock(&mut self, path: &Path, breaking: &Breaking) -> Result<(), OpenError> {
        let os = |what| os(path, what);
        for _ in 0..TRIES {
            if let Some(address) = self.lock_owner().map_err(os("ask who has its lock"))? {
                let holder = Holder { identity: address.clone(), place: None };
                if !breaking.includes(&holder) && self.is_watched_by(&address).unwrap_or(true) {
                    return Err(held(path, holder));
                }
                self.blocklist(&address).map_err(os(BREAK))?;
                break_lock(path, &address)?;
            }
            match self.acquire() {
                // Somebody else was faster.
                Err(error) if error.raw_os_error() == Some(LOCKED) => {}
                result => {
                    result.map_err(os("lock it"))?;
                    let owner = self.lock_owner().map_err(os("ask who has its lock"))?;
                    self.owner = owner.unwrap_or_default();
                    return Ok(());
                }
            }
        }
        let identity = self.lock_owner().ok().flatten().unwrap_or_default();
        Err(held(path, Holder { identity, place: None }))
    }

    /// Whether somebody else has the lock now, or the cluster takes nothing from this client any more.
    /// Asks the cluster.
    pub(super) fn is_lost(&self) -> bool {
        let mut is_owner = 0;
        // SAFETY: the handle is open, and the library writes one number.
        let asked = checked(unsafe {
            (self.ceph.rbd.rbd_is_exclusive_lock_owner)(self.handle, &raw mut is_owner)
        });
        match asked {
            Err(error) => error.raw_os_error() == Some(BLOCKLISTED),
            Ok(()) if is_owner != 0 => false,
            // While the library takes it again, after its connection was lost, nobody has it.
            Ok(()) => match self.lock_owner() {
                Ok(owner) => owner.is_some_and(|owner| owner != self.owner),
                Err(error) => error.raw_os_error() == Some(BLOCKLISTED),
            },
        }
    }

    fn acquire(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        checked(unsafe { (self.ceph.rbd.rbd_lock_acquire)(self.handle, EXCLUSIVE) })
    }

    /// Blocklists a client, and waits until nothing that is asked for on this connection is answered by a part of
    /// the cluster that does not know it.
    fn blocklist(&self, address: &str) -> io::Result<()> {
        let address = text(address);
        // SAFETY: the cluster is connected; the library only reads the text.
        checked(unsafe {
            let read_only = address.as_ptr().cast_mut();
            (self.ceph.rados.rados_blocklist_add)(self.cluster.1, read_only, BLOCKLIST_SECONDS)
        })
    }

    /// The address of the client that has the lock.
    fn lock_owner(&self) -> io::Result<Option<String>> {
        let (mut mode, mut owner, mut count) = (EXCLUSIVE, null_mut::<c_char>(), 1);
        let rbd = &self.ceph.rbd;
        // SAFETY: the handle is open; there is room for one text, as the number says.
        let found = checked(unsafe {
            (rbd.rbd_lock_get_owners)(self.handle, &raw mut mode, &raw mut owner, &raw mut count)
        });
        match found {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            result => result?,
        }
        if count == 0 || owner.is_null() {
            return Ok(None);
        }
        // SAFETY: the library gave a text that ends with NUL, and takes it back below.
        let address = unsafe { CStr::from_ptr(owner) }.to_string_lossy().into_owned();
        // SAFETY: the text came from the library, and is not used any more.
        unsafe { (rbd.rbd_lock_get_owners_cleanup)(&raw mut owner, count) };
        Ok(Some(address))
    }

    /// Whether a client has the image open.
    fn is_watched_by(&self, address: &str) -> io::Result<bool> {
        let rbd = &self.ceph.rbd;
        let mut watchers = [Watcher { address: null_mut(), id: 0, cookie: 0 }; WATCHERS_MAX];
        let mut count = watchers.len();
        // SAFETY: the handle is open; the number says for how many there is room.
        checked(unsafe {
            (rbd.rbd_watchers_list)(self.handle, watchers.as_mut_ptr(), &raw mut count)
        })?;
        let is_client = |watcher: &Watcher| {
            // SAFETY: the library gave a text that ends with NUL, and takes it back below.
            let found = unsafe { CStr::from_ptr(watcher.address) };
            bare(&found.to_string_lossy()) == bare(address)
        };
        let is_watched = watchers[..count].iter().any(is_client);
        // SAFETY: the texts came from the library, and are not used any more.
        unsafe { (rbd.rbd_watchers_list_cleanup)(watchers.as_mut_ptr(), count) };
        Ok(is_watched)
    }
}

/// Breaks the lock of a client that is on the blocklist. librbd would put it there once more, for which the monitors
/// take a second: it does not on a connection that is made for this. Where the image is used it would, as nothing
/// here finds a lock to break then.
fn break_lock(path: &Path, address: &str) -> Result<(), OpenError> {
    let settings = [&SETTINGS[..], &[("rbd_blocklist_on_break_lock", "false")]].concat();
    let (image, owner) = (Image::find(path, &settings)?, text(address));
    // SAFETY: the handle is open, and the text lives until the call returns.
    let broken =
        unsafe { (image.ceph.rbd.rbd_lock_break)(image.handle, EXCLUSIVE, owner.as_ptr()) };
    match checked(broken) {
        // It let go by itself.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result.map_err(os(path, BREAK)),
    }
}

fn held(path: &Path, holder: Holder) -> OpenError {
    OpenError::Held { path: path.to_owned(), holders: vec![holder], owner_beat: None }
}

const BREAK: &str = "break its lock: the cluster's user must be allowed to add to the blocklist, as \
                     the profile 'rbd' for 'mon' allows it";

/// An address without the version of the protocol, which is told in one place and not in the other.
fn bare(address: &str) -> &str {
    let address = address.trim();
    ["v1:", "v2:", "any:"].iter().find_map(|prefix| address.strip_prefix(prefix)).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_without_the_version_of_the_protocol() {
        for (one, other) in [("10.0.0.1:0/7", "v1:10.0.0.1:0/7"), ("v2:[::1]:0/9", "[::1]:0/9")] {
            assert_eq!(bare(one), bare(other));
        }
        assert_ne!(bare("10.0.0.1:0/7"), bare("10.0.0.1:0/71"));
    }
}
