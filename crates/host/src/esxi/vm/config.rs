//! Files of names and values, as `.vmx` and `.vmsd` are: `name = "value"`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use vmfs::{Error, LockMode};

use crate::esxi::datastore::Datastore;

/// Bytes of such a file at most; a longer one is refused.
const LENGTH_MAX: u64 = 1 << 20;

/// Names with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config(BTreeMap<String, String>);

impl Config {
    /// One that says in which letters it is written.
    pub fn new() -> Self {
        let mut config = Self::default();
        config.set(".encoding", "UTF-8");
        config
    }

    /// Reads the text of a file; lines that are no assignments are left out.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (name, value) = line.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// The text.
    pub fn emit(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name} = \"{value}\"\n")).collect()
    }

    /// A value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets a value.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Removes all names that begin so.
    pub fn remove(&mut self, prefix: &str) {
        self.0.retain(|name, _| !name.starts_with(prefix));
    }

    /// Reads one from a datastore.
    ///
    /// # Errors
    /// When there is none, or another host has it open.
    pub fn load(store: &mut Datastore, path: &str) -> Result<Self> {
        let file = store.volume.open(path, LockMode::ReadOnly).with_context(|| path.to_owned())?;
        let length = file.length();
        let mut bytes = vec![0; length.min(LENGTH_MAX) as usize];
        let read = store.volume.read_at(&file, 0, &mut bytes);
        store.volume.close(file)?;
        read?;
        ensure!(length <= LENGTH_MAX, "{path} is too long");
        Ok(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Writes it to a datastore, over what is there.
    ///
    /// # Errors
    /// When another host has it open, or the datastore is full.
    pub fn save(&self, store: &mut Datastore, path: &str) -> Result<()> {
        let mut file = match store.volume.open(path, LockMode::Exclusive) {
            Err(Error::NotFound(_)) => store.volume.create(path)?,
            other => other?,
        };
        let mut bytes = self.emit().into_bytes();
        bytes.resize(bytes.len().max(file.length() as usize), b'\n');
        let written = store.volume.write_at(&mut file, 0, &bytes);
        store.volume.close(file)?;
        Ok(written?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read_as_they_were_written() {
        let mut config = Config::new();
        config.set("scsi0:0.fileName", "vm.vmdk");
        config.set("scsi0:1.fileName", "a = b.vmdk");
        assert_eq!(Config::parse(&format!("# a comment\n{}\n\n", config.emit())), config);
        config.remove("scsi0:1");
        assert_eq!(config.emit(), ".encoding = \"UTF-8\"\nscsi0:0.fileName = \"vm.vmdk\"\n");
    }
}
