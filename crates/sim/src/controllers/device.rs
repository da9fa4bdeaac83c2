//! Device that several controllers reach: who may write to it, and whom it has fenced.

use std::collections::{BTreeMap, BTreeSet};

use block::{BLOCK, DeviceError, DeviceOperation, DeviceResult};

use crate::disk::SimDisk;
use crate::random::Random;

/// Where the owner's heartbeat is (docs/format.md).
pub(super) const OWNER_BEAT_OFFSET: u64 = 12 * BLOCK;

/// One opening of the pool's devices by a controller, as the devices name it.
pub(super) type Client = u64;

/// What a device answered, and to whom.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) client: Client,
    pub(super) io: u64,
    pub(super) result: DeviceResult,
}

/// The device.
pub(super) struct SharedDevice {
    disk: SimDisk,
    /// Whoever may write; more than one only if somebody fences wrongly.
    writers: BTreeSet<Client>,
    fenced: BTreeSet<Client>,
    /// Whether it refuses reads of those whom it has fenced, as Ceph does; block devices still read.
    refuses_reads: bool,
    /// By the disk's token.
    under_way: BTreeMap<u64, (Client, u64, bool)>,
    next_token: u64,
    random: Random,
}

impl SharedDevice {
    /// A device of zeros that nobody holds.
    pub(super) fn new(bytes: u64, refuses_reads: bool, random: &mut Random) -> Self {
        Self {
            disk: SimDisk::new(bytes, random.fork()),
            writers: BTreeSet::new(),
            fenced: BTreeSet::new(),
            refuses_reads,
            under_way: BTreeMap::new(),
            next_token: 0,
            random: random.fork(),
        }
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.disk.size()
    }

    /// Lets one operation in so many take seconds.
    pub(super) fn set_stalls(&mut self, one_in: u64) {
        self.disk.set_stalls(one_in);
    }

    /// Who holds it, if that is one.
    pub(super) fn holder(&self) -> Option<Client> {
        self.writers.first().copied().filter(|_| self.writers.len() == 1)
    }

    /// Whether nobody holds it.
    pub(super) fn is_free(&self) -> bool {
        self.writers.is_empty()
    }

    /// Whether a client may write.
    pub(super) fn admits(&self, client: Client) -> bool {
        self.writers.contains(&client)
    }

    /// Lets a client write, besides those who may.
    pub(super) fn admit(&mut self, client: Client) {
        self.writers.insert(client);
    }

    /// The client lets go; what it has under way ends first.
    pub(super) fn release(&mut self, client: Client) {
        self.end_all_of(client, false);
        self.writers.remove(&client);
    }

    /// From now on nothing that the client writes has an effect. Of what it has under way some was done just
    /// before.
    pub(super) fn fence(&mut self, client: Client) {
        self.end_all_of(client, true);
        self.writers.remove(&client);
        self.fenced.insert(client);
    }

    /// A fence that does not last.
    pub(super) fn forget_fences(&mut self) {
        self.writers.append(&mut self.fenced);
    }

    fn end_all_of(&mut self, client: Client, refuses: bool) {
        let writes =
            self.under_way.iter().filter(|(_, (owner, _, writes))| *owner == client && *writes);
        let tokens: Vec<u64> = writes.map(|(token, _)| *token).collect();
        for token in tokens {
            let refusal = (refuses && self.random.percent(50)).then_some(DeviceError::Fenced);
            self.disk.end_now(token, refusal);
        }
    }

    /// The block of the owner's heartbeat.
    pub(super) fn beat_block(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK as usize];
        self.disk.read_current(OWNER_BEAT_OFFSET, &mut block);
        block
    }

    /// Takes an operation; answers it at once if it has no effect.
    pub(super) fn submit(
        &mut self,
        now: u64,
        (client, io): (Client, u64),
        operation: DeviceOperation,
    ) -> Option<Reply> {
        let may_write = self.admits(client);
        let refusal = match &operation {
            DeviceOperation::Write { .. } | DeviceOperation::Reserve { .. } if !may_write => {
                Some(Err(DeviceError::Fenced))
            }
            DeviceOperation::Read { .. } if !may_write && self.refuses_reads => {
                Some(Err(DeviceError::Fenced))
            }
            // A fenced client's flush is answered well.
            DeviceOperation::Flush if !may_write => Some(Ok(None)),
            DeviceOperation::Read { .. }
            | DeviceOperation::Write { .. }
            | DeviceOperation::Flush
            | DeviceOperation::Reserve { .. } => None,
        };
        if let Some(result) = refusal {
            return Some(Reply { client, io, result });
        }
        let token = self.next_token;
        self.next_token += 1;
        let writes = !matches!(operation, DeviceOperation::Read { .. });
        self.under_way.insert(token, (client, io, writes));
        self.disk.submit(now, token, operation);
        None
    }

    /// When the next operation ends.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.disk.next_time()
    }

    /// Ends the next operation.
    pub(super) fn complete_next(&mut self) -> Option<Reply> {
        let done = self.disk.complete_next()?;
        let (client, io, _) = self.under_way.remove(&done.token)?;
        Some(Reply { client, io, result: done.result })
    }
}
