//! Redundant files with checksums and generations: one damaged byte loses nothing, and worse damage
//! loses as little as possible and is reported.
//!
//! `NAME` and `NAME.copy` hold the newest generation, `NAME.1` and `NAME.2` those before. The last
//! line of each is `generation N sha256 HEX`, where the checksum covers everything before it and
//! the number. A file without that line is from before generations were kept, or was written by
//! hand: it counts as generation 0. The good file with the highest number holds. What is damaged
//! is renamed to `NAME.damaged-SECONDS` and stays.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use sha2::{Digest, Sha256};

use crate::limits::DAMAGED_FILES_MAX;
use crate::yielding::pause;

/// The copy of the newest generation, and those before, newest first.
const SUFFIXES: [&str; 4] = ["", ".copy", ".1", ".2"];

/// After damage the numbers go on so much higher, so that none is used twice.
const GENERATIONS_SKIPPED: u64 = 1000;

/// Bytes that are written or hashed before the thread that saves may yield.
const BYTES_AT_ONCE: usize = 32 << 10;

/// Begins the last line.
const MARK: &str = "generation ";

/// Result of reading a file with its copy and generations at start.
pub(super) struct Found<T> {
    pub(super) value: T,
    /// Whether a newer generation is lost.
    pub(super) is_earlier: bool,
    /// Sentences for the administrator, one per file that is not as it should be.
    pub(super) findings: Vec<String>,
}

/// Content of one of the files.
enum Content<T> {
    Good {
        generation: u64,
        text: Vec<u8>,
        value: T,
    },
    Missing,
    /// The file is intact, but this program does not understand it.
    Unknown(String),
    Damaged(String),
}

