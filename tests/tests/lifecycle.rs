//! Life of objects from creation to deletion: they stay as they were made, and every refusal says
//! what to do.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use harness::program::run;
use harness::wire::{Wire, cdb16};
use harness::{Array, Value, binaries, generations, number, space_adds_up, text};

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
    array.gantry(&["volume", "create", "p/thick", "--size", "256M", "--thick"])?;
    // The flag's name of 0.1.0.
    array.gantry(&["volume", "create", "p/old", "--size", "64M", "--reserved"])?;
    for (path, thick) in [("p/thin", false), ("p/thick", true), ("p/old", true)] {
        assert_eq!(array.gantry_json(&["volume", "show", path])?["thick"], thick, "{path}");
    }
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
fn a_lun_number_rests_before_another_volume_has_it_and_an_naa_identifier_never_comes_again()
-> Result<()> {
    let mut array = array_with_pool()?;
    let first_lun = array.create_lun("p/v", "1G")?;
    let first_naa = text(&volume(&array, "p/v")?, "/naa")?.to_owned();
    array.gantry(&["volume", "unmap", "p/v", "--host", "any"])?;
    let again = array.gantry_json(&["volume", "map", "p/v", "--host", "any"])?;
    assert_eq!(number(&again, "/lun")?, u64::from(first_lun), "it comes back to its number");
    array.gantry(&["volume", "unmap", "p/v", "--host", "any"])?;
    array.gantry(&["volume", "delete", "p/v"])?;
    assert!(array.stop()?.success());
    array.restart()?;
    let second_lun = array.create_lun("p/v", "1G")?;
    assert_ne!(second_lun, first_lun, "the number rests, also after a restart");
    assert_ne!(text(&volume(&array, "p/v")?, "/naa")?, first_naa);
    let number = first_lun.to_string();
    array.gantry(&["volume", "create", "p/w", "--size", "1G"])?;
    let resting = ["volume", "map", "p/w", "--host", "any", "--lun", &number];
    let refusal = array.try_gantry(&resting)?.failure()?;
    assert!(refusal.contains("rests for"), "{refusal}");
    Ok(())
}

#[test]
fn hosts_have_lun_numbers_of_their_own_and_a_volume_one_for_all() -> Result<()> {
    let array = array_with_pool()?;
    let initiator = |name: &str| format!("iqn.2026-01.org.example:{name}");
    for name in ["a", "b", "c"] {
        array.gantry(&["host", "create", name, "--initiator", &initiator(name)])?;
    }
    array.gantry(&["group", "set", "cluster", "--host", "a", "--host", "b"])?;
    let map = |volume: &str, host: &str| -> Result<u64> {
        let volume = format!("p/{volume}");
        if !array.try_gantry(&["volume", "show", &volume])?.is_success() {
            array.gantry(&["volume", "create", &volume, "--size", "1G"])?;
        }
        number(&array.gantry_json(&["volume", "map", &volume, "--host", host])?, "/lun")
    };
    assert_eq!((map("own", "b")?, map("shared", "cluster")?), (0, 1));
    assert_eq!((map("of-c", "c")?, map("shared", "c")?, map("own", "c")?), (0, 1, 2));
    let target = array.target_name()?;
    let luns = |name| harness::initiator::luns(array.portal(), &initiator(name), &target);
    assert_eq!((luns("a")?, luns("b")?, luns("c")?), (vec![1], vec![0, 1], vec![0, 1, 2]));
    let shown = array.gantry(&["volume", "show", "p/own"])?;
    assert!(shown.contains("0 for b, 2 for c"), "{shown}");
    let taken = ["volume", "map", "p/own", "--host", "a", "--lun", "1"];
    let refusal = array.try_gantry(&taken)?.failure()?;
    assert!(refusal.contains("is another volume for cluster"), "{refusal}");
    // What is written out reads back with each host's number.
    let file = array.beside("configuration.json");
    let file = file.to_str().unwrap_or_default();
    array.gantry(&["configuration", "export", file])?;
    array.gantry(&["volume", "unmap", "p/own", "--host", "c"])?;
    array.gantry(&["configuration", "import", file])?;
    assert_eq!(luns("c")?, [0, 1, 2]);
    Ok(())
}

