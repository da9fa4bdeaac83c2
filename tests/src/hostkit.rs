//! Simulated hosts of `gantry-host`, and Debian's vmfs-tools as witnesses of what they write.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::Array;
use crate::binaries::binary;
use crate::initiator::qemu_img;
use crate::program::{Finished, Running, run};

/// How long one command of a host may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// First byte of the partition that ESXi makes.
const PARTITION: u64 = 1 << 20;

/// An array on memory with LUNs for every host.
///
/// # Errors
/// When the daemon does not start.
pub fn array(luns: &[(&str, &str)]) -> Result<Array> {
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "12G"])?;
    for (name, size) in luns {
        array.create_lun(&format!("p/{name}"), size)?;
    }
    Ok(array)
}

/// A simulated host, with its folder.
#[derive(Debug)]
pub struct Host {
    folder: TempDir,
}

impl Host {
    /// Makes a host that reaches the given paths.
    ///
    /// # Errors
    /// When it fails.
    pub fn new(name: &str, urls: &[&str]) -> Result<Self> {
        let host = Self { folder: tempfile::tempdir()? };
        host.run(&["host-create", name])?;
        host.run(&[&["adapter-add"], urls].concat())?;
        Ok(host)
    }

    /// Its folder, as other hosts are told it.
    pub fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap_or_default()
    }

    fn words<'a>(&'a self, words: &[&'a str]) -> Result<Vec<&'a str>> {
        let folder = self.folder.path().to_str().context("a printable path")?;
        Ok([&["--state", folder], words].concat())
    }

    /// Runs a command to its end, whatever that is.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn attempt(&self, words: &[&str]) -> Result<Finished> {
        run(&binary("gantry-host")?, &self.words(words)?, TIMEOUT)
    }

    /// Runs a command that must succeed; returns what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        self.attempt(words)?.success()
    }

    /// As [`Host::attempt`], with what is typed when it asks.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn answer(&self, words: &[&str], typed: &str) -> Result<Output> {
        let mut command = Command::new(binary("gantry-host")?);
        command.args(self.words(words)?).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        match child.stdin.take().context("its input")?.write_all(typed.as_bytes()) {
            // It ended before it would have asked.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written?,
        }
        Ok(child.wait_with_output()?)
    }

    /// Runs `vmkfstools`; returns its report.
    ///
    /// # Errors
    /// When it fails.
    pub fn vmkfstools(&self, words: &[&str]) -> Result<Value> {
        let finished = self.attempt(&[&["vmkfstools"], words].concat())?;
        ensure!(finished.status.success(), "{words:?}: {}{}", finished.stdout, finished.stderr);
        let report = finished.stderr.lines().last().context("a report")?;
        serde_json::from_str(report).context("a report")
    }

    /// Starts a command beside the test.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, words: &[&str]) -> Result<Running> {
        Running::start(&binary("gantry-host")?, &self.words(words)?)
    }

    /// The devices' names, in order.
    ///
    /// # Errors
    /// When a rescan fails.
    pub fn devices(&self) -> Result<Vec<String>> {
        let printed = self.run(&["rescan"])?;
        let names = printed.lines().filter_map(|line| line.split(' ').next());
        Ok(names.map(str::to_owned).collect())
    }

    /// The counters of a device, as `esxtop` says them.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn counter(&self, device: &str, column: &str) -> Result<f64> {
        let printed = self.run(&["esxtop", "-b", "-n", "1"])?;
        let mut lines = printed.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let heads = lines.next().context("a head")?;
        let wanted = format!("({device})\\{column}\"");
        let at = heads.iter().position(|head| head.ends_with(&wanted)).context("a column")?;
        Ok(lines.next().context("a row")?[at].trim_matches('"').parse()?)
    }
}

