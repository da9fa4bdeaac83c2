//! Initiators that others wrote in Java and in Rust, each with a small driver of ours, which
//! `cargo xtask test` fetches and builds; a second reader checks what they wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use harness::program::{Finished, run};
use harness::waiting::wait_until;
use harness::{Array, initiator, text};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes of the LUN under test.
const SIZE: u64 = 256 << 20;

const BLOCKS: u64 = SIZE / 512;

/// Bytes of the part of each session: the drivers' number.
const PART: u64 = 8 << 20;

/// Bytes at the beginning of each part that hold one value in the end.
const HELD: u64 = 1 << 20;

const SESSIONS: u64 = 4;

const USER: &str = "rust";
const SECRET: &str = "correct-horse-7";

fn program(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("GANTRY_TEST_FOREIGN_DIR")
        .context("'cargo xtask test --foreign' builds the foreign initiators")?;
    Ok(PathBuf::from(folder).join(name))
}

/// An array with a volume; it goes to error recovery level 2 with initiators that want to.
fn array() -> Result<Array> {
    let mut array = Array::prepare()?.with_words(&[], &["--error-recovery-level", "2"]);
    array.restart()?;
    array.create_pool("p", "1G")?;
    array.gantry(&["volume", "create", "p/v", "--size", &SIZE.to_string()])?;
    Ok(array)
}

/// What each session left is there for QEMU's initiator.
fn second_reader(array: &Array, first: u8) -> Result<()> {
    let mut reads = Vec::new();
    for index in 0..SESSIONS {
        let value = u64::from(first) + index;
        reads.push(format!("read -P {value} {} {HELD}", index * PART));
    }
    let reads: Vec<_> = reads.iter().map(String::as_str).collect();
    initiator::qemu_io(&["-f", "raw", &array.lun_url(0)?], &reads)?;
    Ok(())
}

fn no_session_is_left(array: &Array) -> Result<()> {
    wait_until("no session is left", || {
        Ok(array.gantry_json(&["session", "list"])?.as_array().is_some_and(Vec::is_empty))
    })
}

/// The library logs each key and PDU otherwise.
const SILENT: &str = "-Dorg.apache.commons.logging.Log=org.apache.commons.logging.impl.NoOpLog";

fn jscsi(array: &Array, what: &str) -> Result<Finished> {
    let classes = program("jscsi/classes")?;
    let jars = program("jscsi/jars/*")?;
    // Its own class of the same name comes after the driver's.
    let path = format!("{}:{}", classes.display(), jars.display());
    let portal = array.portal();
    let (address, port) = (portal.ip().to_string(), portal.port().to_string());
    let words = ["-cp", &path, SILENT, "Driver"];
    let (target, blocks) = (array.target_name()?, BLOCKS.to_string());
    let own = [&address, &port, &target, &blocks, what];
    run(Path::new("java"), &[&words[..], &own].concat(), TIMEOUT)
}

#[test]
#[ignore = "needs jSCSI: cargo xtask test --foreign"]
fn java_jscsi() -> Result<()> {
    let array = array()?;
    array.gantry(&["volume", "map", "p/v", "--host", "any", "--lun", "0"])?;
    let printed = jscsi(&array, &SESSIONS.to_string())?.success()?;
    assert!(printed.ends_with("done\n"), "{printed}");
    second_reader(&array, b'A')
}

#[test]
#[ignore = "needs jSCSI: cargo xtask test --foreign"]
fn java_jscsi_cannot_prove_who_it_is_and_stays_out() -> Result<()> {
    let array = array()?;
    guard(&array, "iqn.2026-11.example:jscsi0")?;
    let printed = jscsi(&array, "refused")?.success()?;
    assert!(printed.contains("refused"), "{printed}");
    no_session_is_left(&array)
}

/// LUN 0 for one host, which must know the secret.
fn guard(array: &Array, initiator: &str) -> Result<()> {
    let file = array.beside("secret");
    fs::write(&file, format!("{SECRET}\n"))?;
    let file = file.to_str().context("a printable path")?;
    let chap = ["--chap-user", USER, "--chap-secret-file", file];
    array.gantry(&[&["host", "create", "h", "--iqn", initiator][..], &chap].concat())?;
    array.gantry(&["volume", "map", "p/v", "--host", "h", "--lun", "0"])?;
    Ok(())
}

