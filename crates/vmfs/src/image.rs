//! A file as a disk that several hosts of one process share: for tests and for images.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::disk::{Disk, DiskError};

#[derive(Debug)]
struct Shared {
    file: File,
    size: u64,
    reserved_by: Option<u64>,
    hosts: u64,
    /// Granules that were written: those of a thin LUN that have space.
    mapped: HashSet<u64>,
    /// Whether the file was made with this disk, so that a granule that was not written is a hole.
    is_new: bool,
}

/// Disks that the same hosts see, by their names.
type Rack = Arc<Mutex<HashMap<String, Arc<Mutex<Shared>>>>>;

/// Bytes of a granule, which takes space when it is first written.
const GRANULE: u64 = 4096;

/// Writes that a disk refuses as an array without space does (07h/27h/07h).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// None.
    #[default]
    None,
    /// Those with these numbers, counted from 0 when the refusal is set.
    Numbers(Range<u64>),
    /// From a number on, those that would take space.
    FullFrom(u64),
}

/// What is to happen to a host's writes, to whichever of its disks.
#[derive(Debug, Default)]
struct Fate {
    writes_left: Option<u64>,
    refusal: Refusal,
    /// Writes since the refusal was set, and how many of them were refused.
    tried: u64,
    refused: u64,
}

/// A host's view of a shared file.
#[derive(Debug)]
pub struct FileDisk {
    shared: Arc<Mutex<Shared>>,
    name: String,
    rack: Rack,
    host: u64,
    started: Instant,
    /// Time that the host's clock is ahead.
    ahead: Duration,
    fate: Arc<Mutex<Fate>>,
}

impl FileDisk {
    /// Creates a sparse file of so many bytes.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub fn create(path: &Path, size: u64) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(size)?;
        let made = Self::of(path, file, size);
        made.locked().is_new = true;
        Ok(made)
    }

    /// Creates another one for the same hosts.
    ///
    /// # Errors
    /// As [`FileDisk::create`].
    pub fn create_beside(&self, path: &Path, size: u64) -> std::io::Result<Self> {
        let mut made = Self::create(path, size)?;
        made.rack = Arc::clone(&self.rack);
        locked(&made.rack).insert(made.name.clone(), Arc::clone(&made.shared));
        Ok(made)
    }

    /// Takes a disk away from all hosts.
    pub fn hide(&self, disk: &Self) {
        locked(&self.rack).remove(&disk.name);
    }

    /// Shows a disk to all hosts.
    pub fn show(&self, disk: &Self) {
        locked(&self.rack).insert(disk.name.clone(), Arc::clone(&disk.shared));
    }

    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let size = file.metadata()?.len() / 512 * 512;
        Ok(Self::of(path, file, size))
    }

    fn of(path: &Path, file: File, size: u64) -> Self {
        let mapped = HashSet::new();
        let shared = Shared { file, size, reserved_by: None, hosts: 1, mapped, is_new: false };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let shared = Arc::new(Mutex::new(shared));
        let rack = Rack::default();
        locked(&rack).insert(name.clone(), Arc::clone(&shared));
        let (started, ahead) = (Instant::now(), Duration::ZERO);
        Self { shared, name, rack, host: 0, started, ahead, fate: Arc::default() }
    }

    /// The disk has so many bytes from then on: an administrator enlarged it.
    ///
    /// # Errors
    /// When the file cannot be enlarged.
    pub fn enlarge(&mut self, size: u64) -> std::io::Result<()> {
        let mut shared = self.locked();
        shared.file.set_len(size)?;
        shared.size = size;
        Ok(())
    }

    /// Another host's view.
    #[must_use]
    pub fn another_host(&self) -> Self {
        let mut shared = self.locked();
        let host = shared.hosts;
        shared.hosts += 1;
        drop(shared);
        let (shared, rack) = (Arc::clone(&self.shared), Arc::clone(&self.rack));
        let (name, started, ahead) = (self.name.clone(), Instant::now(), Duration::ZERO);
        Self { shared, name, rack, host, started, ahead, fate: Arc::default() }
    }

    /// Moves the host's clock on, as if so much time had passed.
    pub fn pass(&mut self, time: Duration) {
        self.ahead += time;
    }

    /// From then on, some writes of this host are refused.
    pub fn refuse(&mut self, refusal: Refusal) {
        let mut fate = locked(&self.fate);
        (fate.refusal, fate.tried, fate.refused) = (refusal, 0, 0);
    }

    /// How many writes were refused since [`FileDisk::refuse`].
    pub fn refused(&self) -> u64 {
        locked(&self.fate).refused
    }

    /// A write that is not refused: its granules have space from then on. Returns whether holes of the file were
    /// all that was there.
    fn admit(&self, offset: u64, length: usize) -> Result<bool, DiskError> {
        let granules = offset / GRANULE..(offset + length as u64).div_ceil(GRANULE);
        let mut fate = locked(&self.fate);
        let number = fate.tried;
        fate.tried += 1;
        let mut shared = self.locked();
        let mapped = granules.clone().filter(|at| shared.mapped.contains(at)).count() as u64;
        let takes_space = mapped < granules.end - granules.start;
        let refused = match &fate.refusal {
            Refusal::None => false,
            Refusal::Numbers(numbers) => numbers.contains(&number),
            Refusal::FullFrom(first) => number >= *first && takes_space,
        };
        fate.refused += u64::from(refused);
        if refused {
            return Err(DiskError::OutOfSpace);
        }
        shared.mapped.extend(granules);
        Ok(mapped == 0 && shared.is_new)
    }

    /// From then on, after so many more writes, everything this host asks for fails: it is dead.
    pub fn die_after_writes(&mut self, writes: u64) {
        locked(&self.fate).writes_left = Some(writes);
    }

    fn locked(&self) -> MutexGuard<'_, Shared> {
        locked(&self.shared)
    }

    fn reachable(&self) -> Result<MutexGuard<'_, Shared>, DiskError> {
        if locked(&self.fate).writes_left == Some(0) {
            return Err(DiskError::Failed("the host is dead".into()));
        }
        let shared = self.locked();
        match shared.reserved_by {
            Some(host) if host != self.host => Err(DiskError::Reserved),
            _ => Ok(shared),
        }
    }

    fn wrote(&self) {
        let mut fate = locked(&self.fate);
        fate.writes_left = fate.writes_left.map(|left| left - 1);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; GRANULE as usize] = [0; GRANULE as usize];
    bytes.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

