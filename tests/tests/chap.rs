//! CHAP as libiscsi's tools see it, and that no secret ever comes out of the array again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::program::run;
use harness::{Array, generations};

const INITIATOR: &str = "iqn.2026-01.org.example:guarded";
const STRANGER: &str = "iqn.2026-01.org.example:stranger";
const SECRET: &str = "correct-horse-7";
const ARRAY_SECRET: &str = "battery-staple-9";
const DISCOVERY_SECRET: &str = "who-goes-there-5";
const SECRETS: [&str; 3] = [SECRET, ARRAY_SECRET, DISCOVERY_SECRET];
const TIMEOUT: Duration = Duration::from_secs(30);

fn secret_file(array: &Array, name: &str, secret: &str) -> Result<String> {
    let path = array.beside(name);
    fs::write(&path, format!("{secret}\n"))?;
    Ok(path.to_str().context("a printable path")?.to_owned())
}

/// An array whose only LUN belongs to a host that must prove who it is.
fn guarded_array() -> Result<Array> {
    let array = Array::start()?;
    array.create_pool("p", "2G")?;
    array.gantry(&["volume", "create", "p/v", "--size", "1G"])?;
    let secret = secret_file(&array, "secret", SECRET)?;
    let own = secret_file(&array, "own-secret", ARRAY_SECRET)?;
    let words = ["host", "create", "h", "--iqn", INITIATOR, "--iqn", "iqn.2026-01.org.example:b"];
    let chap = ["--chap-user", "esx", "--chap-secret-file", &secret];
    let mutual = ["--mutual-user", "array", "--mutual-secret-file", &own];
    array.gantry(&[&words[..], &chap, &mutual].concat())?;
    array.gantry(&["volume", "map", "p/v", "--host", "h", "--lun", "0"])?;
    Ok(array)
}

/// Whether INQUIRY succeeds for somebody with an account, perhaps asking for a proof in turn.
fn inquiry(array: &Array, initiator: &str, account: &str, mutual: &str) -> Result<bool> {
    let portal = array.portal();
    let target = array.target_name()?;
    let url = format!("iscsi://{account}{portal}/{target}/0{mutual}");
    let finished = run(Path::new("iscsi-inq"), &["-i", initiator, &url], TIMEOUT)?;
    Ok(finished.status.success())
}

/// Whether the target is told to an initiator.
fn discovery(array: &Array, account: &str) -> Result<bool> {
    let url = format!("iscsi://{account}{}", array.portal());
    let finished = run(Path::new("iscsi-ls"), &["-i", STRANGER, &url], TIMEOUT)?;
    Ok(finished.status.success() && finished.stdout.contains(&array.target_name()?))
}

#[test]
fn only_who_knows_the_secret_gets_in() -> Result<()> {
    let array = guarded_array()?;
    let right = format!("esx%{SECRET}@");
    let mutual = format!("?target_user=array&target_password={ARRAY_SECRET}");
    assert!(inquiry(&array, INITIATOR, &right, "")?, "{}", array.log());
    assert!(inquiry(&array, "iqn.2026-01.org.example:b", &right, "")?);
    assert!(inquiry(&array, INITIATOR, &right, &mutual)?, "{}", array.log());
    let refused = [
        (INITIATOR, String::new(), ""),
        (INITIATOR, "esx%correct-horse-8@".to_owned(), ""),
        (INITIATOR, format!("esy%{SECRET}@"), ""),
        (INITIATOR, right.clone(), "?target_user=array&target_password=battery-staple-8"),
        (INITIATOR, right.clone(), "?target_user=other&target_password=battery-staple-9"),
        (STRANGER, right, ""),
    ];
    for (initiator, account, mutual) in refused {
        assert!(!inquiry(&array, initiator, &account, mutual)?, "{initiator} {account} {mutual}");
    }
    Ok(())
}

