//! Score cards of several arrays on one page: each is started, validated at tiny sizes and stopped again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use guest::Lio;
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

pub(super) fn run(options: &Options, folder: &Path) -> Result<()> {
    let mut cards = vec![ours(folder)?, tgt(folder)?, istgt(folder)?, lio(folder)?];
    if let Some(program) = &options.spdk {
        cards.push(spdk(program, folder)?);
    }
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

fn ours(folder: &Path) -> Result<Card> {
    let place = folder.join("array");
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
    validate(folder, "gantry", &urls, &["--small", &small])?;
    array.stop()?;
    Ok(Card { name: "Gantry".to_owned(), folder: "gantry" })
}

/// tgtd's own number 1 is the LUN that it starts with.
fn tgt(folder: &Path) -> Result<Card> {
    let tgt = Tgt::start(64 << 20)?;
    let numbers = 2..2 + u16::try_from(LUNS)?;
    let urls = numbers.map(|number| tgt.add_thin_lun(number, LUN)).collect::<Result<Vec<_>>>()?;
    validate(folder, "tgt", &urls, &[])?;
    Ok(Card { name: format!("Debian's tgt {}", version_of("tgt")?), folder: "tgt" })
}

fn istgt(folder: &Path) -> Result<Card> {
    let istgt = Istgt::start(LUNS, LUN)?;
    validate(folder, "istgt", &istgt.urls(), &[])?;
    Ok(Card { name: format!("Debian's istgt {}", version_of("istgt")?), folder: "istgt" })
}

fn lio(folder: &Path) -> Result<Card> {
    let mut lio = Lio::start(LUNS, LUN, ROOM_MIB)?;
    validate(
        folder,
        "lio",
        &lio.urls(),
        &["--remark", "an emulated machine: seconds mean nothing"],
    )?;
    Ok(Card { name: format!("LIO of Linux {}", lio.release()?), folder: "lio" })
}

fn spdk(program: &Path, folder: &Path) -> Result<Card> {
    let names: Vec<String> = (0..LUNS).map(|number| format!("lun{number}")).collect();
    let luns: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), LUN)).collect();
    let spdk = Spdk::start(program, &folder.join("spdk-files"), Mode::Polling, &luns)?;
    validate(folder, "spdk", &spdk.urls, &["--remark", "LUNs in memory"])?;
    Ok(Card { name: spdk.version.clone(), folder: "spdk" })
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
