//! Feeds the ledger: puts the statistics of commands and requests together, and adds host names.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use block::{Request, RequestStatistics, VolumeId};
use hashbrown::HashMap;
use ledger::{CommandEnded, HostId, Ledger, Primitive, RequestEnded, SpaceSample};

use crate::limits::GONE_NAMES_MAX;
use crate::pool::Pool;
use crate::work::{EndedCommand, Issuer, RequestId, SessionId};

/// The ledger, and what it needs to know of what is under way.
pub(crate) struct LedgerFeed {
    pub(crate) ledger: Ledger,
    /// Whether anything is counted.
    pub(crate) enabled: bool,
    /// When time began, seconds since 1970.
    started: f64,
    hosts: HashMap<SessionId, HostId>,
    /// Requests under way of commands whose list says where they work.
    lists: HashMap<RequestId, Asked>,
    /// POOL/NAME of volumes that were deleted, for what is told of the past.
    gone: HashMap<VolumeId, String>,
    /// The same volumes, in the order in which they went.
    gone_in_order: VecDeque<VolumeId>,
}

/// Volumes and bytes that such a request names.
struct Asked {
    volume: VolumeId,
    source: Option<VolumeId>,
    bytes: u64,
}

impl LedgerFeed {
    pub(crate) fn new(enabled: bool) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            ledger: Ledger::default(),
            enabled,
            started: started.map_or(0.0, |since| since.as_secs_f64()),
            hosts: HashMap::new(),
            lists: HashMap::new(),
            gone: HashMap::new(),
            gone_in_order: VecDeque::new(),
        }
    }

    /// Keeps the name of a volume that is being deleted; the one that went first makes room.
    pub(crate) fn keep_name(&mut self, volume: VolumeId, name: String) {
        if self.gone.insert(volume, name).is_none() {
            self.gone_in_order.push_back(volume);
        }
        if self.gone_in_order.len() > GONE_NAMES_MAX {
            let first = self.gone_in_order.pop_front();
            first.map(|first| self.gone.remove(&first));
        }
    }

    /// Volumes that were deleted.
    pub(crate) const fn gone(&self) -> &HashMap<VolumeId, String> {
        &self.gone
    }

    /// A moment of the ledger in seconds since 1970.
    pub(crate) fn seconds(&self, at: Duration) -> f64 {
        self.started + at.as_secs_f64()
    }

    pub(crate) fn open_session(&mut self, session: SessionId, host: &str) {
        let host = self.ledger.host(host);
        self.hosts.insert(session, host);
    }

    pub(crate) fn close_session(&mut self, session: SessionId) {
        self.hosts.remove(&session);
    }

    /// A request goes to the engine.
    pub(crate) fn submitted(&mut self, id: RequestId, volume: VolumeId, request: &Request) {
        let (source, bytes) = match request {
            Request::Copy { source, length, .. } => (Some(*source), *length),
            Request::Unmap { ranges } => (None, ranges.iter().map(|range| range.length).sum()),
            _ => return,
        };
        if self.enabled {
            self.lists.insert(id, Asked { volume, source, bytes });
        }
    }

    /// The engine answered a request of a command.
    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        issuer: Option<Issuer>,
        done: bool,
        statistics: &RequestStatistics,
    ) {
        if !self.enabled {
            return;
        }
        let asked = self.lists.remove(&id);
        let Some(issuer) = issuer else { return };
        let Some(&host) = self.hosts.get(&issuer.session) else { return };
        let primitive = issuer.primitive;
        // Where the data of tokens rests is nobody's business.
        let listed = asked.as_ref().filter(|_| primitive != Primitive::Token);
        let Some(volume) = listed.map(|asked| asked.volume).or(issuer.volume) else { return };
        self.ledger.request(&RequestEnded {
            host,
            primitive,
            volume,
            source: listed.and_then(|asked| asked.source),
            asked_bytes: asked.map_or(0, |asked| asked.bytes),
            done,
            statistics,
        });
    }

    /// A command ended with a status.
    pub(crate) fn ended(&mut self, command: &EndedCommand) {
        let Some(&host) = self.hosts.get(&command.session).filter(|_| self.enabled) else { return };
        let EndedCommand { volume, name, primitive, lba, bytes, took, outcome, .. } = *command;
        self.ledger.command(&CommandEnded {
            host,
            volume,
            name,
            primitive,
            lba,
            bytes,
            took,
            outcome,
        });
    }

    /// Time passes.
    pub(crate) fn tick<'a>(&mut self, now: Duration, pools: impl Iterator<Item = &'a Pool>) {
        if self.enabled {
            self.ledger.tick(now, || {
                pools.map(|pool| (pool.name.clone(), space(pool))).collect::<BTreeMap<_, _>>()
            });
        }
    }
}

fn space(pool: &Pool) -> SpaceSample {
    let space = pool.space();
    SpaceSample {
        used: space.used as f64,
        pending: space.pending as f64,
        reserve: space.reserve as f64,
        free: space.free as f64,
        shared: space.shared as f64,
        total: space.total as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_deleted_volumes_have_a_bound_and_the_first_to_go_makes_room() {
        let mut feed = LedgerFeed::new(true);
        for number in (0..=GONE_NAMES_MAX as u64).rev() {
            feed.keep_name(VolumeId(number), format!("p/{number}"));
            feed.keep_name(VolumeId(number), format!("p/{number} again"));
        }
        assert_eq!(feed.gone().len(), GONE_NAMES_MAX);
        assert!(!feed.gone().contains_key(&VolumeId(GONE_NAMES_MAX as u64)));
        assert_eq!(feed.gone()[&VolumeId(0)], "p/0 again");
    }
}
