//! What an administrator makes stays as it was made, and every refusal says what to do.

use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Result;
use harness::program::run;
use harness::{Array, Value, binaries, number, text};

fn array_with_pool() -> Result<Array> {
    let array = Array::start()?;
    array.create_pool("p", "2G")?;
    Ok(array)
}

fn volume(array: &Array, path: &str) -> Result<Value> {
    array.gantry_json(&["volume", "show", path])
}

#[test]
fn objects_and_their_identifiers_survive_a_restart() -> Result<()> {
    let mut array = array_with_pool()?;
    let host = ["host", "create", "esx1", "--initiator", "iqn.1998-01.com.vmware:esx1"];
    array.gantry(&host)?;
    array.gantry(&["volume", "create", "p/thin", "--size", "100G"])?;
    array.gantry(&["volume", "create", "p/thick", "--size", "256M", "--reserved"])?;
    array.gantry(&["volume", "map", "p/thin", "--host", "esx1", "--lun", "7"])?;
    array.gantry(&["volume", "map", "p/thick", "--host", "any"])?;
    let view = |array: &Array| -> Result<[Value; 3]> {
        let target = array.gantry_json(&["target", "show"])?;
        let volumes = array.gantry_json(&["volume", "list"])?;
        Ok([volumes, array.gantry_json(&["host", "list"])?, target["name"].clone()])
    };
    let before = view(&array)?;
    assert!(array.stop()?.success());
    array.restart()?;
    assert_eq!(view(&array)?, before);
    array.kill()?;
    array.restart()?;
    assert_eq!(view(&array)?, before);
    Ok(())
}

#[test]
fn lun_numbers_and_naa_identifiers_are_never_given_to_a_second_volume() -> Result<()> {
    let mut array = array_with_pool()?;
    let first_lun = array.create_lun("p/v", "1G")?;
    let first_naa = text(&volume(&array, "p/v")?, "/naa")?.to_owned();
    array.gantry(&["volume", "unmap", "p/v", "--host", "any"])?;
    let again = array.gantry_json(&["volume", "map", "p/v", "--host", "any"])?;
    assert_eq!(number(&again, "/lun")?, u64::from(first_lun), "a volume keeps its number");
    array.gantry(&["volume", "unmap", "p/v", "--host", "any"])?;
    array.gantry(&["volume", "delete", "p/v"])?;
    assert!(array.stop()?.success());
    array.restart()?;
    let second_lun = array.create_lun("p/v", "1G")?;
    assert_ne!(second_lun, first_lun);
    assert_ne!(text(&volume(&array, "p/v")?, "/naa")?, first_naa);
    let number = first_lun.to_string();
    array.gantry(&["volume", "create", "p/w", "--size", "1G"])?;
    let taken = ["volume", "map", "p/w", "--host", "any", "--lun", &number];
    let refusal = array.try_gantry(&taken)?.failure()?;
    assert!(refusal.contains("never reused"), "{refusal}");
    Ok(())
}

#[test]
fn a_daemon_that_is_asked_to_stop_stops_cleanly() -> Result<()> {
    let mut array = array_with_pool()?;
    array.create_lun("p/v", "1G")?;
    assert_eq!(array.stop()?.code(), Some(0), "{}", array.log());
    array.restart()?;
    assert_eq!(text(&array.gantry_json(&["pool", "show", "p"])?, "/state")?, "ready");
    Ok(())
}

#[test]
fn a_log_for_programs_is_an_object_on_every_line() -> Result<()> {
    let mut array = Array::prepare()?.with_words(&[], &["--log", "json"]);
    array.restart()?;
    array.create_pool("p", "1G")?;
    array.stop()?;
    let log = array.log();
    // The first password is told on the standard output, which tests keep with the log.
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| !line.starts_with("First start"))
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    for (name, wanted) in [("message", "ready"), ("path", "/v1/pools"), ("message", "stopped")] {
        assert!(lines.iter().any(|line| line[name] == wanted), "{wanted}: {log}");
    }
    for line in &lines {
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    Ok(())
}

