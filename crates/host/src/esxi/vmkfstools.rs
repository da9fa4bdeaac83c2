//! The words of `vmkfstools`.

mod raw;
mod span;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use vmfs::LockMode;
use vmfs::vmdk::{DiskDescriptor, DiskFormat};

use crate::esxi::datastore::{self, Datastore, split_path};
use crate::esxi::mover::{self, Clone, Report};
use crate::esxi::state::Host;

/// The options that are understood, and what they do.
pub const OPTIONS: [(&str, &str); 19] = [
    (
        "-c SIZE [-d FORMAT] DISK",
        "creates a virtual disk: thin, zeroedthick (as it is without -d) or eagerzeroedthick",
    ),
    ("-i SOURCE [-d FORMAT] DISK", "clones one"),
    (
        "-i SOURCE --verify DISK",
        "likewise, then reads both and compares their SHA-256; not a word of ESXi's",
    ),
    (
        "-i SOURCE -d rdm:DEVICE MAPPING",
        "clones one to the first bytes of a device, and makes a raw device mapping that names it; --verify as well",
    ),
    ("-w DISK", "overwrites it with zeros"),
    ("-j DISK", "inflates a thin one to eagerzeroedthick, keeping data"),
    ("-k DISK", "makes a zeroedthick one eagerzeroedthick, keeping data"),
    ("-K DISK", "gives back blocks that hold only zeros"),
    ("-X SIZE DISK", "grows it"),
    ("-U DISK", "deletes it"),
    ("-E SOURCE DISK", "renames a file"),
    ("-D FILE", "shows its lock"),
    ("-y PERCENT DATASTORE", "gives so much of the free space back to the array"),
    ("-C vmfs5 -S LABEL DEVICE:1", "makes a datastore"),
    (
        "-C vmfs5 -S LABEL --lease-ms N DEVICE:1",
        "likewise, with another time after which a silent host is taken over; not a word of ESXi's",
    ),
    (
        "-G DEVICE:1 DEVICE:1",
        "grows the datastore on a device into the room that the device has; the partition grows, too",
    ),
    (
        "-Z DEVICE:1 HEAD:1",
        "adds a device to the datastore whose head is on another one, after a question: all that is on the device is lost",
    ),
    (
        "--seen-by STATE -Z DEVICE:1 HEAD:1",
        "likewise, if the simulated host in that folder sees the device; several may be named; not a word of ESXi's",
    ),
    ("-P [-h] DATASTORE", "shows a datastore, with -h in sizes for people"),
];

/// What `vmkfstools` is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Create { size: u64, format: DiskFormat, path: String },
    Clone { source: String, format: DiskFormat, path: String, verify: bool },
    CloneToDevice { source: String, device: String, path: String, verify: bool },
    Zero(String),
    Inflate(String),
    EagerZero(String),
    Punch(String),
    Reclaim { percent: u64, store: String },
    Format { label: String, device: String, lease_ms: Option<u32> },
    Grow { device: String },
    Span { device: String, head: String, seen_by: Vec<PathBuf> },
    Query { path: String, sizes: Sizes },
    Extend { size: u64, path: String },
    Delete(String),
    Rename { from: String, to: String },
    Lock(String),
}

/// How a datastore's sizes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sizes {
    /// In bytes and blocks.
    #[default]
    Bytes,
    /// In GB.
    Human,
}

/// Bytes in words like 10g, 512M, 4194304.
///
/// # Errors
/// When it is no size.
pub fn parse_size(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "s" => 9,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        other => bail!("{text}: unknown unit {other}"),
    };
    let number: u64 = digits.parse().with_context(|| format!("{text} is not a size"))?;
    number.checked_mul(1 << shift).with_context(|| format!("{text} is too large"))
}

struct Words {
    words: std::vec::IntoIter<String>,
}

impl Words {
    fn value(&mut self, option: &str) -> Result<String> {
        self.words.next().with_context(|| format!("{option} needs a value"))
    }
}

/// Options as they came; the last word is the path.
#[derive(Default)]
struct Parsed {
    size: Option<u64>,
    format: Option<DiskFormat>,
    raw_device: Option<String>,
    source: Option<String>,
    action: Option<(char, String)>,
    label: Option<String>,
    lease_ms: Option<u32>,
    verify: bool,
    seen_by: Vec<PathBuf>,
    sizes: Sizes,
    paths: Vec<String>,
}