/// Reads the newest generation that is intact; `None` if there is no file at all. `parse` says why
/// not in words that quote nothing of the file.
///
/// # Errors
/// When there are files and none is intact, or the newest was written by another version: nothing
/// is renamed then.
pub(super) fn load<T>(
    directory: &Path,
    name: &str,
    parse: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Option<Found<T>>> {
    let mut best: Option<(u64, usize, Vec<u8>, T)> = None;
    let (mut damaged, mut missing, mut generations) = (Vec::new(), 0, [None; SUFFIXES.len()]);
    for (place, path) in paths(directory, name).enumerate() {
        match read(&path, &parse) {
            Content::Missing => missing += 1,
            Content::Unknown(why) => bail!("{}: {why}", path.display()),
            Content::Damaged(why) => damaged.push((path, why)),
            Content::Good { generation, text, value } => {
                generations[place] = Some(generation);
                if best.as_ref().is_none_or(|(newest, ..)| generation > *newest) {
                    best = Some((generation, place, text, value));
                }
            }
        }
    }
    let Some((generation, place, text, value)) = best else {
        if missing == SUFFIXES.len() {
            return Ok(None);
        }
        let list: Vec<String> =
            damaged.iter().map(|(path, why)| format!("{} {why}", path.display())).collect();
        bail!("no generation of {name} is intact: {}: restore one from a copy", list.join("; "));
    };
    let mut findings: Vec<String> =
        damaged.iter().map(|(path, why)| set_aside(path, why)).collect();
    let is_earlier = place > 1;
    if place != 0 && generations[0].is_none() && damaged.is_empty() {
        findings.push(format!("{} was missing", directory.join(name).display()));
    }
    if place != 0 || !damaged.is_empty() {
        let from = format!("{name}{}", SUFFIXES[place]);
        findings.push(match place {
            0 | 1 => format!("{from} holds everything (generation {generation}): nothing is lost"),
            _ => format!(
                "generation {generation} of {from} is used, an EARLIER one: the last changes may \
                 be lost. Compare with what you know, and before mapping anything look at what \
                 hosts still see"
            ),
        });
    }
    if !findings.is_empty() {
        // Generations that were lost may have had higher numbers.
        let next = generation + GENERATIONS_SKIPPED;
        if let Err(error) = replace(directory, name, &text, next) {
            findings.push(format!("{name} cannot be written again: {error}"));
        }
    }
    Ok(Some(Found { value, is_earlier, findings }))
}

/// Replaces the newest generation as one step: after a crash it or the one before is there. What
/// was the newest stays as `NAME.1`.
pub(super) fn save(directory: &Path, name: &str, text: &[u8]) -> std::io::Result<()> {
    replace(directory, name, text, newest_number(directory, name) + 1)
}

fn replace(directory: &Path, name: &str, text: &[u8], generation: u64) -> std::io::Result<()> {
    let [current, copy, first, second] = SUFFIXES.map(|end| directory.join(format!("{name}{end}")));
    let sealed = seal(text, generation);
    let (new, new_copy) = (with_end(&current, ".new"), with_end(&copy, ".new"));
    write(&new, &sealed)?;
    write(&new_copy, &sealed)?;
    rename_if_there(&first, &second)?;
    rename_if_there(if copy.exists() { &copy } else { &current }, &first)?;
    fs::rename(&new_copy, &copy)?;
    fs::rename(&new, &current)?;
    File::open(directory)?.sync_all()
}

fn paths(directory: &Path, name: &str) -> impl Iterator<Item = PathBuf> {
    SUFFIXES.iter().map(move |end| directory.join(format!("{name}{end}")))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn rename_if_there(from: &Path, to: &Path) -> std::io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file, which nobody but the owner may read.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    for part in bytes.chunks(BYTES_AT_ONCE) {
        file.write_all(part)?;
        pause();
    }
    file.sync_all()
}

/// The highest number that any of the files has.
fn newest_number(directory: &Path, name: &str) -> u64 {
    let number = |path: PathBuf| unseal(&fs::read(path).ok()?).ok()?.1;
    paths(directory, name).filter_map(number).max().unwrap_or(0)
}

fn checksum(text: &[u8], generation: u64) -> String {
    let mut hasher = Sha256::new();
    for part in text.chunks(BYTES_AT_ONCE) {
        hasher.update(part);
        pause();
    }
    hasher.update(generation.to_le_bytes());
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seal(text: &[u8], generation: u64) -> Vec<u8> {
    let mut sealed = text.to_vec();
    let checksum = checksum(text, generation);
    sealed.extend(format!("\n{MARK}{generation} sha256 {checksum}\n").into_bytes());
    sealed
}

/// The text of a file, and its generation if it has one; why it is damaged.
fn unseal(bytes: &[u8]) -> Result<(&[u8], Option<u64>), String> {
    let mark = format!("\n{MARK}");
    let found = bytes.windows(mark.len()).rposition(|window| window == mark.as_bytes());
    let Some(at) = found else { return Ok((bytes, None)) };
    let (text, line) = (&bytes[..at], &bytes[at + mark.len()..]);
    let words: Vec<&str> = std::str::from_utf8(line)
        .map_err(|_| "is damaged in its last line")?
        .split_ascii_whitespace()
        .collect();
    let [number, "sha256", sum] = words[..] else {
        return Err("is damaged in its last line".to_owned());
    };
    let number: u64 = number.parse().map_err(|_| "is damaged in its last line".to_owned())?;
    if checksum(text, number) == sum {
        Ok((text, Some(number)))
    } else {
        Err("is damaged: its checksum is wrong".to_owned())
    }
}

fn read<T>(path: &Path, parse: &impl Fn(&[u8]) -> Result<T, String>) -> Content<T> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Content::Missing,
        Err(error) => return Content::Damaged(format!("cannot be read: {error}")),
    };
    match unseal(&bytes) {
        Err(why) => Content::Damaged(why),
        Ok((text, generation)) => match (parse(text), generation) {
            (Ok(value), generation) => {
                Content::Good { generation: generation.unwrap_or(0), text: text.to_vec(), value }
            }
            // The checksum is right: this is what was written.
            (Err(why), Some(_)) => Content::Unknown(why),
            (Err(why), None) => Content::Damaged(why),
        },
    }
}

/// Renames a damaged file, so that the next save does not replace it; says what was done. The
/// oldest of many goes.
fn set_aside(path: &Path, why: &str) -> String {
    let now = crate::events::now();
    let place = (0..).map(|more| with_end(path, &format!(".damaged-{}", now + more)));
    let mut free = place.skip_while(|path| path.symlink_metadata().is_ok());
    let kept = free.next().expect("not every name is taken");
    let text = match fs::rename(path, &kept) {
        Ok(()) => format!("{} {why}; it is kept as {}", path.display(), kept.display()),
        Err(error) => format!("{} {why}, and cannot be renamed: {error}", path.display()),
    };
    forget_old_damaged(path);
    text
}

fn forget_old_damaged(path: &Path) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
    let start = format!("{}.damaged-", name.to_string_lossy());
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut kept: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&start)))
        .collect();
    kept.sort();
    let many = kept.len().saturating_sub(DAMAGED_FILES_MAX);
    // A file that cannot be removed stays.
    kept.iter().take(many).for_each(|path| drop(fs::remove_file(path)));
}

/// Reads JSON; says why it cannot be read without quoting anything of it.
pub(super) fn parse_json<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| {
        // An error of serde about a damaged file could quote a secret.
        let (line, column) = (error.line(), error.column());
        format!("is damaged or of another version, at line {line} column {column}")
    })
}

/// Reads a file that must exist, for tests of what is kept.
#[cfg(test)]
pub(super) fn number_of(path: &Path) -> Result<Option<u64>> {
    let bytes = fs::read(path)?;
    unseal(&bytes).map(|(_, number)| number).map_err(anyhow::Error::msg)
}
