//! Initial placement in a datastore cluster: of datastores that the machine fits on, the one that
//! then has the largest share of its space free.

use anyhow::{Result, bail, ensure};

use crate::esxi::datastore;
use crate::esxi::state::Host;

/// Datastores of a cluster at most, as vCenter has it.
const DATASTORES_MAX: usize = 64;

/// Chooses the datastore for a machine that takes so many bytes at once.
///
/// # Errors
/// When a datastore cannot be mounted, or the machine fits on none.
pub fn place(host: &mut Host, cluster: &[String], bytes: u64) -> Result<String> {
    ensure!(!cluster.is_empty() && cluster.len() <= DATASTORES_MAX, "1 to 64 datastores");
    let mut spaces = Vec::new();
    for name in cluster {
        let mut store = datastore::mount(host, name)?;
        let space = store.volume.space();
        store.finish(host)?;
        let space = space?;
        spaces.push((space.free_bytes, space.total_bytes));
    }
    match choose(&spaces, bytes) {
        Some(number) => Ok(cluster[number].clone()),
        None => bail!("no datastore of the cluster has {bytes} bytes free"),
    }
}

/// The number of the best of some spaces, free and all; the first of those that are alike.
pub(crate) fn choose(spaces: &[(u64, u64)], bytes: u64) -> Option<usize> {
    let left = |(free, all): (u64, u64)| (free - bytes) as f64 / all.max(1) as f64;
    let fitting = spaces.iter().copied().enumerate().filter(|(_, (free, _))| *free >= bytes);
    fitting
        .reduce(|best, next| if left(next.1) > left(best.1) { next } else { best })
        .map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn a_machine_goes_where_the_largest_share_stays_free() {
        assert_eq!(choose(&[(50, 100), (60, 100), (60, 100)], 10), Some(1));
        // The larger one has more space, the smaller one a larger share of it.
        assert_eq!(choose(&[(400, 1000), (90, 100)], 10), Some(1));
        assert_eq!(choose(&[(400, 1000), (90, 100)], 80), Some(0));
        assert_eq!(choose(&[(5, 100), (9, 10)], 10), None);
        assert_eq!(choose(&[(10, 10)], 10), Some(0));
        assert_eq!(choose(&[], 0), None);
    }
}
