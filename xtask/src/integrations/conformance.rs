//! The conformance driver: the same life of a volume through each integration, compared with that by REST.

use std::path::Path;

use anyhow::Result;

use super::{PVE_COMMON, PVE_STORAGE, base_classes};
use crate::{process, workspace};

/// Runs the driver in target/platforms; it makes the programs of the integrations that it needs.
pub(super) fn test(binaries: &Path) -> Result<()> {
    let driver = workspace::root().join("tests/platforms/run.py");
    let folder = workspace::folder_of("platforms");
    std::fs::create_dir_all(&folder)?;
    let (storage, common) = (base_classes(&PVE_STORAGE)?, base_classes(&PVE_COMMON)?);
    let variables = [
        ("GANTRY_BIN_DIR", binaries.as_os_str()),
        (PVE_STORAGE.variable, storage.as_os_str()),
        (PVE_COMMON.variable, common.as_os_str()),
    ];
    process::run_with("python3", &[&driver, &folder], &variables)
}
