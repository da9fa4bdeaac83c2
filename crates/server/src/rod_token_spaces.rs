//! Hidden volume of each pool for the data of ROD tokens. Tokens do not outlive the daemon, so a
//! volume of this kind that is found in a pool at the start is deleted.

use block::VolumeId;
use store::{Change, Failure, Outcome, VolumeSpec};

use crate::data_directory::random_u64;
use crate::data_plane::{DataPlane, Ticket};
use crate::exports::{ExportEvent, RodTokenSpace};
use crate::pools::PoolId;

/// Begins the names of hidden volumes; no name that an administrator gives does.
const HIDDEN: &str = ".";

/// Size of a token space; it occupies what tokens hold.
const SPACE_BYTES: u64 = 16 << 40;

/// The daemon's own volumes in a pool.
pub(crate) fn hidden(store: &store::Store) -> impl Iterator<Item = &store::Volume> {
    store.volumes_named_from(HIDDEN)
}

/// Whether a volume is one of the daemon's own, which nobody is shown.
pub(crate) fn is_hidden(volume: &store::Volume) -> bool {
    volume.spec.name.starts_with(HIDDEN)
}

impl DataPlane {
    /// Deletes what an earlier life of the daemon left in a pool.
    pub(crate) fn delete_old_rod_token_spaces(&mut self, pool: PoolId) {
        let Some(served) = self.pools.get(pool) else { return };
        let hidden = served.store.volumes().filter(|volume| is_hidden(volume));
        let hidden: Vec<VolumeId> = hidden.map(|volume| volume.spec.id).collect();
        for id in hidden {
            self.begin(pool, Change::DeleteVolume(id));
        }
    }

    /// Gives a volume that is served from now on the token space of its pool, now or as soon as
    /// there is one.
    pub(crate) fn give_rod_token_space(&mut self, volume: VolumeId, pool: PoolId) {
        let Some(served) = self.pools.get(pool) else { return };
        match (served.rod_token_space, served.coming_rod_token_space) {
            (Some(space), _) => self.exports.tell(&ExportEvent::RodTokenSpace(volume, space)),
            (None, Some(_)) => {}
            (None, None) => self.begin_rod_token_space(pool),
        }
    }

    fn begin_rod_token_space(&mut self, pool: PoolId) {
        let Ok(id) = random_u64().map(VolumeId) else { return };
        let spec = VolumeSpec {
            id,
            name: format!("{HIDDEN}tokens-{:016x}", id.0),
            size_bytes: SPACE_BYTES,
            thick: false,
            naa: array::naa_identifier(id),
            snapshot: false,
            created: 0,
        };
        let Some(ticket) = self.begin(pool, Change::CreateVolume(spec)) else { return };
        if let Some(mut pool) = self.pools.get_mut(pool) {
            let space = RodTokenSpace { volume: id, size_bytes: SPACE_BYTES };
            pool.coming_rod_token_space = Some((ticket, space));
        }
    }

    /// Takes the outcome of management work if it is a token space that was to be made; gives any
    /// other back.
    pub(crate) fn take_rod_token_space(
        &mut self,
        (ticket, result): (Ticket, Result<Outcome, Failure>),
    ) -> Option<(Ticket, Result<Outcome, Failure>)> {
        let coming = self.pools.iter_mut().find_map(|(number, pool)| {
            let is_this = pool.coming_rod_token_space.is_some_and(|(coming, _)| coming == ticket);
            is_this.then(|| (number, pool.coming_rod_token_space.take()))
        });
        let Some((pool, Some((_, space)))) = coming else { return Some((ticket, result)) };
        match result {
            Ok(_) => self.use_rod_token_space(pool, space),
            Err(failure) => {
                let pool = self.pools.get(pool).map_or("", |pool| &pool.name);
                tracing::warn!(pool, %failure, "no tokens can be made of volumes of this pool");
            }
        }
        None
    }

    fn use_rod_token_space(&mut self, pool: PoolId, space: RodTokenSpace) {
        let Some(mut changing) = self.pools.get_mut(pool) else { return };
        changing.rod_token_space = Some(space);
        drop(changing);
        let served: Vec<VolumeId> = self.volumes_of(pool).collect();
        for volume in served {
            self.exports.tell(&ExportEvent::RodTokenSpace(volume, space));
        }
        self.route(space.volume, pool);
    }
}