#[test]
fn global_options_stand_before_or_after_the_subcommand() -> Result<()> {
    let array = array_with_pool()?;
    let data = array.data().to_str().expect("a printable path");
    let url = format!("http://{}", array.http());
    let token = array.beside("token");
    std::fs::write(&token, array.gantry(&["token", "create", "test"])?)?;
    let token = token.to_str().expect("a printable path");
    for words in [
        &["--json", "--data", data, "pool", "list"][..],
        &["pool", "--json", "--data", data, "list"],
        &["pool", "list", "--data", data, "--json"],
        &["--url", &url, "--token-file", token, "pool", "list", "--json"],
        &["pool", "list", "--json", "--token-file", token, "--url", &url],
    ] {
        let printed =
            run(&binaries::binary("gantry")?, words, Duration::from_secs(10))?.success()?;
        let pools: Value = serde_json::from_str(&printed)?;
        assert_eq!(text(&pools, "/0/name")?, "p", "{words:?}");
    }
    Ok(())
}

#[test]
fn a_list_of_nothing_says_so() -> Result<()> {
    let array = Array::start()?;
    for object in ["pool", "volume", "snapshot", "host", "group", "session", "schedule"] {
        assert_eq!(array.gantry(&[object, "list"])?.trim(), "There are none yet.", "{object}");
        assert_eq!(array.gantry_json(&[object, "list"])?, serde_json::json!([]), "{object}");
    }
    Ok(())
}

#[test]
fn every_refusal_says_what_to_do() -> Result<()> {
    let array = array_with_pool()?;
    array.create_lun("p/v", "1G")?;
    let taken = format!("file:{}", array.beside("p.img").display());
    let cases: [(&[&str], &str); 13] = [
        (&["pool", "create", "p", "--device", "file:/tmp/x", "--size", "1G"], "another name"),
        (&["pool", "create", "q", "--device", &taken, "--size", "1G"], "another path"),
        (&["pool", "create", "q", "--device", "floppy:a", "--size", "1G"], "file:PATH"),
        (&["pool", "create", "q", "--device", "memory:", "--size", "1X"], "20G"),
        (&["pool", "delete", "p"], "delete them first"),
        (&["pool", "show", "nowhere"], "pool list"),
        (&["volume", "create", "v", "--size", "1G"], "POOL/NAME"),
        (&["volume", "create", "p/v", "--size", "1G"], "another name"),
        (&["volume", "create", "p/big", "--size", "65T"], "64 TiB"),
        (&["volume", "show", "p/nothing"], "volume list"),
        (&["volume", "delete", "p/v"], "unmap it first"),
        (&["volume", "map", "p/v", "--host", "nobody"], "host list"),
        (&["volume", "resize", "p/v", "--size", "512M"], "--shrink"),
    ];
    for (words, advice) in cases {
        let refusal = array.try_gantry(words)?.failure()?;
        assert!(refusal.contains(advice), "{words:?} says '{refusal}', not '{advice}'");
    }
    Ok(())
}

#[test]
fn a_command_without_a_daemon_says_how_to_start_one() -> Result<()> {
    let mut array = array_with_pool()?;
    array.stop()?;
    let refusal = array.try_gantry(&["pool", "list"])?.failure()?;
    assert!(refusal.contains("gantryd --data"), "{refusal}");
    Ok(())
}

