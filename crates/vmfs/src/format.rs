//! Formatting of a new volume (mkfs).

use crate::bytes::Uuid;
use crate::descriptor::{self, Descriptor};
use crate::directory::{ENTRY, Entry, ROOT};
use crate::fd::{ADDRESSES, FileDescriptor, FileKind, Level};
use crate::heartbeat::{self, Slot};
use crate::journal;
use crate::limits::{FILE_BLOCK, HOSTS_MAX, LABEL_MAX, LEASE_MS};
use crate::lock::{self, LockRecord};
use crate::lvm::{self, Header};
use crate::partition::{self, Table};
use crate::resource::{CLUSTER_HEADER, CLUSTERS_PER_GROUP, Cluster, Resource, ResourceFile};
use crate::{Disk, Error, Result};

/// The number of the descriptor of .jbc.sf.
pub(crate) const JOURNAL_FILE: u64 = 8;

/// The number of the descriptor of .sdd.sf, the system's data directory.
const SYSTEM_DATA: u64 = 7;

/// Descriptors that are taken from the start: the system's, and that of .pb2.sf, which we do without.
const SYSTEM_DESCRIPTORS: u64 = 9;

/// File blocks before the file of descriptors: headers, descriptor, heartbeats (.vh.sf).
const VOLUME_HEADER_BLOCKS: u64 = 4;

/// Heartbeat sectors that are written; ESXi has 2,048 of them.
const HEARTBEATS: u64 = 2048;

/// How a new volume is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, up to 127 bytes.
    pub label: String,
    /// Its identifier; further ones are derived.
    pub uuid: Uuid,
    /// The partition table.
    pub table: Table,
    /// Whether locks shall never use reservations.
    pub ats_only: bool,
    /// A heartbeat that does not change for so long is a dead host's; `None`: 16 seconds.
    pub lease_ms: Option<u32>,
}

/// A file of the system: name, number of its descriptor, bytes, first block, blocks.
struct SystemFile {
    name: &'static str,
    number: u64,
    length: u64,
    blocks: std::ops::Range<u64>,
}

struct Plan {
    lv: Header,
    blocks: u64,
    resources: Vec<ResourceFile>,
    files: Vec<SystemFile>,
    used: u64,
    root: u64,
}

/// A label is one name in the paths of a datastore's files.
fn check_label(label: &str) -> Result<()> {
    let is_path = label.contains('/') || matches!(label, "." | "..");
    let is_bad = label.trim() != label || label.chars().any(char::is_control) || is_path;
    if label.is_empty() || label.len() > LABEL_MAX || is_bad {
        return Err(Error::Argument(
            "a label has 1 to 127 bytes, without '/', control characters and spaces at its ends",
        ));
    }
    Ok(())
}

/// Makes a volume on a disk. What is there is lost.
///
/// # Errors
/// When the disk is too small or fails.
pub fn format(disk: &mut impl Disk, options: &Options) -> Result<()> {
    check_label(&options.label)?;
    let partition = partition::write(disk, options.table, options.uuid.0)?;
    let mut other = options.uuid;
    other.0[0] ^= 1;
    let mut device = options.uuid;
    device.0[0] ^= 2;
    let lv = lvm::format(disk, partition, device, other)?;
    let plan = Plan::new(lv)?;
    disk.zero(lv.part.base(), plan.used * FILE_BLOCK)?;
    let now = disk.wall_clock();
    write_volume_header(disk, &plan, options, now)?;
    for resource in &plan.resources {
        write_resource(disk, &plan, resource)?;
    }
    write_root(disk, &plan, now)
}

impl Plan {
    fn new(lv: Header) -> Result<Self> {
        let blocks = lv.size / FILE_BLOCK;
        let kinds =
            [Resource::Descriptor, Resource::FileBlock, Resource::PointerBlock, Resource::SubBlock];
        let mut plan = Self {
            lv,
            blocks,
            resources: Vec::new(),
            files: vec![SystemFile {
                name: ".vh.sf",
                number: 5,
                length: VOLUME_HEADER_BLOCKS * FILE_BLOCK,
                blocks: 0..VOLUME_HEADER_BLOCKS,
            }],
            used: VOLUME_HEADER_BLOCKS,
            root: 0,
        };
        kinds.into_iter().for_each(|kind| plan.add_resource(kind));
        plan.add_file(".jbc.sf", JOURNAL_FILE, HOSTS_MAX * journal::SLOT);
        plan.add_file(".sdd.sf", SYSTEM_DATA, 2 * ENTRY as u64);
        plan.root = plan.used;
        plan.used += 1;
        let too_large = plan.files.iter().any(|file| file.blocks.clone().count() > ADDRESSES);
        if too_large || plan.used >= blocks {
            return Err(Error::Format("the LUN has a size that no volume can have".into()));
        }
        Ok(plan)
    }

    fn add_file(&mut self, name: &'static str, number: u64, length: u64) {
        let blocks = self.used..self.used + length.div_ceil(FILE_BLOCK);
        self.used = blocks.end;
        self.files.push(SystemFile { name, number, length, blocks });
    }

    fn add_resource(&mut self, kind: Resource) {
        let (groups, total) = ResourceFile::wanted(kind, self.blocks);
        let needed = ResourceFile::blocks_needed(kind, groups);
        let blocks = (self.used..self.used + needed).map(|n| Resource::FileBlock.address(n));
        let resource = ResourceFile { kind, total, groups, blocks: blocks.collect() };
        let name = match kind {
            Resource::FileBlock => ".fbb.sf",
            Resource::Descriptor => ".fdc.sf",
            Resource::PointerBlock => ".pbc.sf",
            Resource::SubBlock => ".sbc.sf",
        };
        self.add_file(name, u64::from(kind.file()), resource.length());
        self.resources.push(resource);
    }

