//! A virtual machine's files: a directory with its configuration, its disks, and the redo logs of
//! its snapshots.

use anyhow::{Context, Result, ensure};
use vmfs::LockMode;
use vmfs::chain::Chain;
use vmfs::vmdk::DiskFormat;

use super::Config;
use crate::esxi::datastore::Datastore;
use crate::esxi::mover::{self, Clone, LiveWriter, MachineState, Progress, Report};
use crate::esxi::state;

/// Disks of a virtual machine at most: the places on one SCSI controller, without its own.
const DISKS_MAX: usize = 15;

/// A virtual machine to make.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name, and that of its directory.
    pub name: String,
    /// Bytes and format of each disk.
    pub disks: Vec<(u64, DiskFormat)>,
}

/// A virtual machine's files, as they were found.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its directory on the datastore.
    pub folder: String,
    config: Config,
    snapshots: Config,
    template: Template,
}

/// Whether a machine is a template: its configuration is a `.vmtx` then, and it does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// A machine.
    #[default]
    No,
    /// A template.
    Yes,
}

impl Template {
    fn ending(self) -> &'static str {
        match self {
            Self::No => "vmx",
            Self::Yes => "vmtx",
        }
    }
}

/// The guest of a machine that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Powered off.
    Still,
    /// Powered on, with VMware Tools: a Windows guest is quiesced where `disk.EnableUUID` is TRUE.
    PoweredOn,
}

/// The key of the file of the n-th disk; place 7 of a controller is its own.
fn disk_key(number: usize) -> String {
    format!("scsi0:{}.fileName", if number < 7 { number } else { number + 1 })
}

fn disk_name(name: &str, number: usize) -> String {
    match number {
        0 => format!("{name}.vmdk"),
        number => format!("{name}_{number}.vmdk"),
    }
}