fn parse(words: Vec<String>) -> Result<Order> {
    let mut words = Words { words: words.into_iter() };
    let mut parsed = Parsed::default();
    while let Some(word) = words.words.next() {
        let mut value = || words.value(&word);
        match word.as_str() {
            "-c" | "--createvirtualdisk" => parsed.size = Some(parse_size(&value()?)?),
            "-d" | "--diskformat" => {
                parsed.set_format(&value()?)?;
            }
            "-i" | "--clonevirtualdisk" => parsed.source = Some(value()?),
            "-S" | "--setfsname" => parsed.label = Some(value()?),
            "--lease-ms" => parsed.lease_ms = Some(value()?.parse().context("--lease-ms")?),
            "--verify" => parsed.verify = true,
            "-h" | "--humanreadable" => parsed.sizes = Sizes::Human,
            "-Ph" | "-hP" => {
                parsed.sizes = Sizes::Human;
                parsed.action = Some(('P', String::new()));
            }
            "--queryfs" => parsed.action = Some(('P', String::new())),
            "--seen-by" => parsed.seen_by.push(value()?.into()),
            "--spanfs" => parsed.action = Some(('Z', value()?)),
            "--growfs" => parsed.action = Some(('G', value()?)),
            "-C" | "-G" | "-Z" | "-y" | "-X" | "-E" => {
                parsed.action = Some((letter(&word), value()?))
            }
            "-w" | "-j" | "-k" | "-K" | "-P" | "-U" | "-D" => {
                parsed.action = Some((letter(&word), String::new()));
            }
            other => {
                ensure!(!other.starts_with('-'), "{other}: unknown option");
                parsed.paths.push(word);
            }
        }
    }
    parsed.order()
}

fn letter(word: &str) -> char {
    word.chars().nth(1).unwrap_or('-')
}

/// The device of a partition, as in /vmfs/devices/disks/naa.6001...:1.
fn device_of(path: &str) -> String {
    let device = path.rsplit('/').next().unwrap_or(path);
    device.trim_end_matches(":1").to_owned()
}

impl Parsed {
    fn set_format(&mut self, name: &str) -> Result<()> {
        if let Some(device) = name.strip_prefix("rdm:") {
            self.raw_device = Some(device_of(device));
            return Ok(());
        }
        self.format = Some(DiskFormat::parse(name).with_context(|| {
            format!("{name}: the formats are thin, zeroedthick, eagerzeroedthick and rdm:DEVICE")
        })?);
        Ok(())
    }

    fn order(mut self) -> Result<Order> {
        let path = self.paths.pop().context("no file or device is named")?;
        let Some((action, value)) = self.action else {
            let format = self.format.unwrap_or(DiskFormat::ZeroedThick);
            let verify = self.verify;
            return match (self.size, self.source, self.raw_device) {
                (Some(size), None, None) => Ok(Order::Create { size, format, path }),
                (None, Some(source), None) => Ok(Order::Clone { source, format, path, verify }),
                (None, Some(source), Some(device)) => {
                    Ok(Order::CloneToDevice { source, device, path, verify })
                }
                _ => bail!("nothing to do, or more than one thing"),
            };
        };
        Ok(match action {
            'w' => Order::Zero(path),
            'j' => Order::Inflate(path),
            'k' => Order::EagerZero(path),
            'K' => Order::Punch(path),
            'P' => Order::Query { path, sizes: self.sizes },
            'U' => Order::Delete(path),
            'D' => Order::Lock(path),
            'E' => Order::Rename { from: value, to: path },
            'X' => Order::Extend { size: parse_size(&value)?, path },
            'G' => {
                let device = device_of(&path);
                ensure!(device == device_of(&value), "-G takes the same partition twice");
                Order::Grow { device }
            }
            'Z' => {
                let (device, head) = (device_of(&value), device_of(&path));
                ensure!(device != head, "-Z takes two partitions: the new one, then the head");
                Order::Span { device, head, seen_by: self.seen_by }
            }
            'y' => Order::Reclaim { percent: value.parse().context("-y")?, store: path },
            _ => {
                ensure!(value == "vmfs5", "only vmfs5 can be made");
                let device = device_of(&path);
                let label = self.label.context("-S LABEL is needed")?;
                Order::Format { label, device, lease_ms: self.lease_ms }
            }
        })
    }
}

/// Prints progress as ESXi does, on one line; hears Ctrl-C.
pub struct Teller<'a> {
    host: &'a Host,
    what: &'static str,
    stop: Arc<AtomicBool>,
}

