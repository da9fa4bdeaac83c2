//! The report: result.json, junit.xml, and report.html, which needs nothing beside itself.

mod charts;
mod figures;
mod html;
mod junit;
mod numbers;
mod page;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::model::Report;

pub(super) use html::{document, table};
pub use junit::xml as junit_xml;
pub(super) use numbers::{bytes, significant};

/// Writes the three files into a folder.
///
/// # Errors
/// When it cannot be written, or a chart cannot be drawn.
pub(super) fn write(folder: &Path, report: &Report) -> Result<()> {
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())
    };
    put("result.json", &serde_json::to_vec_pretty(report)?)?;
    put("junit.xml", junit_xml(report)?.as_bytes())?;
    put("report.html", page::validation(report)?.as_bytes())
}