impl Machine {
    fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or(&self.folder)
    }

    /// The name that people are shown.
    pub fn display_name(&self) -> &str {
        self.config.get("displayName").unwrap_or_else(|| self.name())
    }

    /// Its `uuid.bios`; empty for one that has none.
    pub fn uuid(&self) -> &str {
        self.config.get("uuid.bios").unwrap_or_default()
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// The path of its configuration, whose lock a machine holds while it runs.
    pub fn config_path(&self) -> String {
        self.path(&format!("{}.{}", self.name(), self.template.ending()))
    }

    /// Whether it is a template.
    pub fn is_template(&self) -> bool {
        self.template == Template::Yes
    }

    /// What a clone of it is like while it is powered on.
    fn quiesced(&self) -> MachineState {
        let says = |key: &str| self.config.get(key).unwrap_or_default().to_ascii_lowercase();
        let is_windows = says("guestOS").starts_with("windows");
        if is_windows && says("disk.EnableUUID") == "true" {
            MachineState::Quiesced
        } else {
            MachineState::Still
        }
    }

    fn snapshots_path(&self) -> String {
        self.path(&format!("{}.vmsd", self.name()))
    }

    /// The path of the descriptor of a disk's newest layer.
    ///
    /// # Errors
    /// When there is no such disk.
    pub fn disk(&self, number: usize) -> Result<String> {
        let name = self.config.get(&disk_key(number));
        Ok(self.path(name.with_context(|| format!("{} has no disk {number}", self.folder))?))
    }

    /// The descriptors of all disks.
    pub fn disks(&self) -> Vec<String> {
        (0..DISKS_MAX).map_while(|number| self.disk(number).ok()).collect()
    }

    fn count(&self) -> usize {
        let count = self.snapshots.get("snapshot.numSnapshots");
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    fn labels(&self) -> Vec<String> {
        let label = |number| self.snapshots.get(&format!("snapshot{number}.displayName"));
        (0..self.count()).map(|number| label(number).unwrap_or_default().to_owned()).collect()
    }

    fn save(&self, store: &mut Datastore) -> Result<()> {
        self.config.save(store, &self.config_path())?;
        self.snapshots.save(store, &self.snapshots_path())
    }

    /// Writes down what snapshots there are: labels, oldest first.
    fn set_labels(&mut self, labels: &[String]) {
        self.snapshots.remove("snapshot");
        let count = labels.len().to_string();
        for name in ["snapshot.lastUID", "snapshot.current", "snapshot.numSnapshots"] {
            self.snapshots.set(name, &count);
        }
        for (number, label) in labels.iter().enumerate() {
            let name = |field: &str| format!("snapshot{number}.{field}");
            self.snapshots.set(&name("uid"), &(number + 1).to_string());
            self.snapshots.set(&name("displayName"), label);
        }
    }
}

/// Makes a virtual machine with empty disks.
///
/// # Errors
/// When there is one of that name; when the datastore is full, after which nothing is left of it.
pub fn create(store: &mut Datastore, spec: &Spec, progress: &mut Progress<'_>) -> Result<Machine> {
    ensure!(spec.disks.len() <= DISKS_MAX, "a machine has at most {DISKS_MAX} disks");
    let mut machine = begin(store, &spec.name)?;
    for (number, (size, format)) in spec.disks.iter().enumerate() {
        let name = disk_name(machine.name(), number);
        let made = create_disk(store, &machine.path(&name), *size, *format, progress);
        if let Err(error) = made {
            discard(store, &machine)?;
            return Err(error);
        }
        machine.config.set(&disk_key(number), &name);
    }
    machine.save(store)?;
    Ok(machine)
}

fn begin(store: &mut Datastore, folder: &str) -> Result<Machine> {
    store.volume.create_directory(folder)?;
    let mut machine = Machine {
        folder: folder.to_owned(),
        config: Config::new(),
        snapshots: Config::new(),
        template: Template::No,
    };
    let name = machine.name().to_owned();
    let uuid = new_uuid()?;
    for (key, value) in [
        ("uuid.bios", uuid.as_str()),
        ("config.version", "8"),
        ("virtualHW.version", "8"),
        ("displayName", name.as_str()),
        ("scsi0.present", "TRUE"),
        ("scsi0.virtualDev", "lsilogic"),
    ] {
        machine.config.set(key, value);
    }
    machine.set_labels(&[]);
    Ok(machine)
}

/// A new identifier in VMware's form: 56 4d, then 14 random bytes.
fn new_uuid() -> Result<String> {
    let mut bytes = state::random()?;
    (bytes[0], bytes[1]) = (0x56, 0x4d);
    let half =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    Ok(format!("{}-{}", half(&bytes[..8]), half(&bytes[8..])))
}

fn create_disk(
    store: &mut Datastore,
    path: &str,
    size: u64,
    format: DiskFormat,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let file = store.volume.create_disk(path, size, format)?;
    if format != DiskFormat::EagerZeroedThick {
        return Ok(store.volume.close(file)?);
    }
    let zeroed = mover::eager_zero(store, file, progress);
    if zeroed.is_err() {
        store.volume.remove_disk(path)?;
    }
    zeroed.map(|_| ())
}

/// Removes what there is of a machine that could not be made.
fn discard(store: &mut Datastore, machine: &Machine) -> Result<()> {
    for path in machine.disks() {
        store.volume.remove_disk(&path)?;
    }
    Ok(store.volume.remove_path(&machine.folder)?)
}

/// Reads a virtual machine's configuration.
///
/// # Errors
/// When there is none of that name.
pub fn open(store: &mut Datastore, folder: &str) -> Result<Machine> {
    let folder = folder.trim_end_matches('/').to_owned();
    let mut machine = Machine {
        folder,
        config: Config::default(),
        snapshots: Config::default(),
        template: Template::Yes,
    };
    if store.volume.status(&machine.config_path()).is_err() {
        machine.template = Template::No;
    }
    machine.config = Config::load(store, &machine.config_path())?;
    machine.snapshots = Config::load(store, &machine.snapshots_path())?;
    Ok(machine)
}

/// Makes a machine a template, or a template a machine. A running machine is refused.
///
/// # Errors
/// When there is no such machine, or it runs.
pub fn turn(store: &mut Datastore, folder: &str, template: Template) -> Result<()> {
    let mut machine = open(store, folder)?;
    if machine.template == template {
        return Ok(());
    }
    let before = machine.config_path();
    // Who runs it holds this lock.
    let file = store.volume.open(&before, LockMode::Exclusive)?;
    store.volume.close(file)?;
    machine.template = template;
    Ok(store.volume.rename(&before, &machine.config_path())?)
}

/// Settings that describe which files a machine has: only what makes and removes these sets them.
const OWN_KEYS: [&str; 3] = ["scsi", "snapshot", ".encoding"];

/// Sets a line of a machine's configuration, for example `disk.EnableUUID` or `guestOS`.
///
/// # Errors
/// When the machine runs, or the line says which files it has.
pub fn set(store: &mut Datastore, folder: &str, key: &str, value: &str) -> Result<()> {
    let is_own = OWN_KEYS.iter().any(|own| key.starts_with(own));
    ensure!(!is_own, "{key} describes the machine's files: it is not to be set");
    let printable = |text: &str| !text.contains(['"', '\n', '\r', '=']);
    ensure!(!key.trim().is_empty() && printable(key) && printable(value), "{key}: no such setting");
    let mut machine = open(store, folder)?;
    machine.config.set(key.trim(), value);
    machine.config.save(store, &machine.config_path())
}

/// The labels of a virtual machine's snapshots, oldest first.
///
/// # Errors
/// When there is no such machine.
pub fn snapshots(store: &mut Datastore, folder: &str) -> Result<Vec<String>> {
    Ok(open(store, folder)?.labels())
}

/// Takes a snapshot of all disks: from then on, writes go to redo logs.
///
/// # Errors
/// When the machine runs on another host, or the datastore is full.
pub fn take_snapshot(store: &mut Datastore, folder: &str, label: &str) -> Result<()> {
    let mut machine = open(store, folder)?;
    let mut made = Vec::new();
    for path in machine.disks() {
        match snapshot_disk(store, &path) {
            Ok(path) => made.push(path),
            Err(error) => {
                for path in made {
                    store.volume.remove_disk(&path)?;
                }
                return Err(error);
            }
        }
    }
    for (number, path) in made.iter().enumerate() {
        let name = path.rsplit('/').next().unwrap_or(path);
        machine.config.set(&disk_key(number), name);
    }
    let labels = [machine.labels(), vec![label.to_owned()]].concat();
    machine.set_labels(&labels);
    machine.save(store)
}

fn snapshot_disk(store: &mut Datastore, path: &str) -> Result<String> {
    with_chain(store, path, |store, chain| Ok(store.volume.snapshot(chain)?))
}

fn with_chain<T>(
    store: &mut Datastore,
    path: &str,
    work: impl FnOnce(&mut Datastore, &mut Chain) -> Result<T>,
) -> Result<T> {
    let mut chain = store.volume.open_chain(path, LockMode::Exclusive)?;
    let done = work(store, &mut chain);
    store.volume.close_chain(chain)?;
    done
}

/// Removes a snapshot: what was written after it, up to the next one, is merged into what was
/// there before. Without a label, removes all.
///
/// # Errors
/// When there is no such snapshot; [`mover::Cancelled`], after which it is still there.
pub fn remove_snapshot(
    store: &mut Datastore,
    folder: &str,
    label: Option<&str>,
    progress: &mut Progress<'_>,
) -> Result<()> {
    loop {
        let mut machine = open(store, folder)?;
        let mut labels = machine.labels();
        let number = match label {
            None if labels.is_empty() => return Ok(()),
            None => 0,
            Some(label) => {
                let found = labels.iter().position(|known| known == label);
                found.with_context(|| format!("{folder} has no snapshot '{label}'"))?
            }
        };
        let disks = machine.disks();
        for (disk, path) in disks.iter().enumerate() {
            remove_layer(store, &mut machine, (disk, path), number, progress)?;
        }
        labels.remove(number);
        machine.set_labels(&labels);
        machine.save(store)?;
        if label.is_some() {
            return Ok(());
        }
    }
}

/// Merges one disk's layer above a snapshot down, names what is left in the configuration, and
/// only then deletes the layer.
fn remove_layer(
    store: &mut Datastore,
    machine: &mut Machine,
    (disk, path): (usize, &str),
    number: usize,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let (gone, top) = with_chain(store, path, |store, chain| {
        let mut heard = |done: u64| progress(done, 1000);
        let gone = store.volume.merge_down(chain, number, &mut heard)?;
        Ok((gone.ok_or(mover::Cancelled)?, chain.paths().last().cloned().unwrap_or_default()))
    })?;
    let name = top.rsplit('/').next().unwrap_or(&top);
    machine.config.set(&disk_key(disk), name);
    machine.config.save(store, &machine.config_path())?;
    Ok(store.volume.remove_disk(&gone)?)
}

/// Deletes a virtual machine with all its disks and snapshots.
///
/// # Errors
/// When it runs on another host.
pub fn destroy(store: &mut Datastore, folder: &str) -> Result<()> {
    let machine = open(store, folder)?;
    for path in machine.disks() {
        let layers = with_chain(store, &path, |_, chain| Ok(chain.paths().to_vec()))?;
        for layer in layers.iter().rev() {
            store.volume.remove_disk(layer)?;
        }
    }
    store.volume.remove_path(&machine.config_path())?;
    store.volume.remove_path(&machine.snapshots_path())?;
    Ok(store.volume.remove_path(&machine.folder)?)
}

/// Makes a virtual machine as another one is, for example from a template: number of the datastore
/// and directory of each. Snapshots of the source are merged in the copy. `format`: of all its
/// disks, or as the source's are; `guest`: whether the source runs meanwhile.
///
/// # Errors
/// [`mover::Cancelled`], and whatever the datastores say; nothing is left of the copy then.
pub fn deploy(
    stores: &mut [Datastore],
    source: (usize, &str),
    destination: (usize, &str),
    (format, guest): (Option<DiskFormat>, Guest),
    progress: &mut Progress<'_>,
) -> Result<Report> {
    copy_machine(stores, source, (destination, guest), &mut |stores, order, report| {
        let order = Clone { format: format.unwrap_or(order.format), ..order };
        report.add(&mover::clone(stores, order, progress)?);
        Ok(())
    })
}

/// Moves a virtual machine to another datastore or directory; `writer` writes to its first disk
/// meanwhile.
///
/// # Errors
/// As [`deploy`]; the machine stays where it is then. One with snapshots is refused.
pub fn relocate(
    stores: &mut [Datastore],
    source: (usize, &str),
    destination: (usize, &str),
    progress: &mut Progress<'_>,
    writer: &mut LiveWriter<'_>,
) -> Result<Report> {
    let (store, folder) = source;
    let found = snapshots(&mut stores[store], folder)?;
    ensure!(found.is_empty(), "{folder} has snapshots: remove them first");
    let mut first = true;
    let uuid = open(&mut stores[store], folder)?.uuid().to_owned();
    let report =
        copy_machine(stores, source, (destination, Guest::Still), &mut |stores, order, report| {
            let mut nothing = |_: u64| None;
            let writer: &mut LiveWriter<'_> = if first { &mut *writer } else { &mut nothing };
            first = false;
            report.add(&mover::mirror_copy(stores, order, progress, writer)?);
            Ok(())
        })?;
    if !uuid.is_empty() {
        let moved = &mut stores[destination.0];
        let mut machine = open(moved, destination.1)?;
        machine.config.set("uuid.bios", &uuid);
        machine.config.save(moved, &machine.config_path())?;
    }
    destroy(&mut stores[store], folder)?;
    Ok(report)
}

type CopyDisk<'a> = dyn FnMut(&mut [Datastore], Clone<'_>, &mut Report) -> Result<()> + 'a;

