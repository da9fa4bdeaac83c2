//! Looks for devices of pools and reads what a pool says of itself, without writing to it: for pool
//! import, in a thread of its own.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use array::{KnownMember, PoolDevice};
use block::{
    BLOCK, ByteRange, DeviceKind, DeviceName, DeviceOperation, Request, Response, VolumeId,
};
use control::pool_import::{FoundMirror, FoundPool, mirrors_of, name_last_devices};
use control::pool_records::Slots;
use device::Reader;
use store::{
    DeviceIdentity, Failure, IDENTITY_BYTES, ListedMembers, OpenContext, OpenError, OpenMode,
    Options, Outcome, RECORDS, SlotSpec, Store, Tag, identify, listed_members,
};

use crate::limits::{RECORDS_READ_BYTES, SCANNED_FILES_MAX};
use crate::rod_token_spaces::is_hidden;

/// A device of a pool, open for reading, so that nobody else has it.
pub(crate) struct FoundDevice {
    pub(crate) name: DeviceName,
    reader: Reader,
    pub(crate) identity: DeviceIdentity,
    /// What it knows of the other members of its mirror.
    listed: Option<ListedMembers>,
    /// Which file it is, so that one by two names is known from a copy of it; `None` for what is no
    /// file, and is never open twice.
    place: Option<(u64, u64)>,
}

/// Memory for the maps of a pool that is only looked at.
const MEMORY_BYTES: u64 = store::limits::MEMORY_BYTES_MIN;

/// Opens devices that somebody named.
///
/// # Errors
/// When one of them is no device of a pool, or cannot be read; in a sentence.
pub(crate) fn open_named(names: &[DeviceName]) -> Result<Vec<FoundDevice>, String> {
    names.iter().map(open).collect()
}

/// Opens all files and block devices of a directory that are devices of pools, and that nobody has.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn scan(directory: &Path) -> Result<Vec<FoundDevice>, String> {
    let cannot = |error| format!("cannot read {}: {error}", directory.display());
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).map_err(cannot)?.take(SCANNED_FILES_MAX);
    let paths = entries.map(|entry| Ok(entry.map_err(cannot)?.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<Result<_, String>>()?;
    // Of a device by two names the first name in their order is taken.
    paths.sort();
    for path in paths {
        // What a link leads to is a device as well: /dev/disk/by-id is full of them.
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        let kind = match metadata.file_type() {
            kind if kind.is_file() => DeviceKind::File,
            kind if kind.is_block_device() => DeviceKind::Block,
            _ => continue,
        };
        found.extend(open(&DeviceName::new(kind, path)).ok());
    }
    Ok(found)
}

fn open(name: &DeviceName) -> Result<FoundDevice, String> {
    let reader = Reader::of(name).map_err(|error| error.to_string())?;
    let mut start = vec![0; IDENTITY_BYTES];
    let read = reader.read(0, &mut start);
    read.map_err(|error| format!("{name}: {error}"))?;
    let identity = identify(&start).map_err(|error| format!("{name}: {error}"))?;
    let metadata = name.file_path().map(std::fs::metadata).transpose();
    let metadata = metadata.map_err(|error| format!("{name}: {error}"))?;
    // A block device is known by its number, whichever node leads to it.
    let place = metadata.map(|metadata| match metadata.rdev() {
        0 => (metadata.dev(), metadata.ino()),
        number => (0, number),
    });
    let listed = listed_members(&start, &identity);
    Ok(FoundDevice { name: name.clone(), reader, identity, listed, place })
}

/// Groups devices by pool.
pub(crate) fn by_pool(devices: Vec<FoundDevice>) -> BTreeMap<[u8; 16], Vec<FoundDevice>> {
    let mut pools: BTreeMap<[u8; 16], Vec<FoundDevice>> = BTreeMap::new();
    for device in devices {
        let pool = pools.entry(device.identity.pool_uuid).or_default();
        // One device by two names is one device; two that are alike are refused later.
        if device.place.is_none() || pool.iter().all(|other| other.place != device.place) {
            pool.push(device);
        }
    }
    for devices in pools.values_mut() {
        devices.sort_by_key(|device| (device.identity.index, device.identity.member));
    }
    pools
}

/// Reads what a pool says of itself; nothing is written. A mirror without members that may have newer
/// data is read all the same, unless `witnessed` says that they have: the generations of membership
/// lists that are known here.
///
/// # Errors
/// When it cannot be opened, in a sentence.
pub(crate) fn read_pool(
    devices: &[FoundDevice],
    witnessed: &[([u8; 16], u64)],
) -> Result<FoundPool, String> {
    let uuid = devices.first().map_or([0; 16], |device| device.identity.pool_uuid);
    check_no_copies(devices)?;
    let sizes: Vec<u64> = devices.iter().map(|device| device.reader.size_bytes()).collect();
    let options =
        Options { mode: OpenMode::ReadOnly, memory_bytes: MEMORY_BYTES, ..Options::default() };
    let known = devices.iter().map(|one| (&one.name, &one.identity, one.listed.as_ref()));
    let mut mirrors = mirrors_of(known, witnessed);
    let context = OpenContext {
        expected_pool_uuid: Some(uuid),
        witnessed: witnessed.to_vec(),
        shared: false,
        allow_degraded: true,
    };
    let store = Store::open(&SlotSpec::numbered(&sizes), context, options, Tag(0));
    let mut pool = Offline { store, devices };
    pool.wait().map_err(|failure| match failure {
        Some(Failure::Open(OpenError::MembersMissing { index, missing })) => {
            let mirror = mirrors.iter().find(|mirror| mirror.index as usize == index);
            let why = mirror.and_then(FoundMirror::why_not);
            why.unwrap_or_else(|| OpenError::MembersMissing { index, missing }.to_string())
        }
        other => told(other),
    })?;
    let known: Vec<_> = pool.store.mirrors().map(|status| (status.device, status.uuid)).collect();
    let volumes = pool.store.volumes().filter(|volume| !is_hidden(volume));
    let volumes: BTreeMap<VolumeId, String> =
        volumes.map(|volume| (volume.spec.id, volume.spec.name.clone())).collect();
    let blocks = pool.read_records().map_err(told)?;
    let loaded = Slots::load(blocks.iter().map(|(number, block)| (*number, block.as_slice())));
    name_last_devices(&mut mirrors, &loaded.records);
    let member = |device: &FoundDevice| {
        let (uuid, device) = (device.identity.member?, device.name.clone());
        Some(KnownMember { uuid, device, replaces: None, is_witness: false })
    };
    // One that has left may have its label yet, and another device its number.
    let joined = |device: &FoundDevice| known.contains(&place_of(&device.identity));
    let devices = devices.iter().zip(sizes).filter(|(device, _)| joined(device));
    let members = devices.clone().filter_map(|(device, _)| member(device)).collect();
    let devices = devices
        .map(|(device, size_bytes)| PoolDevice { device: device.name.clone(), size_bytes })
        .collect();
    Ok(FoundPool { uuid, devices, members, mirrors, volumes, records: loaded.records })
}

/// By which number and name a device, or the mirror that it is a member of, is known to its pool.
fn place_of(identity: &DeviceIdentity) -> (u8, [u8; 16]) {
    (u8::try_from(identity.index).unwrap_or(u8::MAX), identity.device_uuid)
}

/// Refuses two devices that say that they are the same one: a copy may be older, and only one of them
/// may be used.
fn check_no_copies(devices: &[FoundDevice]) -> Result<(), String> {
    for (index, device) in devices.iter().enumerate() {
        let others = &devices[index + 1..];
        if let Some(other) = others.iter().find(|other| other.identity == device.identity) {
            return Err(format!(
                "{} and {} are the same device of the pool: one is a copy of the other; name the \
                 devices that are to be used, or take the copy away",
                device.name, other.name
            ));
        }
    }
    Ok(())
}

/// Why a pool cannot be read; `None` if it says nothing.
fn told(failure: Option<Failure>) -> String {
    failure.map_or_else(|| "the pool does not answer".to_owned(), |failure| failure.to_string())
}

/// A pool that is read here.
struct Offline<'a> {
    store: Store,
    devices: &'a [FoundDevice],
}

