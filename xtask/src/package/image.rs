//! OCI images, built without a container daemon and without a registry: Debian's files by mmdebstrap,
//! programs, and layer and configuration by umoci.
//!
//! The result is an OCI image layout, a folder that skopeo, podman, buildah and containerd take.

pub(crate) mod csi;
pub(crate) mod daemon;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::write;
use crate::process;

/// The name of an image in its layout.
const TAG: &str = env!("CARGO_PKG_VERSION");

/// Takes the files of packages and of all that they depend on, of this machine's release of Debian:
/// its C library is the one that our programs are built with.
fn debian(root: &Path, packages: &str) -> Result<()> {
    let release = fs::read_to_string("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.context("/etc/os-release names no release of Debian")?;
    let include = format!("--include={packages}");
    let place = root.to_str().context("a printable path")?;
    // Nothing of the packages is run: their files are all that is wanted.
    process::run(
        "mmdebstrap",
        &["--quiet", "--mode=root", "--variant=extract", &include, name, place],
    )
    .context("taking files from Debian ('cargo xtask setup')")?;
    trust(root)
}

/// One file of all certificates, which their package writes when it is configured.
fn trust(root: &Path) -> Result<()> {
    let folder = root.join("usr/share/ca-certificates/mozilla");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).context("certificates")? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend(fs::read(path)?);
    }
    write(&root.join("etc/ssl/certs/ca-certificates.crt"), &all)
}

/// Makes a layout of a root folder, which goes, and of what 'umoci config' takes.
fn pack(folder: &Path, root: &Path, title: &str, settings: &[&str]) -> Result<PathBuf> {
    let layout = folder.join("image");
    let place = layout.to_str().context("a printable path")?;
    let image = format!("{place}:{TAG}");
    let umoci = |words: &[&str]| process::run("umoci", words).context("('cargo xtask setup')");
    umoci(&["init", "--layout", place])?;
    umoci(&["new", "--image", &image])?;
    umoci(&["insert", "--image", &image, root.to_str().context("a printable path")?, "/"])?;
    let title = format!("org.opencontainers.image.title={title}");
    let version = format!("org.opencontainers.image.version={TAG}");
    let licence = "org.opencontainers.image.licenses=Apache-2.0";
    let labels = ["--config.label", &title, "--config.label", &version, "--config.label", licence];
    umoci(&[&["config", "--image", &image], settings, &labels].concat())?;
    fs::remove_dir_all(root)?;
    Ok(layout)
}
