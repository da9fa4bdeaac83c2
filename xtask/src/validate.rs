//! Validates our array and tgt with `gantry-host validate`, and keeps the reports.

mod arrays;
mod devices;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::tgt::Tgt;
use harness::{Array, number};

use crate::{process, setup, test, workspace};

/// Bytes of each LUN under test.
const LUN: u64 = 24 << 30;

/// Bytes of the pool behind them.
const POOL: u64 = 12 << 30;

/// The same when the pool is in memory.
const LUN_IN_MEMORY: u64 = 3 << 30;
const POOL_IN_MEMORY: u64 = 7 << 30;

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
    /// Our array alone, with its pool in memory: what is left is the array's own doing and not the
    /// disk's. For the cases that have room on LUNs of 3 GiB, and for 'locks'.
    #[arg(long, conflicts_with = "wire")]
    memory: bool,
    /// Gbit/s of the wire, in each direction, 0.001 to 100. Loopback is as fast as memory; with this, our array
    /// alone is validated in a network namespace whose loopback is as fast as that wire. Needs
    /// root.
    #[arg(long, value_parser = gbit)]
    wire: Option<f64>,
    /// Sizes: tiny, scaled or full.
    #[arg(long, default_value = "scaled")]
    scale: String,
    /// Score cards of every array that can be had here, on one page: ours, tgt, istgt, the Linux kernel's
    /// target (LIO) in an emulated machine, and SPDK and SCST if --spdk and --scst name them. At tiny
    /// sizes, one round.
    #[arg(long, conflicts_with_all = ["wire", "memory", "case", "rounds", "scale"])]
    arrays: bool,
    /// With --arrays: SPDK's program iscsi_tgt, built by whoever points at it.
    #[arg(long, requires = "arrays", value_name = "PROGRAM")]
    spdk: Option<PathBuf>,
    /// With --arrays: SCST's source tree, built for the guest's kernel by whoever points at it.
    #[arg(long, requires = "arrays", value_name = "FOLDER")]
    scst: Option<PathBuf>,
    /// The namespace is there: go on in it.
    #[arg(long, hide = true, requires = "wire")]
    in_namespace: bool,
}

/// Gbit/s as --wire takes them.
fn gbit(text: &str) -> Result<f64, String> {
    let found = text.parse().map_err(|_| format!("{text} is no number"))?;
    if (0.001..=100.0).contains(&found) { Ok(found) } else { Err("0.001 to 100".to_owned()) }
}

/// Where our array listens behind a wire: all that goes there is one direction.
const BEHIND_THE_WIRE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Makes the wire, and goes on: Gbit/s, bytes that may go at once, the address behind it, and the
/// command.
const WIRE: &str = r#"set -e
rate="$1"gbit; burst="$2"; address="$3"; shift 3
class() { tc class add dev lo parent 1: classid "$1" htb rate $rate burst $burst cburst $burst quantum 200000; }
ip link set lo up
tc qdisc add dev lo root handle 1: htb default 2
class 1:1
class 1:2
tc filter add dev lo parent 1: protocol ip u32 match ip dst "$address"/32 flowid 1:1
exec "$@"
"#;

/// Validates both, or ours behind a wire, and writes the pages.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.arrays {
        // Nothing is timed there.
        setup::run()?;
        setup::for_arrays()?;
        test::build_for_tests()?;
    } else if !options.in_namespace {
        setup::run()?;
        test::build()?;
    }
    let temporary = tempfile::Builder::new().prefix("gantry-validate-").tempdir()?;
    let folder = options.scratch.clone().unwrap_or_else(|| temporary.path().to_owned());
    fs::create_dir_all(&folder)?;
    if options.arrays {
        return arrays::run(options, &folder);
    }
    match options.wire {
        Some(gbit) if !options.in_namespace => return behind_a_wire(gbit),
        Some(gbit) => {
            ours(options, &folder, BEHIND_THE_WIRE)?;
            return keep(options, &folder, &[("gantry", &format!("gantry-{gbit}gbit"))]);
        }
        None => {}
    }
    ours(options, &folder, Ipv4Addr::LOCALHOST)?;
    if options.memory {
        return keep(options, &folder, &[("gantry", "gantry-memory")]);
    }
    theirs(options, &folder)?;
    let result = |name: &str| format!("{name}={}", folder.join(name).join("result.json").display());
    let out = folder.display().to_string();
    let words = ["compare", &result("gantry"), &result("tgt"), "--out", &out];
    process::run(&program(), &words)?;
    keep(options, &folder, &[("gantry", "gantry"), ("tgt", "tgt")])?;
    if options.dry_run {
        return Ok(());
    }
    copy(&folder.join("compare.html"), "gantry-and-tgt.html")
}

