//! Scrubs that are owed: a member of a mirror that was filled, or came back, got what others had
//! without a look at checksums. A scrub of the pool looks at them, and heals what was spoilt.
//!
//! What is owed is derived: membership lists say since which generation each member is current, and
//! of each mirror the array remembers the generation at which the last scrub began that came to its end.

use std::collections::BTreeMap;

use store::{MemberState, MemberStatus, MirrorStatus};

/// Mirrors, and the generation of each one's list up to which all copies were compared.
pub type Covered = Vec<([u8; 16], u64)>;

/// The first list of a mirror that is made: its members got what they have by writes.
pub const FIRST_LIST: u64 = 1;

/// Scrubs under way, and those that an administrator did not want.
#[derive(Clone, Debug, Default)]
pub struct OwedScrubs {
    /// What the scrub under way will have compared, by the pool's name.
    under_way: BTreeMap<String, Covered>,
    /// What is not compared until more is owed or the daemon starts again.
    declined: BTreeMap<String, Covered>,
}

/// What a scrub of a pool with these mirrors compares that begins now.
fn covered(mirrors: &[MirrorStatus]) -> Covered {
    let mirrors = mirrors.iter().filter(|mirror| mirror.is_mirror);
    mirrors.map(|mirror| (mirror.uuid, mirror.generation)).collect()
}

/// Whether a member is current since a list that is newer than this one, and durable.
fn is_newer(mirror: &MirrorStatus, member: &MemberStatus, scrubbed: u64) -> bool {
    let since = scrubbed.max(FIRST_LIST) + 1..=mirror.generation;
    member.state == MemberState::Current && since.contains(&member.since)
}

/// Whether a member of a mirror got what no scrub has compared yet; `scrubbed` is the generation of the
/// mirror's list at which the last scrub began that came to its end, 0 for none.
pub fn is_owed(mirror: &MirrorStatus, scrubbed: u64) -> bool {
    mirror.is_mirror && mirror.members.iter().any(|member| is_newer(mirror, member, scrubbed))
}

impl OwedScrubs {
    /// A scrub of a pool begins.
    pub fn begins(&mut self, pool: &str, mirrors: &[MirrorStatus]) {
        self.under_way.insert(pool.to_owned(), covered(mirrors));
    }

    /// An administrator stops the scrub of a pool, and with it what is owed by now.
    pub fn stopped(&mut self, pool: &str, mirrors: &[MirrorStatus]) {
        self.declined.insert(pool.to_owned(), covered(mirrors));
    }

    /// The scrub of a pool has ended; what is to be remembered of it.
    pub fn ended(&mut self, pool: &str, is_complete: bool) -> Covered {
        self.under_way.remove(pool).filter(|_| is_complete).unwrap_or_default()
    }

    /// Whether an administrator did not want what is owed of a mirror.
    pub fn is_declined(&self, pool: &str, mirror: &MirrorStatus) -> bool {
        !is_owed(mirror, known(self.declined.get(pool), mirror.uuid))
    }

    /// Whether a scrub of a pool is to begin, or to begin anew. `scrubbed` is as for [`is_owed`].
    pub fn is_due(
        &self,
        pool: &str,
        mirrors: &[MirrorStatus],
        scrubbed: impl Fn([u8; 16]) -> u64,
    ) -> bool {
        let is_due = |mirror: &MirrorStatus| {
            let of_two = [&self.under_way, &self.declined].map(|by_pool| by_pool.get(pool));
            let known = of_two.into_iter().map(|covered| known(covered, mirror.uuid)).max();
            is_owed(mirror, scrubbed(mirror.uuid).max(known.unwrap_or_default()))
        };
        mirrors.iter().any(is_due)
    }

    /// Forgets pools that are gone.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.under_way.retain(|pool, _| exists(pool));
        self.declined.retain(|pool, _| exists(pool));
    }
}

fn known(covered: Option<&Covered>, mirror: [u8; 16]) -> u64 {
    let found = covered.and_then(|covered| covered.iter().find(|(uuid, _)| *uuid == mirror));
    found.map_or(0, |(_, generation)| *generation)
}

#[cfg(test)]
mod tests;
