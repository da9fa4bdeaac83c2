//! Witness of mirrors' membership lists: the newest generation of each, kept in the data directory by
//! a thread of its own, so that a member that was left out is never taken for a current one.
//!
//! Hosts wait until a generation is kept. A data directory that fails or hangs is told, and not waited
//! for: what it cannot keep only matters if the members that know it are lost as well.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use anyhow::{Context, Result};
use control::owed_scrubs::FIRST_LIST;
use serde::{Deserialize, Serialize};
use store::Membership;

use crate::data_directory::DataDirectory;
use crate::guard::guarded;
use crate::http::{Mailbox, Message};
use crate::limits::{WITNESS_PATIENCE, WITNESSES_MAX};
use crate::pools::PoolId;

const FILE_NAME: &str = "mirrors.json";

/// What is kept, by the mirror's identifier, hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The newest generations.
    mirrors: BTreeMap<String, u64>,
    /// The generations at which the last scrubs began that came to their end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    scrubbed: BTreeMap<String, u64>,
    /// The pools, by their identifiers, so that nothing is kept of one that is deleted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pools: BTreeMap<String, String>,
}

impl Kept {
    /// Forgets mirrors; says whether one was known.
    fn forget(&mut self, is_forgotten: impl Fn(&str, Option<&str>) -> bool) -> bool {
        let Self { mirrors, scrubbed, pools } = self;
        let count = mirrors.len();
        mirrors.retain(|name, _| !is_forgotten(name, pools.get(name).map(String::as_str)));
        scrubbed.retain(|name, _| mirrors.contains_key(name));
        pools.retain(|name, _| mirrors.contains_key(name));
        mirrors.len() < count
    }
}

/// What is kept, and the thread that keeps it.
pub(crate) struct Witness {
    known: Kept,
    work: Sender<(u64, Kept)>,
    last: u64,
    /// Lists whose generation is not kept yet, with the number of the work that keeps it.
    pending: VecDeque<(u64, PoolId, Membership, Instant)>,
}

impl Witness {
    /// Reads what is kept, and starts the thread. What is damaged is as good as nothing: then members
    /// that are missing are missed.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn open(directory: Arc<DataDirectory>, mailbox: Mailbox) -> Result<Self> {
        let path = directory.path().join(FILE_NAME);
        let known = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                tracing::error!(file = %path.display(), %error, "it is damaged and not used");
                Kept::default()
            }),
            Err(_) => Kept::default(),
        };
        let (work, inbox) = channel();
        std::thread::Builder::new()
            .name("witness".to_owned())
            .spawn(move || keep(&directory, &inbox, &mailbox))
            .context("cannot start a thread")?;
        Ok(Self { known, work, last: 0, pending: VecDeque::new() })
    }

    /// What is known of all mirrors.
    pub(crate) fn known(&self) -> Vec<([u8; 16], u64)> {
        let known = self.known.mirrors.iter();
        known.filter_map(|(name, &generation)| Some((parse(name)?, generation))).collect()
    }

    /// Begins to keep the generation of a list of the pool with that identifier;
    /// [`Message::Witnessed`] tells the end.
    pub(crate) fn keep(&mut self, pool: PoolId, uuid: [u8; 16], membership: Membership) {
        let mirror = name(membership.mirror);
        if self.known.mirrors.len() < WITNESSES_MAX || self.known.mirrors.contains_key(&mirror) {
            self.known.pools.insert(mirror.clone(), name(uuid));
            self.known.mirrors.insert(mirror, membership.generation);
        }
        self.save();
        self.pending.push_back((self.last, pool, membership, Instant::now()));
    }

    fn save(&mut self) {
        self.last += 1;
        self.work.send((self.last, self.known.clone())).expect("the thread lives as long as this");
    }

    /// The generation of a mirror's list at which the last scrub began that came to its end; 0 for none.
    pub(crate) fn scrubbed(&self, mirror: [u8; 16]) -> u64 {
        self.known.scrubbed.get(&name(mirror)).copied().unwrap_or_default()
    }

    /// A scrub has compared the members of mirrors that were current by these generations.
    pub(crate) fn note_scrubbed(&mut self, covered: &[([u8; 16], u64)]) {
        let Kept { mirrors, scrubbed, .. } = &mut self.known;
        let before = scrubbed.clone();
        for (mirror, generation) in covered {
            let mirror = name(*mirror);
            if mirrors.contains_key(&mirror) && *generation > FIRST_LIST {
                scrubbed.insert(mirror, *generation);
            }
        }
        if *scrubbed != before {
            self.save();
        }
    }

    /// Forgets mirrors of pools that this array has no more, whether they were open or not.
    pub(crate) fn retain_pools(&mut self, is_known: impl Fn([u8; 16]) -> bool) {
        let is_gone = |pool: &str| parse(pool).is_none_or(|uuid| !is_known(uuid));
        if self.known.forget(|_, pool| pool.is_some_and(is_gone)) {
            self.save();
        }
    }

    /// Forgets mirrors of a pool that this array has no more. Whoever changes that pool elsewhere makes newer
    /// lists: what is known here must not be taken for the newest when it comes back.
    pub(crate) fn forget(&mut self, mirrors: &[[u8; 16]]) {
        let names: Vec<String> = mirrors.iter().map(|&mirror| name(mirror)).collect();
        if self.known.forget(|mirror, _| names.iter().any(|name| name == mirror)) {
            self.save();
        }
    }

    /// Everything up to this work is kept, or could not be: these lists wait no longer.
    pub(crate) fn kept(&mut self, number: u64) -> Vec<(PoolId, Membership)> {
        let count = self.pending.iter().take_while(|(work, ..)| *work <= number).count();
        self.pending.drain(..count).map(|(_, pool, membership, _)| (pool, membership)).collect()
    }

    /// Lists that waited too long.
    pub(crate) fn late(&mut self, now: Instant) -> Vec<(PoolId, Membership)> {
        let is_late = |since: Instant| now.saturating_duration_since(since) >= WITNESS_PATIENCE;
        let last = self.pending.iter().rev().find(|(.., since)| is_late(*since));
        match last.map(|(number, ..)| *number) {
            Some(number) => self.kept(number),
            None => Vec::new(),
        }
    }
}

