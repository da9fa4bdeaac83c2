//! Build script: copies the source of `store`, with every mistake beside the statement that it would
//! replace.

mod mutation;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use mutation::{Edit, Mistake};

/// The engine's source, from this crate's folder on.
const ENGINE: &str = "../store/src";

/// The mistakes, a file each.
const MISTAKES: &str = "mistakes";

fn main() -> Result<(), Box<dyn Error>> {
    for folder in [ENGINE, MISTAKES, "build"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo names a folder")?);
    let mistakes = mistakes()?;
    let mut edits: BTreeMap<String, Vec<Edit>> = BTreeMap::new();
    for (number, mistake) in mistakes.iter().enumerate() {
        for hunk in &mistake.hunks {
            let edit = Edit { number, mistake: &mistake.name, hunk };
            edits.entry(hunk.file.clone()).or_default().push(edit);
        }
    }
    copy(Path::new(ENGINE), "", &out.join("engine"), &mut edits)?;
    if let Some(file) = edits.keys().next() {
        return Err(format!("a mistake is in {file}, which {ENGINE} does not have").into());
    }
    let names: Vec<_> = mistakes.iter().map(|mistake| mistake.name.as_str()).collect();
    let count = names.len();
    let array =
        format!("/// The names of all mistakes.\npub const NAMES: [&str; {count}] = {names:?};\n");
    fs::write(out.join("names.rs"), array)?;
    Ok(())
}

/// All mistakes, by name.
fn mistakes() -> Result<Vec<Mistake>, Box<dyn Error>> {
    let mut mistakes = Vec::new();
    for entry in fs::read_dir(MISTAKES)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).ok_or("a name in UTF-8")?;
        let text = fs::read_to_string(&path)?;
        mistakes.push(Mistake::parse(name, &text).map_err(|error| at(&path, &error))?);
    }
    mistakes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mistakes)
}

/// Copies a folder of the engine, and splices the mistakes in.
fn copy(
    engine: &Path,
    folder: &str,
    out: &Path,
    edits: &mut BTreeMap<String, Vec<Edit<'_>>>,
) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out.join(folder))?;
    for entry in fs::read_dir(engine.join(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or("a name in UTF-8")?;
        let file = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            copy(engine, &file, out, edits)?;
            continue;
        }
        if file != "lib.rs" && !edits.contains_key(&file) {
            fs::copy(entry.path(), out.join(&file))?;
            continue;
        }
        let source = fs::read_to_string(entry.path())?;
        let edits = edits.remove(&file).unwrap_or_default();
        let spliced = mutation::splice(&source, &edits);
        let source = spliced.map_err(|error| at(&entry.path(), &error))?;
        let is_root = file == "lib.rs";
        fs::write(out.join(&file), if is_root { without_head(&source) } else { source })?;
    }
    Ok(())
}

/// The root of the engine without what only the root of a crate can have: it is included.
fn without_head(source: &str) -> String {
    let is_head = |line: &&str| line.starts_with("//!") || line.starts_with("#![");
    source.lines().skip_while(is_head).map(|line| format!("{line}\n")).collect()
}

fn at(path: &Path, error: &str) -> String {
    format!("{}: {error}", path.display())
}