/// The partition of a LUN as a file that vmfs-tools read, which know no GPT.
///
/// # Errors
/// When the LUN cannot be read.
pub fn image_of(array: &Array, lun: u16, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(format!("lun{lun}.img"));
    let source = format!(
        "driver=raw,offset={PARTITION},file.driver=iscsi,file.transport=tcp,file.portal={},file.target={},file.lun={lun}",
        array.portal(),
        array.target_name()?
    );
    let target = path.to_str().context("a printable path")?;
    qemu_img(&["convert", "--image-opts", &source, "-O", "raw", target])?;
    Ok(path)
}

/// What fsck.vmfs counts: unallocated, lost, undefined, orphaned, directory errors.
///
/// # Errors
/// When it cannot read the volume.
pub fn fsck(image: &Path) -> Result<[u64; 5]> {
    fsck_all(&[image.to_owned()])
}

/// As [`fsck`], for a volume over several LUNs.
///
/// # Errors
/// When it cannot read the volume.
pub fn fsck_all(images: &[PathBuf]) -> Result<[u64; 5]> {
    let printed = run(Path::new("fsck.vmfs"), images, TIMEOUT)?.success()?;
    ensure!(!printed.contains("multiple inodes"), "{printed}");
    let count = |head: &str| -> Result<u64> {
        let line = printed.lines().find(|line| line.starts_with(head) && line.contains(" : "));
        let text = line.and_then(|line| line.rsplit(' ').next());
        Ok(text.with_context(|| format!("no '{head}' in {printed}"))?.parse()?)
    };
    Ok([
        count("Unallocated blocks")?,
        count("Lost blocks")?,
        count("Undefined inodes")?,
        count("Orphaned inodes")?,
        count("Directory errors")?,
    ])
}

/// A volume that vmfs-tools read, until this value goes: mounted by vmfs-fuse, or, in a container
/// without /dev/fuse, file by file through debugvmfs, which is the same library.
#[derive(Debug)]
pub struct Fuse {
    images: Vec<PathBuf>,
    folder: Option<TempDir>,
}

impl Fuse {
    /// Mounts an image.
    ///
    /// # Errors
    /// When vmfs-tools are missing, or refuse the volume.
    pub fn mount(image: &Path) -> Result<Self> {
        Self::mount_all(&[image.to_owned()])
    }

    /// Mounts the images of a volume over several LUNs.
    ///
    /// # Errors
    /// As [`Fuse::mount`].
    pub fn mount_all(images: &[PathBuf]) -> Result<Self> {
        let mut fuse = Self { images: images.to_owned(), folder: None };
        if !Path::new("/dev/fuse").exists() {
            println!("there is no /dev/fuse: debugvmfs reads {images:?}");
            return Ok(fuse);
        }
        let folder = tempfile::tempdir()?;
        let output = Command::new("vmfs-fuse")
            .args(images)
            .arg(folder.path())
            .output()
            .context("vmfs-fuse is missing ('cargo xtask setup')")?;
        if !output.status.success() {
            bail!("vmfs-fuse: {}", String::from_utf8_lossy(&output.stderr));
        }
        fuse.folder = Some(folder);
        Ok(fuse)
    }

    /// A file's content.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        if let Some(folder) = &self.folder {
            return fs::read(folder.path().join(path)).with_context(|| path.to_owned());
        }
        let output = Command::new("debugvmfs").args(&self.images).args(["cat", path]).output()?;
        ensure!(output.status.success(), "debugvmfs cat {path}: {output:?}");
        Ok(output.stdout)
    }

    /// Copies files of one directory to a local one.
    ///
    /// # Errors
    /// When one cannot be read or written.
    pub fn copy(&self, directory: &str, names: &[&str], local: &Path) -> Result<()> {
        for name in names {
            fs::write(local.join(name), self.read(&format!("{directory}/{name}"))?)?;
        }
        Ok(())
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let Some(folder) = &self.folder else { return };
        let unmount = |program: &str, option: &str| {
            let done = Command::new(program).arg(option).arg(folder.path()).output();
            done.is_ok_and(|output| output.status.success())
        };
        // Debian's vmfs-tools bring no fusermount; without it one has to be root.
        if !(unmount("umount", "-l") || unmount("fusermount", "-u")) {
            eprintln!("{} stays mounted", folder.path().display());
        }
    }
}