impl<'a> Teller<'a> {
    /// For work of a name; from now on Ctrl-C is heard.
    ///
    /// # Errors
    /// When signals cannot be handled.
    pub fn new(host: &'a Host, what: &'static str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self { host, what, stop })
    }

    /// Says how far the work is, and whether it shall go on.
    pub fn tell(&self, done: u64, all: u64) -> ControlFlow<()> {
        terminal::progress!(
            "{}: {}% done.{}",
            self.what,
            done * 100 / all.max(1),
            if done < all { "\r" } else { "\n" }
        );
        // A reader that went away does not stop the work.
        let _ = io::stdout().flush();
        if self.stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Carries out `vmkfstools ARGUMENTS`. Progress goes to the output as it is made; a report says what
/// was offloaded.
///
/// # Errors
/// Unknown words; what the datastore says.
pub fn run(host: &mut Host, words: &[String]) -> Result<Report> {
    match parse(words.to_vec())? {
        Order::Create { size, format, path } => create(host, &path, size, format),
        Order::Clone { source, format, path, verify } => {
            let mut report = clone(host, &source, &path, format)?;
            if verify {
                report.verified = Some(compare(host, [&source, &path])?);
            }
            Ok(report)
        }
        Order::CloneToDevice { source, device, path, verify } => raw::clone(
            host,
            &raw::Order { source: &source, device: &device, mapping: &path, verify },
        ),
        Order::Zero(path) => on_disk(host, &path, "Zero", mover::overwrite_with_zeros),
        Order::Inflate(path) => on_disk_made(false, host, &path, "Inflate", mover::inflate),
        Order::EagerZero(path) => on_disk(host, &path, "Eager zero", mover::eager_zero),
        Order::Punch(path) => on_disk_made(true, host, &path, "Hole Punching", mover::punch_zeros),
        Order::Reclaim { percent, store } => reclaim(host, &store, percent),
        Order::Format { label, device, lease_ms } => {
            if datastore::is_stray_extent(host, &device)? {
                terminal::progress!(
                    "{device} is an extent of a datastore whose head this host does not see: it is gone, or other \
                     hosts use it\n"
                );
                span::ask(&device)?;
            }
            datastore::format(host, &device, &label, lease_ms)?;
            terminal::say!("Successfully created new volume: {label}");
            Ok(Report::default())
        }
        Order::Grow { device } => grow(host, &device),
        Order::Span { device, head, seen_by } => span::span(host, [&device, &head], &seen_by),
        Order::Query { path, sizes } => plain(host, &path, |store, _| query(store, sizes)),
        Order::Delete(path) => {
            plain(host, &path, |store, path| Ok(store.volume.remove_disk(path)?))
        }
        Order::Lock(path) => plain(host, &path, |store, path| {
            terminal::say!("{}", store.volume.status(path)?.lock);
            Ok(())
        }),
        Order::Rename { from, to } => {
            plain(host, &from, |store, from| Ok(store.volume.rename(from, split_path(&to)?.1)?))
        }
        Order::Extend { size, path } => plain(host, &path, |store, path| extend(store, path, size)),
    }
}

/// Mounts, does, unmounts in any case.
fn with_store<T>(
    host: &mut Host,
    path: &str,
    work: impl FnOnce(&mut Datastore, &str, &Host) -> Result<T>,
) -> Result<T> {
    let (name, inside) = split_path(path)?;
    let mut store = datastore::mount(host, name)?;
    let done = work(&mut store, inside, host);
    store.finish(host)?;
    done
}

fn plain(
    host: &mut Host,
    path: &str,
    work: impl FnOnce(&mut Datastore, &str) -> Result<()>,
) -> Result<Report> {
    with_store(host, path, |store, inside, _| work(store, inside))?;
    Ok(Report::default())
}

type DiskWork = fn(&mut Datastore, vmfs::file::File, &mut mover::Progress<'_>) -> Result<Report>;

fn on_disk(host: &mut Host, path: &str, what: &'static str, work: DiskWork) -> Result<Report> {
    with_store(host, path, |store, inside, host| {
        let teller = Teller::new(host, what)?;
        let file = store.volume.open_disk(inside, LockMode::Exclusive)?;
        let report = work(store, file, &mut |done, all| teller.tell(done, all));
        teller.host.publish(store.volume.disk())?;
        report
    })
}

/// As [`on_disk`]; the disk is thin from then on, or not any more, also for later clones of it.
fn on_disk_made(
    thin: bool,
    host: &mut Host,
    path: &str,
    what: &'static str,
    work: DiskWork,
) -> Result<Report> {
    let report = on_disk(host, path, what, work)?;
    plain(host, path, |store, path| {
        let descriptor = DiskDescriptor { thin, ..store.volume.disk_descriptor(path)? };
        Ok(store.volume.replace_descriptor(path, &descriptor)?)
    })?;
    Ok(report)
}

fn create(host: &mut Host, path: &str, size: u64, format: DiskFormat) -> Result<Report> {
    with_store(host, path, |store, inside, host| {
        let teller = Teller::new(host, "Create")?;
        let file = store.volume.create_disk(inside, size, format)?;
        if format != DiskFormat::EagerZeroedThick {
            store.volume.close(file)?;
            let _ = teller.tell(1, 1);
            return Ok(Report::default());
        }
        let report = mover::eager_zero(store, file, &mut |done, all| teller.tell(done, all));
        if report.is_err() {
            store.volume.remove_disk(inside)?;
        }
        report
    })
}

fn clone(host: &mut Host, named: &str, path: &str, format: DiskFormat) -> Result<Report> {
    let ((from, source), (to, path)) = (split_path(named)?, split_path(path)?);
    let mut stores = datastore::mount_all(host, &[from, to])?;
    let order = Clone {
        source: (0, source),
        destination: (stores.len() - 1, path),
        format,
        machine: mover::MachineState::Still,
    };
    let name = if format == DiskFormat::Thin { "thin-provisioned" } else { format.name() };
    terminal::progress!("Destination disk format: VMFS {name}\nCloning disk '{named}'...\n");
    let teller = Teller::new(host, "Clone")?;
    let report = mover::clone(&mut stores, order, &mut |done, all| teller.tell(done, all));
    datastore::finish_all(stores, host)?;
    report
}

/// Reads both disks again; returns their SHA-256.
fn compare(host: &mut Host, paths: [&str; 2]) -> Result<String> {
    let mut sums = Vec::new();
    for path in paths {
        sums.push(with_store(host, path, |store, inside, host| {
            let teller = Teller::new(host, "Verify")?;
            mover::checksum(store, inside, &mut |done, all| teller.tell(done, all))
        })?);
    }
    ensure!(sums[0] == sums[1], "{} is NOT what {} is: {sums:?}", paths[1], paths[0]);
    Ok(sums.remove(0))
}

fn grow(host: &mut Host, device: &str) -> Result<Report> {
    let mut store = datastore::mount_device(host, &datastore::head_of(host, device)?)?;
    let label = store.volume.label().to_owned();
    let last = store.volume.layout().pop().map(|disk| disk.name).unwrap_or_default();
    let grown = if last == device { Some(store.volume.grow()) } else { None };
    store.finish(host)?;
    let Some(grown) = grown else {
        bail!("only the last extent of {label} can grow: {last}:1");
    };
    let grown = grown?;
    let added = grown.after_bytes - grown.before_bytes;
    ensure!(added > 0, "{device} has no room for another 256 MB: {label} is as large as it can be");
    terminal::say!("Successfully grew volume: {label}, by {} MB", added >> 20);
    Ok(Report::default())
}

fn reclaim(host: &mut Host, store: &str, percent: u64) -> Result<Report> {
    ensure!((1..=100).contains(&percent), "-y takes 1 to 100 percent");
    with_store(host, store, |store, _, host| {
        let teller = Teller::new(host, "Reclaim")?;
        let free = store.volume.space()?.free_bytes;
        mover::reclaim(store, [free / 100 * percent, 200], &mut |done, all| teller.tell(done, all))
    })
}

fn extend(store: &mut Datastore, path: &str, size: u64) -> Result<()> {
    let descriptor = store.volume.disk_descriptor(path)?;
    vmfs::vmdk::check_size(size)?;
    ensure!(size > descriptor.size, "a disk can only grow");
    ensure!(descriptor.parent.is_none(), "a disk with snapshots cannot grow");
    let mut flat = store.volume.open_disk(path, LockMode::Exclusive)?;
    let mut grown = store.volume.set_length(&mut flat, size);
    if grown.is_ok() && !descriptor.thin {
        let range = [descriptor.size, size - descriptor.size];
        grown = store.volume.allocate(&mut flat, range, vmfs::file::Fill::ToBeZeroed);
    }
    store.volume.close(flat)?;
    grown?;
    let new = DiskDescriptor { size, ..descriptor };
    Ok(store.volume.replace_descriptor(path, &new)?)
}

/// Bytes of a file at most: VMFS-5's 62.9 TB.
const FILE_BYTES_MAX: u64 = 69_201_586_814_976;

fn query(store: &mut Datastore, sizes: Sizes) -> Result<()> {
    let space = store.volume.space()?;
    let layout = store.volume.layout();
    let disk = store.volume.disk();
    let identity = vmfs::volume::probe(disk)?;
    let physical = 512_u64 << disk.identity.physical_exponent;
    let mode = if identity.ats_only { "public ATS-only" } else { "public" };
    let capacity = match sizes {
        Sizes::Human => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            format!(
                "{:.1} GB, {:.1} GB available, file block size 1 MB, max supported file size 62.9 TB",
                gib(space.total_bytes),
                gib(space.free_bytes)
            )
        }
        Sizes::Bytes => format!(
            "{} ({} file blocks * 1048576), {} ({} blocks) avail, max supported file size {}",
            space.total_bytes,
            space.total_bytes >> 20,
            space.free_bytes,
            space.free_bytes >> 20,
            FILE_BYTES_MAX
        ),
    };
    terminal::say!(
        "VMFS-5.61 (Raw Major Version: 14) file system spanning {} partitions.",
        layout.len()
    );
    terminal::say!("File system label (if any): {}", terminal::printable(&identity.label));
    terminal::say!("Mode: {mode}");
    terminal::say!("Capacity {capacity}");
    terminal::say!("Disk Block Size: 512/{physical}/0");
    terminal::say!("UUID: {}\nPartitions spanned (on \"lvm\"):", identity.uuid);
    for extent in &layout {
        match extent.bytes {
            Some(_) => terminal::say!("\t{}:1", extent.name),
            None => terminal::say!("\t(device {}:1 might be offline)", extent.name),
        }
    }
    if layout.iter().any(|extent| extent.bytes.is_none()) {
        terminal::say!("\t(One or more partitions spanned by this volume may be offline)");
    }
    terminal::say!("Is Native Snapshot Capable: NO");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> Result<Order> {
        parse(text.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn words_become_orders_with_esxis_defaults() -> Result<()> {
        let path = "d/a.vmdk".to_owned();
        let format = DiskFormat::ZeroedThick;
        let size = 10 << 30;
        assert_eq!(order("-c 10g d/a.vmdk")?, Order::Create { size, format, path: path.clone() });
        let format = DiskFormat::Thin;
        let source = "d/b.vmdk".to_owned();
        let verify = true;
        let expected = Order::Clone { source, format, path: path.clone(), verify };
        assert_eq!(order("-i d/b.vmdk -d thin --verify d/a.vmdk")?, expected);
        let (source, device, verify) = ("d/b.vmdk".to_owned(), "naa.6001".to_owned(), false);
        let expected = Order::CloneToDevice { source, device, path, verify };
        assert_eq!(order("-i d/b.vmdk -d rdm:/vmfs/devices/disks/naa.6001 d/a.vmdk")?, expected);
        for words in ["-Ph d", "-P -h d", "--queryfs --humanreadable d"] {
            let sizes = Sizes::Human;
            assert_eq!(order(words)?, Order::Query { path: "d".into(), sizes });
        }
        let device = "naa.6001".to_owned();
        let same = "-G /vmfs/devices/disks/naa.6001:1 /vmfs/devices/disks/naa.6001:1";
        let span = "-Z /vmfs/devices/disks/naa.2:1 /vmfs/devices/disks/naa.1:1";
        for words in [span, "--spanfs naa.2:1 naa.1:1"] {
            let (device, head) = ("naa.2".to_owned(), "naa.1".to_owned());
            assert_eq!(order(words)?, Order::Span { device, head, seen_by: Vec::new() });
        }
        for words in [same, "--growfs naa.6001:1 naa.6001:1"] {
            assert_eq!(order(words)?, Order::Grow { device: device.clone() });
        }
        let order = order("-C vmfs5 -S one /vmfs/devices/disks/naa.6001:1")?;
        assert_eq!(order, Order::Format { label: "one".into(), device, lease_ms: None });
        Ok(())
    }

    #[test]
    fn wrong_words_are_refused() {
        for text in [
            "-c 10g",
            "-c ten d/a.vmdk",
            "-c 1x d/a.vmdk",
            "-c 99999999999t d/a.vmdk",
            "-d fat -c 1g d/a.vmdk",
            "-c 1g -i d/b.vmdk d/a.vmdk",
            "-c 1g -d rdm:naa.1 d/a.vmdk",
            "d/a.vmdk",
            "-q d/a.vmdk",
            "-C vmfs6 -S one naa.1:1",
            "-C vmfs5 naa.1:1",
            "-y all d",
            "-G naa.1:1",
            "-G naa.1:1 naa.2:1",
            "-Z naa.1:1",
            "-Z naa.1:1 naa.1:1",
            "-i",
        ] {
            assert!(order(text).is_err(), "{text}");
        }
    }
}
