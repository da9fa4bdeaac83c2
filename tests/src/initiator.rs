//! Independent initiators: QEMU's tools, and raw PDUs for what no initiator would send.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::number;
use crate::pdu::RawSession;
use crate::program::{Running, run};

/// How long one run of a QEMU tool may take.
const QEMU_TIMEOUT: Duration = Duration::from_secs(180);

/// How long the bystander rests between two writes.
const BYSTANDER_PAUSE_MS: u64 = 10;

/// READ CAPACITY, as QEMU understands it.
///
/// # Errors
/// When the LUN cannot be opened.
pub fn capacity_bytes(url: &str) -> Result<u64> {
    let printed = qemu_img(&["info", "--output=json", url])?;
    let information: Value = serde_json::from_str(&printed)?;
    number(&information, "/virtual-size")
}

/// Runs `qemu-img`, which must succeed; returns what it printed.
///
/// # Errors
/// When it fails.
pub fn qemu_img(arguments: &[&str]) -> Result<String> {
    run(Path::new("qemu-img"), arguments, QEMU_TIMEOUT)?.success()
}

/// Runs `qemu-io` commands on an image; returns what it printed.
///
/// # Errors
/// When it or one of its commands fails.
pub fn qemu_io(image: &[&str], commands: &[&str]) -> Result<String> {
    let commands = commands.iter().flat_map(|command| ["-c", command]);
    let unmapping = ["-d", "unmap"].into_iter();
    let arguments: Vec<_> = unmapping.chain(commands).chain(image.iter().copied()).collect();
    let printed = run(Path::new("qemu-io"), &arguments, QEMU_TIMEOUT)?.success()?;
    anyhow::ensure!(!printed.contains("failed"), "qemu-io {arguments:?}: {printed}");
    Ok(printed)
}

/// LUN numbers in the answer to REPORT LUNS (SPC-4 6.33), for an initiator of the given name.
///
/// # Errors
/// When it cannot log in.
pub fn luns(portal: SocketAddr, initiator: &str, target: &str) -> Result<Vec<u16>> {
    let mut cdb = [0; 12];
    cdb[0] = 0xa0;
    cdb[6..10].copy_from_slice(&8192_u32.to_be_bytes());
    let answer = RawSession::log_in(portal, initiator, target)?.read(0, &cdb, 8192)?.good()?;
    let list = answer.get(8..).context("a LUN list has a header")?;
    // Flat or peripheral addressing: the number is in the low 14 bits.
    Ok(list.chunks_exact(8).map(|lun| u16::from_be_bytes([lun[0], lun[1]]) & 0x3fff).collect())
}

/// Starts a session beside the test that writes and verifies for about so many seconds.
///
/// # Errors
/// When it cannot be started.
pub fn start_verified_io(url: &str, seconds: u64) -> Result<Running> {
    let rounds = seconds * 1000 / BYSTANDER_PAUSE_MS;
    let commands = (0..rounds).flat_map(|round| {
        let (byte, at) = (round % 255 + 1, round % 64 * 1536);
        [
            format!("write -P {byte} {at}k 64k"),
            format!("read -P {byte} {at}k 64k"),
            format!("sleep {BYSTANDER_PAUSE_MS}"),
        ]
    });
    let commands: Vec<_> = commands.flat_map(|command| ["-c".to_owned(), command]).collect();
    let image = ["-f", "raw", url].map(str::to_owned);
    Running::start(Path::new("qemu-io"), &[&commands[..], &image].concat())
}