/// Runs this same command in a network namespace with such a wire.
fn behind_a_wire(gbit: f64) -> Result<()> {
    // What goes in a millisecond; at least one packet of loopback.
    let burst = (gbit * 1e9 / 8.0 / 1e3).clamp(f64::from(64 << 10), f64::from(1 << 20)) as u64;
    let (gbit, burst, address) = (gbit.to_string(), burst.to_string(), BEHIND_THE_WIRE.to_string());
    let made = ["--net", "sh", "-c", WIRE, "sh", &gbit, &burst, &address];
    let same = std::env::args().chain(["--in-namespace".to_owned()]);
    let words: Vec<String> = made.map(str::to_owned).into_iter().chain(same).collect();
    process::run("unshare", &words)
}

/// Our array: a thin pool on a file, four LUNs (N1 uses all, other cases two); another, small pool for Q4.
fn ours(options: &Options, folder: &Path, address: Ipv4Addr) -> Result<()> {
    let binaries = workspace::release_folder();
    let port = harness::array::free_address()?.port();
    let mut array = Array::at(&folder.join("array"), (address, port).into())?;
    array = array.with_binaries(&binaries);
    fs::create_dir_all(folder.join("array"))?;
    array.restart()?;
    if options.memory {
        in_memory(options, folder, &array)?
    } else {
        on_files(options, folder, &array)?
    }
    terminal::say_part!("{}", devices::times(&array, "large")?);
    array.stop()?;
    Ok(fs::remove_dir_all(folder.join("array"))?)
}

fn on_files(options: &Options, folder: &Path, array: &Array) -> Result<()> {
    for (pool, size) in [("large", POOL), ("small", 1 << 30)] {
        let device = format!("file:{}", folder.join(format!("array/{pool}.img")).display());
        let size = size.to_string();
        array.gantry(&["pool", "create", pool, "--device", &device, "--size", &size])?;
    }
    let [first, second] = luns(array, LUN)?;
    let more_for = |volume| array.lun_url(array.create_lun(volume, &LUN.to_string())?);
    let (third, fourth) = (more_for("large/c")?, more_for("large/d")?);
    let small = array.lun_url(array.create_lun("small/c", "4G")?)?;
    // Tiny runs show that it works, also behind a wire that would need hours to fill the pool.
    if options.scale != "tiny" {
        let half = POOL / 2 - (256 << 20);
        write_once(array, &[(&first, half), (&second, half)])?;
    }
    let cluster = ["--url2", &second, "--url2", &third, "--url2", &fourth];
    let switch = switch(array);
    let only_here = ["--small", &small, "--array-switch", &switch];
    let more = [&[first.as_str()][..], &cluster, &only_here].concat();
    validate(
        options,
        folder,
        "gantry",
        &[&more[..], &watched(array)?.each_ref().map(String::as_str)].concat(),
    )
}

/// What turns primitives off and on in our array, for M3.
fn switch(array: &Array) -> String {
    let program = workspace::release_folder().join("gantry");
    let (program, data) = (program.display(), array.data().display());
    format!("{program} --data {data} target primitives --$SWITCH extended_copy,write_same >&2")
}

