//! Archive of an array as an earlier release left it behind: its data directory, and the blocks of
//! its pool's device that hold something.
//!
//! A gzip stream of files, each with the length of its name (u16), its name, its size (u64), the
//! number of blocks that are kept (u64), and for each block its offset (u64) and its 4096 bytes;
//! numbers are little-endian. The paths in the data directory begin with [`FOLDER`].

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Stands in the archive for the folder that the release used.
pub const FOLDER: &str = "/RELEASE";

/// Name of the pool's device in the archive.
pub const DEVICE: &str = "p.img";

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// Blocks that hold something, with their places in bytes.
pub type Blocks = Vec<(u64, Vec<u8>)>;

/// The size of a file in bytes, and its blocks that hold something.
///
/// # Errors
/// When it cannot be read, or its size is no multiple of 1 MiB and of a block.
pub fn blocks_of(path: &Path) -> Result<(u64, Blocks)> {
    let file = File::open(path)?;
    let (size, mut blocks) = (file.metadata()?.len(), Vec::new());
    let mut mebibyte = vec![0; MIB as usize];
    for first in (0..size).step_by(MIB as usize) {
        file.read_exact_at(&mut mebibyte, first)?;
        for (offset, block) in (first..).step_by(BLOCK).zip(mebibyte.chunks(BLOCK)) {
            if block.iter().any(|&byte| byte != 0) {
                blocks.push((offset, block.to_vec()));
            }
        }
    }
    Ok((size, blocks))
}

/// Makes a file of a size, with those blocks.
///
/// # Errors
/// When there is one already, or it cannot be written.
pub fn write_blocks(path: &Path, size: u64, blocks: &Blocks) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_len(size)?;
    blocks.iter().try_for_each(|(offset, block)| Ok(file.write_all_at(block, *offset)?))
}

/// The regular files below a folder, with their contents.
///
/// # Errors
/// When one cannot be read.
pub fn files_of(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (kind, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let kind = kind?;
        if kind.is_dir() {
            files.append(&mut files_of(&path)?);
        } else if kind.is_file() {
            let content = fs::read(&path)?;
            files.push((path, content));
        }
    }
    Ok(files)
}

/// Archives a stopped array.
///
/// # Errors
/// When a file cannot be read or written.
pub fn pack(archive: &Path, data: &Path, device: &Path) -> Result<()> {
    let mut packed = GzEncoder::new(File::create(archive)?, Compression::best());
    let folder = device.parent().context("a folder")?.to_str().context("a printable path")?;
    for (path, content) in files_of(data)? {
        let name = Path::new("data").join(path.strip_prefix(data)?);
        // Of text only: what the array keeps in another form names no paths.
        let content = match String::from_utf8(content) {
            Ok(text) => text.replace(folder, FOLDER).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        let blocks = (0..).step_by(BLOCK).zip(content.chunks(BLOCK)).map(|(offset, block)| {
            let mut padded = block.to_vec();
            padded.resize(BLOCK, 0);
            (offset, padded)
        });
        put_file(&mut packed, &name, content.len() as u64, &blocks.collect())?;
    }
    let (size, blocks) = blocks_of(device)?;
    put_file(&mut packed, Path::new(DEVICE), size, &blocks)?;
    packed.finish()?;
    Ok(())
}

fn put_file(packed: &mut impl Write, name: &Path, size: u64, blocks: &Blocks) -> Result<()> {
    let name = name.to_str().context("a printable name")?;
    packed.write_all(&u16::try_from(name.len())?.to_le_bytes())?;
    packed.write_all(name.as_bytes())?;
    packed.write_all(&size.to_le_bytes())?;
    packed.write_all(&(blocks.len() as u64).to_le_bytes())?;
    for (offset, block) in blocks {
        packed.write_all(&offset.to_le_bytes())?;
        packed.write_all(block)?;
    }
    Ok(())
}

/// Puts an archived array at a data directory, which must not exist, and its device into a folder.
///
/// # Errors
/// When the archive is damaged, or a file cannot be written.
pub fn unpack(mut archive: &[u8], data: &Path, folder: &Path) -> Result<PathBuf> {
    let place = folder.to_str().context("a printable path")?;
    let mut packed = Vec::new();
    GzDecoder::new(&mut archive).read_to_end(&mut packed)?;
    let mut packed = packed.as_slice();
    while !packed.is_empty() {
        let (name, size, blocks) = take_file(&mut packed)?;
        let Some(name) = name.strip_prefix("data/") else {
            write_blocks(&folder.join(name), size, &blocks)?;
            continue;
        };
        let mut content = blocks.into_iter().flat_map(|(_, block)| block).collect::<Vec<u8>>();
        content.truncate(usize::try_from(size)?);
        let content = match String::from_utf8(content) {
            Ok(text) => text.replace(FOLDER, place).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        let path = data.join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(path, content)?;
    }
    Ok(folder.join(DEVICE))
}

fn take_file(packed: &mut &[u8]) -> Result<(String, u64, Blocks)> {
    let length = u16::from_le_bytes(take(packed)?);
    let (name, rest) = packed.split_at_checked(length.into()).context("a name")?;
    *packed = rest;
    let (size, count) = (u64::from_le_bytes(take(packed)?), u64::from_le_bytes(take(packed)?));
    let block = |_| Ok((u64::from_le_bytes(take(packed)?), take::<BLOCK>(packed)?.to_vec()));
    let blocks = (0..count).map(block).collect::<Result<Blocks>>()?;
    Ok((String::from_utf8(name.to_vec())?, size, blocks))
}

fn take<const LENGTH: usize>(packed: &mut &[u8]) -> Result<[u8; LENGTH]> {
    let (taken, rest) = packed.split_first_chunk().context("the archive ends early")?;
    *packed = rest;
    Ok(*taken)
}
