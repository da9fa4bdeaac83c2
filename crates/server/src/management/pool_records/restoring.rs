//! Takes CHAP accounts back from a pool that the data directory has lost, and tells of it.

use api::Severity;
use control::change::Touched;
use control::lost_accounts::{LostAccount, restore};

use super::{Management, open_account};
use crate::data_plane::DataPlane;
use crate::pools::PoolId;

impl Management {
    /// Takes accounts that were found in a pool and that the array should have; what cannot be read
    /// stays as it is in all pools.
    pub(super) fn restore_accounts(
        &mut self,
        plane: &DataPlane,
        pool: PoolId,
        accounts: Vec<LostAccount>,
    ) {
        let mut draft = self.saving.draft();
        // Another one may have been set, or taken from another pool, since the records were read.
        let restored = &mut self.records.restored;
        let is_lost = |account: &LostAccount| account.is_lost(&draft.secrets, restored);
        let accounts: Vec<LostAccount> = accounts.into_iter().filter(is_lost).collect();
        if accounts.is_empty() {
            return;
        }
        restored.extend(accounts.iter().map(|account| (account.key.clone(), account.version)));
        if let Some(kept) = self.records.pools.get_mut(&pool) {
            // They are written when they are saved, as every change is.
            kept.pending.retain(|key, _| accounts.iter().all(|account| account.key != *key));
        }
        let keys = [self.records.key.key.clone()];
        let outcome =
            restore(&accounts, &mut draft, &|key, sealed| open_account(&keys, key, sealed));
        self.accept(draft, Touched::All);
        if !outcome.taken.is_empty() {
            let message = format!(
                "the data directory had lost the CHAP account(s) of {}: they were taken back from the \
                 pool",
                outcome.taken.join(", ")
            );
            self.tell_records(plane, pool, Severity::Warning, &message);
        }
        for (name, why) in outcome.sealed {
            let message = format!(
                "the data directory has lost the CHAP account of {name}, and that in the pool cannot \
                 be read: {why}; its logins are refused until a secret is set"
            );
            self.tell_records(plane, pool, Severity::Error, &message);
        }
    }
}
