//! The Debian package, and container images: one that is built here, and what another is built from.

mod debian;
mod glibc;
pub(crate) mod image;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::setup;
use crate::workspace;

/// Shells that get completions: name, and where the file goes.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/gantry"),
    ("zsh", "usr/share/zsh/vendor-completions/_gantry"),
    ("fish", "usr/share/fish/vendor_completions.d/gantry.fish"),
];

/// Programs, and where they go. `gantry-host` is none of the array and needs libiscsi.
const PROGRAMS: [(&str, &str); 2] = [("gantryd", "usr/sbin"), ("gantry", "usr/bin")];

/// Files of the folder 'packaging': name, where it goes, its mode.
const FILES: [(&str, &str, u32); 7] = [
    ("gantryd.service", "usr/lib/systemd/system/gantryd.service", 0o644),
    ("gantryd.env", "etc/gantry/gantryd.env", 0o644),
    ("gantry.sysusers", "usr/lib/sysusers.d/gantry.conf", 0o644),
    ("copyright", "usr/share/doc/gantry/copyright", 0o644),
    ("changelog", "usr/share/doc/gantry/changelog", 0o644),
    ("gantry-alerts.yml", "usr/share/gantry/gantry-alerts.yml", 0o644),
    ("lintian-overrides", "usr/share/lintian/overrides/gantry", 0o644),
];

/// Builds the programs and packs them with completions, man pages and the unit.
pub(crate) fn run() -> Result<PathBuf> {
    let arguments = ["build", "--release", "--locked", "-p", "server", "-p", "cli"];
    process::run(&process::cargo(), &arguments)?;
    let binaries = workspace::release_folder();
    let folder = folder("package")?;
    let root = folder.join("root");
    for (name, place) in PROGRAMS {
        install(&binaries.join(name), &root.join(place).join(name), 0o755)?;
        strip(&root.join(place).join(name))?;
    }
    for (name, place, mode) in FILES {
        install(&workspace::root().join("packaging").join(name), &root.join(place), mode)?;
    }
    write_completions(&binaries, &root)?;
    write_manuals(&binaries, &root)?;
    let documents = root.join("usr/share/doc/gantry");
    let (ours, of_debian) = (documents.join("CHANGELOG.md"), documents.join("changelog"));
    install(&workspace::root().join("CHANGELOG.md"), &ours, 0o644)?;
    check_version(&of_debian)?;
    compress(&[ours, of_debian])?;
    let package = debian::build(&folder, &root, &PROGRAMS)?;
    terminal::progress!("package: {}\n", package.display());
    check(&package)?;
    Ok(package)
}

/// Builds the package, an OCI image of its programs, and puts the package beside its Containerfile.
pub(crate) fn container() -> Result<()> {
    setup::for_containers()?;
    let package = run()?;
    let folder = folder("container")?;
    let image = image::daemon::build(&folder, &workspace::release_folder())?;
    terminal::progress!(
        "container: skopeo copy oci:{} docker://REGISTRY/gantry\n",
        image.display()
    );
    install(&package, &folder.join("gantry.deb"), 0o644)?;
    let recipe = workspace::root().join("packaging/Containerfile");
    install(&recipe, &folder.join("Containerfile"), 0o644)?;
    terminal::progress!("container: podman build --tag gantry {}\n", folder.display());
    Ok(())
}

/// Builds an OCI image of the CSI driver for Kubernetes.
pub(crate) fn csi_container() -> Result<()> {
    setup::for_containers()?;
    let image = image::csi::build(&folder("csi-container")?)?;
    terminal::progress!(
        "container: skopeo copy oci:{}:{} docker://REGISTRY/gantry-csi:{1}\n",
        image.display(),
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}

/// A new, empty folder beside the release binaries.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let target = workspace::release_folder();
    let folder = target.parent().context("release binaries lie in a folder")?.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Debian reads the version from the changelog's first line, too.
fn check_version(changelog: &Path) -> Result<()> {
    let version = concat!("gantry (", env!("CARGO_PKG_VERSION"), ") ");
    if !fs::read_to_string(changelog)?.starts_with(version) {
        bail!("packaging/changelog does not begin with '{version}': add an entry for this version");
    }
    Ok(())
}

fn write_completions(binaries: &Path, root: &Path) -> Result<()> {
    let gantry = binaries.join("gantry");
    let gantry = gantry.to_str().context("a printable path")?;
    for (shell, place) in SHELLS {
        write(&root.join(place), process::output(gantry, &["completions", shell])?.as_bytes())?;
    }
    Ok(())
}

fn write_manuals(binaries: &Path, root: &Path) -> Result<()> {
    let daemon = binaries.join("gantryd");
    let page = process::output(daemon.to_str().context("a path")?, &["--print-man-page"])?;
    write(&root.join("usr/share/man/man8/gantryd.8"), page.as_bytes())?;
    let manuals = root.join("usr/share/man/man1");
    fs::create_dir_all(&manuals)?;
    let gantry = binaries.join("gantry");
    let place = manuals.to_str().context("a printable path")?;
    process::run(gantry.to_str().context("a path")?, &["man-pages", place])?;
    let mut pages = vec![root.join("usr/share/man/man8/gantryd.8")];
    for entry in fs::read_dir(&manuals)? {
        pages.push(entry?.path());
    }
    for page in &pages {
        fs::set_permissions(page, fs::Permissions::from_mode(0o644))?;
    }
    compress(&pages)
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let content = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    write(to, &content)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Writes a file that everybody may read, and the folders above it.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

fn compress(files: &[PathBuf]) -> Result<()> {
    let options = ["--best", "--no-name", "--force"].map(OsStr::new);
    let files = files.iter().map(|file| file.as_os_str());
    process::run("gzip", &options.into_iter().chain(files).collect::<Vec<_>>())
}

fn strip(program: &Path) -> Result<()> {
    let place = program.to_str().context("a path")?;
    process::run("strip", &["--strip-unneeded", "--remove-section=.comment", place])
}

/// Has lintian look at the package where it is installed, and says where it is not.
fn check(package: &Path) -> Result<()> {
    let place = package.to_str().context("a path")?;
    if process::output("lintian", &["--version"]).is_err() {
        terminal::progress!(
            "package: lintian is not installed, so nobody has looked at the package\n"
        );
        return Ok(());
    }
    if let Err(error) = process::run("lintian", &["--fail-on", "error", place]) {
        bail!("lintian finds fault with the package: {error}");
    }
    Ok(())
}
