//! Compares the records of a pool with the configuration and the states of logical units, in a thread
//! of its own; seals accounts in records, and opens them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Problem;
use array::{Configuration, HeldAccount, RecordKey, Secrets};
use block::VolumeId;
use control::lost_accounts::{LostAccount, lost};
use control::pool_import::Account;
use control::pool_records::{Differences, Loaded, Slots, compare, unit_text};
use hashbrown::HashSet;

use crate::pools::PoolId;
use crate::recovery_key::{RecoveryKey, Unopened};
use crate::unit_states::{DurableState, UnitReader};

/// Records that another thread compares with the configuration.
pub(in crate::management) struct Comparing {
    pub(super) pool: PoolId,
    pub(super) name: String,
    pub(super) blocks: Vec<(u64, Vec<u8>)>,
    pub(super) array: Arc<Configuration>,
    pub(super) sealer: Sealer,
    pub(super) volumes: HashSet<VolumeId>,
    pub(super) units: UnitReader,
    /// Accounts that were taken back from pools, and the versions of their records.
    pub(super) restored: BTreeMap<RecordKey, u64>,
}

/// What came of that.
pub(in crate::management) struct Compared {
    pub(super) pool: PoolId,
    pub(super) found: Result<Box<FoundRecords>, Problem>,
}

pub(in crate::management) struct FoundRecords {
    pub(super) loaded: Loaded,
    pub(super) differences: Differences,
    /// States of logical units that are not as the data directory has them.
    pub(super) units: Vec<(RecordKey, Option<String>)>,
    /// Accounts that the array should have and has not.
    pub(super) accounts: Vec<LostAccount>,
}

/// Seals and opens accounts.
#[derive(Clone)]
pub(in crate::management) struct Sealer {
    pub(in crate::management) secrets: Arc<Secrets>,
    pub(in crate::management) key: RecoveryKey,
}

impl Sealer {
    /// The account of a record, sealed; one that came sealed and could not be read stays as it is.
    pub(in crate::management) fn seal(&self, key: &RecordKey) -> Option<String> {
        match self.secrets.account(key)? {
            HeldAccount::Known(chap) => self.key.seal(key, chap),
            HeldAccount::Sealed(sealed) => Some(sealed.to_owned()),
        }
    }
}

/// Reads an account with the first of some keys that fits.
pub(in crate::management) fn open_account(
    keys: &[RecoveryKey],
    record: &RecordKey,
    sealed: &str,
) -> Account {
    let mut why = "it is sealed with a recovery key that was not given";
    for key in keys {
        match key.open(record, sealed) {
            Ok(chap) => return Account::Known(chap),
            Err(Unopened::Damaged) => why = "its record was changed, and is not trusted",
            Err(Unopened::OtherKey) => {}
        }
    }
    Account::Unknown(why)
}

impl Comparing {
    pub(in crate::management) fn run(self) -> Compared {
        let Self { pool, name, blocks, array, sealer, volumes, units, restored } = self;
        let loaded = Slots::load(blocks.iter().map(|(number, block)| (*number, block.as_slice())));
        let holds = |id| volumes.contains(&id);
        let mut differences = compare(&loaded, (&array, &name), holds, &|key| sealer.seal(key));
        let accounts = lost(&loaded.records, (&array, &sealer.secrets), &restored);
        // They are written when they are back: until then the pool is the only one to have them.
        differences.stale.retain(|key| accounts.iter().all(|account| account.key != *key));
        let mut changed = Vec::new();
        let recorded = loaded.slots.keys().filter_map(|key| match key {
            RecordKey::Unit(id) => Some(VolumeId(*id)),
            _ => None,
        });
        let known: BTreeSet<VolumeId> =
            recorded.chain(units.kept().filter(|id| volumes.contains(id))).collect();
        for id in known {
            let key = RecordKey::Unit(id.0);
            let text = match units.read(id) {
                Ok(state) => state.filter(|_| holds(id)).and_then(|state| unit_record(id, &state)),
                // What is damaged is told when the volume is served; its record is as it was.
                Err(_) => continue,
            };
            if !loaded.slots.is_current(&key, text.as_deref()) {
                changed.push((key, text));
            }
        }
        let found = FoundRecords { loaded, differences, units: changed, accounts };
        Compared { pool, found: Ok(Box::new(found)) }
    }

    /// What is told if it cannot be done.
    pub(in crate::management) fn failed(&self) -> impl FnOnce(Problem) -> Compared + Send + use<> {
        let pool = self.pool;
        move |problem| Compared { pool, found: Err(problem) }
    }
}

/// The record of what a logical unit keeps; `None` for nothing.
pub(super) fn unit_record(volume: VolumeId, state: &DurableState) -> Option<String> {
    let text = serde_json::to_string(state).ok().filter(|_| !state.is_empty())?;
    Some(unit_text(volume, text))
}
