use std::cell::RefCell;

use anyhow::bail;
use array::{Chap, Credential, Secret};

use super::*;

/// Files that fail when they are told to.
#[derive(Default)]
struct Unsound {
    written: RefCell<Vec<String>>,
    /// The number of the write that fails, and of those after it.
    fails_from: usize,
    /// Whether it works again after one failure.
    recovers: bool,
}

impl Unsound {
    fn write(&self, what: String) -> anyhow::Result<()> {
        let mut written = self.written.borrow_mut();
        let number = written.len();
        let fails = number == self.fails_from || number > self.fails_from && !self.recovers;
        written.push(what);
        if fails {
            bail!("No space left on device");
        }
        Ok(())
    }
}

impl Files for Unsound {
    fn save(&self, configuration: &Configuration) -> anyhow::Result<()> {
        self.write(format!("configuration {}", configuration.target_name))
    }

    fn save_secrets(&self, secrets: &Secrets) -> anyhow::Result<()> {
        self.write(format!("{} secrets", secrets.hosts.len()))
    }
}

fn version(name: &str, secrets: usize) -> Version {
    let chap = |number: usize| {
        let secret = Secret::new(format!("a secret, {number:08}")).unwrap();
        Chap { initiator: Credential { name: format!("u{number}"), secret }, target: None }
    };
    let hosts = (0..secrets).map(|number| (format!("h{number}"), chap(number)));
    Version {
        configuration: Arc::new(Configuration::new(name.to_owned())),
        secrets: Arc::new(Secrets { hosts: hosts.collect(), ..Secrets::default() }),
    }
}

fn save(before: Version, wanted: Version, in_doubt: bool) -> Save {
    Save { number: 1, wanted, before, in_doubt }
}

#[test]
fn only_what_differs_is_written_and_secrets_before_what_names_them() {
    for (before, wanted, in_doubt, written) in [
        (version("a", 0), version("b", 0), false, &["configuration b"][..]),
        (version("a", 0), version("a", 1), false, &["1 secrets"]),
        (version("a", 0), version("b", 1), false, &["1 secrets", "configuration b"]),
        (version("a", 1), version("a", 1), true, &["1 secrets", "configuration a"]),
    ] {
        let files = Unsound { fails_from: usize::MAX, ..Unsound::default() };
        save(before, wanted, in_doubt).run(&files).unwrap();
        assert_eq!(*files.written.borrow(), written);
    }
}

/// A rename may have been done although its fsync failed, so what was there is put back.
#[test]
fn after_a_failure_the_files_hold_what_they_held_before_or_are_in_doubt() {
    for (fails_from, recovers, in_doubt, written) in [
        (0, true, false, &["1 secrets", "configuration a", "0 secrets"][..]),
        (1, true, false, &["1 secrets", "configuration b", "configuration a", "0 secrets"]),
        (1, false, true, &["1 secrets", "configuration b", "configuration a"]),
    ] {
        let files = Unsound { fails_from, recovers, ..Unsound::default() };
        let failed = save(version("a", 0), version("b", 1), false).run(&files).unwrap_err();
        assert_eq!(failed.in_doubt, in_doubt, "{fails_from}");
        assert!(failed.reason.contains("No space left"), "{failed:?}");
        assert_eq!(*files.written.borrow(), written);
    }
}
