//! Interned host names: each host has a small number as long as the ledger lives, and those beyond
//! the limit share one.

use hashbrown::HashMap;

use crate::limits::HOSTS_MAX;

/// A host, by a small number that stays the same as long as the ledger lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// The one that stands for all beyond [`HOSTS_MAX`].
const OTHERS: HostId = HostId(0);

/// All hosts that were ever seen.
#[derive(Debug)]
pub(crate) struct Hosts {
    names: Vec<String>,
    ids: HashMap<String, HostId>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { names: vec!["others".to_owned()], ids: HashMap::new() }
    }
}

impl Hosts {
    /// The number of a host; a new one if it was never seen.
    pub(crate) fn id(&mut self, name: &str) -> HostId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        if self.names.len() > HOSTS_MAX {
            return OTHERS;
        }
        let id = HostId(self.names.len() as u32);
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    pub(crate) fn find(&self, name: &str) -> Option<HostId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn name(&self, id: HostId) -> &str {
        self.names.get(id.0 as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_keeps_its_number_and_those_beyond_the_limit_share_one() {
        let mut hosts = Hosts::default();
        let first = hosts.id("a");
        assert_eq!((hosts.id("a"), hosts.name(first)), (first, "a"));
        for number in 0..HOSTS_MAX {
            hosts.id(&format!("h{number}"));
        }
        assert_eq!(hosts.id("one too many"), OTHERS);
        assert_eq!((hosts.id("a"), hosts.find("none")), (first, None));
        assert_eq!(hosts.names.len(), HOSTS_MAX + 1);
    }
}
