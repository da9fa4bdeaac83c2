//! Control files of the Debian package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{glibc, write};
use crate::process;
use crate::workspace;

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Files that an administrator edits and an update leaves alone.
const CONFIGURATION: &str = "/etc/gantry/gantryd.env\n";

/// Packs everything under `root`.
pub(super) fn build(folder: &Path, root: &Path, programs: &[(&str, &str)]) -> Result<PathBuf> {
    let control = root.join("DEBIAN");
    let sums = sums(root)?;
    let architecture = process::output("dpkg", &["--print-architecture"])?.trim().to_owned();
    let mut version = (0, 0);
    for (name, place) in programs {
        version = version.max(glibc::needed(&root.join(place).join(name))?);
    }
    let kilobytes = size(root)?.div_ceil(1024);
    write(&control.join("control"), describe(&architecture, version, kilobytes).as_bytes())?;
    write(&control.join("conffiles"), CONFIGURATION.as_bytes())?;
    write(&control.join("md5sums"), sums.as_bytes())?;
    for script in SCRIPTS {
        let text = fs::read(workspace::root().join("packaging").join(script))?;
        write(&control.join(script), &text)?;
        fs::set_permissions(control.join(script), fs::Permissions::from_mode(0o755))?;
    }
    let name = format!("gantry_{}_{architecture}.deb", env!("CARGO_PKG_VERSION"));
    let package = folder.join(name);
    let places = [root, &package].map(|path| path.to_str().context("a printable path"));
    let [root, place] = places;
    process::run("dpkg-deb", &["--root-owner-group", "--build", root?, place?])?;
    Ok(package)
}

fn describe(architecture: &str, glibc: (u32, u32), kilobytes: u64) -> String {
    format!(
        "Package: gantry\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The Gantry authors <gantry@localhost>\n\
         Installed-Size: {kilobytes}\n\
         Depends: libc6 (>= {major}.{minor}), passwd\n\
         Recommends: ca-certificates\n\
         Section: admin\n\
         Priority: optional\n\
         Description: storage array in software, with every VAAI offload\n\
         \x20An iSCSI target in front of thin pools on files or block devices. Copies,\n\
         \x20zeroes and deletes by reference: EXTENDED COPY, WRITE SAME, UNMAP and\n\
         \x20COMPARE AND WRITE cost no data I/O. Snapshots, clones, schedules, and a\n\
         \x20ledger of every offload.\n",
        version = env!("CARGO_PKG_VERSION"),
        major = glibc.0,
        minor = glibc.1,
    )
}

/// The sums that dpkg compares files with.
fn sums(root: &Path) -> Result<String> {
    let files = files(root)?;
    let sums = process::output("md5sum", &files)?;
    let prefix = format!("{}/", root.display());
    Ok(sums.lines().map(|line| line.replace(&prefix, "") + "\n").collect())
}

fn size(root: &Path) -> Result<u64> {
    let sizes = files(root)?.into_iter().map(|file| Ok(fs::metadata(file)?.len()));
    sizes.sum()
}

/// All files of the package, sorted.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            match path.is_dir() {
                true if path.file_name().is_some_and(|name| name == "DEBIAN") => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    Ok(files)
}
