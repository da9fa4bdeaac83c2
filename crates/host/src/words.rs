//! The words of `gantry-host` that need a simulated host.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use serde_json::json;
use vmfs::{LockMode, Locking};

use gantry_host::datastore::{self, Datastore, split_path};
use gantry_host::doctor::{self, Depth};
use gantry_host::mover::{self, Clone};
use gantry_host::state::Host;
use gantry_host::{esxcli, esxtop, touch, vm, vmkfstools};

/// What a simulated host can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Words {
    /// Make a simulated host in the folder of --state.
    HostCreate {
        name: String,
        /// Its iSCSI name; one like ESXi's when left out.
        #[arg(long)]
        iqn: Option<String>,
    },
    /// Add paths to LUNs, and rescan: iscsi://[USER%PASSWORD@]HOST:PORT/TARGET/LUN.
    AdapterAdd { urls: Vec<String> },
    /// Look for devices and datastores; the VAAI status of each begins anew.
    Rescan,
    /// ESXi's words, for example 'storage core device vaai status get'.
    #[command(disable_help_flag = true)]
    Esxcli {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// ESXi's words: -g PATH, -s VALUE PATH.
    #[command(name = "esxcfg-advcfg", disable_help_flag = true)]
    Advcfg {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// ESXi's words: -c, -i, -w, -j, -k, -K, -y, -C, -P, -U, -X, -E, -D.
    #[command(disable_help_flag = true)]
    Vmkfstools {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Counters of the devices, with rates.
    Esxtop {
        /// Seconds between two screens.
        #[arg(short, long, default_value_t = 2.0)]
        delay: f64,
        /// Screens.
        #[arg(short = 'n', long, default_value_t = 1)]
        count: u32,
        /// Comma-separated values.
        #[arg(short, long)]
        batch: bool,
    },
    /// What a LUN can do, and what a host would do without.
    Doctor {
        url: String,
        /// Try commands that write, too, on the LUN's last MiB, and restore it.
        #[arg(long)]
        scratch: bool,
    },
    /// Many hosts touch files on one datastore.
    TouchLoop {
        urls: Vec<String>,
        #[arg(long, default_value_t = 16)]
        hosts: u32,
        #[arg(long, default_value_t = 100)]
        rounds: u32,
        /// Lock by reservations.
        #[arg(long)]
        scsi: bool,
    },
    /// Files on datastores: /vmfs/volumes/DATASTORE/PATH.
    #[command(subcommand)]
    File(FileWords),
    /// Virtual machines as workloads.
    #[command(subcommand)]
    Vm(VmWords),
}

/// What can be done with files.
#[derive(Debug, Subcommand)]
pub(crate) enum FileWords {
    /// The entries of a directory.
    Ls { path: String },
    /// Make a directory.
    Mkdir { path: String },
    /// Copy a local file to a datastore.
    Put { local: PathBuf, path: String },
    /// Copy all files of a local folder to a directory of a datastore.
    PutTree { local: PathBuf, path: String },
    /// Copy a file of a datastore.
    Get { path: String, local: PathBuf },
    /// Set a file's time.
    Touch { path: String },
    /// Delete a file or an empty directory.
    Rm { path: String },
    /// Keep a file open and locked for some seconds.
    Hold {
        path: String,
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
}

/// What can be done with virtual machines.
#[derive(Debug, Subcommand)]
pub(crate) enum VmWords {
    /// Let one use its disk.
    Run {
        disk: String,
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
    },
    /// Move a disk to another datastore while a virtual machine writes to it.
    Migrate {
        source: String,
        destination: String,
        /// thin, zeroedthick or eagerzeroedthick.
        #[arg(long, default_value = "zeroedthick")]
        format: String,
        /// Writes of 64 KiB during each 64 MiB that move.
        #[arg(long, default_value_t = 4)]
        writes: u64,
    },
}

/// Carries out what was asked; prints what there is to say.
///
/// # Errors
/// Whatever goes wrong.
pub(crate) fn run(words: &Words, state: &Path, as_json: bool) -> Result<()> {
    match words {
        Words::HostCreate { name, iqn } => {
            let host = Host::create(state, name, iqn.as_deref())?;
            println!("{}", host.record.iqn);
            Ok(())
        }
        Words::Doctor { url, scratch } => {
            let initiator = format!("iqn.2026-11.io.gantry.host:doctor-{}", std::process::id());
            let depth = if *scratch { Depth::Scratch } else { Depth::ReadOnly };
            let found = doctor::examine(url, &initiator, depth)?;
            match as_json {
                true => println!("{}", serde_json::to_string_pretty(&found)?),
                false => print!("{}", found.text()),
            }
            Ok(())
        }
        Words::TouchLoop { urls, hosts, rounds, scsi } => {
            let locking = if *scsi { Locking::Scsi } else { Locking::Ats };
            let (urls, hosts, rounds) = (urls.clone(), *hosts, *rounds);
            let outcome = touch::run(&touch::Loop { urls, hosts, rounds, locking })?;
            println!("{}", serde_json::to_string(&outcome)?);
            Ok(())
        }
        other => on_host(other, &mut Host::open(state)?),
    }
}

fn on_host(words: &Words, host: &mut Host) -> Result<()> {
    match words {
        Words::AdapterAdd { urls } => {
            host.change(|record| {
                record.paths.extend(urls.iter().cloned());
                Ok(())
            })?;
            rescan(host)
        }
        Words::Rescan => rescan(host),
        Words::Esxcli { words } => {
            print!("{}", esxcli::run(host, words)?);
            Ok(())
        }
        Words::Advcfg { words } => {
            print!("{}", esxcli::advcfg(host, words)?);
            Ok(())
        }
        Words::Vmkfstools { words } => {
            let report = vmkfstools::run(host, words)?;
            eprintln!("{}", serde_json::to_string(&report)?);
            Ok(())
        }
        Words::Esxtop { delay, count, batch } => {
            esxtop::run(host, Duration::try_from_secs_f64(*delay)?, *count, *batch)
        }
        Words::File(words) => file(host, words),
        Words::Vm(words) => virtual_machine(host, words),
        Words::HostCreate { .. } | Words::Doctor { .. } | Words::TouchLoop { .. } => {
            unreachable!("carried out without a host")
        }
    }
}

fn rescan(host: &mut Host) -> Result<()> {
    for (name, lun) in host.rescan()? {
        let paths = lun.paths().count();
        let datastore = host.record.devices.get(&name).and_then(|found| found.datastore.clone());
        println!("{name} paths {paths} datastore {}", datastore.as_deref().unwrap_or("-"));
        host.finish(lun)?;
    }
    Ok(())
}

fn on_store(
    host: &mut Host,
    path: &str,
    work: impl FnOnce(&Host, &mut Datastore, &str) -> Result<()>,
) -> Result<()> {
    let (name, inside) = split_path(path)?;
    let mut store = datastore::mount(host, name)?;
    let done = work(host, &mut store, inside);
    store.finish(host)?;
    done
}

fn file(host: &mut Host, words: &FileWords) -> Result<()> {
    match words {
        FileWords::Ls { path } => on_store(host, path, |_, store, inside| list(store, inside)),
        FileWords::Mkdir { path } => {
            on_store(host, path, |_, store, inside| Ok(store.volume.create_directory(inside)?))
        }
        FileWords::Touch { path } => {
            on_store(host, path, |_, store, inside| Ok(store.volume.touch(inside)?))
        }
        FileWords::Rm { path } => {
            on_store(host, path, |_, store, inside| Ok(store.volume.remove_path(inside)?))
        }
        FileWords::Put { local, path } => {
            let bytes = fs::read(local).with_context(|| local.display().to_string())?;
            on_store(host, path, |_, store, inside| put(store, inside, &bytes))
        }
        FileWords::PutTree { local, path } => {
            on_store(host, path, |_, store, inside| put_tree(store, inside, local))
        }
        FileWords::Get { path, local } => {
            on_store(host, path, |_, store, inside| Ok(fs::write(local, get(store, inside)?)?))
        }
        FileWords::Hold { path, seconds } => {
            on_store(host, path, |_, store, inside| hold(store, inside, *seconds))
        }
    }
}

fn list(store: &mut Datastore, inside: &str) -> Result<()> {
    for entry in store.volume.list(inside)? {
        let status = store.volume.status(&format!("{inside}/{}", entry.name))?;
        println!("{:9?} {:14} {:14} {}", status.kind, status.length, status.allocated, entry.name);
    }
    Ok(())
}

fn put(store: &mut Datastore, inside: &str, bytes: &[u8]) -> Result<()> {
    let mut file = store.volume.create(inside)?;
    let written = store.volume.write_at(&mut file, 0, bytes);
    store.volume.close(file)?;
    Ok(written?)
}

fn put_tree(store: &mut Datastore, inside: &str, local: &Path) -> Result<()> {
    let entries: Vec<_> = fs::read_dir(local)?.collect::<Result<_, _>>()?;
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_str().context("a name that is no text")?;
        put(store, &format!("{inside}/{name}"), &fs::read(entry.path())?)?;
    }
    Ok(())
}

fn get(store: &mut Datastore, inside: &str) -> Result<Vec<u8>> {
    let file = store.volume.open(inside, LockMode::ReadOnly)?;
    let mut bytes = vec![0; usize::try_from(file.length())?];
    let read = store.volume.read_at(&file, 0, &mut bytes);
    store.volume.close(file)?;
    read?;
    Ok(bytes)
}

fn hold(store: &mut Datastore, inside: &str, seconds: u64) -> Result<()> {
    let file = store.volume.open(inside, LockMode::Exclusive)?;
    println!("held");
    for _ in 0..seconds * 20 {
        std::thread::sleep(Duration::from_millis(50));
        store.volume.pulse_if_due()?;
    }
    Ok(store.volume.close(file)?)
}

fn virtual_machine(host: &mut Host, words: &VmWords) -> Result<()> {
    match words {
        VmWords::Run { disk, pattern, seconds, operations, patience } => {
            on_store(host, disk, |host, store, inside| {
                let order = vm::Run {
                    path: inside.to_owned(),
                    pattern: *pattern,
                    duration: Duration::from_secs(*seconds),
                    operations_max: *operations,
                    patience: Duration::from_secs(*patience),
                };
                let outcome = vm::run(host, store, &order)?;
                println!("{}", serde_json::to_string(&outcome)?);
                Ok(())
            })
        }
        VmWords::Migrate { source, destination, format, writes } => {
            migrate(host, [source, destination], format, *writes)
        }
    }
}

fn migrate(
    host: &mut Host,
    [source, destination]: [&str; 2],
    format: &str,
    writes: u64,
) -> Result<()> {
    let format = vmfs::vmdk::DiskFormat::parse(format)
        .with_context(|| format!("{format}: unknown format"))?;
    let ((from, source), (to, path)) = (split_path(source)?, split_path(destination)?);
    let mut stores = vec![datastore::mount(host, from)?];
    if from != to {
        stores.push(datastore::mount(host, to)?);
    }
    let size = stores[0].volume.disk_descriptor(source)?.size;
    let order = Clone {
        source: (0, source),
        destination: (stores.len() - 1, path),
        format,
        has_snapshot: false,
    };
    let mut made = Vec::new();
    let mut left = (0, 0);
    let mut writer = |copied: u64| {
        if left.0 != copied {
            left = (copied, writes);
        }
        left.1 = u64::checked_sub(left.1, 1)?;
        // Before, in and behind what is copied.
        let number = made.len() as u64;
        let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (size / 65_536) * 65_536;
        made.push(at);
        Some((at, vec![number as u8 | 1; 65_536]))
    };
    let moved = mover::storage_vmotion(
        &mut stores,
        order,
        &mut |_, _| std::ops::ControlFlow::Continue(()),
        &mut writer,
    );
    for store in stores {
        store.finish(host)?;
    }
    println!("{}", json!({ "report": moved?, "writes": made }));
    Ok(())
}