#[test]
fn discovery_may_want_a_proof_too() -> Result<()> {
    let array = guarded_array()?;
    assert!(discovery(&array, "")?);
    let secret = secret_file(&array, "discovery-secret", DISCOVERY_SECRET)?;
    let chap = ["--chap-user", "scout", "--chap-secret-file", &secret];
    array.gantry(&[&["discovery", "set-chap"][..], &chap].concat())?;
    assert!(!discovery(&array, "")?);
    assert!(!discovery(&array, "scout%who-goes-there-6@")?);
    let finished = run(
        Path::new("iscsi-ls"),
        &["-i", STRANGER, &format!("iscsi://scout%{DISCOVERY_SECRET}@{}", array.portal())],
        TIMEOUT,
    )?;
    assert!(finished.stdout.contains("iqn."), "{} {}", finished.stdout, finished.stderr);
    array.gantry(&["discovery", "no-chap"])?;
    assert!(discovery(&array, "")?);
    Ok(())
}

#[test]
fn accounts_survive_a_restart_and_a_lost_secret_keeps_everybody_out() -> Result<()> {
    let mut array = guarded_array()?;
    let right = format!("esx%{SECRET}@");
    array.kill()?;
    array.restart()?;
    assert!(inquiry(&array, INITIATOR, &right, "")?);
    assert!(!inquiry(&array, INITIATOR, "", "")?);
    // The pool has the accounts, sealed with the recovery key.
    array.kill()?;
    generations::remove(&array, "secrets.json")?;
    array.restart()?;
    assert!(inquiry(&array, INITIATOR, &right, "")?);
    assert!(!inquiry(&array, INITIATOR, "", "")?);
    array.kill()?;
    generations::remove(&array, "secrets.json")?;
    generations::remove(&array, "recovery-key.json")?;
    array.restart()?;
    assert!(!inquiry(&array, INITIATOR, &right, "")?);
    assert!(!inquiry(&array, INITIATOR, "", "")?);
    let secret = secret_file(&array, "secret", SECRET)?;
    let change = ["host", "change", "h", "--chap-user", "esx", "--chap-secret-file", &secret];
    array.gantry(&change)?;
    assert!(inquiry(&array, INITIATOR, &right, "")?);
    array.gantry(&["host", "change", "h", "--no-chap"])?;
    assert!(inquiry(&array, INITIATOR, "", "")?);
    Ok(())
}

#[test]
fn no_secret_comes_out_of_the_array() -> Result<()> {
    let array = guarded_array()?;
    let secret = secret_file(&array, "discovery-secret", DISCOVERY_SECRET)?;
    let chap = ["--chap-user", "scout", "--chap-secret-file", &secret];
    let mut shown =
        vec![array.gantry(&[&["discovery", "set-chap", "--json"][..], &chap].concat())?];
    inquiry(&array, INITIATOR, &format!("esx%{SECRET}@"), "")?;
    inquiry(&array, INITIATOR, "esx%wrong-secret-1@", "")?;
    for object in ["host", "session", "group", "portal", "volume", "pool"] {
        shown.push(array.gantry(&[object, "list"])?);
        shown.push(array.gantry(&[object, "list", "--json"])?);
    }
    shown.push(array.gantry(&["target", "show", "--json"])?);
    let short = secret_file(&array, "short", "hush-hush")?;
    let refusals = [
        vec![
            "host",
            "create",
            "h",
            "--iqn",
            "iqn.x",
            "--chap-user",
            "u",
            "--chap-secret-file",
            &secret,
        ],
        vec![
            "host",
            "create",
            "i",
            "--iqn",
            "iqn.x",
            "--chap-user",
            "u",
            "--chap-secret-file",
            &short,
        ],
        vec![
            "host",
            "create",
            "i",
            "--iqn",
            "iqn.x",
            "--chap-user",
            "u",
            "--chap-secret-file",
            &secret,
            "--mutual-user",
            "m",
            "--mutual-secret-file",
            &secret,
        ],
    ];
    for words in refusals {
        shown.push(array.try_gantry(&words)?.failure()?);
    }
    assert!(shown.iter().any(|text| text.contains("12 to 255")));
    assert!(shown.iter().any(|text| text.contains("two different secrets")));
    shown.push(array.log());
    shown.push(fs::read_to_string(array.data().join("gantry.json"))?);
    for text in &shown {
        for secret in SECRETS.iter().chain(&["hush-hush", "wrong-secret-1"]) {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    let mode = fs::metadata(array.data().join("secrets.json"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    Ok(())
}
