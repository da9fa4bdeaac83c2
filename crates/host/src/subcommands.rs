//! Subcommands of `gantry-host` that need a simulated host.

mod machines;

use std::fs;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use vmfs::{LockMode, Locking};

use host::esxi::datastore::{self, Datastore, split_path};
use host::esxi::doctor::{self, Depth};
use host::esxi::esxtop::{self, Shape};
use host::esxi::state::Host;
use host::esxi::xcopy_validate::{self, Colors, Level, Wanted};
use host::esxi::{esxcli, mover, scsidevs, touch, vmkfstools};

/// What a simulated host can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum HostSubcommand {
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
    /// ESXi's arguments, for example 'storage core device vaai status get'.
    #[command(disable_help_flag = true)]
    Esxcli {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// ESXi's arguments: -g PATH, -s VALUE PATH.
    #[command(name = "esxcfg-advcfg", disable_help_flag = true)]
    Advcfg {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// ESXi's arguments: -l, -c, -u, -m, -a or -A.
    #[command(name = "esxcfg-scsidevs", disable_help_flag = true)]
    Scsidevs {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// ESXi's arguments: -c, -i, -w, -j, -k, -K, -X, -U, -E, -D, -y, -C, -G, -Z, -P.
    #[command(disable_help_flag = true)]
    Vmkfstools {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Counters of the devices, and of all together, with rates; until it is stopped.
    Esxtop {
        /// Seconds between two screens.
        #[arg(short, long, default_value_t = 2.0)]
        delay: f64,
        /// Screens after which it ends.
        #[arg(short = 'n', long)]
        count: Option<u32>,
        /// ESXi's batch mode: comma-separated values for Windows' Performance Monitor.
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
    /// Whether clones of a datastore's disks would be offloaded: the checks and lines of Forklift's
    /// xcopy-validate. Ends with the number of failures.
    #[command(group = clap::ArgGroup::new("which").required(true))]
    XcopyValidate {
        /// The datastore.
        #[arg(long, group = "which")]
        datastore: Option<String>,
        /// A disk on it instead: /vmfs/volumes/DATASTORE/PATH.
        #[arg(long, group = "which")]
        vmdk: Option<String>,
        /// All datastores of the host.
        #[arg(long, group = "which")]
        all_datastores: bool,
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
    File(FileSubcommand),
    /// Virtual machines as workloads.
    #[command(subcommand)]
    Vm(machines::VmSubcommand),
}

/// What can be done with files.
#[derive(Debug, Subcommand)]
pub(crate) enum FileSubcommand {
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
    /// SHA-256 of what a virtual disk shows; PATH is its descriptor.
    Hash { path: String },
    /// Set a file's time.
    Touch { path: String },
    /// Delete a file or an empty directory.
    Rm { path: String },
    /// Take over the locks and finish the work of hosts that died.
    Recover { datastore: String },
    /// Keep a file open and locked for some seconds.
    Hold {
        path: String,
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
}

/// Failures that an exit status tells at most.
const FAILURES_TOLD_MAX: usize = 125;

/// Carries out what was asked; prints what there is to say.
///
/// # Errors
/// Whatever goes wrong.
pub(crate) fn run(subcommand: &HostSubcommand, state: &Path, as_json: bool) -> Result<ExitCode> {
    if let HostSubcommand::XcopyValidate { datastore, vmdk, .. } = subcommand {
        let wanted = match (datastore, vmdk) {
            (Some(name), _) => Wanted::Datastore(name.clone()),
            (None, Some(path)) => Wanted::of_disk(path)?,
            (None, None) => Wanted::All,
        };
        return readiness(&mut Host::open(state)?, &wanted, as_json);
    }
    carry_out(subcommand, state, as_json).map(|()| ExitCode::SUCCESS)
}

fn readiness(host: &mut Host, wanted: &Wanted, as_json: bool) -> Result<ExitCode> {
    let found = xcopy_validate::examine(host, wanted)?;
    let colors = if std::io::stdout().is_terminal() { Colors::Ansi } else { Colors::None };
    if as_json {
        terminal::say!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        terminal::say_part!("{}", found.text(colors));
    }
    let failures = found.count(Level::Fail).min(FAILURES_TOLD_MAX);
    Ok(ExitCode::from(u8::try_from(failures).expect("it is at most 125")))
}

fn carry_out(subcommand: &HostSubcommand, state: &Path, as_json: bool) -> Result<()> {
    match subcommand {
        HostSubcommand::HostCreate { name, iqn } => {
            let host = Host::create(state, name, iqn.as_deref())?;
            terminal::say!("{}", host.record.iqn);
            Ok(())
        }
        HostSubcommand::Doctor { url, scratch } => {
            let initiator = format!("iqn.2026-11.io.gantry.host:doctor-{}", std::process::id());
            let depth = if *scratch { Depth::Scratch } else { Depth::ReadOnly };
            let found = doctor::examine(url, &initiator, depth)?;
            if as_json {
                terminal::say!("{}", serde_json::to_string_pretty(&found)?)
            } else {
                terminal::say_part!("{}", found.text())
            }
            Ok(())
        }
        HostSubcommand::TouchLoop { urls, hosts, rounds, scsi } => {
            let locking = if *scsi { Locking::Scsi } else { Locking::Ats };
            let (urls, hosts, rounds) = (urls.clone(), *hosts, *rounds);
            let outcome = touch::run(&touch::Loop { urls, hosts, rounds, locking })?;
            terminal::say!("{}", serde_json::to_string(&outcome)?);
            Ok(())
        }
        other => on_host(other, &mut Host::open(state)?, as_json),
    }
}

fn on_host(subcommand: &HostSubcommand, host: &mut Host, as_json: bool) -> Result<()> {
    match subcommand {
        HostSubcommand::AdapterAdd { urls } => {
            host.change(|record| {
                record.paths.extend(urls.iter().cloned());
                Ok(())
            })?;
            rescan(host)
        }
        HostSubcommand::Rescan => rescan(host),
        HostSubcommand::Esxcli { arguments } => {
            terminal::say_part!("{}", esxcli::run(host, arguments)?);
            Ok(())
        }
        HostSubcommand::Advcfg { arguments } => {
            terminal::say_part!("{}", esxcli::advcfg(host, arguments)?);
            Ok(())
        }
        HostSubcommand::Scsidevs { arguments } => {
            terminal::say_part!("{}", scsidevs::run(host, arguments)?);
            Ok(())
        }
        HostSubcommand::Vmkfstools { arguments } => {
            let report = vmkfstools::run(host, arguments)?;
            terminal::complain!("{}", serde_json::to_string(&report)?);
            Ok(())
        }
        HostSubcommand::Esxtop { delay, count, batch } => {
            let shape = match (as_json, batch) {
                (true, _) => Shape::Json,
                (false, true) => Shape::Batch,
                (false, false) => Shape::Screen,
            };
            esxtop::run(host, Duration::try_from_secs_f64(*delay)?, *count, shape)
        }
        HostSubcommand::File(subcommand) => file(host, subcommand),
        HostSubcommand::Vm(subcommand) => machines::run(host, subcommand),
        HostSubcommand::HostCreate { .. }
        | HostSubcommand::Doctor { .. }
        | HostSubcommand::XcopyValidate { .. }
        | HostSubcommand::TouchLoop { .. } => {
            unreachable!("carried out without a host")
        }
    }
}

fn rescan(host: &mut Host) -> Result<()> {
    for (name, lun) in host.rescan()? {
        let paths = lun.paths().count();
        let datastore = host.record.devices.get(&name).and_then(|found| found.datastore.clone());
        terminal::say!("{name} paths {paths} datastore {}", datastore.as_deref().unwrap_or("-"));
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

fn file(host: &mut Host, subcommand: &FileSubcommand) -> Result<()> {
    match subcommand {
        FileSubcommand::Ls { path } => on_store(host, path, |_, store, inside| list(store, inside)),
        FileSubcommand::Mkdir { path } => {
            on_store(host, path, |_, store, inside| Ok(store.volume.create_directory(inside)?))
        }
        FileSubcommand::Touch { path } => {
            on_store(host, path, |_, store, inside| Ok(store.volume.touch(inside)?))
        }
        FileSubcommand::Rm { path } => {
            on_store(host, path, |_, store, inside| Ok(store.volume.remove_path(inside)?))
        }
        FileSubcommand::Put { local, path } => {
            let bytes = fs::read(local).with_context(|| local.display().to_string())?;
            on_store(host, path, |_, store, inside| put(store, inside, &bytes))
        }
        FileSubcommand::PutTree { local, path } => {
            on_store(host, path, |_, store, inside| put_tree(store, inside, local))
        }
        FileSubcommand::Get { path, local } => {
            on_store(host, path, |_, store, inside| Ok(fs::write(local, get(store, inside)?)?))
        }
        FileSubcommand::Hash { path } => on_store(host, path, |_, store, inside| {
            let sum = mover::checksum(store, inside, &mut |_, _| ControlFlow::Continue(()))?;
            terminal::say!("{sum}");
            Ok(())
        }),
        FileSubcommand::Recover { datastore } => on_store(host, datastore, |_, store, _| {
            terminal::say!("{}", store.volume.take_over_dead()?);
            Ok(())
        }),
        FileSubcommand::Hold { path, seconds } => {
            on_store(host, path, |_, store, inside| hold(store, inside, *seconds))
        }
    }
}

fn list(store: &mut Datastore, inside: &str) -> Result<()> {
    for entry in store.volume.list(inside)? {
        let status = store.volume.status(&format!("{inside}/{}", entry.name))?;
        terminal::say!(
            "{:9?} {:14} {:14} {}",
            status.kind,
            status.length,
            status.allocated,
            terminal::printable(&entry.name).replace('\n', "\\n")
        );
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
    terminal::say!("held");
    for _ in 0..seconds * 20 {
        std::thread::sleep(Duration::from_millis(50));
        store.volume.pulse_if_due()?;
    }
    Ok(store.volume.close(file)?)
}