#[test]
fn a_configuration_with_array_wide_lun_numbers_keeps_them() -> Result<()> {
    let mut array = array_with_pool()?;
    let initiator = "iqn.2026-01.org.example:one";
    array.gantry(&["host", "create", "one", "--initiator", initiator])?;
    for (name, host, lun) in [("a", "any", "0"), ("b", "one", "7"), ("c", "one", "300")] {
        let volume = format!("p/{name}");
        array.gantry(&["volume", "create", &volume, "--size", "1G"])?;
        array.gantry(&["volume", "map", &volume, "--host", host, "--lun", lun])?;
    }
    let before = array.gantry_json(&["volume", "list"])?;
    assert!(array.stop()?.success());
    let mut file = generations::read(&array, "gantry.json")?;
    let maps = file["lun_maps"]["maps"].take();
    let hosts = maps.as_object().into_iter().flatten();
    let luns = hosts.flat_map(|(host, numbers)| {
        let numbers = numbers.as_object().into_iter().flatten();
        numbers.map(move |(lun, map)| {
            (lun.clone(), serde_json::json!({ "volume": map["volume"], "hosts": [host] }))
        })
    });
    file["luns"] = Value::Object(luns.collect());
    file["version"] = 1.into();
    let file_fields = file.as_object_mut();
    file_fields.map(|fields| fields.remove("lun_maps"));
    generations::replace(&array, "gantry.json", &file)?;
    array.restart()?;
    assert_eq!(array.gantry_json(&["volume", "list"])?, before);
    let target = array.target_name()?;
    assert_eq!(harness::initiator::luns(array.portal(), initiator, &target)?, [0, 7, 300]);
    Ok(())
}

/// kubernetes#90982 and others: a stale LUN whose number went to another volume was written to.
#[test]
fn a_session_that_knew_a_volume_never_takes_another_one_for_it() -> Result<()> {
    let mut array = Array::prepare()?.with_words(&[], &["--lun-rest", "1"]);
    array.restart()?;
    array.create_pool("p", "2G")?;
    let lun = array.create_lun("p/old", "1G")?;
    array.gantry(&["volume", "create", "p/new", "--size", "1G"])?;
    let target = array.target_name()?;
    let mut host = Wire::log_in(array.portal(), "iqn.2026-01.org.example:stale", &target)?;
    host.run(lun, &cdb16(0x8a, 0, 0, 1), &[0x11; 512], 0)?.good()?;
    array.gantry(&["volume", "unmap", "p/old", "--host", "any"])?;
    let number = lun.to_string();
    let wanted = ["volume", "map", "p/new", "--host", "any", "--lun", &number];
    std::thread::sleep(Duration::from_millis(2100));
    let refusal = array.try_gantry(&wanted)?.failure()?;
    assert!(refusal.contains("has not asked for its LUNs"), "{refusal}");
    let report_luns = [0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(host.run(0, &report_luns, &[], 256)?.good()?[..8], [0; 8]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !array.try_gantry(&wanted)?.is_success() {
        assert!(Instant::now() < deadline, "the number never comes free");
        std::thread::sleep(Duration::from_millis(200));
    }
    // The number is another volume now, and the session still writes as if it were the old one.
    let mut senses = Vec::new();
    for _ in 0..6 {
        let answer = host.run_once(lun, &cdb16(0x8a, 0, 0, 1), &[0x22; 512], 0)?;
        senses.push(answer.code().unwrap_or_default());
    }
    assert!(senses.contains(&(6, 0x3f, 3)), "{senses:x?}");
    assert_eq!(senses.last(), Some(&(5, 0x25, 0)), "{senses:x?}");
    let mut fresh = Wire::log_in(array.portal(), "iqn.2026-01.org.example:fresh", &target)?;
    assert_eq!(fresh.run(lun, &cdb16(0x88, 0, 0, 1), &[], 512)?.good()?, [0; 512]);
    // It asks which volume this is, and is let in.
    host.run(lun, &[0x12, 1, 0x83, 1, 0, 0], &[], 256)?.good()?;
    host.run(lun, &cdb16(0x8a, 0, 0, 1), &[0x33; 512], 0)?.good()?;
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
        space_adds_up(&pool)?;
        let total = number(&pool, "/space/total_bytes")?;
        assert!(total <= size && total > size / 2);
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