impl Offline<'_> {
    /// Goes on until the one request under way has ended.
    fn wait(&mut self) -> Result<Outcome, Option<Failure>> {
        loop {
            if let Some(done) = self.store.next_done() {
                return done.result.map_err(Some);
            }
            let io = self.store.next_io().ok_or(None)?;
            let reader = self.devices.get(usize::from(io.device)).map(|device| &device.reader);
            let result = match (io.operation, reader) {
                (DeviceOperation::Read { offset, mut buffer }, Some(reader)) => {
                    reader.read(offset, &mut buffer).map(|()| Some(buffer))
                }
                // A pool that is opened read-only writes nothing; if it did, it would fail.
                _ => Err(block::DeviceError::Os(rustix::io::Errno::ROFS.raw_os_error())),
            };
            self.store.completed(io.id, result);
        }
    }

    /// Blocks of records that were ever written.
    fn read_records(&mut self) -> Result<Vec<(u64, Vec<u8>)>, Option<Failure>> {
        let (mut left, size) = match self.store.records() {
            Some(volume) => (volume.mapped_bytes / BLOCK, volume.spec.size_bytes),
            None => return Ok(Vec::new()),
        };
        let mut blocks = Vec::new();
        let mut offset = 0;
        while left > 0 && offset < size {
            let range = ByteRange::new(offset, RECORDS_READ_BYTES.min(size - offset));
            self.store.submit(Tag(1), RECORDS, Request::Read { range });
            let Outcome::Response(Response::Data(data)) = self.wait()? else { break };
            for (number, block) in (offset / BLOCK..).zip(data.to_vec().chunks(BLOCK as usize)) {
                if block.iter().any(|&byte| byte != 0) {
                    left = left.saturating_sub(1);
                    blocks.push((number, block.to_vec()));
                }
            }
            offset += RECORDS_READ_BYTES;
        }
        Ok(blocks)
    }
}
