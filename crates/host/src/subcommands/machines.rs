//! Subcommands for virtual machines.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use host::esxi::cluster;
use host::esxi::datastore::{self, Datastore, split_path};
use host::esxi::mover::{self, Clone, MachineState};
use host::esxi::state::Host;
use host::esxi::vm::{self, Guest, Spec};
use host::esxi::vmkfstools::{Teller, parse_size};
use serde_json::json;
use vmfs::vmdk::DiskFormat;

use super::on_store;

/// What can be done with virtual machines; MACHINE is /vmfs/volumes/DATASTORE/NAME.
#[derive(Debug, Subcommand)]
pub(crate) enum VmSubcommand {
    /// Make one with empty disks.
    Create {
        machine: String,
        /// Size and format of a disk, for example 10g:thin; once for each.
        #[arg(long = "disk", value_parser = parse_disk)]
        disks: Vec<(u64, DiskFormat)>,
    },
    /// Delete one, with its disks and snapshots.
    Destroy { machine: String },
    /// Make a machine a template, which does not run any more.
    Template {
        machine: String,
        /// Make it a machine again.
        #[arg(long)]
        undo: bool,
    },
    /// Set a line of a machine's configuration, for example disk.EnableUUID TRUE.
    Set { machine: String, key: String, value: String },
    /// Run one, and move it to another host at half time; its files stay where they are.
    Vmotion {
        machine: String,
        /// Folder of the other host, which has paths to the same LUN.
        #[arg(long)]
        destination: PathBuf,
        #[arg(long, value_enum, default_value = "random-mix4k")]
        pattern: vm::Pattern,
        #[arg(long, default_value_t = 4)]
        seconds: u64,
    },
    /// Make one as another is, for example from a template.
    Deploy {
        source: String,
        /// Its place; only a name with --cluster.
        machine: String,
        /// Datastores of a cluster: the machine goes where most of the space stays free.
        #[arg(long, value_delimiter = ',')]
        cluster: Vec<String>,
        /// The source runs, with VMware Tools: Windows with disk.EnableUUID is quiesced.
        #[arg(long)]
        powered_on: bool,
        /// thin, zeroedthick or eagerzeroedthick; as the source's when left out.
        #[arg(long, value_parser = parse_format)]
        format: Option<DiskFormat>,
    },
    /// Move one, while it writes to its first disk.
    Relocate {
        source: String,
        machine: String,
        /// Writes of 64 KiB during each 64 MiB that move.
        #[arg(long, default_value_t = 0)]
        writes: u64,
    },
    /// Take a snapshot.
    Snapshot { machine: String, label: String },
    /// The snapshots, oldest first.
    Snapshots { machine: String },
    /// Remove a snapshot, or all: what was written since is kept.
    Unsnapshot { machine: String, label: Option<String> },
    /// Let one use its first disk.
    Run {
        /// A machine, or the descriptor of a disk.
        machine: String,
        #[arg(long, value_enum)]
        pattern: vm::Pattern,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Reads and writes after which it ends before its time.
        #[arg(long, default_value_t = u64::MAX)]
        operations: u64,
        /// Seconds to wait while the array is full.
        #[arg(long, default_value_t = 600)]
        patience: u64,
        /// Reads and writes outstanding at once.
        #[arg(long, default_value_t = 1)]
        outstanding: u32,
    },
    /// UNMAP a range of a thin disk, as its guest does.
    Trim {
        /// The descriptor of the disk.
        disk: String,
        /// First byte, for example 1G (powers of 1024).
        #[arg(long, default_value = "0", value_parser = notation::parse_size)]
        offset: u64,
        /// Number of bytes, for example 512M.
        #[arg(long, value_parser = notation::parse_size)]
        length: u64,
    },
    /// Move one disk while it is written to.
    Migrate {
        source: String,
        destination: String,
        /// thin, zeroedthick or eagerzeroedthick.
        #[arg(long, default_value = "zeroedthick", value_parser = parse_format)]
        format: DiskFormat,
        /// Writes of 64 KiB during each 64 MiB that move.
        #[arg(long, default_value_t = 4)]
        writes: u64,
    },
}

fn parse_format(text: &str) -> Result<DiskFormat> {
    DiskFormat::parse(text)
        .with_context(|| format!("{text}: the formats are thin, zeroedthick and eagerzeroedthick"))
}

