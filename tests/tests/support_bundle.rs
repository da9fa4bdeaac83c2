//! `gantry support-bundle`: what is in it, that no secret is, and that it is written also when the
//! daemon is stopped, hangs, or is asked over the network.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use harness::http::Request;
use harness::program::run;
use harness::{Array, Value, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// Texts that must be in no bundle.
const SECRETS: [&str; 6] = [
    "planted-chap-secret",
    "planted-mutual-secret",
    "planted-discovery-secret",
    "planted-webhook-key",
    "planted-webhook-path",
    "planted-mail-password",
];

/// The files of a bundle, without its folder.
fn unpack(path: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(path)?));
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let (folder, name) = name.split_once('/').context("a folder")?;
        ensure!(folder.starts_with("gantry-support-"), "{folder}");
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(name.to_owned(), content);
    }
    Ok(files)
}

fn value(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Result<Value> {
    let content = files.get(name).with_context(|| format!("no {name} in {:?}", files.keys()))?;
    serde_json::from_slice(content).with_context(|| name.to_owned())
}

/// Why something is missing.
fn reason(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Result<String> {
    let manifest = value(files, "manifest.json")?;
    let missing = manifest["missing"].as_array().context("a list")?;
    let found = missing.iter().find(|entry| entry["name"] == name);
    Ok(text(found.with_context(|| format!("{name} is not missing: {manifest:#}"))?, "/reason")?
        .to_owned())
}

fn bundle(array: &Array, name: &str, words: &[&str]) -> Result<BTreeMap<String, Vec<u8>>> {
    let file = array.beside(name);
    let path = file.to_str().context("a printable path")?;
    array.gantry(&[&["support-bundle", path], words].concat())?;
    unpack(&file)
}

/// An array with a secret in every place that takes one, and the first password's hash.
fn array_with_secrets() -> Result<Array> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    array.create_lun("p/v", "64M")?;
    let send = |method: &str, path: &str, body: Value| {
        let request = Request::new(method, path).json(&body);
        request.send_to_socket(&array.data().join("gantry.sock"))?.success()
    };
    send(
        "POST",
        "/v1/hosts",
        json!({
            "name": "esx", "initiators": ["iqn.2026-01.org.example:esx"],
            "chap": { "user": "esx", "secret": SECRETS[0], "mutual_user": "array", "mutual_secret": SECRETS[1] },
        }),
    )?;
    send("PUT", "/v1/discovery/chap", json!({ "user": "finder", "secret": SECRETS[2] }))?;
    send(
        "PUT",
        "/v1/alerts",
        json!({
            "webhooks": [{
                "name": "ops", "severity": "warning", "secret": SECRETS[3],
                "url": format!("http://127.0.0.1:9/{}", SECRETS[4]),
            }],
            "mail": {
                "relay": "127.0.0.1:9", "tls": "starttls", "user": "u", "password": SECRETS[5],
                "from": "a@example.org", "to": ["b@example.org"], "severity": "error",
            },
        }),
    )?;
    Ok(array)
}

/// No file of a bundle has a secret, also not a part of the data directory's own.
fn check_no_secret(array: &Array, token: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let mut forbidden: Vec<String> = SECRETS.map(str::to_owned).to_vec();
    forbidden.push(token.to_owned());
    for name in ["users.json", "recovery-key.json"] {
        let content = fs::read_to_string(array.data().join(name))?;
        let texts = content.split('"').filter(|text| text.len() >= 40 && !text.contains('\n'));
        let before = forbidden.len();
        forbidden.extend(texts.map(str::to_owned));
        ensure!(forbidden.len() > before, "{name} has no secret: {content}");
    }
    for (name, content) in files {
        let content = String::from_utf8_lossy(content);
        for secret in &forbidden {
            ensure!(!content.contains(secret), "{secret} is in {name}");
        }
    }
    for name in
        ["secrets.json", "users.json", "recovery-key.json", "tls.key", "reservation-key.json"]
    {
        ensure!(!files.contains_key(&format!("data-directory/{name}")), "{name} is in the bundle");
    }
    Ok(())
}

#[test]
fn a_bundle_has_what_the_array_says_and_no_secret() -> Result<()> {
    let array = array_with_secrets()?;
    // Somebody who mistakes the name of an object for the place of a secret.
    array.gantry(&["volume", "create", &format!("p/{}", SECRETS[0]), "--size", "1M"])?;
    let made = array.gantry_json(&["token", "create", "bundles", "--role", "admin"])?;
    let token = text(&made, "/secret")?.to_owned();
    let log = array.beside("extra.log");
    fs::write(&log, format!("a line with {} in it\n", SECRETS[1]))?;
    let files = bundle(&array, "b.tar.gz", &["--log", log.to_str().context("a path")?])?;
    check_no_secret(&array, &token, &files)?;
    ensure!(value(&files, "answers/pools.json")?[0]["name"] == "p");
    ensure!(value(&files, "answers/scrubs/p.json")?.is_object());
    ensure!(value(&files, "answers/configuration.json")?["hosts"][0]["name"] == "esx");
    let alerts = value(&files, "answers/alerts.json")?;
    ensure!(alerts["webhooks"][0]["url"] == "http://127.0.0.1:9/(removed)", "{alerts:#}");
    ensure!(value(&files, "data-directory/gantry.json")?["pools"]["p"].is_object());
    let devices = value(&files, "data-directory/devices.json")?;
    ensure!(devices[0]["device"]["bytes"] == 1 << 30, "{devices:#}");
    let listed = String::from_utf8_lossy(&files["data-directory/files.json"]).into_owned();
    ensure!(listed.contains("secrets.json"), "{listed}");
    ensure!(String::from_utf8_lossy(&files["answers/metrics.txt"]).contains("gantry_pool_up"));
    ensure!(String::from_utf8_lossy(&files["machine/file-systems.txt"]).contains("1024-blocks"));
    ensure!(files["logs/extra.log"] == b"a line with (removed) in it\n");
    let events = String::from_utf8_lossy(&files["data-directory/audit.jsonl"]).into_owned();
    ensure!(events.contains("/v1/alerts"), "{events}");
    let manifest = value(&files, "manifest.json")?;
    ensure!(manifest["removed"].as_u64() > Some(3), "{manifest:#}");
    let named = manifest["files"].as_array().context("a list")?;
    ensure!(named.len() + 1 == files.len(), "{manifest:#}");
    let again = array
        .try_gantry(&["support-bundle", array.beside("b.tar.gz").to_str().context("a path")?])?;
    ensure!(again.failure()?.contains("exists: name another file"));
    Ok(())
}

#[test]
fn a_bundle_is_written_while_the_daemon_is_stopped_or_hangs() -> Result<()> {
    let mut array = array_with_secrets()?;
    let id = array.process_id()?;
    let pid = Pid::from_raw(i32::try_from(id)?).context("a process")?;
    kill_process(pid, Signal::STOP)?;
    let begun = Instant::now();
    let files = bundle(&array, "hanging.tar.gz", &[])?;
    kill_process(pid, Signal::CONT)?;
    let took = begun.elapsed();
    ensure!(
        took < Duration::from_secs(55),
        "the first question that nobody answers ends it: {took:?}"
    );
    check_no_secret(&array, "no-token", &files)?;
    ensure!(reason(&files, "answers/pools")?.contains("did not answer within"));
    ensure!(value(&files, "data-directory/gantry.json")?["pools"]["p"].is_object());
    let process = format!("machine/process-{id}/");
    // Beside many other daemons it is not among those that are looked at.
    match files.get(&format!("{process}threads.txt")) {
        Some(threads) => ensure!(String::from_utf8_lossy(threads).contains(" T "), "{threads:?}"),
        None => ensure!(reason(&files, "machine/process (the rest)")?.contains("daemons")),
    }
    ensure!(array.stop()?.success());
    let files = bundle(&array, "stopped.tar.gz", &[])?;
    check_no_secret(&array, "no-token", &files)?;
    ensure!(reason(&files, "answers/pools")?.contains("no daemon answers"));
    fs::write(array.data().join("gantry.json"), "{ damaged")?;
    let files = bundle(&array, "damaged.tar.gz", &[])?;
    ensure!(reason(&files, "data-directory/gantry.json")?.contains("not JSON, at line 1"));
    Ok(())
}

#[test]
fn over_the_network_a_bundle_has_what_the_token_may_see() -> Result<()> {
    let array = array_with_secrets()?;
    let made = array.gantry_json(&["token", "create", "viewer", "--role", "viewer"])?;
    let token = array.beside("token");
    fs::write(&token, text(&made, "/secret")?)?;
    let file = array.beside("far.tar.gz");
    let url = format!("http://{}", array.http());
    let [token, path] = [&token, &file].map(|path| path.to_str().context("a printable path"));
    let words = ["--url", &url, "--token-file", token?, "support-bundle", path?];
    let gantry = harness::binaries::binary("gantry")?;
    run(&gantry, &words, Duration::from_secs(60))?.success()?;
    let files = unpack(&file)?;
    check_no_secret(&array, text(&made, "/secret")?, &files)?;
    ensure!(value(&files, "answers/pools.json")?[0]["name"] == "p");
    ensure!(reason(&files, "answers/configuration")?.contains("admin"));
    ensure!(reason(&files, "data-directory")?.contains("over the network"));
    Ok(())
}
