//! SCST, another target for Linux, in the guest: modules and daemon as somebody built them for the guest's
//! kernel, on files in its memory.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::array::free_address;

use crate::machine::SHARE_TAG;
use crate::{Hardware, Machine, Root};

const TARGET: &str = "iqn.2026-01.org.example:scst";

/// Where the guest listens.
const PORT: u16 = 3260;

/// Memory of the guest besides what hosts write, MiB.
const OWN_MEMORY_MIB: u32 = 768;

const TIMEOUT: Duration = Duration::from_secs(300);

/// What is taken from SCST's source tree once `make` ran in it.
const MODULES: [&str; 3] =
    ["scst/src/scst.ko", "scst/src/dev_handlers/scst_vdisk.ko", "iscsi-scst/kernel/iscsi-scst.ko"];
const DAEMON: &str = "iscsi-scst/usr/iscsi-scstd";

/// A guest in which SCST serves LUNs.
#[derive(Debug)]
pub struct Scst {
    machine: Machine,
    portal: u16,
    luns: u32,
    version: String,
}

impl Scst {
    /// Boots it with LUNs of a size, numbered from 0, of which hosts may fill `room_mib` in all;
    /// `built` is SCST's source tree, built for the guest's kernel.
    ///
    /// # Errors
    /// When the tree is not built, or for another kernel; when the guest does not come up, or SCST refuses
    /// something.
    pub fn start(built: &Path, luns: u32, bytes: u64, room_mib: u32) -> Result<Self> {
        let root = Root::get()?;
        let release = root.modules();
        let release = release.file_name().context("a kernel")?.to_string_lossy().into_owned();
        for file in MODULES.iter().chain([&DAEMON]) {
            ensure!(
                built.join(file).is_file(),
                "{} is no file: build SCST there for Linux {release} (linux-headers-{release})",
                built.join(file).display()
            );
        }
        let portal = free_address()?.port();
        let hardware = Hardware {
            memory_mib: OWN_MEMORY_MIB + room_mib,
            forwards: vec![(portal, PORT)],
            share: Some(built.canonicalize()?),
        };
        let mut machine = Machine::boot(&root, hardware)?;
        let loaded = machine.run(TIMEOUT, &load())?.success();
        loaded.with_context(|| format!("loading SCST; it has to be built for Linux {release}"))?;
        let configured = machine.run(TIMEOUT, &script(luns, bytes, room_mib))?.success();
        configured.with_context(|| machine.log())?;
        let told = machine.run(TIMEOUT, "head -n 1 /sys/kernel/scst_tgt/version")?.success()?;
        let version = told.trim().trim_start_matches("SCST version: ").to_owned();
        Ok(Self { machine, portal, luns, version })
    }

    /// Addresses of its LUNs.
    pub fn urls(&self) -> Vec<String> {
        let url = |lun| format!("iscsi://127.0.0.1:{}/{TARGET}/{lun}", self.portal);
        (0..self.luns).map(url).collect()
    }

    /// What SCST calls itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The guest's console, and everything that was run.
    pub fn log(&self) -> String {
        self.machine.log()
    }
}

fn load() -> String {
    let insmod: Vec<String> =
        MODULES.iter().map(|module| format!("insmod /tmp/scst/{module}")).collect();
    let insmod = insmod.join("\n");
    format!(
        r"set -e
mkdir -p /tmp/scst
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000 {SHARE_TAG} /tmp/scst
modprobe -a scsi_mod crc-t10dif libcrc32c dlm
{insmod}
/tmp/scst/{DAEMON}
"
    )
}

fn script(luns: u32, bytes: u64, room_mib: u32) -> String {
    let each: Vec<String> = (0..luns).map(|lun| format!("lun {lun}")).collect();
    let each = each.join("\n");
    format!(
        r#"set -e
scst=/sys/kernel/scst_tgt
# It keeps reservations and mode pages there, and makes no LUN where it cannot.
mkdir -p /mnt/luns /var/lib/scst/pr /var/lib/scst/vdev_mode_pages
mount -t tmpfs -o size={room_mib}m luns /mnt/luns
echo "add_target {TARGET}" >$scst/targets/iscsi/mgmt
lun() {{
    truncate -s {bytes} "/mnt/luns/$1"
    echo "add_device lun$1 filename=/mnt/luns/$1; thin_provisioned=1" \
        >$scst/handlers/vdisk_fileio/mgmt
    echo "add lun$1 $1" >"$scst/targets/iscsi/{TARGET}/luns/mgmt"
}}
{each}
echo 1 >"$scst/targets/iscsi/{TARGET}/enabled"
echo 1 >$scst/targets/iscsi/enabled
"#
    )
}