fn parse_disk(text: &str) -> Result<(u64, DiskFormat)> {
    let (size, format) = text.split_once(':').unwrap_or((text, "zeroedthick"));
    Ok((parse_size(size)?, parse_format(format)?))
}

/// Carries out what was asked; prints what there is to say.
///
/// # Errors
/// Whatever goes wrong.
pub(super) fn run(host: &mut Host, subcommand: &VmSubcommand) -> Result<()> {
    match subcommand {
        VmSubcommand::Create { machine, disks } => on_store(host, machine, |host, store, name| {
            let teller = Teller::new(host, "Create")?;
            let spec = Spec { name: name.to_owned(), disks: disks.clone() };
            vm::create(store, &spec, &mut |done, all| teller.tell(done, all)).map(|_| ())
        }),
        VmSubcommand::Destroy { machine } => {
            on_store(host, machine, |_, store, name| vm::destroy(store, name))
        }
        VmSubcommand::Snapshot { machine, label } => {
            on_store(host, machine, |_, store, name| vm::take_snapshot(store, name, label))
        }
        VmSubcommand::Snapshots { machine } => on_store(host, machine, |_, store, name| {
            vm::snapshots(store, name)?.iter().for_each(|label| terminal::say!("{label}"));
            Ok(())
        }),
        VmSubcommand::Unsnapshot { machine, label } => {
            on_store(host, machine, |host, store, name| {
                let teller = Teller::new(host, "Remove snapshot")?;
                let mut progress = |done, all| teller.tell(done, all);
                vm::remove_snapshot(store, name, label.as_deref(), &mut progress)
            })
        }
        VmSubcommand::Trim { disk, offset, length } => on_store(host, disk, |_, store, inside| {
            let report = mover::guest_unmap(store, inside, [*offset, *length])?;
            terminal::say!("{}", json!({ "report": report }));
            Ok(())
        }),
        VmSubcommand::Run { .. } => use_disk(host, subcommand),
        VmSubcommand::Template { machine, undo } => on_store(host, machine, |_, store, name| {
            vm::turn(store, name, if *undo { vm::Template::No } else { vm::Template::Yes })
        }),
        VmSubcommand::Set { machine, key, value } => {
            on_store(host, machine, |_, store, name| vm::set(store, name, key, value))
        }
        VmSubcommand::Vmotion { machine, destination, pattern, seconds } => {
            let order = vm::Run::new("", *pattern, Duration::from_secs(*seconds));
            vmotion(host, machine, destination, order)
        }
        VmSubcommand::Deploy { source, machine, cluster, powered_on, format } => {
            let machine = if cluster.is_empty() {
                machine.clone()
            } else {
                placed(host, source, machine, cluster)?
            };
            let guest = if *powered_on { Guest::PoweredOn } else { Guest::Still };
            deploy(host, [source, &machine], (*format, guest))
        }
        VmSubcommand::Relocate { source, machine, writes } => {
            relocate(host, [source, machine], *writes)
        }
        VmSubcommand::Migrate { source, destination, format, writes } => {
            migrate(host, [source, destination], *format, *writes)
        }
    }
}

fn use_disk(host: &mut Host, subcommand: &VmSubcommand) -> Result<()> {
    let VmSubcommand::Run { machine, pattern, seconds, operations, patience, outstanding } =
        subcommand
    else {
        unreachable!("the caller looked")
    };
    on_store(host, machine, |host, store, inside| {
        let order = vm::Run {
            operations_max: *operations,
            patience: Duration::from_secs(*patience),
            outstanding: *outstanding,
            ..vm::Run::new(inside, *pattern, Duration::from_secs(*seconds))
        };
        let outcome = vm::run(host, store, &order)?;
        terminal::say!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    })
}

/// Mounts the datastores of two paths, works, and unmounts in any case.
fn between<T>(
    host: &mut Host,
    [source, destination]: [&str; 2],
    work: impl FnOnce(&Host, &mut [Datastore], [(usize, &str); 2]) -> Result<T>,
) -> Result<T> {
    let ((from, source), (to, path)) = (split_path(source)?, split_path(destination)?);
    let mut stores = datastore::mount_all(host, &[from, to])?;
    let last = stores.len() - 1;
    let done = work(host, &mut stores, [(0, source), (last, path)]);
    datastore::finish_all(stores, host)?;
    done
}

