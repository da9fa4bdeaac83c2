//! OCI image of the daemon, built without a container daemon and without a registry: Debian's
//! libraries by mmdebstrap, the programs, and layer and configuration by umoci.
//!
//! The result is an OCI image layout, a folder that skopeo, podman, buildah and containerd take.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{install, write};
use crate::process;

/// What the programs need: the C library, its companion, certificates that alerts trust, time zones
/// of schedules. No shell.
const PACKAGES: &str = "base-files,ca-certificates,libc6,libgcc-s1,tzdata";

/// The daemon's user and group in the image.
const USER: u32 = 64_800;

/// Accounts of the image.
const PASSWD: &str = "root:x:0:0:root:/root:/usr/sbin/nologin\n\
    gantry:x:64800:64800:Gantry storage array:/var/lib/gantry:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\ngantry:x:64800:\n";

/// The name of the image in the layout.
const TAG: &str = env!("CARGO_PKG_VERSION");

/// Builds the image of the programs in a folder; returns its layout.
pub(crate) fn build(folder: &Path, programs: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    libraries(&root)?;
    for (name, place) in super::PROGRAMS {
        let place = root.join(place).join(name);
        install(&programs.join(name), &place, 0o755)?;
        super::strip(&place)?;
    }
    write(&root.join("etc/passwd"), PASSWD.as_bytes())?;
    write(&root.join("etc/group"), GROUP.as_bytes())?;
    let data = root.join("var/lib/gantry");
    fs::create_dir_all(&data)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
    chown(&data, Some(USER), Some(USER)).context("images are built as root")?;
    let layout = folder.join("image");
    pack(&root, &layout)?;
    fs::remove_dir_all(&root)?;
    Ok(layout)
}

/// Debian's files of this machine's release: its C library is the one that the programs are built
/// with.
fn libraries(root: &Path) -> Result<()> {
    let release = fs::read_to_string("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.context("/etc/os-release names no release of Debian")?;
    let include = format!("--include={PACKAGES}");
    let place = root.to_str().context("a printable path")?;
    // Nothing of the packages is run: their files are all that is wanted.
    process::run(
        "mmdebstrap",
        &["--quiet", "--mode=root", "--variant=extract", &include, name, place],
    )
    .context("taking libraries from Debian ('cargo xtask setup')")?;
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

fn pack(root: &Path, layout: &Path) -> Result<()> {
    let place = layout.to_str().context("a printable path")?;
    let image = format!("{place}:{TAG}");
    let umoci = |words: &[&str]| process::run("umoci", words).context("('cargo xtask setup')");
    umoci(&["init", "--layout", place])?;
    umoci(&["new", "--image", &image])?;
    umoci(&["insert", "--image", &image, root.to_str().context("a printable path")?, "/"])?;
    let user = format!("{USER}:{USER}");
    let title = "org.opencontainers.image.title=Gantry";
    let version = format!("org.opencontainers.image.version={TAG}");
    let licence = "org.opencontainers.image.licenses=Apache-2.0";
    let mut words = vec!["config", "--image", &image, "--config.user", &user];
    for word in ["/usr/sbin/gantryd", "--data", "/var/lib/gantry"] {
        words.extend(["--config.entrypoint", word]);
    }
    for word in ["--iscsi", "0.0.0.0:3260", "--https", "0.0.0.0:8443"] {
        words.extend(["--config.cmd", word]);
    }
    for port in ["3260/tcp", "8443/tcp"] {
        words.extend(["--config.exposedports", port]);
    }
    words.extend(["--config.volume", "/var/lib/gantry", "--config.stopsignal", "SIGTERM"]);
    words.extend(["--config.env", "PATH=/usr/sbin:/usr/bin"]);
    words.extend(["--config.label", title, "--config.label", &version, "--config.label", licence]);
    umoci(&words)
}
