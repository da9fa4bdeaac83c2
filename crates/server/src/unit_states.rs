//! Persistence of logical unit state (reservations with APTPL, saved mode parameters): a file per
//! volume in the data directory, written by a thread of its own, since a flush may take long.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result};
use block::VolumeId;

use crate::guard::guarded;
use crate::http::{Mailbox, Message};

pub(crate) use scsi::{DurableState, SaveId};

#[cfg(test)]
mod tests;

const DIRECTORY_NAME: &str = "units";

/// The files, and the thread that writes them.
pub(crate) struct UnitStates {
    directory: PathBuf,
    /// Volumes that may have a file: of others none is looked for.
    kept: HashSet<VolumeId>,
    work: Sender<Work>,
    /// States that are being stored.
    storing: HashMap<SaveId, (VolumeId, DurableState)>,
}

/// Work is done in order, so that the last state of a volume is the one that stays.
enum Work {
    Store { id: SaveId, volume: VolumeId, state: DurableState },
    Forget(VolumeId),
}

impl UnitStates {
    /// Opens or creates the directory of the files, and starts the thread.
    ///
    /// # Errors
    /// When either cannot be done.
    pub(crate) fn open(data: &Path, mailbox: Mailbox) -> Result<Self> {
        let directory = data.join(DIRECTORY_NAME);
        fs::create_dir_all(&directory)
            .and_then(|()| File::open(data)?.sync_all())
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let kept = volumes_in(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?;
        let (work, inbox) = channel();
        let files = directory.clone();
        std::thread::Builder::new()
            .name("unit-states".to_owned())
            .spawn(move || carry_out(&files, &inbox, &mailbox))?;
        Ok(Self { directory, kept, work, storing: HashMap::new() })
    }

    /// Reads what is kept for a volume; `None` if nothing is.
    ///
    /// # Errors
    /// When there is a file that cannot be understood: whoever serves the volume all the same would
    /// let in whom a reservation keeps out.
    pub(crate) fn load(&self, volume: VolumeId) -> Result<Option<DurableState>> {
        if !self.kept.contains(&volume) {
            return Ok(None);
        }
        read(&self.directory, volume)
    }

    /// The state whose storing has come to its end.
    pub(crate) fn take_stored(&mut self, id: SaveId) -> Option<(VolumeId, DurableState)> {
        self.storing.remove(&id)
    }

    /// What reads the files in another thread.
    pub(crate) fn reader(&self) -> UnitReader {
        UnitReader { directory: self.directory.clone(), kept: self.kept.clone() }
    }

    /// Files were put there for these volumes, of a pool that comes.
    pub(crate) fn note(&mut self, volumes: impl IntoIterator<Item = VolumeId>) {
        self.kept.extend(volumes);
    }

    /// Begins to store a state in place of the one before; [`Message::Stored`] tells the end.
    pub(crate) fn store(&mut self, id: SaveId, volume: VolumeId, state: DurableState) {
        self.kept.insert(volume);
        self.storing.insert(id, (volume, state.clone()));
        let work = Work::Store { id, volume, state };
        self.work.send(work).expect("the thread lives as long as this value");
    }

    /// Removes what is kept for a volume that is deleted.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.kept.remove(&volume);
        self.work.send(Work::Forget(volume)).expect("the thread lives as long as this value");
    }
}

/// Reads the files beside the thread that writes them.
#[derive(Clone)]
pub(crate) struct UnitReader {
    directory: PathBuf,
    kept: HashSet<VolumeId>,
}

impl UnitReader {
    /// Volumes that may have a file.
    pub(crate) fn kept(&self) -> impl Iterator<Item = VolumeId> {
        self.kept.iter().copied()
    }

    /// As [`UnitStates::load`].
    pub(crate) fn read(&self, volume: VolumeId) -> Result<Option<DurableState>> {
        if self.kept.contains(&volume) { read(&self.directory, volume) } else { Ok(None) }
    }

    /// Puts a file there, for a volume of a pool that comes.
    pub(crate) fn put(&self, volume: VolumeId, state: &DurableState) -> io::Result<()> {
        write(&self.directory, volume, state)
    }
}

fn read(directory: &Path, volume: VolumeId) -> Result<Option<DurableState>> {
    let path = path_of(directory, volume);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let state = serde_json::from_slice(&text).with_context(|| {
        format!(
            "{} is damaged: restore it, or remove it to drop the volume's reservations",
            path.display()
        )
    })?;
    Ok(Some(state))
}

fn carry_out(directory: &Path, inbox: &Receiver<Work>, mailbox: &Mailbox) {
    for work in inbox {
        match work {
            Work::Store { id, volume, state } => {
                let result = guarded(|| write(directory, volume, &state))
                    .unwrap_or_else(|said| Err(io::Error::other(said)));
                if let Err(error) = &result {
                    let volume = path_of(directory, volume);
                    tracing::error!(file = %volume.display(), %error, "a state was not stored");
                }
                mailbox.post(Message::Stored { id, stored: result.is_ok() });
            }
            Work::Forget(volume) => {
                // A file that stays behind belongs to an identifier that is never used again.
                let _ = remove(&path_of(directory, volume));
            }
        }
    }
}

/// The volumes whose files are in the directory.
fn volumes_in(directory: &Path) -> io::Result<HashSet<VolumeId>> {
    let mut volumes = HashSet::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
        let id = id.and_then(|id| u64::from_str_radix(id, 16).ok());
        volumes.extend(id.map(VolumeId));
    }
    Ok(volumes)
}

fn path_of(directory: &Path, volume: VolumeId) -> PathBuf {
    directory.join(format!("{:016x}.json", volume.0))
}

/// Replaces a file as one step: after a crash the old or the new one is there.
fn write(directory: &Path, volume: VolumeId, state: &DurableState) -> io::Result<()> {
    let path = path_of(directory, volume);
    if state.is_empty() {
        remove(&path)?;
        return File::open(directory)?.sync_all();
    }
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec_pretty(state)?)?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(directory)?.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
