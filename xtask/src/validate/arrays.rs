//! Score cards of several arrays on one page: each is started, validated at tiny sizes and stopped again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use guest::{Lio, Scst};
use harness::Array;
use harness::istgt::Istgt;
use harness::tgt::Tgt;

use super::{Options, copy};
use crate::spdk::{Mode, Spdk};
use crate::{process, test};

/// LUNs of each array: N1 uses all, other cases two.
const LUNS: u32 = 4;

/// Bytes of each. Tiny cases write some 100 MiB.
const LUN: u64 = 2 << 30;

/// What they may fill together in the guest's memory, MiB.
const ROOM_MIB: u32 = 2048;

/// An array by its name on the page, and the folder of its results.
struct Card {
    name: String,
    folder: &'static str,
}

/// Starts an array in a folder and validates it; returns its name on the page.
type Validate<'a> = &'a dyn Fn(&Path) -> Result<String>;

/// In each folder of results, once they are complete.
const NAME: &str = "name";

pub(super) fn run(options: &Options, folder: &Path) -> Result<()> {
    let (built_spdk, built_scst) = (options.spdk.as_deref(), options.scst.as_deref());
    let with_spdk = |folder: &Path| spdk(built_spdk.context("--spdk PROGRAM")?, folder);
    let with_scst = |folder: &Path| scst(built_scst.context("--scst FOLDER")?, folder);
    let mut arrays: Vec<(&str, Validate<'_>)> =
        vec![("gantry", &ours), ("tgt", &tgt), ("istgt", &istgt), ("lio", &lio)];
    if built_spdk.is_some() {
        arrays.push(("spdk", &with_spdk));
    }
    if built_scst.is_some() {
        arrays.push(("scst", &with_scst));
    }
    let cards = arrays.into_iter().map(|(name, array)| card(folder, name, array));
    let cards = cards.collect::<Result<Vec<_>>>()?;
    let result = |card: &Card| {
        format!("{}={}", card.name, folder.join(card.folder).join("result.json").display())
    };
    let results: Vec<String> = cards.iter().map(result).collect();
    let out = folder.display().to_string();
    let mut words = vec!["compare"];
    words.extend(results.iter().map(String::as_str));
    words.extend(["--out", &out]);
    process::run(&program(), &words)?;
    if options.dry_run {
        return Ok(());
    }
    copy(&folder.join("compare.html"), "arrays.html")
}

/// What was validated in an earlier run with the same --scratch is not done again.
fn card(folder: &Path, name: &'static str, validate: Validate<'_>) -> Result<Card> {
    let kept = folder.join(name).join(NAME);
    if let Ok(name_on_page) = fs::read_to_string(&kept) {
        return Ok(Card { name: name_on_page, folder: name });
    }
    // Measurements of another LUN are not gone on with.
    if folder.join(name).exists() {
        fs::remove_dir_all(folder.join(name))?;
    }
    let name_on_page = validate(folder)?;
    fs::write(&kept, &name_on_page)?;
    Ok(Card { name: name_on_page, folder: name })
}

fn ours(folder: &Path) -> Result<String> {
    let place = folder.join("array");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&place)?;
    let mut array = Array::at(&place, harness::array::free_address()?)?;
    array = array.with_binaries(&test::tested_folder());
    array.restart()?;
    for (pool, size) in [("large", "8G"), ("small", "1G")] {
        let device = format!("file:{}", place.join(format!("{pool}.img")).display());
        array.gantry(&["pool", "create", pool, "--device", &device, "--size", size])?;
    }
    let lun = |number| array.lun_url(array.create_lun(&format!("large/v{number}"), "2G")?);
    let urls = (0..LUNS).map(lun).collect::<Result<Vec<_>>>()?;
    let small = array.lun_url(array.create_lun("small/v", "4G")?)?;
    let process = array.process_id()?.to_string();
    validate(folder, "gantry", &urls, &["--small", &small, "--array-pid", &process])?;
    array.stop()?;
    Ok("Gantry".to_owned())
}

/// tgtd's own number 1 is the LUN that it starts with.
fn tgt(folder: &Path) -> Result<String> {
    let tgt = Tgt::start(64 << 20)?;
    let numbers = 2..2 + u16::try_from(LUNS)?;
    let urls = numbers.map(|number| tgt.add_thin_lun(number, LUN)).collect::<Result<Vec<_>>>()?;
    validate(folder, "tgt", &urls, &["--array-pid", &tgt.process_id().to_string()])?;
    Ok(format!("Debian's tgt {}", version_of("tgt")?))
}

fn istgt(folder: &Path) -> Result<String> {
    let istgt = Istgt::start(LUNS, LUN)?;
    let process = istgt.process_id().to_string();
    validate(folder, "istgt", &istgt.urls(), &["--array-pid", &process])?;
    Ok(format!("Debian's istgt {}", version_of("istgt")?))
}

/// Remark on SPDK's page.
const IN_MEMORY: &str =
    "LUNs in memory; the array polls: its processor time is one processor's, whatever it is asked";

/// What the pages of arrays in the guest say.
const EMULATED: [&str; 2] = ["--remark", "an emulated machine: seconds mean nothing"];

fn lio(folder: &Path) -> Result<String> {
    let mut lio = Lio::start(LUNS, LUN, ROOM_MIB)?;
    validate(folder, "lio", &lio.urls(), &EMULATED)?;
    Ok(format!("LIO of Linux {}", lio.release()?))
}

fn scst(built: &Path, folder: &Path) -> Result<String> {
    let scst = Scst::start(built, LUNS, LUN, ROOM_MIB)?;
    let validated = validate(folder, "scst", &scst.urls(), &EMULATED);
    validated.with_context(|| format!("the guest's log:\n{}", scst.log()))?;
    Ok(format!("SCST {}", scst.version()))
}

fn spdk(program: &Path, folder: &Path) -> Result<String> {
    let names: Vec<String> = (0..LUNS).map(|number| format!("lun{number}")).collect();
    let luns: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), LUN)).collect();
    let spdk = Spdk::start(program, &folder.join("spdk-files"), Mode::Polling, &luns)?;
    let process = spdk.process_id().to_string();
    let words = ["--array-pid", &process, "--remark", IN_MEMORY];
    validate(folder, "spdk", &spdk.urls, &words)?;
    Ok(spdk.version.clone())
}

/// Version of an installed Debian package.
fn version_of(package: &str) -> Result<String> {
    let version = process::output("dpkg-query", &["-f", "${Version}", "-W", package])?;
    let upstream = version.trim().rsplit(':').next().unwrap_or_default();
    Ok(upstream.split('-').next().unwrap_or_default().to_owned())
}

fn validate(folder: &Path, name: &str, urls: &[String], more: &[&str]) -> Result<()> {
    let out = folder.join(name).display().to_string();
    let (first, others) = urls.split_first().context("a LUN")?;
    let mut words = vec!["validate", first, "--out", &out, "--rounds", "1", "--scale", "tiny"];
    words.extend(others.iter().flat_map(|url| ["--url2", url]));
    words.extend(more);
    process::run(&program(), &words)
}

fn program() -> String {
    test::tested_folder().join("gantry-host").display().to_string()
}