    /// How many of a kind are taken from the start.
    fn taken(&self, kind: Resource) -> u64 {
        match kind {
            Resource::FileBlock => self.used,
            Resource::Descriptor => SYSTEM_DESCRIPTORS,
            Resource::SubBlock | Resource::PointerBlock => 0,
        }
    }
}

fn write_volume_header(
    disk: &mut impl Disk,
    plan: &Plan,
    options: &Options,
    now: u32,
) -> Result<()> {
    let descriptor = Descriptor {
        uuid: options.uuid,
        label: options.label.clone(),
        created: now,
        system_data: plan.resources[0].resource(SYSTEM_DATA)?,
        lvm: plan.lv.uuid,
        ats_only: options.ats_only,
        lease_ms: options.lease_ms.unwrap_or(LEASE_MS),
    };
    disk.write(plan.lv.part.base() + descriptor::OFFSET, &descriptor.emit())?;
    let slots: Vec<u8> = (0..HEARTBEATS)
        .flat_map(|number| Slot::clear(heartbeat::address(number), 0).emit())
        .collect();
    disk.write(plan.lv.part.base() + heartbeat::address(0), &slots)?;
    Ok(())
}

fn write_resource(disk: &mut impl Disk, plan: &Plan, resource: &ResourceFile) -> Result<()> {
    let first = u64::from(resource.blocks[0] >> 6) * FILE_BLOCK;
    disk.write(plan.lv.part.base() + first, &resource.emit())?;
    let (kind, clusters) = (resource.kind, resource.clusters());
    for start in (0..clusters).step_by(CLUSTERS_PER_GROUP as usize) {
        let mut headers = Vec::with_capacity((CLUSTERS_PER_GROUP * CLUSTER_HEADER) as usize);
        for number in start..(start + CLUSTERS_PER_GROUP).min(clusters) {
            let lock = LockRecord::free(kind.lock_type(), resource.cluster(number));
            headers.extend(lock.emit());
            headers.extend(first_cluster(plan, resource, number).emit());
        }
        disk.write(plan.lv.part.base() + resource.cluster(start), &headers)?;
    }
    Ok(())
}

fn first_cluster(plan: &Plan, resource: &ResourceFile, number: u64) -> Cluster {
    let per_cluster = resource.kind.per_cluster();
    let first = number * per_cluster;
    let total = resource.in_cluster(number);
    let mut cluster = Cluster::new(number as u32, total);
    let taken = plan.taken(resource.kind).saturating_sub(first).min(u64::from(total));
    (0..taken).for_each(|item| cluster.take(item as u32));
    cluster
}

/// Writes the system's descriptors and the root directory.
fn write_root(disk: &mut impl Disk, plan: &Plan, now: u32) -> Result<()> {
    let mut directory = Vec::new();
    for name in [".", ".."] {
        let kind = FileKind::Directory;
        directory.extend(Entry { kind, name: name.into(), address: ROOT, generation: 1 }.emit());
    }
    for file in &plan.files {
        let address = Resource::Descriptor.address(file.number);
        let entry =
            Entry { kind: FileKind::System, name: file.name.into(), address, generation: 1 };
        directory.extend(entry.emit());
        let mut descriptor = FileDescriptor::new(address, 1, FileKind::System, now);
        descriptor.length = file.length;
        put_blocks(&mut descriptor, file.blocks.clone());
        if file.number == SYSTEM_DATA {
            (descriptor.mode, descriptor.links) = (0o40700, 2);
            write_system_data(disk, plan, file, address)?;
        }
        write_descriptor(disk, plan, &descriptor)?;
    }
    let mut root = FileDescriptor::new(ROOT, 1, FileKind::Directory, now);
    root.mode = 0o41755;
    root.length = directory.len() as u64;
    put_blocks(&mut root, plan.root..plan.root + 1);
    directory.resize(directory.len().next_multiple_of(512), 0);
    disk.write(plan.lv.part.base() + plan.root * FILE_BLOCK, &directory)?;
    write_descriptor(disk, plan, &root)
}

/// Writes the entries of the system's data directory, which is empty.
fn write_system_data(
    disk: &mut impl Disk,
    plan: &Plan,
    file: &SystemFile,
    address: u32,
) -> Result<()> {
    let entry =
        |kind, name: &str, address| Entry { kind, name: name.into(), address, generation: 1 };
    let own = entry(FileKind::System, ".", address);
    let parent = entry(FileKind::Directory, "..", ROOT);
    let mut bytes = [own.emit(), parent.emit()].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    Ok(disk.write(plan.lv.part.base() + file.blocks.start * FILE_BLOCK, &bytes)?)
}

fn put_blocks(file: &mut FileDescriptor, blocks: std::ops::Range<u64>) {
    file.level = Level::FileBlocks;
    file.blocks = blocks.end - blocks.start;
    for (place, number) in file.addresses.iter_mut().zip(blocks) {
        *place = Resource::FileBlock.address(number);
    }
}

fn write_descriptor(disk: &mut impl Disk, plan: &Plan, file: &FileDescriptor) -> Result<()> {
    let at = plan.resources[0].resource(Resource::Descriptor.number(file.address))?;
    let lock = LockRecord::free(lock::DESCRIPTOR, at);
    disk.write(plan.lv.part.base() + at, &lock.emit())?;
    disk.write(plan.lv.part.base() + at + 512, &file.emit())?;
    Ok(())
}
