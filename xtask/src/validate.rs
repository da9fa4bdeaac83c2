//! Validates our array and tgt with `gantry-host validate`, and keeps the reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::tgt::Tgt;
use harness::{Array, number};

use crate::{process, setup, test, workspace};

/// Bytes of each LUN under test.
const LUN: u64 = 8 << 30;

/// How long unmapped space may take to come back before a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds of each measurement.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only these cases, as 'gantry-host validate --case' takes them.
    #[arg(long)]
    case: Option<String>,
    /// Where the arrays keep their data, and the measurements are; a temporary folder when left
    /// out.
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// Validate and print, but leave docs/validation alone.
    #[arg(long)]
    dry_run: bool,
}

/// Validates both, and writes the pages.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::run()?;
    test::build()?;
    let temporary = tempfile::Builder::new().prefix("gantry-validate-").tempdir()?;
    let folder = options.scratch.clone().unwrap_or_else(|| temporary.path().to_owned());
    fs::create_dir_all(&folder)?;
    ours(options, &folder)?;
    theirs(options, &folder)?;
    let result = |name: &str| folder.join(name).join("result.json");
    let host = program();
    process::run(
        &host,
        &[
            "compare".into(),
            result("gantry").into_os_string(),
            result("tgt").into_os_string(),
            "--out".into(),
            folder.clone().into_os_string(),
        ],
    )?;
    if options.dry_run { Ok(()) } else { keep(&folder) }
}

fn program() -> String {
    workspace::release_folder().join("gantry-host").display().to_string()
}

/// Our array: a thin pool on a file, two LUNs; another, small pool for Q4.
fn ours(options: &Options, folder: &Path) -> Result<()> {
    let binaries = workspace::release_folder();
    let mut array = Array::at(&folder.join("array"), harness::array::free_address()?)?;
    array = array.with_binaries(&binaries);
    fs::create_dir_all(folder.join("array"))?;
    array.restart()?;
    for (pool, size) in [("large", "12G"), ("small", "1G")] {
        let device = format!("file:{}", folder.join(format!("array/{pool}.img")).display());
        array.gantry(&["pool", "create", pool, "--device", &device, "--size", size])?;
    }
    let size = LUN.to_string();
    let urls = [("large/a", size.as_str()), ("large/b", &size), ("small/c", "4G")]
        .map(|(volume, size)| array.create_lun(volume, size).and_then(|lun| array.lun_url(lun)));
    let [first, second, small] = urls;
    let (first, second, small) = (first?, second?, small?);
    write_once(&array, &[(&first, LUN), (&second, 3 << 30)])?;
    validate(options, folder, "gantry", &[&first, "--url2", &second, "--small", &small])?;
    array.stop()?;
    Ok(fs::remove_dir_all(folder.join("array"))?)
}

/// Writes the pool's file once, through its LUNs, and gives all back: so that a pool in use is
/// measured, not how a file system finds space for a new file.
fn write_once(array: &Array, luns: &[(&str, u64)]) -> Result<()> {
    let host = program();
    for step in ["fill", "unmap"] {
        for (url, bytes) in luns {
            process::run(&host, &[step, url, "--length", &bytes.to_string()])?;
        }
    }
    let started = Instant::now();
    while number(&array.gantry_json(&["pool", "show", "large"])?, "/space/data_bytes")? > 0 {
        ensure!(started.elapsed() < PATIENCE, "the space of unmapped blocks does not come back");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Debian's tgt on sparse files, with thin provisioning switched on.
fn theirs(options: &Options, folder: &Path) -> Result<()> {
    let tgt = Tgt::start(64 << 20)?;
    let (first, second) = (tgt.add_thin_lun(2, LUN)?, tgt.add_thin_lun(3, LUN)?);
    validate(options, folder, "tgt", &[&first, "--url2", &second])
}

fn validate(options: &Options, folder: &Path, name: &str, words: &[&str]) -> Result<()> {
    let out = folder.join(name).display().to_string();
    let rounds = options.rounds.to_string();
    let mut all = vec!["validate", "--out", &out, "--rounds", &rounds];
    all.extend(words);
    if let Some(case) = &options.case {
        all.extend(["--case", case]);
    }
    process::run(&program(), &all)
}

fn keep(folder: &Path) -> Result<()> {
    let docs = workspace::root().join("docs/validation");
    fs::create_dir_all(&docs)?;
    let copy = |from: PathBuf, to: &str| {
        fs::copy(&from, docs.join(to)).map(drop).with_context(|| from.display().to_string())
    };
    for name in ["gantry", "tgt"] {
        copy(folder.join(name).join("report.html"), &format!("{name}.html"))?;
        copy(folder.join(name).join("junit.xml"), &format!("{name}.junit.xml"))?;
    }
    copy(folder.join("compare.html"), "gantry-and-tgt.html")
}
