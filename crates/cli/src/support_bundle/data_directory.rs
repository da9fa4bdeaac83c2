//! Collector of the data directory's files: configuration, records of events and changes, and a list of all
//! files. Those with secrets are only in the list.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::archive::Archive;
use super::redaction::kept_value;

/// Files that are one JSON value. Secrets have files of their own (docs/decisions/0020).
const VALUES: [&str; 3] = ["gantry.json", "controller.json", "mirrors.json"];

/// Files of which each line is one.
const RECORDS: [&str; 4] = ["events.jsonl", "events.old.jsonl", "audit.jsonl", "audit.old.jsonl"];

/// The largest configuration that is read, in bytes.
const VALUE_BYTES_MAX: u64 = 64 << 20;

/// Entries of the list.
const ENTRIES_MAX: usize = 4096;

/// Adds what can be read.
pub(super) fn collect(data: &Path, archive: &mut Archive) -> Result<()> {
    if let Err(error) = fs::read_dir(data) {
        let hint = "use sudo, or name it with --data";
        archive.missing("data-directory", &format!("{}: {error}: {hint}", data.display()));
        return Ok(());
    }
    archive.add_value("data-directory/files.json", Value::Array(list(data)))?;
    let mut configuration = None;
    for name in VALUES {
        let place = format!("data-directory/{name}");
        match read(&data.join(name)) {
            Ok(value) => {
                if name == VALUES[0] {
                    configuration = Some(value.clone());
                }
                archive.add_value(&place, value)?;
            }
            Err(reason) => archive.missing(&place, &reason),
        }
    }
    for name in RECORDS {
        let path = data.join(name);
        // Rotated logs come with time.
        if path.exists() || !name.contains(".old.") {
            archive.add_records(&format!("data-directory/{name}"), &path)?;
        }
    }
    match configuration {
        Some(configuration) => {
            archive.add_value("data-directory/devices.json", devices(&configuration))
        }
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Value, String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > VALUE_BYTES_MAX {
        return Err(format!("it has {length} bytes"));
    }
    let content = fs::read_to_string(path).map_err(|error| error.to_string())?;
    kept_value(&content).map_err(|error| {
        format!("it is not JSON, at line {} column {}", error.line(), error.column())
    })
}

/// All files, with the folders in the directory, by name.
fn list(data: &Path) -> Vec<Value> {
    let mut folders = vec![data.to_owned()];
    let mut entries = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            let name = path.strip_prefix(data).unwrap_or(&path).display().to_string();
            entries.push(describe(&name, &metadata));
            if entries.len() == ENTRIES_MAX {
                return entries;
            }
        }
    }
    entries
}

fn describe(name: &str, metadata: &Metadata) -> Value {
    json!({
        "name": name,
        "bytes": metadata.len(),
        "allocated_bytes": metadata.blocks() * 512,
        "mode": format!("{:o}", metadata.mode()),
        "owner": metadata.uid(),
        "modified": metadata.mtime(),
    })
}

/// The pools' devices as the file system has them, also while no daemon runs.
fn devices(configuration: &Value) -> Value {
    let mut found = Vec::new();
    let pools = configuration["pools"].as_object().into_iter().flatten();
    for (pool, kept) in pools {
        for device in kept["devices"].as_array().into_iter().flatten() {
            let Some(device) = device["device"].as_str() else { continue };
            let path = device.strip_prefix("file:").or_else(|| device.strip_prefix("block:"));
            let state = match path.map(fs::metadata) {
                Some(Ok(metadata)) => describe(device, &metadata),
                Some(Err(error)) => json!({ "name": device, "error": error.to_string() }),
                None => json!({ "name": device }),
            };
            found.push(json!({ "pool": pool, "device": state }));
        }
    }
    found.into()
}
