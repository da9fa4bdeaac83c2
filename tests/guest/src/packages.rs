//! The guest's files: Debian packages, fetched and unpacked once, kept between runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use anyhow::{Context, Result, bail, ensure};
use harness::program::run;
use rustix::fs::{FlockOperation, flock};

/// What the guest needs; apt adds what these depend on.
const PACKAGES: [&str; 14] = [
    "linux-image-amd64",
    "dash",
    "busybox-static",
    "open-iscsi",
    "multipath-tools",
    "e2fsprogs",
    "xfsprogs",
    "fio",
    "sg3-utils",
    "ddpt",
    "lsscsi",
    "extlinux",
    "util-linux",
    "mount",
];

/// Packages that come along by dependency and that nothing in the guest runs.
const UNUSED: [&str; 4] = ["perl", "libperl", "python", "libpython"];

/// Folders that the guest mounts something on.
const MOUNT_POINTS: [&str; 7] = ["proc", "sys", "dev", "run", "tmp", "mnt", "var"];

/// Changes whenever what is unpacked, or how, changes.
const LAYOUT: &str = "1";

/// How long one step may take: about 150 MB come over the network.
const STEP_TIMEOUT: Duration = Duration::from_secs(900);

/// An unpacked system, of which the guest sees everything and changes nothing.
#[derive(Debug)]
pub struct Root {
    folder: PathBuf,
    kernel_release: String,
}

impl Root {
    /// The system, fetched and unpacked if this has not been done before.
    ///
    /// # Errors
    /// When a package cannot be fetched or unpacked.
    pub fn get() -> Result<Self> {
        let cache = cache_folder()?;
        fs::create_dir_all(&cache)?;
        // Two test programs may want it at the same time.
        let lock = File::create(cache.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive).context("locking the guest's folder")?;
        let folder = cache.join("root");
        let stamp = cache.join("stamp");
        if fs::read_to_string(&stamp).ok() != Some(stamp_text()) {
            build(&cache, &folder)?;
            fs::write(&stamp, stamp_text())?;
        }
        let kernel_release = kernel_release(&folder)?;
        Ok(Self { folder, kernel_release })
    }

    /// Where the system lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The kernel's image.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("boot").join(format!("vmlinuz-{}", self.kernel_release))
    }

    /// Where the kernel's modules lie, from the root of the system.
    pub fn modules(&self) -> PathBuf {
        Path::new("lib/modules").join(&self.kernel_release)
    }
}

/// The text changes with the packages and with the layout.
fn stamp_text() -> String {
    format!("{LAYOUT} {}", PACKAGES.join(" "))
}

/// Below the folder in which cargo builds, so that cleaning takes it along.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("GANTRY_GUEST_DIR") {
        return Ok(folder.into());
    }
    let program = env::current_exe().context("finding this program")?;
    // Cargo marks its folder; tests lie in one below that of other programs.
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    Ok(target.context("this program lies in no folder of cargo's")?.join("guest"))
}

fn build(cache: &Path, folder: &Path) -> Result<()> {
    eprintln!("fetching the guest's packages into {}", cache.display());
    let archives = cache.join("archives");
    // Neither old packages nor what an interrupted run left may come in.
    for old in [folder, &archives] {
        match fs::remove_dir_all(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    fetch(cache, &archives)?;
    for archive in wanted(&archives)? {
        unpack(&archive, folder)?;
    }
    for name in MOUNT_POINTS {
        fs::create_dir_all(folder.join(name))?;
    }
    index_modules(folder)
}

/// Lets apt choose for an empty system, so that all dependencies come along, whatever this machine
/// has; it needs no right but to write into our folder, and no lists but its own.
fn fetch(cache: &Path, archives: &Path) -> Result<()> {
    let lists = cache.join("lists");
    for folder in [archives, &lists] {
        fs::create_dir_all(folder.join("partial"))?;
    }
    let status = cache.join("status");
    fs::write(&status, "")?;
    let options = [
        format!("Dir::State::status={}", status.display()),
        format!("Dir::State::lists={}", lists.display()),
        format!("Dir::Cache={}", cache.display()),
        format!("Dir::Cache::archives={}", archives.display()),
        format!("Dir::Log={}", cache.display()),
        "Acquire::Retries=3".to_owned(),
        "Debug::NoLocking=1".to_owned(),
        "APT::Install-Recommends=0".to_owned(),
        "APT::Sandbox::User=".to_owned(),
    ];
    apt_get(&options, &["update"])?;
    let install = [&["-y", "--download-only", "install"][..], &PACKAGES].concat();
    apt_get(&options, &install)
        .context("the packages are Debian's; another distribution may lack some of them")
}

fn apt_get(options: &[String], words: &[&str]) -> Result<()> {
    let mut arguments = vec!["-qq"];
    arguments.extend(options.iter().flat_map(|option| ["-o", option]));
    arguments.extend(words);
    run(Path::new("apt-get"), &arguments, STEP_TIMEOUT)?.success()?;
    Ok(())
}

fn wanted(archives: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(archives)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_unused = UNUSED.iter().any(|unused| name.starts_with(unused));
        if path.extension().is_some_and(|extension| extension == "deb") && !is_unused {
            found.push(path);
        }
    }
    ensure!(!found.is_empty(), "apt-get left no packages in {}", archives.display());
    found.sort();
    Ok(found)
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let arguments = ["-x".as_ref(), archive.as_os_str(), folder.as_os_str()];
    run(Path::new("dpkg-deb"), &arguments, STEP_TIMEOUT)?.success()?;
    Ok(())
}

/// What a package's installation would do: modules find each other by these tables.
fn index_modules(folder: &Path) -> Result<()> {
    let libraries = ["lib", "usr/lib"].map(|name| folder.join(name).join("x86_64-linux-gnu"));
    let libraries = libraries.map(|path| path.display().to_string()).join(":");
    let kmod = folder.join("bin/kmod").display().to_string();
    let base = folder.display().to_string();
    let release = kernel_release(folder)?;
    // The guest's own program with the guest's own libraries: this machine may have none.
    let arguments =
        ["--argv0", "depmod", "--library-path", &libraries, &kmod, "-b", &base, &release];
    run(&folder.join("lib64/ld-linux-x86-64.so.2"), &arguments, STEP_TIMEOUT)?.success()?;
    Ok(())
}

fn kernel_release(folder: &Path) -> Result<String> {
    let modules = folder.join("lib/modules");
    let entries = fs::read_dir(&modules).with_context(|| modules.display().to_string())?;
    let names: Vec<_> = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    match &names[..] {
        [name] => Ok(name.clone()),
        _ => bail!("one kernel was expected in {}, not {names:?}", modules.display()),
    }
}
