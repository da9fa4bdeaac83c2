//! Pools of an array of two controllers are made, imported, deleted and exported at either, and known at both.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::Array;
use harness::controllers::{Pair, listed, pair_up, signal};
use harness::program::Finished;
use harness::waiting::wait_until;
use rustix::process::Signal;

/// Longer than a controller without a pool waits before it tries one that nobody holds.
const TAKEN_WITHIN: Duration = Duration::from_secs(8);

/// Longer than a controller takes to tell others that a host has logged in.
const HOSTS_TOLD_WITHIN: Duration = Duration::from_secs(3);

fn start() -> Result<Pair> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    Ok(pair)
}

fn pools(array: &Array) -> Result<BTreeSet<String>> {
    let list = array.gantry_json(&["pool", "list"])?;
    let names = list.as_array().into_iter().flatten().filter_map(|pool| pool["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// How a controller serves a pool, as it says.
fn state(array: &Array, pool: &str) -> Result<Option<String>> {
    let this = listed(array, true)?;
    let mut pools = this["pools"].as_array().into_iter().flatten();
    let found = pools.find(|one| one["pool"] == pool);
    Ok(found.and_then(|one| one["state"].as_str()).map(str::to_owned))
}

fn serves(array: &Array, pool: &str) -> Result<bool> {
    Ok(state(array, pool)?.as_deref() == Some("active-optimized"))
}

fn create(array: &Array, pool: &str, file: &Path) -> Result<Finished> {
    let device = format!("file:{}", file.display());
    array.try_gantry(&["pool", "create", pool, "--device", &device, "--size", "1G"])
}

fn import(array: &Array, file: &Path, more: &[&str]) -> Result<Finished> {
    let device = format!("file:{}", file.display());
    array.try_gantry(&[&["pool", "import", &device][..], more].concat())
}

/// Neither knows the pool, now and when a controller would have taken it.
fn stays_gone(pair: &Pair, pool: &str) -> Result<()> {
    for array in [&pair.first, &pair.second] {
        wait_until("it is forgotten", || Ok(!pools(array)?.contains(pool)))?;
    }
    thread::sleep(TAKEN_WITHIN);
    for array in [&pair.first, &pair.second] {
        ensure!(!pools(array)?.contains(pool), "it has come back");
    }
    Ok(())
}

#[test]
fn a_controller_without_a_pool_makes_one_and_each_knows_those_of_the_other() -> Result<()> {
    let mut pair = start()?;
    let file = pair.second.beside("q.img");
    create(&pair.second, "q", &file)?.success()?;
    wait_until("it is served", || Ok(serves(&pair.second, "q")? && serves(&pair.first, "p")?))?;
    wait_until("it is known", || Ok(state(&pair.first, "q")?.as_deref() == Some("standby")))?;
    let refused =
        pair.second.try_gantry(&["pool", "create", "m", "memory:", "--size", "1G"])?.failure()?;
    ensure!(refused.contains("hears nothing"), "what it records is told to nobody: {refused}");
    // A change at one is made in its turn, now that both have a pool.
    pair.second.gantry(&["volume", "create", "q/a", "--size", "16M"])?;
    pair.first.gantry(&["volume", "map", "q/a", "--host", "any", "--lun", "9"])?;
    let other = pair.first.beside("other.img");
    let refused = create(&pair.first, "q", &other)?.failure()?;
    ensure!(refused.contains('q') && !other.exists(), "the name is taken: {refused}");
    let refused = create(&pair.first, "r", &file)?.failure()?;
    ensure!(refused.contains("pool 'q'"), "the device is in use: {refused}");
    // Of two that make a pool of one name at once one does.
    let make = |array: &Array, file: &str| -> Result<bool> {
        Ok(create(array, "twice", &array.beside(file))?.status.success())
    };
    let made = thread::scope(|scope| -> Result<Vec<bool>> {
        let one = scope.spawn(|| make(&pair.first, "one.img"));
        let two = make(&pair.second, "two.img")?;
        Ok(vec![one.join().expect("it returns its errors")?, two])
    })?;
    ensure!(made.iter().filter(|made| **made).count() == 1, "{made:?}");
    for array in [&pair.first, &pair.second] {
        let all = ["p", "q", "twice"].map(str::to_owned).into();
        wait_until("all are known", || Ok(pools(array)? == all))?;
    }
    pair.second.kill()?;
    wait_until("it is taken over", || serves(&pair.first, "q"))?;
    pair.first.gantry(&["volume", "show", "q/a"])?;
    Ok(())
}

#[test]
fn a_controller_that_hears_nobody_makes_no_pool_beside_another_ones() -> Result<()> {
    let pair = Pair::start()?;
    let file = pair.second.beside("q.img");
    let refused = create(&pair.second, "q", &file)?.failure()?;
    ensure!(refused.contains("another controller has a pool") && !file.exists(), "{refused}");
    Ok(())
}

#[test]
fn a_pool_that_is_deleted_through_the_other_controller_does_not_come_back() -> Result<()> {
    let mut pair = start()?;
    let file = pair.first.create_pool("q", "1G")?;
    wait_until("it is known", || Ok(state(&pair.second, "q")?.as_deref() == Some("standby")))?;
    let refused = pair.second.try_gantry(&["pool", "delete", "p"])?.failure()?;
    ensure!(refused.contains("delete them first"), "it has a volume: {refused}");
    pair.second.gantry(&["pool", "delete", "q"])?;
    stays_gone(&pair, "q")?;
    for array in [&mut pair.first, &mut pair.second] {
        array.stop()?;
        array.restart()?;
    }
    stays_gone(&pair, "q")?;
    // Its device is free.
    std::fs::remove_file(&file)?;
    wait_until("somebody has the other pool", || {
        Ok(serves(&pair.first, "p")? || serves(&pair.second, "p")?)
    })?;
    create(&pair.second, "q", &file)?.success()?;
    wait_until("it is known", || Ok(state(&pair.first, "q")?.is_some()))
}

#[test]
fn a_controller_that_was_away_sees_in_the_pool_that_it_was_given_away() -> Result<()> {
    let mut pair = start()?;
    let file = pair.first.beside("p.img");
    pair.second.kill()?;
    pair.first.gantry(&["pool", "export", "p"])?;
    // Whoever gave it away cannot say so any more.
    pair.first.kill()?;
    pair.second.restart()?;
    wait_until("it is forgotten", || Ok(pools(&pair.second)?.is_empty()))?;
    ensure!(pair.second.gantry_json(&["volume", "list"])? == serde_json::json!([]));
    let events = pair.second.gantry(&["events"])?;
    ensure!(events.contains("controller 1 deleted or exported it"), "{events}");
    // It may have it back, and be killed at once; the other one hears of that.
    import(&pair.second, &file, &[])?.success()?;
    pair.second.gantry(&["volume", "show", "p/v"])?;
    pair.second.kill()?;
    pair.second.restart()?;
    wait_until("it has the pool", || serves(&pair.second, "p"))?;
    pair.first.restart()?;
    wait_until("it knows the pool", || Ok(state(&pair.first, "p")?.as_deref() == Some("standby")))?;
    pair.second.gantry(&["volume", "show", "p/v"])?;
    Ok(())
}

#[test]
fn a_pool_that_is_exported_beside_another_controller_may_be_imported_at_once() -> Result<()> {
    let pair = start()?;
    let file = pair.first.beside("p.img");
    let host = pair.host(&pair.second, "h")?;
    thread::sleep(HOSTS_TOLD_WITHIN);
    let refused = pair.first.try_gantry(&["pool", "export", "p"])?.failure()?;
    ensure!(refused.contains("controller 2"), "a host sees it there: {refused}");
    drop(host);
    wait_until("the host is gone", || {
        Ok(pair.first.try_gantry(&["pool", "export", "p"])?.status.success())
    })?;
    let stranger = Array::start()?;
    import(&stranger, &file, &["--adopt-target-name"])?.success()?;
    stranger.gantry(&["volume", "show", "p/v"])?;
    stays_gone(&pair, "p")?;
    for array in [&pair.first, &pair.second] {
        ensure!(array.gantry_json(&["volume", "list"])? == serde_json::json!([]));
    }
    Ok(())
}

#[test]
fn an_import_beside_the_pools_of_another_controller_gives_no_number_twice() -> Result<()> {
    let pair = start()?;
    let stranger = Array::start()?;
    let file = stranger.create_pool("s", "1G")?;
    stranger.gantry(&["volume", "create", "s/v", "--size", "16M"])?;
    stranger.gantry(&["volume", "map", "s/v", "--host", "any", "--lun", &pair.lun.to_string()])?;
    stranger.gantry(&["pool", "export", "s"])?;
    let refused = import(&pair.second, &file, &["--keep-target-name"])?.failure()?;
    ensure!(refused.contains("LUN"), "the number is given at the other controller: {refused}");
    import(&pair.second, &file, &["--keep-target-name", "--new-luns"])?.success()?;
    wait_until("it is served", || Ok(serves(&pair.second, "s")? && serves(&pair.first, "p")?))?;
    for array in [&pair.first, &pair.second] {
        wait_until("both volumes are known", || {
            Ok(array.gantry_json(&["volume", "list"])?.as_array().map(Vec::len) == Some(2))
        })?;
    }
    Ok(())
}

#[test]
fn whoever_has_all_pools_changes_them_beside_one_that_stands_still_or_is_dead() -> Result<()> {
    let mut pair = start()?;
    // Another one has made a pool before, and given it back: changes are made in turn from then on.
    create(&pair.second, "q", &pair.second.beside("q.img"))?.success()?;
    pair.second.gantry(&["pool", "delete", "q"])?;
    pair.first.gantry(&["volume", "create", "p/a", "--size", "16M"])?;
    signal(&pair.second, Signal::STOP)?;
    pair.first.gantry(&["volume", "create", "p/b", "--size", "16M"])?;
    thread::sleep(Duration::from_secs(4));
    pair.first.gantry(&["volume", "create", "p/c", "--size", "16M"])?;
    signal(&pair.second, Signal::CONT)?;
    create(&pair.second, "q", &pair.second.beside("again.img"))?.success()?;
    pair.second.gantry(&["pool", "delete", "q"])?;
    pair.second.kill()?;
    pair.first.stop()?;
    pair.first.restart()?;
    pair.first.gantry(&["volume", "create", "p/d", "--size", "16M"])?;
    Ok(())
}