fn copy_machine(
    stores: &mut [Datastore],
    (from, folder): (usize, &str),
    ((to, new), guest): ((usize, &str), Guest),
    copy: &mut CopyDisk<'_>,
) -> Result<Report> {
    let source = open(&mut stores[from], folder)?;
    let mut machine = begin(&mut stores[to], new)?;
    for key in ["guestOS", "disk.EnableUUID"] {
        if let Some(value) = source.config.get(key) {
            machine.config.set(key, value);
        }
    }
    let mut report = Report::default();
    for (number, path) in source.disks().iter().enumerate() {
        let name = disk_name(machine.name(), number);
        let order = Clone {
            source: (from, path),
            destination: (to, &machine.path(&name)),
            format: format_of(&mut stores[from], path)?,
            machine: match guest {
                Guest::Still if source.count() > 0 => MachineState::HasSnapshot,
                Guest::Still => MachineState::Still,
                Guest::PoweredOn => source.quiesced(),
            },
        };
        if let Err(error) = copy(stores, order, &mut report) {
            discard(&mut stores[to], &machine)?;
            return Err(error);
        }
        machine.config.set(&disk_key(number), &name);
    }
    machine.save(&mut stores[to])?;
    Ok(report)
}

/// The format of a disk's base, as far as it can be seen.
fn format_of(store: &mut Datastore, path: &str) -> Result<DiskFormat> {
    let chain = store.volume.open_chain(path, LockMode::ReadOnly)?;
    let base = chain.paths()[0].clone();
    store.volume.close_chain(chain)?;
    if store.volume.disk_descriptor(&base)?.thin {
        return Ok(DiskFormat::Thin);
    }
    let file = store.volume.open_disk(&base, LockMode::ReadOnly)?;
    let to_be_zeroed = file.to_be_zeroed();
    store.volume.close(file)?;
    Ok(if to_be_zeroed == 0 { DiskFormat::EagerZeroedThick } else { DiskFormat::ZeroedThick })
}
