//! Snapshot chain of a virtual disk: the base, and the redo logs on it. A read finds the newest log
//! that has the sector; a write goes to the last one.

use std::ops::ControlFlow;

use crate::file::File;
use crate::limits::CHAIN_MAX;
use crate::redo::{RedoLog, Run};
use crate::vmdk::{DiskDescriptor, beside};
use crate::volume::Volume;
use crate::{Disk, Error, LockMode, Result};

/// Bytes that are merged between two looks at progress and heartbeat.
const MERGED: u64 = 1 << 20;

#[derive(Debug)]
enum Layer {
    Flat(File),
    Redo(RedoLog),
}

/// An open virtual disk. It stays locked until [`Volume::close_chain`].
#[derive(Debug)]
pub struct Chain {
    /// The base first; the last one is written.
    layers: Vec<Layer>,
    /// Paths of their descriptors.
    paths: Vec<String>,
    size: u64,
    mode: LockMode,
}

impl Chain {
    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Paths of the descriptors: the base first, then each snapshot's redo log.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The data's file, if there is no redo log on it.
    pub fn flat(&self) -> Option<&File> {
        match self.layers.as_slice() {
            [Layer::Flat(file)] => Some(file),
            _ => None,
        }
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The name of a disk's n-th redo log: `disk-000001.vmdk`.
fn redo_name(base: &str, number: usize) -> Result<String> {
    let stem = base.strip_suffix(".vmdk").ok_or_else(|| Error::Name(base.to_owned()))?;
    Ok(format!("{stem}-{number:06}.vmdk"))
}

fn check_range(chain: &Chain, offset: u64, length: usize) -> Result<()> {
    let end = offset.checked_add(length as u64);
    if end.is_none_or(|end| end > chain.size) {
        return Err(Error::Argument("beyond the end of the virtual disk"));
    }
    if !offset.is_multiple_of(512) || !length.is_multiple_of(512) {
        return Err(Error::Argument("a virtual disk is read and written in sectors"));
    }
    Ok(())
}

impl<D: Disk> Volume<D> {
    /// Opens a virtual disk with all that it is a snapshot of. The older layers are opened for
    /// reading only.
    ///
    /// # Errors
    /// [`Error::Locked`] when another host uses it; a missing or damaged parent.
    pub fn open_chain(&mut self, path: &str, mode: LockMode) -> Result<Chain> {
        let (mut paths, mut descriptors) = (vec![path.to_owned()], Vec::new());
        loop {
            let last = paths.last().expect("there is one");
            let descriptor = self.disk_descriptor(last)?;
            let parent = descriptor.parent.clone();
            descriptors.push(descriptor);
            let Some((name, _)) = parent else { break };
            paths.push(beside(path, &name));
            if paths.len() > CHAIN_MAX {
                return Err(Error::Format("a chain of snapshots without an end".into()));
            }
        }
        paths.reverse();
        descriptors.reverse();
        let size = descriptors[0].size;
        let mut chain = Chain { layers: Vec::new(), paths, size, mode };
        for (number, descriptor) in descriptors.iter().enumerate() {
            let last = number + 1 == chain.paths.len();
            let mode = if last { mode } else { LockMode::ReadOnly };
            match self.open_layer(&chain.paths[number], descriptor, mode) {
                Ok(layer) => chain.layers.push(layer),
                Err(error) => return self.close_chain(chain).and(Err(error)),
            }
        }
        Ok(chain)
    }

    fn open_layer(
        &mut self,
        path: &str,
        descriptor: &DiskDescriptor,
        mode: LockMode,
    ) -> Result<Layer> {
        let extent = beside(path, descriptor.data()?);
        if descriptor.parent.is_none() {
            return Ok(Layer::Flat(self.open(&extent, mode)?));
        }
        let log = RedoLog::open(self, &extent, mode)?;
        if log.size() == descriptor.size {
            return Ok(Layer::Redo(log));
        }
        log.close(self)?;
        Err(Error::Format(format!("{extent} is of a disk of another size")))
    }

    fn close_layer(&mut self, layer: Layer) -> Result<()> {
        match layer {
            Layer::Flat(file) => self.close(file),
            Layer::Redo(log) => log.close(self),
        }
    }

    /// Unlocks a virtual disk.
    ///
    /// # Errors
    /// When the disk fails or a lock was taken over; the others are unlocked then.
    pub fn close_chain(&mut self, chain: Chain) -> Result<()> {
        let mut done = Ok(());
        for layer in chain.layers {
            done = done.and(self.close_layer(layer));
        }
        done
    }

    /// Reads whole sectors.
    ///
    /// # Errors
    /// When the disk fails; a range that is not in the virtual disk.
    pub fn read_chain(&mut self, chain: &mut Chain, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_range(chain, offset, buffer.len())?;
        let top = chain.layers.len();
        self.read_layers(&mut chain.layers[..top], offset, buffer)
    }

    fn read_layers(&mut self, layers: &mut [Layer], offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (last, older) = layers.split_last_mut().expect("there is a base");
        let log = match last {
            Layer::Flat(file) => {
                let read = self.read_at(file, offset, buffer)?;
                buffer[read..].fill(0);
                return Ok(());
            }
            Layer::Redo(log) => log,
        };
        for Run { offset: start, length, at } in log.runs(self, offset, buffer.len() as u64)? {
            let inside = (start - offset) as usize;
            let part = &mut buffer[inside..inside + length as usize];
            match at {
                Some(at) => log.read(self, at, part)?,
                None => self.read_layers(older, start, part)?,
            }
        }
        Ok(())
    }

    /// Writes whole sectors.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when the volume is full, an [`crate::DiskError::OutOfSpace`] when the
    /// array is: the same write can be tried again. [`Error::ReadOnly`].
    pub fn write_chain(&mut self, chain: &mut Chain, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(chain, offset, bytes.len())?;
        if chain.mode == LockMode::ReadOnly {
            return Err(Error::ReadOnly);
        }
        self.write_layer(chain.layers.len() - 1, chain, offset, bytes)
    }

    fn write_layer(
        &mut self,
        number: usize,
        chain: &mut Chain,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        match &mut chain.layers[number] {
            Layer::Flat(file) => self.write_at(file, offset, bytes),
            Layer::Redo(log) => log.write(self, offset, bytes),
        }
    }

    /// Takes a snapshot: from now on writes go to a new redo log. Returns the path of its
    /// descriptor.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::TooLarge`] for a disk above 2 TiB or a chain that is too long.
    pub fn snapshot(&mut self, chain: &mut Chain) -> Result<String> {
        if chain.paths.len() >= CHAIN_MAX {
            return Err(Error::TooLarge);
        }
        let parent = chain.paths.last().expect("there is a base").clone();
        let parent_cid = self.disk_descriptor(&parent)?.cid;
        let (path, number) = self.free_redo_name(&chain.paths[0])?;
        let extent = name_of(&path).replace(".vmdk", "-delta.vmdk");
        let descriptor = DiskDescriptor {
            size: chain.size,
            extent: extent.clone(),
            thin: false,
            cid: parent_cid.wrapping_add(number as u32 * 0x1003) & 0x7fff_ffff | 1,
            parent: Some((name_of(&parent).to_owned(), parent_cid)),
            raw: false,
        };
        let delta = beside(&path, &extent);
        let log = RedoLog::create(self, &delta, chain.size, name_of(&parent))?;
        if let Err(error) = self.create_descriptor(&path, &descriptor) {
            log.close(self)?;
            self.remove_path(&delta)?;
            return Err(error);
        }
        chain.layers.push(Layer::Redo(log));
        chain.paths.push(path.clone());
        Ok(path)
    }

    fn free_redo_name(&mut self, base: &str) -> Result<(String, usize)> {
        for number in 1..=999_999 {
            let path = redo_name(base, number)?;
            match self.status(&path) {
                Err(Error::NotFound(_)) => return Ok((path, number)),
                other => other.map(|_| ())?,
            }
        }
        Err(Error::Exists(base.to_owned()))
    }

    /// Merges a redo log into the layer below it: `number` is that layer's, 0 for the base.
    /// Returns the path of the redo log that is no longer needed; delete it with
    /// [`Volume::remove_disk`] once nothing names it. `progress` hears how much of it is done, in
    /// parts of 1,000, and can stop it, which leaves the chain as it was.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is no such pair; `Ok(None)` if it was stopped.
    pub fn merge_down(
        &mut self,
        chain: &mut Chain,
        number: usize,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<String>> {
        if number + 1 >= chain.layers.len() || chain.mode == LockMode::ReadOnly {
            return Err(Error::Argument("there is no redo log to merge"));
        }
        self.reopen(chain, number, LockMode::Exclusive)?;
        if self.merge_tables(chain, number, progress)?.is_break() {
            return Ok(None);
        }
        if let Some(next) = chain.paths.get(number + 2).cloned() {
            let mut descriptor = self.disk_descriptor(&next)?;
            let below = &chain.paths[number];
            let cid = self.disk_descriptor(below)?.cid;
            descriptor.parent = Some((name_of(below).to_owned(), cid));
            self.replace_descriptor(&next, &descriptor)?;
        }
        let merged = chain.layers.remove(number + 1);
        self.close_layer(merged)?;
        Ok(Some(chain.paths.remove(number + 1)))
    }

    fn reopen(&mut self, chain: &mut Chain, number: usize, mode: LockMode) -> Result<()> {
        let path = chain.paths[number].clone();
        let descriptor = self.disk_descriptor(&path)?;
        // A lock cannot be raised: it is given back and taken anew. The log above keeps others
        // from writing here meanwhile.
        let old = chain.layers.remove(number);
        let closed = self.close_layer(old);
        let layer = closed.and_then(|()| self.open_layer(&path, &descriptor, mode));
        let (layer, done) = match layer {
            Ok(layer) => (layer, Ok(())),
            Err(error) => (self.open_layer(&path, &descriptor, LockMode::ReadOnly)?, Err(error)),
        };
        chain.layers.insert(number, layer);
        done
    }

    fn merge_tables(
        &mut self,
        chain: &mut Chain,
        number: usize,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Layer::Redo(log) = &chain.layers[number + 1] else {
            return Err(Error::Argument("there is no redo log to merge"));
        };
        let tables = log.tables();
        for (done, table) in tables.iter().enumerate() {
            let Layer::Redo(log) = &mut chain.layers[number + 1] else {
                unreachable!("it was looked at above")
            };
            let [offset, length] = log.covered(*table);
            for run in log.runs(self, offset, length)? {
                self.merge_run(chain, number, run)?;
            }
            self.pulse_if_due()?;
            if progress((done as u64 + 1) * 1000 / tables.len() as u64).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn merge_run(&mut self, chain: &mut Chain, number: usize, run: Run) -> Result<()> {
        let Some(at) = run.at else { return Ok(()) };
        for done in (0..run.length).step_by(MERGED as usize) {
            let mut bytes = vec![0; MERGED.min(run.length - done) as usize];
            let Layer::Redo(log) = &chain.layers[number + 1] else {
                unreachable!("a run is of a redo log")
            };
            log.read(self, at + done, &mut bytes)?;
            self.write_layer(number, chain, run.offset + done, &bytes)?;
        }
        Ok(())
    }
}
