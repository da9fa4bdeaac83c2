//! Files of a data directory that the daemon keeps twice and with the generations before, as
//! versions before that wrote them: one file, without a checksum.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::Array;

/// What a file of a stopped array holds, for example `gantry.json`.
///
/// # Errors
/// When it cannot be read.
pub fn read(array: &Array, name: &str) -> Result<Value> {
    let path = array.data().join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let json = text.rsplit_once("\ngeneration ").map_or(&*text, |(json, _)| json);
    Ok(serde_json::from_str(json)?)
}

/// Replaces a file of a stopped array; no generation of before is left.
///
/// # Errors
/// When it cannot be written.
pub fn replace(array: &Array, name: &str, content: &Value) -> Result<()> {
    remove(array, name)?;
    Ok(fs::write(array.data().join(name), serde_json::to_vec(content)?)?)
}

/// Removes a file of a stopped array, with its copy and all generations.
///
/// # Errors
/// When one of them cannot be removed.
pub fn remove(array: &Array, name: &str) -> Result<()> {
    for end in ["", ".copy", ".1", ".2"] {
        match fs::remove_file(array.data().join(format!("{name}{end}"))) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
