//! An array with something of everything that its administrators and hosts rely on, and checks that
//! it is all there after an upgrade: the answers of the command line, a reservation, a CHAP account.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::Array;
use crate::pdu::RawSession;
use crate::program::run;

/// The CHAP secret of the guarded host.
pub const SECRET: &str = "the-secret-of-a-release";

/// The host that sees LUN 7 and must prove who it is.
pub const GUARDED: &str = "iqn.2026-01.org.example:guarded";

/// The host that sees LUN 1, and reserves it.
pub const UP: &str = "iqn.2026-01.org.example:up";

/// The key of its reservation.
pub const KEY: u64 = 0x1122_3344_5566_7788;

/// Questions of the command line. Each answer of later versions holds all of what an earlier one said.
const QUESTIONS: [&[&str]; 8] = [
    &["target", "show"],
    &["pool", "list"],
    &["volume", "list"],
    &["snapshot", "list"],
    &["schedule", "list"],
    &["host", "list"],
    &["group", "list"],
    &["user", "list"],
];

/// What counts since the start, changes under load, depends on where the array is, or is reckoned
/// otherwise (reserves).
const VOLATILE: [&str; 14] = [
    "bytes_received",
    "bytes_sent",
    "commands",
    "counters",
    "device",
    "fill",
    "last_login",
    "mapped_bytes",
    "memory_bytes",
    "miscompares",
    "portals",
    "sessions",
    "shared_bytes",
    "space",
];

/// Logs in as the host that sees LUN 1.
///
/// # Errors
/// When the array refuses.
pub fn log_in(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), UP, &array.target_name()?)
}

/// Makes hosts, a group, volumes of each kind, maps and a schedule in pool p, by words that the
/// release 0.1.0 knows.
///
/// # Errors
/// When the array refuses.
pub fn configure(array: &Array) -> Result<()> {
    let secret = array.beside("secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    let secret = secret.to_str().context("a printable path")?;
    let chap = ["--chap-user", "esx", "--chap-secret-file", secret];
    array.gantry(&[&["host", "create", "esx", "--initiator", GUARDED][..], &chap].concat())?;
    array.gantry(&["host", "create", "up", "--initiator", UP])?;
    array.gantry(&["group", "set", "cluster", "--host", "esx", "--host", "up"])?;
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    array.gantry(&["volume", "create", "p/thick", "--size", "8M", "--reserved"])?;
    array.gantry(&["volume", "create", "p/e", "--size", "1T", "--block-size", "512e"])?;
    array.gantry(&["volume", "map", "p/v", "--host", "up", "--lun", "1"])?;
    array.gantry(&["volume", "map", "p/thick", "--host", "esx", "--lun", "7"])?;
    array.gantry(&["volume", "map", "p/e", "--host", "cluster", "--lun", "9"])?;
    let schedule = ["schedule", "create", "nightly", "--volume", "p/v", "--every", "1d"];
    array.gantry(&[&schedule[..], &["--keep", "3", "--off"]].concat())?;
    Ok(())
}

/// What administrators see.
///
/// # Errors
/// When the array does not answer.
pub fn seen(array: &Array) -> Result<Value> {
    let answers = QUESTIONS.map(|words| Ok((words.join(" "), array.gantry_json(words)?)));
    Ok(Value::Object(answers.into_iter().collect::<Result<Map<_, _>>>()?))
}

/// Whether an answer holds all that an earlier one held: where, and how they differ.
///
/// # Errors
/// When it does not.
pub fn check_kept(place: &str, earlier: &Value, later: &Value) -> Result<()> {
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => earlier
            .iter()
            .filter(|(name, _)| !VOLATILE.contains(&name.as_str()))
            .try_for_each(|(name, value)| {
                let found = later.get(name).with_context(|| format!("{place}/{name} is gone"))?;
                check_kept(&format!("{place}/{name}"), value, found)
            }),
        (Value::Array(earlier), Value::Array(later)) if earlier.len() == later.len() => {
            earlier.iter().zip(later).enumerate().try_for_each(|(index, (earlier, later))| {
                check_kept(&format!("{place}/{index}"), earlier, later)
            })
        }
        _ if earlier == later => Ok(()),
        _ => bail!("{place}: {earlier:#} before, {later:#} now"),
    }
}

/// PERSISTENT RESERVE OUT of LUN 1: REGISTER with APTPL, then RESERVE (Write Exclusive – Registrants
/// Only).
///
/// # Errors
/// When the array refuses.
pub fn reserve(session: &mut RawSession) -> Result<()> {
    for (action, kind, keys) in [(0, 0, (0, KEY)), (1, 5, (KEY, 0))] {
        session.reserve_out(1, [action, kind, u8::from(action == 0)], keys)?.good()?;
    }
    Ok(())
}

/// Key and type of the reservation of LUN 1 (PERSISTENT RESERVE IN, READ RESERVATION).
///
/// # Errors
/// When there is none.
pub fn reservation(array: &Array) -> Result<(u64, u8)> {
    let held = log_in(array)?.read(1, &[0x5e, 1, 0, 0, 0, 0, 0, 1, 0, 0], 256)?.good()?;
    let key = held.get(8..).and_then(|rest| rest.first_chunk()).context("a reservation")?;
    Ok((u64::from_be_bytes(*key), held[21]))
}

/// Whether the guarded host gets in with a secret.
///
/// # Errors
/// When that cannot be tried.
pub fn knows(array: &Array, secret: &str) -> Result<bool> {
    let url = format!("iscsi://esx%{secret}@{}/{}/7", array.portal(), array.target_name()?);
    let words = ["-i", GUARDED, &url];
    Ok(run(Path::new("iscsi-inq"), &words, Duration::from_secs(30))?.status.success())
}