fn deploy(host: &mut Host, paths: [&str; 2], how: (Option<DiskFormat>, Guest)) -> Result<()> {
    let report = between(host, paths, |host, stores, [from, to]| {
        let teller = Teller::new(host, "Clone")?;
        vm::deploy(stores, from, to, how, &mut |done, all| teller.tell(done, all))
    })?;
    terminal::say!("{}", json!({ "report": report, "machine": paths[1] }));
    Ok(())
}

/// A place in a cluster for a copy of a machine, which takes as much as its source.
fn placed(host: &mut Host, source: &str, name: &str, cluster: &[String]) -> Result<String> {
    ensure!(!name.is_empty() && !name.contains('/'), "--cluster takes a name instead of a place");
    let mut bytes = 0;
    on_store(host, source, |_, store, folder| {
        for entry in store.volume.list(folder)? {
            bytes += store.volume.status(&format!("{folder}/{}", entry.name))?.allocated;
        }
        Ok(())
    })?;
    Ok(format!("{}/{name}", cluster::place(host, cluster, bytes)?))
}

fn vmotion(host: &mut Host, machine: &str, destination: &Path, run: vm::Run) -> Result<()> {
    let mut other = Host::open(destination)?;
    ensure!(other.record.uuid != host.record.uuid, "--destination: that is the same host");
    let (name, inside) = split_path(machine)?;
    let first = datastore::mount(host, name)?;
    let second = match datastore::mount(&other, name) {
        Ok(second) => second,
        Err(error) => {
            first.finish(host)?;
            return Err(error);
        }
    };
    let mut stores = [first, second];
    let order = vm::Vmotion { run: vm::Run { path: inside.to_owned(), ..run } };
    let moved = vm::vmotion([&*host, &other], &mut stores, &order);
    let [first, second] = stores;
    first.finish(host)?;
    second.finish(&mut other)?;
    terminal::say!("{}", serde_json::to_string(&moved?)?);
    Ok(())
}

/// A machine that writes 64 KiB at a time while its disk moves, before, in and behind what is
/// copied.
struct Writer {
    size: u64,
    each: u64,
    copied: u64,
    left: u64,
    made: Vec<u64>,
}

impl Writer {
    const BYTES: u64 = 65_536;

    fn new(size: u64, each: u64) -> Result<Self> {
        ensure!(size >= Self::BYTES, "the disk is too small to be written to while it moves");
        Ok(Self { size, each, copied: 0, left: 0, made: Vec::new() })
    }

    fn next(&mut self, copied: u64) -> Option<(u64, Vec<u8>)> {
        if self.copied != copied {
            (self.copied, self.left) = (copied, self.each);
        }
        self.left = self.left.checked_sub(1)?;
        let number = self.made.len() as u64;
        let places = self.size / Self::BYTES;
        let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % places * Self::BYTES;
        self.made.push(at);
        Some((at, vec![number as u8 | 1; Self::BYTES as usize]))
    }
}

fn relocate(host: &mut Host, paths: [&str; 2], writes: u64) -> Result<()> {
    let outcome = between(host, paths, |host, stores, [from, to]| {
        let disk = vm::open(&mut stores[from.0], from.1)?.disk(0)?;
        let size = stores[from.0].volume.disk_descriptor(&disk)?.size;
        let mut writer = Writer::new(size, writes)?;
        let teller = Teller::new(host, "Relocate")?;
        let report = vm::relocate(
            stores,
            from,
            to,
            &mut |done, all| teller.tell(done, all),
            &mut |copied| writer.next(copied),
        )?;
        Ok(json!({ "report": report, "writes": writer.made }))
    })?;
    terminal::say!("{outcome}");
    Ok(())
}

fn migrate(host: &mut Host, paths: [&str; 2], format: DiskFormat, writes: u64) -> Result<()> {
    let outcome = between(host, paths, |_, stores, [source, destination]| {
        let size = stores[source.0].volume.disk_descriptor(source.1)?.size;
        let mut writer = Writer::new(size, writes)?;
        let machine = MachineState::Still;
        let order = Clone { source, destination, format, machine };
        let report = mover::storage_vmotion(
            stores,
            order,
            &mut |_, _| ControlFlow::Continue(()),
            &mut |copied| writer.next(copied),
        )?;
        Ok(json!({ "report": report, "writes": writer.made }))
    })?;
    terminal::say!("{outcome}");
    Ok(())
}