const RUST: &str = "iqn.2026-11.example:iscsi-client-rs";

/// How the Rust initiator is to log in and write.
struct Way {
    secret: Option<&'static str>,
    digests: &'static str,
    initial_r2t: &'static str,
    immediate_data: &'static str,
    recovery: u8,
}

const PLAIN: Way =
    Way { secret: None, digests: "None", initial_r2t: "Yes", immediate_data: "No", recovery: 0 };

fn client_rs(array: &Array, way: &Way, what: &[&str]) -> Result<Finished> {
    let auth = match way.secret {
        Some(secret) => json!({"AuthMethod": "CHAP", "username": USER, "secret": secret}),
        None => json!({"AuthMethod": "None"}),
    };
    let configuration = json!({
        "login": {
            "identity": {
                "SessionType": "Normal",
                "InitiatorName": RUST,
                "InitiatorAlias": "rust",
                "TargetName": array.target_name()?,
                "IsX86": "No",
            },
            "auth": auth,
            "integrity": {"HeaderDigest": way.digests, "DataDigest": way.digests},
            "flow": {
                "MaxRecvDataSegmentLength": 262_144,
                "MaxBurstLength": 262_144,
                "FirstBurstLength": 65_536,
            },
            "write_flow": {
                "InitialR2T": way.initial_r2t,
                "ImmediateData": way.immediate_data,
                "MaxOutstandingR2T": 1,
            },
            "ordering": {"DataPDUInOrder": "Yes", "DataSequenceInOrder": "Yes"},
            "recovery": {"ErrorRecoveryLevel": way.recovery},
            "timers": {"DefaultTime2Wait": 2, "DefaultTime2Retain": 0},
            "limits": {"MaxConnections": 1},
            "extensions": {},
            "transport": {
                "TargetAddress": array.portal().to_string(),
                "TargetPortalGroupTag": 1,
            },
        },
        "runtime": {"MaxSessions": 1, "TimeoutConnection": 30},
    });
    // Its language is YAML, and JSON is a part of that.
    let file = array.beside("iscsi-client-rs.yaml");
    fs::write(&file, configuration.to_string())?;
    let file = file.to_str().context("a printable path")?;
    let driver = program("iscsi-client-rs/debug/driver")?;
    run(&driver, &[&[file], what].concat(), TIMEOUT)
}

#[test]
#[ignore = "needs iscsi-client-rs: cargo xtask test --foreign"]
fn rust_iscsi_client_rs() -> Result<()> {
    let array = array()?;
    array.gantry(&["volume", "map", "p/v", "--host", "any", "--lun", "0"])?;
    let volume = array.gantry_json(&["volume", "show", "p/v"])?;
    let serial = text(&volume, "/naa")?.trim_start_matches("naa.").to_owned();
    let (blocks, sessions) = (BLOCKS.to_string(), SESSIONS.to_string());
    let ways = [
        PLAIN,
        Way { initial_r2t: "No", immediate_data: "Yes", ..PLAIN },
        Way { immediate_data: "Yes", digests: "CRC32C", ..PLAIN },
        Way { recovery: 1, ..PLAIN },
        Way { recovery: 2, ..PLAIN },
    ];
    for way in &ways {
        let printed = client_rs(&array, way, &[&blocks, &sessions])?.success()?;
        assert!(printed.ends_with("done\n"), "{printed}");
        assert!(printed.contains(&format!("serial {serial}\n")), "{serial}: {printed}");
        second_reader(&array, b'a')?;
        initiator::qemu_io(&["-f", "raw", &array.lun_url(0)?], &["write -z 0 64M"])?;
    }
    no_session_is_left(&array)
}

#[test]
#[ignore = "needs iscsi-client-rs: cargo xtask test --foreign"]
fn rust_iscsi_client_rs_with_chap() -> Result<()> {
    let array = array()?;
    guard(&array, RUST)?;
    let (blocks, sessions) = (BLOCKS.to_string(), SESSIONS.to_string());
    let way = Way { secret: Some(SECRET), ..PLAIN };
    let printed = client_rs(&array, &way, &[&blocks, &sessions])?.success()?;
    assert!(printed.ends_with("done\n"), "{printed}");
    for secret in [Some("correct-horse-8"), None] {
        client_rs(&array, &Way { secret, ..PLAIN }, &["refused"])?.success()?;
    }
    no_session_is_left(&array)
}