fn failed(error: std::io::Error) -> DiskError {
    DiskError::Failed(error.to_string())
}

fn inside(shared: &Shared, offset: u64, length: usize) -> Result<(), DiskError> {
    let aligned = offset.is_multiple_of(512) && length.is_multiple_of(512);
    if aligned && offset + length as u64 <= shared.size {
        return Ok(());
    }
    Err(DiskError::Failed(format!("{length} bytes at {offset} are not on the disk")))
}

impl Disk for FileDisk {
    fn size_bytes(&self) -> u64 {
        self.locked().size
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn another(&mut self, name: &str) -> Result<Self, DiskError> {
        let shared = locked(&self.rack).get(name).cloned();
        let shared = shared.ok_or_else(|| DiskError::Missing(name.to_owned()))?;
        let (rack, fate) = (Arc::clone(&self.rack), Arc::clone(&self.fate));
        let (host, started, ahead) = (self.host, self.started, self.ahead);
        Ok(Self { shared, name: name.to_owned(), rack, host, started, ahead, fate })
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let shared = self.reachable()?;
        inside(&shared, offset, buffer.len())?;
        shared.file.read_exact_at(buffer, offset).map_err(failed)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let shared = self.reachable()?;
        inside(&shared, offset, bytes.len())?;
        drop(shared);
        let are_holes = self.admit(offset, bytes.len())?;
        if !are_holes || !is_zero(bytes) {
            self.locked().file.write_all_at(bytes, offset).map_err(failed)?;
        }
        self.wrote();
        Ok(())
    }

    /// Last first: who relies on an order finds out. All are tried, as commands that are
    /// outstanding at once are.
    fn write_each(&mut self, pieces: &[(u64, Vec<u8>)]) -> Result<(), DiskError> {
        let written = pieces.iter().rev().map(|(offset, bytes)| self.write(*offset, bytes));
        written.fold(Ok(()), Result::and)
    }

    fn compare_and_write(
        &mut self,
        offset: u64,
        expected: &[u8; 512],
        replacement: &[u8; 512],
    ) -> Result<bool, DiskError> {
        let shared = self.reachable()?;
        inside(&shared, offset, 512)?;
        drop(shared);
        self.admit(offset, 512)?;
        let shared = self.locked();
        let mut found = [0; 512];
        shared.file.read_exact_at(&mut found, offset).map_err(failed)?;
        if found != *expected {
            return Ok(false);
        }
        shared.file.write_all_at(replacement, offset).map_err(failed)?;
        drop(shared);
        self.wrote();
        Ok(true)
    }

    fn reserve(&mut self) -> Result<(), DiskError> {
        let host = self.host;
        self.reachable()?.reserved_by = Some(host);
        Ok(())
    }

    fn release(&mut self) -> Result<(), DiskError> {
        let mut shared = self.locked();
        if shared.reserved_by == Some(self.host) {
            shared.reserved_by = None;
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<(), DiskError> {
        let zeros = vec![0; 1 << 20];
        let mut done = 0;
        while done < length {
            let taken = (length - done).min(zeros.len() as u64);
            self.write(offset + done, &zeros[..taken as usize])?;
            done += taken;
        }
        Ok(())
    }

    fn now_us(&mut self) -> u64 {
        (self.started.elapsed() + self.ahead).as_micros() as u64
    }

    fn wall_clock(&mut self) -> u32 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        since.as_secs() as u32
    }

    fn pause_us(&mut self, duration: u64) {
        std::thread::sleep(Duration::from_micros(duration));
    }
}
