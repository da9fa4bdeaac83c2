//! Generated pages: written by `cargo xtask docs`, compared by `cargo xtask check`.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace;

const SCSI_REFERENCE: &str = "docs/reference/scsi.md";

/// Writes every generated page.
pub(crate) fn write() -> Result<()> {
    let path = workspace::root().join(SCSI_REFERENCE);
    let folder = path.parent().expect("a page lies in a folder");
    fs::create_dir_all(folder)?;
    fs::write(&path, scsi_reference()?).with_context(|| format!("writing {SCSI_REFERENCE}"))?;
    println!("docs: wrote {SCSI_REFERENCE}");
    Ok(())
}

/// Fails when a page differs from what the code says now.
pub(crate) fn compare() -> Result<()> {
    let committed = fs::read_to_string(workspace::root().join(SCSI_REFERENCE)).unwrap_or_default();
    if committed != scsi_reference()? {
        bail!("{SCSI_REFERENCE} is not current: run 'cargo xtask docs' and commit it");
    }
    check_tests(&committed)
}

/// Fails when a page names a test that does not exist: `FILE: TEST`.
fn check_tests(page: &str) -> Result<()> {
    let named = page.split('`').filter_map(|text| text.split_once(": "));
    for (file, test) in named.filter(|(file, _)| !file.contains([' ', '|'])) {
        let path = match file.strip_prefix("scsi/") {
            Some(file) => format!("crates/scsi/src/tests/{file}.rs"),
            None => format!("tests/tests/{file}.rs"),
        };
        let source = fs::read_to_string(workspace::root().join(&path)).unwrap_or_default();
        if !source.contains(&format!("fn {test}(")) {
            bail!("{SCSI_REFERENCE} names a test that is not in {path}: {test}");
        }
    }
    Ok(())
}

/// The release build is the one that the black-box tests need anyway.
fn scsi_reference() -> Result<String> {
    let arguments =
        ["run", "--quiet", "--release", "--package", "gantry-server", "--bin", "gantryd", "--"];
    process::output(&process::cargo(), &[&arguments[..], &["--print-scsi-reference"]].concat())
}
