//! Locks of devices: who holds those of a pool that is not open, breaking them when an administrator
//! names the holder, and pools of ours that another owner took.

use api::{LockHolder, Problem};
use block::DeviceKind;
use control::reopening::Trouble;
use device::{Breaking, Fence, OpenError};
use store::Health;

use super::Management;
use super::pools::UnavailablePool;
use super::problems::{bad_request, conflict};
use crate::data_plane::DataPlane;
use crate::pool::{OpenDevice, Pool};
use crate::pools::PoolId;

impl Management {
    /// Gives up a pool that another owner took: hosts are told to wait, and nothing more is written. The
    /// only controller of an array opens it again only when an administrator asks: registering by itself
    /// would give it write access back beside its successor.
    pub(super) fn check_fence(&mut self, plane: &mut DataPlane, slot: PoolId) {
        let Some(mut pool) = plane.pools.get_mut(slot) else { return };
        pool.look_at_fence();
        let unfenced = unfenced(&pool);
        let (name, by) = (pool.name.clone(), pool.fenced.clone());
        let is_opening = pool.health() == Health::Opening;
        drop(pool);
        for device in unfenced {
            self.tell_unfenced(&name, device);
        }
        let Some(device) = by.filter(|_| !is_opening) else { return };
        if self.closing || self.unavailable.contains_key(&name) {
            return;
        }
        let reason = if self.controller().is_one_of_several() {
            self.warn(&name, format!("was taken by another controller: {device} refuses this one"));
            format!("another controller took {device} from this one, which is standby now")
        } else {
            format!(
                "another owner took {device} from this array, which has stopped writing to it: hosts are \
                 told to wait. 'gantry pool open {name}' opens it when the other one has let go, and \
                 '--break-lock' takes it back"
            )
        };
        self.set_unavailable(&name, UnavailablePool::because(reason), Trouble::Fenced);
    }

    /// A controller of several that was fenced is standby as every other one: the pool is tried
    /// respectfully, after its devices were closed, and they are registered with anew only when nobody
    /// else is.
    pub(super) fn fenced_or_standby(&mut self, pool: &str, trouble: Trouble) -> Trouble {
        if trouble != Trouble::Fenced || !self.controller().is_one_of_several() {
            return trouble;
        }
        self.note_lost(pool);
        Trouble::Held
    }

    /// A device that cannot be reserved is told of once, in the life of the daemon.
    fn tell_unfenced(&mut self, pool: &str, device: String) {
        let message = format!(
            "{device} knows no persistent reservations: a machine that was cut off, or is started by \
             mistake, is not kept from writing to it"
        );
        if self.told.unfenced.insert(device) {
            self.warn(pool, message);
        }
    }

    /// Whether the locks of a pool's devices may be broken that are named.
    ///
    /// # Errors
    /// When somebody is named who holds none of them, as far as was found when it was last tried.
    pub(super) fn check_breaking(&self, pool: &str, holders: &[String]) -> Result<(), Problem> {
        let known = self.unavailable.get(pool).map_or(&[][..], |pool| &pool.lock_holders);
        let is_known = |named: &String| known.iter().any(|one| one.holder.as_ref() == Some(named));
        if holders.iter().any(String::is_empty) {
            return Err(bad_request(
                &"break_locks names holders as the pool's lock_holders do; one without a name holds a \
                 file, whose lock cannot be broken: end that process instead",
            ));
        }
        match holders.iter().find(|named| !is_known(named)) {
            Some(named) => Err(conflict(&format!(
                "'{named}' holds no device of pool '{pool}', as far as was found when it was last \
                 tried: 'gantry pool show {pool}' says who does. Nothing was changed"
            ))),
            None if !holders.is_empty() && self.reopening.is_trying(pool) => {
                Err(conflict(&format!(
                    "pool '{pool}' is just being opened: try again in a moment. Nothing was changed"
                )))
            }
            None => Ok(()),
        }
    }

    /// Notes whose locks are about to be broken.
    pub(super) fn tell_breaking(&mut self, pool: &str, breaking: &Breaking) {
        if !breaking.holders.is_empty() {
            let holders = breaking.holders.join(" and ");
            let message = format!("is taken from {holders}, as an administrator asked");
            self.warn(pool, message);
        }
    }
}

/// Block devices that were to be reserved and cannot be.
fn unfenced(pool: &Pool) -> Vec<String> {
    let is_unfenced = |open: &OpenDevice| {
        open.name.kind() == DeviceKind::Block && open.device.fence() == Fence::ThisMachine
    };
    let open = pool.devices.iter().map(|(_, open)| open);
    let found = open.filter(|open| device::reserves_block_devices() && is_unfenced(open));
    found.map(|open| open.name.to_string()).collect()
}

/// Whether somebody else has the device.
pub(super) fn is_held(error: &OpenError) -> bool {
    matches!(error, OpenError::Held { .. } | OpenError::InUse { .. })
}

/// Who has the device that could not be opened.
pub(super) fn lock_holders(error: &OpenError) -> Vec<LockHolder> {
    let (path, holders) = match error {
        OpenError::Held { path, holders, .. } => (path, holders.as_slice()),
        OpenError::InUse { path, holder, .. } => (path, holder.as_slice()),
        OpenError::Missing(_)
        | OpenError::Exists(_)
        | OpenError::WrongKind { .. }
        | OpenError::TooSmall { .. }
        | OpenError::Os { .. } => return Vec::new(),
    };
    let told = holders.iter().map(|holder| LockHolder {
        device: path.display().to_string(),
        holder: Some(holder.identity.clone()).filter(|identity| !identity.is_empty()),
        place: holder.place.clone(),
    });
    told.collect()
}
