//! Events about files of devices that were moved, removed or cut short while a pool uses them.

use device::Presence;

use super::Management;
use crate::data_plane::DataPlane;
use crate::pool::files::FileNews;
use crate::pools::PoolId;

impl Management {
    /// Tells what became of the files of a pool's devices since it was last asked.
    pub(super) fn check_files(&mut self, plane: &mut DataPlane, id: PoolId) {
        let Some(mut pool) = plane.pools.get_mut(id) else { return };
        let (name, news) = (pool.name.clone(), pool.file_news());
        drop(pool);
        for one in &news {
            self.tell_file(&name, one);
        }
    }

    fn tell_file(&mut self, pool: &str, news: &FileNews) {
        let device = &news.device;
        match (news.presence, news.is_left_out) {
            (Presence::There, _) => self.inform(pool, format!("{device} is at its place again")),
            (Presence::Moved, _) => self.warn(
                pool,
                format!(
                    "{device} was moved while it is in use: hosts are served on, but the next start \
                     will not find it; move it back"
                ),
            ),
            (Presence::Removed, true) => {
                self.alarm(pool, format!("{device} was removed while it was in use"));
            }
            (Presence::CutShort, true) => {
                self.alarm(pool, format!("{device} was cut short while it was in use"));
            }
            (Presence::Removed, false) => self.alarm(
                pool,
                format!(
                    "{device} was removed while it is in use: its content is lost when the daemon \
                     stops. Make another copy before that, for example with 'gantry pool attach'"
                ),
            ),
            // Told of the pool, which stops.
            (Presence::Fenced, _) => {}
            (Presence::CutShort, false) => self.alarm(
                pool,
                format!(
                    "{device} was cut short while it is in use: what lay beyond its end is lost, and \
                     no other copy is current"
                ),
            ),
        }
    }
}
