//! CHAP accounts that the data directory has lost and that pools still keep, sealed: taken back when a
//! pool's records are read, before anything is written over them.
//!
//! The configuration says which hosts and whether discovery prove who they are; the accounts themselves
//! are in a file of their own. If only that file is lost, a record is not newer than the
//! configuration, but it knows what the array does not.

use std::collections::BTreeMap;

use array::{Configuration, Record, RecordKey, Secrets};

use crate::change::Draft;
use crate::pool_import::{Account, OpenAccount};
use crate::pool_records::Found;

/// An account in a record of a pool that the array does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostAccount {
    /// Whose it is.
    pub key: RecordKey,
    /// The version of the configuration that the record is of.
    pub version: u64,
    /// The account, sealed.
    pub sealed: String,
}

/// What became of lost accounts, by names of hosts or 'discovery'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Those that the array has again.
    pub taken: Vec<String>,
    /// Those that stay sealed in the pool, and why.
    pub sealed: Vec<(String, &'static str)>,
}

/// Accounts in the records of a pool that the array should have and has not. `restored` are those that
/// were taken from other pools since the start, with their versions: a later one counts.
pub fn lost(
    records: &BTreeMap<RecordKey, Found>,
    (array, secrets): (&Configuration, &Secrets),
    restored: &BTreeMap<RecordKey, u64>,
) -> Vec<LostAccount> {
    let lost = records.iter().filter_map(|(key, found)| {
        let sealed = sealed_in(found, key, array)?.to_owned();
        let account = LostAccount { key: key.clone(), version: found.version, sealed };
        account.is_lost(secrets, restored).then_some(account)
    });
    lost.collect()
}

impl LostAccount {
    /// Whether the array does not have it, nor one that was taken from a later record.
    pub fn is_lost(&self, secrets: &Secrets, restored: &BTreeMap<RecordKey, u64>) -> bool {
        match restored.get(&self.key) {
            Some(version) => self.version > *version,
            None => secrets.account(&self.key).is_none(),
        }
    }
}

/// The account in a record, if the configuration says the same about it but for the secret.
fn sealed_in<'a>(found: &'a Found, key: &RecordKey, array: &Configuration) -> Option<&'a str> {
    match (key, found.record.as_ref()?) {
        (RecordKey::Host(name), Record::Host(record)) => {
            let here = array.hosts.get(name)?;
            let is_same = here.chap_name.is_some() && here.chap_name == record.host.chap_name;
            record.chap.as_deref().filter(|_| is_same)
        }
        (RecordKey::Array, Record::Array(record)) => {
            let here = &array.discovery_chap_name;
            let is_same = here.is_some() && *here == record.discovery_chap_name;
            record.discovery_chap.as_deref().filter(|_| is_same)
        }
        _ => None,
    }
}

/// Takes lost accounts into a draft; those that cannot be read are kept sealed, so that pools keep them.
pub fn restore(accounts: &[LostAccount], draft: &mut Draft, open: OpenAccount<'_>) -> Restored {
    let mut restored = Restored::default();
    for LostAccount { key, sealed, .. } in accounts {
        let opened = open(key, sealed);
        let secrets = &mut draft.secrets;
        let name = match (key, &opened) {
            (RecordKey::Host(name), Account::Known(chap)) => {
                secrets.sealed.remove(name);
                secrets.hosts.insert(name.clone(), chap.clone());
                format!("host {name}")
            }
            (RecordKey::Host(name), Account::Unknown(_)) => {
                secrets.sealed.insert(name.clone(), sealed.clone());
                format!("host {name}")
            }
            (_, Account::Known(chap)) => {
                secrets.sealed_discovery = None;
                secrets.discovery = Some(chap.clone());
                "discovery".to_owned()
            }
            (_, Account::Unknown(_)) => {
                secrets.sealed_discovery = Some(sealed.clone());
                "discovery".to_owned()
            }
        };
        match opened {
            Account::Known(_) => restored.taken.push(name),
            Account::Unknown(why) => restored.sealed.push((name, why)),
        }
    }
    restored
}

#[cfg(test)]
mod tests;