/// Keeps the newest of what is to be kept.
fn keep(directory: &DataDirectory, inbox: &Receiver<(u64, Kept)>, mailbox: &Mailbox) {
    while let Ok(first) = inbox.recv() {
        let (number, kept) = inbox.try_iter().last().unwrap_or(first);
        let saved = guarded(|| {
            let text = serde_json::to_vec_pretty(&kept)?;
            directory.replace(FILE_NAME, &text)
        });
        let problem = match saved {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(said) => Some(said),
        };
        mailbox.post(Message::Witnessed { number, problem });
    }
}

fn name(uuid: [u8; 16]) -> String {
    crate::management::hexadecimal(&uuid)
}

fn parse(name: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(name, 16).ok().filter(|_| name.len() == 32)?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_forgotten_with_their_pool_and_with_all_that_is_kept_of_them() {
        let by = |pairs: &[(&str, u64)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), *b)).collect();
        let mut kept = Kept {
            mirrors: by(&[("a", 2), ("b", 3), ("c", 4)]),
            scrubbed: by(&[("a", 2), ("b", 3)]),
            pools: [("a", "p"), ("b", "q")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        };
        assert!(!kept.forget(|_, pool| pool == Some("r")));
        assert!(kept.forget(|_, pool| pool == Some("p")));
        assert_eq!((&kept.mirrors, &kept.scrubbed), (&by(&[("b", 3), ("c", 4)]), &by(&[("b", 3)])));
        assert!(kept.forget(|mirror, _| mirror == "b"));
        assert_eq!(kept, Kept { mirrors: by(&[("c", 4)]), ..Kept::default() });
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(text, r#"{"mirrors":{"c":4}}"#, "as it was before there was more to keep");
        assert_eq!(serde_json::from_str::<Kept>(&text).unwrap(), kept);
    }

    #[test]
    fn names_of_mirrors_are_read_as_they_are_written() {
        for uuid in [[0; 16], [0xff; 16], *b"0123456789abcdef"] {
            assert_eq!(parse(&name(uuid)), Some(uuid));
        }
        for wrong in
            ["", "0", "x0000000000000000000000000000000", "000000000000000000000000000000000"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
