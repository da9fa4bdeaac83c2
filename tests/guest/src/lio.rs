//! The Linux kernel's own target (LIO) in the guest, another array for comparison: files in the guest's
//! memory, all offloads that it has switched on.

use std::time::Duration;

use anyhow::Result;
use harness::array::free_address;

use crate::{Hardware, Machine, Root};

const TARGET: &str = "iqn.2026-01.org.example:lio";

/// Where the guest listens.
const PORT: u16 = 3260;

/// Memory of the guest besides what hosts write, MiB.
const OWN_MEMORY_MIB: u32 = 512;

const TIMEOUT: Duration = Duration::from_secs(300);

/// Makes one LUN: `$1` its number, `$2` its bytes. What is on by default stays on: COMPARE AND WRITE,
/// EXTENDED COPY.
const LUN: &str = r#"
    backstore=$config/core/fileio_0/lun$1
    mkdir -p "$backstore"
    truncate -s "$2" "/tmp/lun$1"
    echo "fd_dev_name=/tmp/lun$1,fd_dev_size=$2" >"$backstore/control"
    echo 1 >"$backstore/enable"
    # Without it LIO tells no VPD pages: no name, no limits.
    echo "gantry-lio-$1" >"$backstore/wwn/vpd_unit_serial"
    echo 1 >"$backstore/attrib/emulate_tpu"
    echo 1 >"$backstore/attrib/emulate_tpws"
    mkdir "$group/lun/lun_$1"
    ln -s "$backstore" "$group/lun/lun_$1/backstore"
"#;

/// A guest whose kernel serves LUNs.
#[derive(Debug)]
pub struct Lio {
    machine: Machine,
    portal: u16,
    luns: u32,
}

impl Lio {
    /// Boots it with LUNs of a size, numbered from 0, of which hosts may fill `room_mib` in all.
    ///
    /// # Errors
    /// When the guest does not come up, or its kernel refuses something.
    pub fn start(luns: u32, bytes: u64, room_mib: u32) -> Result<Self> {
        let portal = free_address()?.port();
        let memory_mib = OWN_MEMORY_MIB + room_mib;
        let hardware = Hardware { memory_mib, forwards: vec![(portal, PORT)], share: None };
        let mut machine = Machine::boot(&Root::get()?, hardware)?;
        machine.run(TIMEOUT, &script(luns, bytes, room_mib))?.success()?;
        Ok(Self { machine, portal, luns })
    }

    /// Addresses of its LUNs.
    pub fn urls(&self) -> Vec<String> {
        let url = |lun| format!("iscsi://127.0.0.1:{}/{TARGET}/{lun}", self.portal);
        (0..self.luns).map(url).collect()
    }

    /// The kernel's release.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn release(&mut self) -> Result<String> {
        Ok(self.machine.run(TIMEOUT, "uname -r")?.success()?.trim().to_owned())
    }
}

fn script(luns: u32, bytes: u64, room_mib: u32) -> String {
    let each: Vec<String> = (0..luns).map(|lun| format!("lun {lun} {bytes}")).collect();
    let each = each.join("\n");
    format!(
        r#"set -e
modprobe -a target_core_mod target_core_file iscsi_target_mod
mount -o remount,size={room_mib}m /tmp
mountpoint -q /sys/kernel/config || mount -t configfs config /sys/kernel/config
config=/sys/kernel/config/target
group=$config/iscsi/{TARGET}/tpgt_1
mkdir -p "$group"
lun() {{ {LUN} }}
{each}
echo 0 >"$group/attrib/authentication"
echo 1 >"$group/attrib/generate_node_acls"
echo 1 >"$group/attrib/cache_dynamic_acls"
echo 0 >"$group/attrib/demo_mode_write_protect"
# The default, 8 KiB, costs an emulated machine most of its time.
echo 262144 >"$group/param/MaxRecvDataSegmentLength"
mkdir "$group/np/0.0.0.0:{PORT}"
echo 1 >"$group/enable"
"#
    )
}
