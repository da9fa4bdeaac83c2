//! Volumes and files beyond what Debian's vmfs-tools read, for dissect.vmfs, another implementation, which
//! `cargo xtask test --foreign` fetches.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tests::{Bench, MIB, pattern, put};
use super::*;
use crate::LockMode;
use crate::file::{File, FileContent};
use crate::image::FileDisk;
use crate::vmdk::DiskFormat;

const GIB: u64 = 1 << 30;

/// Bytes of a part that is written and read: more than a file block.
const PART: usize = 3 * MIB as usize / 2;

/// The same where many blocks are to be used.
const SMALL_PART: usize = 8192;

/// What it prints of a datastore; `words` are paths, offsets and lengths.
fn reader(bench: &Bench, words: &[String]) -> Result<Vec<u8>> {
    let folder = std::env::var_os("GANTRY_TEST_FOREIGN_DIR")
        .context("'cargo xtask test --foreign' fetches dissect.vmfs")?;
    let program = Path::new(&folder).join("dissect/bin/python3");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign/dissect/reader.py");
    let mut command = Command::new(program);
    command.arg(script).args(bench.images()).arg("--").args(words);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// Parts of one file.
fn parts(bench: &Bench, path: &str, offsets: &[u64], part: usize) -> Result<Vec<u8>> {
    let word = |offset: &u64| [path.to_owned(), offset.to_string(), part.to_string()];
    reader(bench, &offsets.iter().flat_map(word).collect::<Vec<_>>())
}

/// Writes patterns into a new thin disk, each with its offset as the seed.
fn write_parts(
    volume: &mut Volume<FileDisk>,
    (path, size): (&str, u64),
    offsets: &[u64],
    part: usize,
) -> Result<Vec<u8>> {
    let mut disk = volume.create_disk(path, size, DiskFormat::Thin)?;
    let all = write_patterns(volume, &mut disk, offsets, part)?;
    volume.close(disk)?;
    Ok(all)
}

/// Writes patterns into an open file, each with its offset as the seed.
fn write_patterns(
    volume: &mut Volume<FileDisk>,
    file: &mut File,
    offsets: &[u64],
    part: usize,
) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for offset in offsets {
        let bytes = pattern(part, *offset);
        volume.write_at(file, *offset, &bytes)?;
        all.extend(bytes);
    }
    Ok(all)
}

#[test]
#[ignore = "needs dissect.vmfs: cargo xtask test --foreign"]
fn a_disk_of_a_tebibyte_is_read_on_both_sides_of_256_gib() -> Result<()> {
    let bench = Bench::new(1100 * GIB, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    volume.create_directory("vm")?;
    put(&mut volume, "vm/small", &pattern(5000, 1))?;
    let end = 1024 * GIB - PART as u64;
    // One lies across the border: its first half is reached by one level of pointer blocks.
    let offsets = [0, 255 * GIB, 256 * GIB - MIB, 300 * GIB, 511 * GIB + 12_800, end];
    let written = write_parts(&mut volume, ("vm/big.vmdk", 1024 * GIB), &offsets, PART)?;
    volume.unmount()?;
    let path = "/vm/big-flat.vmdk";
    ensure!(parts(&bench, path, &offsets, PART)? == written, "it reads something else");
    let holes = parts(&bench, path, &[GIB, 257 * GIB, 900 * GIB], PART)?;
    ensure!(holes.len() == 3 * PART && holes.iter().all(|byte| *byte == 0), "holes are not zeros");
    let words = ["/vm/small", "0", "5000"].map(str::to_owned);
    ensure!(reader(&bench, &words)? == pattern(5000, 1), "a small file reads as something else");
    let names = String::from_utf8(reader(&bench, &[])?)?;
    ensure!([".fbb.sf", ".sdd.sf", "vm"].iter().all(|name| names.contains(name)), "{names}");
    Ok(())
}

#[test]
#[ignore = "needs dissect.vmfs: cargo xtask test --foreign"]
fn a_file_over_two_disks_and_beyond_256_gib_is_read() -> Result<()> {
    let bench = Bench::new(512 * MIB, 16_000)?;
    bench.add_lun("b", 300 * GIB)?;
    let mut volume = bench.host(1, Locking::Scsi)?;
    let small = ("first.vmdk", GIB);
    let first = write_parts(&mut volume, small, &[0, GIB / 2], SMALL_PART)?;
    // A file block each, more than the head has. The first ones are written while it is alone.
    let offsets: Vec<u64> = (0..600).map(|number| number * 450 * MIB).collect();
    let (before, after) = offsets.split_at(100);
    let large = ("second.vmdk", 271 * GIB);
    let mut written = write_parts(&mut volume, large, before, SMALL_PART)?;
    let second = volume.disk().another("b")?;
    volume.span(second)?;
    let mut file = volume.open("second-flat.vmdk", LockMode::Exclusive)?;
    written.extend(write_patterns(&mut volume, &mut file, after, SMALL_PART)?);
    volume.close(file)?;
    let file = volume.open("second-flat.vmdk", LockMode::Exclusive)?;
    let extents = volume.extents(&file, 0, 271 * GIB)?;
    volume.close(file)?;
    volume.unmount()?;
    let is_on = |disk: usize| {
        extents.iter().any(|extent| match extent.content {
            FileContent::Data(place) => place.disk == disk,
            FileContent::ToBeZeroed(_) | FileContent::Hole => false,
        })
    };
    ensure!(is_on(0) && is_on(1), "it does not lie on both disks");
    for (path, offsets, written) in [
        ("/first-flat.vmdk", &[0, GIB / 2][..], first),
        ("/second-flat.vmdk", &offsets[..], written),
    ] {
        let read = parts(&bench, path, offsets, SMALL_PART)?;
        ensure!(read == written, "{path} reads as something else");
    }
    Ok(())
}
