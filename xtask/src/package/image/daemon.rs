//! OCI image of the daemon: its programs with Debian's C library, certificates and time zones, and no shell.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{debian, pack};
use crate::package::{PROGRAMS, install, strip, write};

/// What the programs need: the C library, its companion, certificates that alerts trust, time zones
/// of schedules. No shell.
const PACKAGES: &str = "base-files,ca-certificates,libc6,libgcc-s1,tzdata";

/// The daemon's user and group in the image.
const USER: u32 = 64_800;

/// Accounts of the image.
const PASSWD: &str = "root:x:0:0:root:/root:/usr/sbin/nologin\n\
    gantry:x:64800:64800:Gantry storage array:/var/lib/gantry:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\ngantry:x:64800:\n";

/// Builds the image of the programs in a folder; returns its layout.
pub(crate) fn build(folder: &Path, programs: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    debian(&root, PACKAGES)?;
    for (name, place) in PROGRAMS {
        let place = root.join(place).join(name);
        install(&programs.join(name), &place, 0o755)?;
        strip(&place)?;
    }
    write(&root.join("etc/passwd"), PASSWD.as_bytes())?;
    write(&root.join("etc/group"), GROUP.as_bytes())?;
    let data = root.join("var/lib/gantry");
    fs::create_dir_all(&data)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
    chown(&data, Some(USER), Some(USER)).context("images are built as root")?;
    let user = format!("{USER}:{USER}");
    let mut settings = vec!["--config.user", &user];
    for word in ["/usr/sbin/gantryd", "--data", "/var/lib/gantry"] {
        settings.extend(["--config.entrypoint", word]);
    }
    for word in ["--iscsi", "0.0.0.0:3260", "--https", "0.0.0.0:8443"] {
        settings.extend(["--config.cmd", word]);
    }
    for port in ["3260/tcp", "8443/tcp"] {
        settings.extend(["--config.exposedports", port]);
    }
    settings.extend(["--config.volume", "/var/lib/gantry", "--config.stopsignal", "SIGTERM"]);
    settings.extend(["--config.env", "PATH=/usr/sbin:/usr/bin"]);
    pack(folder, &root, "Gantry", &settings)
}
