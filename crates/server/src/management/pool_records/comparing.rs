//! Compares the records of a pool with the configuration and the states of logical units, in a thread
//! of its own; seals accounts in records, and opens them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Problem;
use array::{Configuration, HeldAccount, Record, RecordKey, Secrets};
use block::VolumeId;
use control::lost_accounts::{LostAccount, lost};
use control::pool_import::Account;
use control::pool_records::{Authority, Differences, Known, Loaded, Slots, compare, unit_text};
use hashbrown::HashSet;

use crate::management::problems::internal;
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
    /// Versions of what all pools record, as far as they are known here already.
    pub(super) known: BTreeMap<RecordKey, Known>,
    /// The number of this controller.
    pub(super) controller: u16,
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
    /// What another controller stored of logical units, if it was the last that had the pool open: it
    /// is in the data directory, too, now.
    pub(super) taken_units: Vec<(VolumeId, DurableState)>,
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
        let pool = self.pool;
        Compared { pool, found: self.compare().map(Box::new) }
    }

    fn compare(self) -> Result<FoundRecords, Problem> {
        let blocks = self.blocks.iter().map(|(number, block)| (*number, block.as_slice()));
        let loaded = Slots::load(blocks);
        let authority = Authority::over(&loaded.records, self.controller);
        let holds = |id| self.volumes.contains(&id);
        let (array, name) = (&*self.array, self.name.as_str());
        let mut differences =
            compare(&loaded, (array, name, authority), (holds, &self.known), &|key| {
                self.sealer.seal(key)
            });
        let secrets = (array, &*self.sealer.secrets);
        let accounts = lost(&loaded.records, secrets, &self.restored);
        // They are written when they are back: until then the pool is the only one to have them.
        differences.stale.retain(|key| accounts.iter().all(|account| account.key != *key));
        let (units, taken_units) = match authority {
            Authority::Configuration => (self.changed_units(&loaded), Vec::new()),
            Authority::Pool => (Vec::new(), self.take_units(&loaded)?),
        };
        Ok(FoundRecords { loaded, differences, units, accounts, taken_units })
    }

    /// States of logical units that are not as the data directory has them.
    fn changed_units(&self, loaded: &Loaded) -> Vec<(RecordKey, Option<String>)> {
        let mut changed = Vec::new();
        let recorded = loaded.slots.keys().filter_map(|key| match key {
            RecordKey::Unit(id) => Some(VolumeId(*id)),
            _ => None,
        });
        let kept = self.units.kept().filter(|id| self.volumes.contains(id));
        let known: BTreeSet<VolumeId> = recorded.chain(kept).collect();
        for id in known {
            let key = RecordKey::Unit(id.0);
            let state = match self.units.read(id) {
                Ok(state) => state.filter(|_| self.volumes.contains(&id)),
                // What is damaged is told when the volume is served; its record is as it was.
                Err(_) => continue,
            };
            let text = state.and_then(|state| unit_record(id, &state));
            if !loaded.slots.is_current(&key, text.as_deref()) {
                changed.push((key, text));
            }
        }
        changed
    }

    /// Puts the states of all logical units into the data directory as the pool has them.
    fn take_units(&self, loaded: &Loaded) -> Result<Vec<(VolumeId, DurableState)>, Problem> {
        let mut taken = Vec::new();
        for &id in &self.volumes {
            let found = loaded.records.get(&RecordKey::Unit(id.0));
            let state: DurableState = match found.and_then(|found| found.record.as_ref()) {
                Some(Record::Unit(text)) => {
                    serde_json::from_str(text).map_err(|error| internal(&error))?
                }
                Some(_) | None => DurableState::default(),
            };
            let is_known =
                self.units.read(id).is_ok_and(|known| known.unwrap_or_default() == state);
            if !is_known {
                self.units.put(id, &state).map_err(|error| internal(&error))?;
            }
            taken.push((id, state));
        }
        Ok(taken)
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
