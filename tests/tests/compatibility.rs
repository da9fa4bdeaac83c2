//! Compatibility of today's daemon with what the release 0.1.0 took and answered: an exported configuration,
//! names of fields that have others since, and metrics. Its OpenAPI document and its command lines
//! are compared by unit tests of `api`, `cli` and `server`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::http::{Answer, Request};
use harness::program::run;
use harness::waiting::wait_until;
use harness::{Array, Value, text};
use serde_json::json;

/// A configuration that 0.1.0 exported, with one of everything.
const CONFIGURATION: &str = include_str!("release/0.1.0-configuration.json");

/// The metrics of 0.1.0 under I/O: kind, name and labels of each.
const METRICS: &str = include_str!("release/0.1.0-metrics.txt");

fn send(array: &Array, request: &Request) -> Result<Answer> {
    request.send_to_socket(&array.data().join("gantry.sock"))
}

fn get(array: &Array, path: &str) -> Result<Value> {
    let answer = send(array, &Request::new("GET", path))?;
    ensure!(answer.status == 200, "{path}: {answer:?}");
    answer.json()
}

#[test]
fn a_configuration_of_a_release_is_imported() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    array.gantry(&["volume", "create", "p/v", "--size", "64M", "--reserved"])?;
    array.gantry(&["volume", "create", "p/e", "--size", "1G", "--block-size", "512e"])?;
    let file = array.beside("array.json");
    fs::write(&file, CONFIGURATION)?;
    let file = file.to_str().context("a printable path")?;
    let refused = array.try_gantry(&["configuration", "import", file])?.failure()?;
    // The secret was not exported; the host is made when one is there.
    ensure!(refused.contains("CHAP"), "{refused}");
    let mut told: Value = serde_json::from_str(CONFIGURATION)?;
    told["hosts"][0]["chap"]["secret"] = json!("the-secret-of-a-release");
    fs::write(file, told.to_string())?;
    array.gantry(&["configuration", "import", file])?;
    let volume = get(&array, "/v1/volumes/p/v")?;
    ensure!(volume["maps"][0]["host"] == "cluster" && volume["lun"] == 7, "{volume:#}");
    let other = get(&array, "/v1/volumes/p/e")?;
    ensure!(other["maps"] == json!([{ "host": "up", "lun": 9, "read_only": true }]), "{other:#}");
    ensure!(other["identification"]["vendor"] == "ACME", "{other:#}");
    ensure!(other["reservations_hidden"] == true, "{other:#}");
    ensure!(text(&get(&array, "/v1/hosts")?, "/0/chap_user")? == "esx");
    ensure!(get(&array, "/v1/schedules")?[0]["name"] == "nightly");
    Ok(())
}

#[test]
fn a_field_is_asked_for_and_answered_by_its_earlier_name() -> Result<()> {
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    let body = json!({ "pool": "p", "name": "v", "size_bytes": 1 << 20, "reserved": true });
    let made = send(&array, &Request::new("POST", "/v1/volumes").json(&body))?;
    ensure!(made.status == 200 && made.json()?["reserved"] == true, "{made:?}");
    let body = json!({ "name": "w", "reserved": false });
    let made = send(&array, &Request::new("POST", "/v1/volumes/p/v/clones").json(&body))?;
    ensure!(made.status == 200 && made.json()?["reserved"] == false, "{made:?}");
    for (filter, name) in [("reserved=true", "v"), ("thick=true", "v"), ("reserved=false", "w")] {
        let found = get(&array, &format!("/v1/volumes?{filter}"))?;
        ensure!(found.as_array().is_some_and(|all| all.len() == 1), "{filter}: {found:#}");
        ensure!(found[0]["name"] == name, "{filter}: {found:#}");
    }
    Ok(())
}

/// Kinds of metrics with the labels of their samples, by name.
fn metrics(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut found: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["#", "TYPE", name, kind] = words[..] {
            found.entry(name.to_owned()).or_default().0 = kind.to_owned();
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let of_histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end).filter(|name| found.contains_key(*name)));
        let Some((_, labels)) = found.get_mut(of_histogram.unwrap_or(name)) else { continue };
        let parts = line.split("=\"").collect::<Vec<_>>();
        let before = parts.iter().take(parts.len().saturating_sub(1));
        let label = |part: &&str| part.rsplit(['{', ',']).next().unwrap_or_default().to_owned();
        labels.extend(before.map(label));
    }
    found
}

#[test]
fn every_metric_of_a_release_has_its_name_kind_and_labels() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "64M")?;
    let url = array.lun_url(lun)?;
    let words = ["-f", "raw", "-c", "write 0 64k", "-c", "read 0 64k", &url];
    run(Path::new("qemu-io"), &words, Duration::from_secs(60))?.success()?;
    let mut missing = Vec::new();
    wait_until("the metrics of a host", || {
        let today = send(&array, &Request::new("GET", "/metrics"))?;
        missing = missing_of_a_release(&metrics(&today.body));
        Ok(missing.is_empty())
    })
    .with_context(|| format!("{missing:#?}"))
}

fn missing_of_a_release(today: &BTreeMap<String, (String, BTreeSet<String>)>) -> Vec<String> {
    let mut missing = Vec::new();
    for line in METRICS.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, name, labels @ ..] = &words[..] else { continue };
        match today.get(*name) {
            Some((now, _)) if now != kind => missing.push(format!("{name}: {now}, not {kind}")),
            Some((_, now)) => {
                let gone = labels.iter().filter(|label| !now.contains(**label));
                missing.extend(gone.map(|label| format!("{name}: no label {label} in {now:?}")));
            }
            None => missing.push(format!("{name}: gone")),
        }
    }
    missing
}
