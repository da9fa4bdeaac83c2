//! The first file system of the guest: a shell and the modules to reach the second.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::packages::Root;

/// Modules that mount the system and reach the network; what they need comes along.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "virtio_net"];

/// What runs first.
const INIT: &str = include_str!("init.sh");

/// What runs from then on.
const AGENT: &str = include_str!("agent.sh");

/// Builds the archive.
///
/// # Errors
/// When a file is missing in the system.
pub fn build(root: &Root) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "sys", "root", "lib", "lib/modules"] {
        archive.folder(folder);
    }
    archive.file("init", INIT.as_bytes(), Mode::Program);
    archive.file("agent", AGENT.as_bytes(), Mode::Program);
    archive.file("modules", MODULES.join("\n").as_bytes(), Mode::Data);
    archive.file("bin/busybox", &read(root, Path::new("bin/busybox"))?, Mode::Program);
    add_modules(&mut archive, root)?;
    Ok(archive.finish())
}

fn add_modules(archive: &mut Archive, root: &Root) -> Result<()> {
    let folder = root.modules();
    let table = folder.join("modules.dep");
    let text = String::from_utf8(read(root, &table)?).context("modules.dep is text")?;
    let mut folders = BTreeSet::new();
    for path in closure(&text, &MODULES)? {
        let path = folder.join(path);
        let above = path.ancestors().skip(1).filter(|above| above.starts_with("lib/modules/"));
        folders.extend(above.map(Path::to_owned));
    }
    for folder in &folders {
        archive.folder(&folder.to_string_lossy());
    }
    for path in closure(&text, &MODULES)? {
        let path = folder.join(path);
        archive.file(&path.to_string_lossy(), &read(root, &path)?, Mode::Data);
    }
    archive.file(&table.to_string_lossy(), text.as_bytes(), Mode::Data);
    Ok(())
}

fn read(root: &Root, path: &Path) -> Result<Vec<u8>> {
    let path = root.folder().join(path);
    fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

/// The files of modules and of all that they need, from lines 'FILE: FILE...' of modules.dep.
fn closure<'a>(table: &'a str, names: &[&str]) -> Result<BTreeSet<&'a str>> {
    let mut files = BTreeSet::new();
    for name in names {
        let ending = format!("/{name}.ko:");
        let line = table.lines().find(|line| {
            line.split_inclusive(':').next().is_some_and(|file| file.ends_with(&ending))
        });
        let line = line.with_context(|| format!("the kernel has no module {name}"))?;
        files.extend(line.split_whitespace().map(|file| file.trim_end_matches(':')));
    }
    Ok(files)
}

enum Mode {
    Program,
    Data,
}

/// An archive in cpio's format 'newc', the one that the kernel unpacks.
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, content: &[u8], mode: Mode) {
        let permissions = match mode {
            Mode::Program => 0o755,
            Mode::Data => 0o644,
        };
        self.entry(name, 0o100_000 | permissions, content);
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("no file of the guest has 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests;
