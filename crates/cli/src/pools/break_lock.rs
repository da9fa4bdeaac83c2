//! `gantry pool open POOL --break-lock`: says whose locks they are and what becomes of the holders, and
//! breaks those that were shown.

use anyhow::{Result, bail};
use api::{LockHolder, Pool, ResumePool};
use reqwest::Method;

use super::pool_route;
use crate::commands::Invocation;

impl Invocation {
    /// Without `yes` nothing is broken. Who holds a pool that its array has given up is not known until
    /// it was tried, so it is tried first, with respect to every lock.
    pub(super) fn break_locks(&self, name: &str, degraded: bool, yes: bool) -> Result<()> {
        let route = pool_route(name)?;
        let resume = format!("{route}/resume");
        let mut pool: Pool = self.client.get(&route)?;
        if pool.state == "unavailable" && pool.lock_holders.is_empty() {
            let body = ResumePool { degraded, ..ResumePool::default() };
            let tried = self.client.send::<Pool>(Method::POST, &resume, &body);
            pool = self.client.get(&route)?;
            if pool.lock_holders.is_empty() {
                return self.tell(&tried?, |pool| {
                    format!("Pool {} is {}: nobody held it.", pool.name, pool.state)
                });
            }
        }
        let holders: Vec<&LockHolder> = pool.lock_holders.iter().collect();
        if holders.is_empty() {
            bail!(
                "nobody else holds pool {name}, which is {}: there is no lock to break",
                pool.state
            );
        }
        if let Some(fixed) = holders.iter().find(|holder| holder.holder.is_none()) {
            bail!(
                "{} is held by {}, whose lock cannot be broken: end that first. Nothing was changed",
                fixed.device,
                fixed.place.as_deref().unwrap_or("somebody whom the device does not name")
            );
        }
        if !yes {
            return self.tell(&pool, |pool| warning(&pool.lock_holders));
        }
        let mut break_locks: Vec<String> =
            holders.into_iter().filter_map(|holder| holder.holder.clone()).collect();
        break_locks.sort();
        break_locks.dedup();
        let body = ResumePool { degraded, break_locks, ..ResumePool::default() };
        self.changed::<Pool>(Method::POST, &resume, &body, |pool| {
            format!(
                "Pool {} is {}. Its former holders can write to it no more.",
                pool.name, pool.state
            )
        })
    }
}

fn warning(holders: &[LockHolder]) -> String {
    let each: Vec<String> = holders.iter().map(line).collect();
    format!(
        "Nothing was changed.\n{}\nWhoever of them is still alive can write to the pool no more from then \
         on: what it has not answered is lost to its hosts, and it stops serving the pool. Say \
         --break-lock --yes to take the pool from them.",
        each.join("\n")
    )
}

fn line(holder: &LockHolder) -> String {
    let name = holder.holder.as_deref().unwrap_or_default();
    let place = holder.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
    format!("{} is locked by {name}{place}.", holder.device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_named_with_their_place_before_anything_is_broken() {
        let holder = |place: Option<&str>| LockHolder {
            device: "/dev/sdb".to_owned(),
            holder: Some("key 0x0000000000000007".to_owned()),
            place: place.map(str::to_owned),
        };
        let said = warning(&[holder(Some("iqn.2026-01.org.example:a")), holder(None)]);
        assert!(said.starts_with("Nothing was changed."), "{said}");
        let first = "/dev/sdb is locked by key 0x0000000000000007 (iqn.2026-01.org.example:a).\n";
        assert!(said.contains(first), "{said}");
        assert!(said.contains("0007.\nWhoever"), "{said}");
    }
}
