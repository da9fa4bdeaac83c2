//! Running the array day by day: locked snapshots, schedules, tasks, alerts, its configuration as
//! one file, and what a service manager hears of it.

mod operations {
    pub(crate) mod ask;
}

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::{Array, Value, text};
use operations::ask::ask;

const PATIENCE: Duration = Duration::from_secs(60);

/// A pool with two volumes.
fn array() -> Result<Array> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    for volume in ["p/a", "p/b"] {
        array.gantry(&["volume", "create", volume, "--size", "64M"])?;
    }
    Ok(array)
}

fn refuse(array: &Array, words: &[&str], reason: &str) -> Result<()> {
    let refusal = array.try_gantry(words)?.failure()?;
    assert!(refusal.contains(reason), "{words:?}: {refusal}");
    Ok(())
}

/// Looks again until there is something.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn list(array: &Array, kind: &str) -> Result<Vec<Value>> {
    let list = array.gantry_json(&[kind, "list"])?;
    Ok(list.as_array().cloned().unwrap_or_default())
}

fn names(array: &Array) -> Result<BTreeSet<String>> {
    let snapshots = list(array, "snapshot")?;
    snapshots.iter().map(|snapshot| Ok(text(snapshot, "/name")?.to_owned())).collect()
}

fn has_event(array: &Array, object: &str, part: &str) -> Result<bool> {
    let events = array.gantry_json(&["events"])?;
    let is_meant = |event: &Value| {
        event["object"] == object && event["message"].as_str().is_some_and(|m| m.contains(part))
    };
    Ok(events.as_array().is_some_and(|events| events.iter().any(is_meant)))
}

#[test]
fn a_locked_snapshot_stays_until_its_moment_whatever_happens() -> Result<()> {
    let mut array = array()?;
    array.gantry(&["snapshot", "create", "p/a", "monday", "--lock-for", "1h"])?;
    array.gantry(&["snapshot", "create", "p/a", "short", "--lock-for", "2s"])?;
    refuse(&array, &["snapshot", "delete", "p/monday"], "locked until")?;
    array.kill()?;
    array.restart()?;
    let (status, problem) = ask(&array, "DELETE", "/v1/snapshots/p/monday", "")?;
    assert_eq!(status, 409, "{problem}");
    refuse(&array, &["snapshot", "lock", "p/monday", "--lock-for", "30m"], "only be made longer")?;
    refuse(&array, &["snapshot", "lock", "p/monday", "--lock-until", "2001-01-01"], "future")?;
    refuse(&array, &["snapshot", "lock", "p/a", "--lock-for", "1h"], "only snapshots")?;
    array.gantry(&["snapshot", "lock", "p/monday", "--lock-for", "2h"])?;
    let body = r#"{"until": 99999999999999}"#;
    let (status, _) = ask(&array, "PUT", "/v1/pools/p/snapshots/monday/lock", body)?;
    assert_eq!(status, 400);
    // The volume may go, and its snapshots stay.
    array.gantry(&["volume", "delete", "p/a"])?;
    refuse(&array, &["snapshot", "delete", "p/monday"], "locked until")?;
    wait_for("the end of a lock", || {
        Ok(array.try_gantry(&["snapshot", "delete", "p/short"])?.success().ok())
    })?;
    assert_eq!(names(&array)?, BTreeSet::from(["monday".to_owned()]));
    Ok(())
}

#[test]
fn a_schedule_makes_snapshots_of_one_moment_and_deletes_its_own_only() -> Result<()> {
    let mut array = array()?;
    array.gantry(&["snapshot", "create", "p/a", "a.often-20200101T000000Z"])?;
    let words = "schedule create often --volume p/a --volume p/b --every 1s --keep 2";
    array.gantry(&words.split(' ').collect::<Vec<_>>())?;
    let first = wait_for("a run", || {
        let names = names(&array)?;
        Ok(names.iter().find_map(|name| Some(name.strip_prefix("b.often-")?.to_owned())))
    })?;
    assert!(first.len() == 16 && first.ends_with('Z'), "{first}");
    assert!(names(&array)?.contains(&format!("a.often-{first}")));
    wait_for("the end of the first run's snapshots", || {
        Ok((!names(&array)?.contains(&format!("b.often-{first}"))).then_some(()))
    })?;
    assert!(names(&array)?.contains("a.often-20200101T000000Z"));
    // Runs are missed while the daemon is not there, and told of.
    array.kill()?;
    thread::sleep(Duration::from_secs(3));
    array.restart()?;
    wait_for("missed runs", || Ok(has_event(&array, "schedule often", "missed")?.then_some(())))?;
    array.gantry(&["schedule", "change", "often", "--off"])?;
    let kept = wait_for("the last run", || {
        let names = names(&array)?;
        Ok((names.len() == 5).then_some(names))
    })?;
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(names(&array)?, kept);
    array.gantry(&["schedule", "delete", "often"])?;
    assert_eq!(names(&array)?, kept);
    Ok(())
}

#[test]
fn what_a_schedule_locks_or_a_host_sees_outlives_its_retention() -> Result<()> {
    let array = array()?;
    let words = "schedule create locked --volume p/a --every 1s --keep 1 --lock-for 1h";
    array.gantry(&words.split(' ').collect::<Vec<_>>())?;
    wait_for("three runs", || Ok((names(&array)?.len() >= 3).then_some(())))?;
    array.gantry(&["schedule", "delete", "locked"])?;
    for snapshot in list(&array, "snapshot")? {
        assert!(snapshot["locked_until"].is_u64(), "{snapshot}");
        let path = format!("p/{}", text(&snapshot, "/name")?);
        refuse(&array, &["snapshot", "delete", &path], "locked until")?;
    }
    let words = "schedule create seen --volume p/b --every 1s --keep 1";
    array.gantry(&words.split(' ').collect::<Vec<_>>())?;
    let seen = wait_for("a run", || {
        Ok(names(&array)?.into_iter().find(|name| name.starts_with("seen-")))
    })?;
    // Between two looks it may have been deleted in its turn; then there is another one.
    if array.try_gantry(&["volume", "map", &format!("p/{seen}"), "--host", "any"])?.status.success()
    {
        wait_for("a complaint", || {
            Ok(has_event(&array, "schedule seen", "beyond its time")?.then_some(()))
        })?;
        assert!(names(&array)?.contains(&seen));
    }
    array.gantry(&["volume", "delete", "p/b"])?;
    wait_for("another complaint", || {
        Ok(has_event(&array, "schedule seen", "no volume named")?.then_some(()))
    })?;
    Ok(())
}

#[test]
fn schedules_that_make_no_sense_are_refused() -> Result<()> {
    let array = array()?;
    for (words, reason) in [
        ("--volume p/nothing --every 1h --keep 1", "no volume named"),
        ("--volume a --every 1h --keep 1", "write POOL/NAME"),
        ("--volume p/a --every 0s --keep 1", "every second at most"),
        ("--volume p/a --every 1h --keep 0", "keeps"),
        ("--volume p/a --every 1h --keep 1 --offset 2h", "offset"),
        ("--volume p/a --every 5 --keep 1", "length of time"),
    ] {
        let words: Vec<_> =
            ["schedule", "create", "s"].into_iter().chain(words.split(' ')).collect();
        refuse(&array, &words, reason)?;
    }
    refuse(&array, &["schedule", "show", "s"], "no schedule named")?;
    refuse(&array, &["schedule", "delete", "s"], "no schedule named")
}