fn in_memory(options: &Options, folder: &Path, array: &Array) -> Result<()> {
    let size = POOL_IN_MEMORY.to_string();
    array.gantry(&["pool", "create", "large", "--device", "memory:", "--size", &size])?;
    let [first, second] = luns(array, LUN_IN_MEMORY)?;
    write_once(array, &[(&first, LUN_IN_MEMORY), (&second, LUN_IN_MEMORY)])?;
    let more = [first.as_str(), "--url2", &second];
    validate(
        options,
        folder,
        "gantry",
        &[&more[..], &watched(array)?.each_ref().map(String::as_str)].concat(),
    )
}

/// Where our array's own figures come from.
fn watched(array: &Array) -> Result<[String; 6]> {
    let page = format!("http://{}/metrics", array.http());
    let process = array.process_id()?.to_string();
    let token = array.gantry(&["token", "create", "validate", "--role", "viewer"])?;
    let [pid, metrics, secret] =
        ["--array-pid", "--array-metrics", "--array-token"].map(str::to_owned);
    Ok([pid, process, metrics, page, secret, token.trim().to_owned()])
}

/// Two LUNs of a size.
fn luns(array: &Array, size: u64) -> Result<[String; 2]> {
    let make = |volume| array.lun_url(array.create_lun(volume, &size.to_string())?);
    Ok([make("large/a")?, make("large/b")?])
}

/// Writes the pool once, through its LUNs, and gives all back: so that a pool in use is measured,
/// not how a file system finds space for a new file, or the kernel memory.
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
    let luns = (2..6).map(|lun| tgt.add_thin_lun(lun, LUN)).collect::<Result<Vec<_>>>()?;
    let process = tgt.process_id().to_string();
    let others = luns[1..].iter().flat_map(|url| ["--url2", url]);
    let words = std::iter::once(luns[0].as_str()).chain(others).chain(["--array-pid", &process]);
    validate(options, folder, "tgt", &words.collect::<Vec<_>>())
}

fn validate(options: &Options, folder: &Path, name: &str, words: &[&str]) -> Result<()> {
    let out = folder.join(name).display().to_string();
    let rounds = options.rounds.to_string();
    let mut all = vec!["validate", "--out", &out, "--rounds", &rounds, "--scale", &options.scale];
    all.extend(words);
    if let Some(case) = &options.case {
        all.extend(["--case", case]);
    }
    let wire = options.wire.map(|gbit| format!("a wire of {gbit} Gbit/s"));
    let memory = options.memory.then(|| "the pool in memory".to_owned());
    for remark in wire.iter().chain(&memory) {
        all.extend(["--remark", remark]);
    }
    process::run(&program(), &all)
}

/// Keeps the reports: what they are called where they were made, and in docs/validation.
fn keep(options: &Options, folder: &Path, reports: &[(&str, &str)]) -> Result<()> {
    if options.dry_run {
        return Ok(());
    }
    for (made, kept) in reports {
        copy(&folder.join(made).join("report.html"), &format!("{kept}.html"))?;
        copy(&folder.join(made).join("junit.xml"), &format!("{kept}.junit.xml"))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &str) -> Result<()> {
    let docs = workspace::root().join("docs/validation");
    fs::create_dir_all(&docs)?;
    fs::copy(from, docs.join(to)).map(drop).with_context(|| from.display().to_string())
}

fn program() -> String {
    workspace::release_folder().join("gantry-host").display().to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Options;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn wires_are_slower_or_faster_than_a_gigabit() {
        for (text, expected) in [("0.01", 0.01), ("0.4", 0.4), ("10", 10.0)] {
            let words = Words::try_parse_from(["validate", "--wire", text]);
            assert_eq!(words.map(|words| words.options.wire).ok(), Some(Some(expected)), "{text}");
        }
        for text in ["0", "101", "ten", "-1", "NaN"] {
            let option = format!("--wire={text}");
            assert!(Words::try_parse_from(["validate", &option]).is_err(), "{text}");
        }
    }
}