#[test]
fn who_is_not_let_in_over_the_network_is_told_how_to_be() -> Result<()> {
    let array = array_with_pool()?;
    let token = array.beside("token");
    std::fs::write(&token, "0123456789abcdef")?;
    let token = token.to_str().expect("a printable path");
    let url = format!("http://{}", array.http());
    for (words, part) in [
        (&["--url", &url, "pool", "list"][..], "--token-file"),
        (&["--url", &url, "--token-file", token, "pool", "list"], "makes another"),
        (&["--url", "http://127.0.0.1:1", "pool", "list"], "--https"),
    ] {
        let gantry = binaries::binary("gantry")?;
        let refusal = run(&gantry, words, Duration::from_secs(10))?.failure()?;
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    Ok(())
}

fn second_daemon(words: &[&str]) -> Result<(ExitStatus, String)> {
    let finished = run(&binaries::binary("gantryd")?, words, Duration::from_secs(10))?;
    Ok((finished.status, finished.stderr))
}

#[test]
fn a_daemon_with_wrong_options_says_why_it_does_not_start() -> Result<()> {
    let array = array_with_pool()?;
    let data = array.data().to_str().expect("a printable path");
    let portal = array.portal().to_string();
    let other = array.beside("other");
    let other = other.to_str().expect("a printable path");
    let free = harness::array::free_address()?.to_string();
    let cases: [(&[&str], &str); 3] = [
        (&["--data", data, "--iscsi", &free, "--http", &free], data),
        (&["--data", other, "--iscsi", &portal, "--http", &free], &portal),
        (&["--data", other, "--iscsi", &free, "--http", "0.0.0.0:8480"], "loopback"),
    ];
    for (words, reason) in cases {
        let (status, complaint) = second_daemon(words)?;
        assert!(!status.success(), "{words:?} started");
        assert!(complaint.contains(reason), "{words:?} says '{complaint}', not '{reason}'");
    }
    assert_eq!(text(&array.gantry_json(&["pool", "show", "p"])?, "/state")?, "ready");
    Ok(())
}

#[test]
fn a_volume_changes_its_size_and_goes_with_its_space() -> Result<()> {
    let array = array_with_pool()?;
    let lun = array.create_lun("p/v", "1G")?;
    let size = |array: &Array| number(&volume(array, "p/v")?, "/size_bytes");
    array.gantry(&["volume", "resize", "p/v", "--size", "3G"])?;
    assert_eq!(size(&array)?, 3 << 30);
    let seen = harness::initiator::capacity_bytes(&array.lun_url(lun)?)?;
    assert_eq!(seen, 3 << 30);
    array.gantry(&["volume", "resize", "p/v", "--size", "1G", "--shrink"])?;
    assert_eq!(size(&array)?, 1 << 30);
    array.gantry(&["volume", "unmap", "p/v", "--host", "any"])?;
    assert!(harness::initiator::capacity_bytes(&array.lun_url(lun)?).is_err());
    array.gantry(&["volume", "delete", "p/v"])?;
    assert_eq!(array.gantry_json(&["volume", "list"])?, serde_json::json!([]));
    Ok(())
}

#[test]
fn a_pool_grows_while_in_use_and_its_space_adds_up() -> Result<()> {
    let mut array = array_with_pool()?;
    array.create_lun("p/v", "1G")?;
    let check = |array: &Array, size: u64| -> Result<()> {
        let pool = array.gantry_json(&["pool", "show", "p"])?;
        assert_eq!(number(&pool, "/size_bytes")?, size);
        let part = |name: &str| number(&pool, &format!("/space/{name}_bytes"));
        let sum = part("used")? + part("pending")? + part("reserve")? + part("free")?;
        assert_eq!(sum, part("total")?);
        assert!(part("total")? <= size && part("total")? > size / 2);
        Ok(())
    };
    check(&array, 2 << 30)?;
    array.gantry(&["pool", "extend", "p", "--size", "4G"])?;
    check(&array, 4 << 30)?;
    array.kill()?;
    array.restart()?;
    check(&array, 4 << 30)
}

#[test]
fn a_volume_is_seen_only_by_the_hosts_that_it_is_mapped_to() -> Result<()> {
    let array = array_with_pool()?;
    let name = "iqn.2026-01.org.example:one";
    array.gantry(&["host", "create", "one", "--initiator", name])?;
    array.gantry(&["volume", "create", "p/v", "--size", "1G"])?;
    array.gantry(&["volume", "map", "p/v", "--host", "one", "--lun", "0"])?;
    let target = array.target_name()?;
    let luns = |initiator: &str| harness::initiator::luns(array.portal(), initiator, &target);
    assert_eq!(luns(name)?, [0]);
    assert_eq!(luns("iqn.2026-01.org.example:two")?, Vec::<u16>::new());
    Ok(())
}
