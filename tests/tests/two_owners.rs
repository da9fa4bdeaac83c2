//! Two controllers that have a pool each: both change the configuration, in turn, and know what the other one changed.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::controllers::{Pair, hears, pair_up, signal};
use harness::waiting::wait_until;
use harness::{Array, Value};
use rustix::process::Signal;

/// Volumes that each controller makes and maps at once.
const MANY: usize = 12;

/// How long an administrator waits for a refusal while the other controller stands still.
const REFUSED_WITHIN: Duration = Duration::from_secs(25);

/// The first one has pool 'p' with volume 'v', the second one pool 'q' with volume 'a'.
fn start() -> Result<Pair> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    pair.first.create_pool("q", "1G")?;
    pair.first.gantry(&["volume", "create", "q/a", "--size", "32M"])?;
    call(&pair.second, "q")?;
    wait_until("each has a pool", || {
        Ok(serves(&pair.second, "q")? && serves(&pair.first, "p")? && !serves(&pair.first, "q")?)
    })?;
    Ok(pair)
}

/// Calls a pool to a controller, as soon as that is known to reach its devices.
fn call(array: &Array, pool: &str) -> Result<()> {
    wait_until("the pool is let go", || {
        Ok(array.try_gantry(&["controller", "switch", pool])?.status.success())
    })
}

fn serves(array: &Array, pool: &str) -> Result<bool> {
    let controllers = array.gantry_json(&["controller", "list"])?;
    let mut controllers = controllers.as_array().into_iter().flatten();
    let this = controllers.find(|one| one["is_this"] == true).context("it lists itself")?;
    let mut pools = this["pools"].as_array().into_iter().flatten();
    Ok(pools.any(|one| one["pool"] == pool && one["state"] == "active-optimized"))
}

fn names(array: &Array, what: &str) -> Result<BTreeSet<String>> {
    let list = array.gantry_json(&[what, "list"])?;
    let name = |one: &Value| {
        let pool = one["pool"].as_str().map(|pool| format!("{pool}/")).unwrap_or_default();
        format!("{pool}{}", one["name"].as_str().unwrap_or_default())
    };
    Ok(list.as_array().into_iter().flatten().map(name).collect())
}

/// A label of host 'h', as a controller knows it.
fn tag(array: &Array, key: &str) -> Result<Option<String>> {
    let hosts = array.gantry_json(&["host", "list"])?;
    let mut hosts = hosts.as_array().into_iter().flatten();
    let host = hosts.find(|host| host["name"] == "h").context("host h")?;
    Ok(host["tags"][key].as_str().map(str::to_owned))
}

/// LUN numbers of a host by volume, as its record at a controller has them.
fn luns(array: &Array, volumes: &[String], host: &str) -> Result<BTreeMap<String, u64>> {
    let mut luns = BTreeMap::new();
    for volume in volumes {
        let shown = array.gantry_json(&["volume", "show", volume])?;
        let maps = shown["maps"].as_array().into_iter().flatten();
        for map in maps.filter(|map| map["host"] == host) {
            luns.insert(volume.clone(), map["lun"].as_u64().context("a number")?);
        }
    }
    Ok(luns)
}

#[test]
fn what_is_changed_at_one_is_known_at_the_other_and_both_list_everything() -> Result<()> {
    let pair = start()?;
    let Pair { first, second, .. } = &pair;
    first.gantry(&["volume", "create", "p/w", "--size", "32M"])?;
    second.gantry(&["volume", "create", "q/b", "--size", "32M"])?;
    // Asked at the one that does not have the pool, it is done by the one that has it.
    first.gantry(&["volume", "create", "q/c", "--size", "32M"])?;
    second.gantry(&["host", "create", "h", "--iqn", "iqn.2026-01.org.example:h"])?;
    first.gantry(&["volume", "map", "p/w", "--host", "h", "--lun", "7"])?;
    let taken = second.try_gantry(&["volume", "map", "q/b", "--host", "h", "--lun", "7"])?;
    ensure!(taken.failure()?.contains('7'), "the number is given away at the other controller");
    second.gantry(&["volume", "map", "q/b", "--host", "h", "--lun", "8"])?;
    first.gantry(&["snapshot", "create", "p/w", "monday"])?;
    second.gantry(&["snapshot", "create", "q/b", "tuesday"])?;
    let all = ["p/v", "p/w", "q/a", "q/b", "q/c"].map(str::to_owned);
    for array in [first, second] {
        ensure!(names(array, "volume")? == all.clone().into(), "{:?}", names(array, "volume")?);
        let snapshots = names(array, "snapshot")?;
        ensure!(snapshots == ["p/monday", "q/tuesday"].map(str::to_owned).into(), "{snapshots:?}");
        ensure!(names(array, "host")?.contains("h"));
        ensure!(luns(array, &all, "h")? == [("p/w".to_owned(), 7), ("q/b".to_owned(), 8)].into());
    }
    // Each is later than the one before, wherever it was made.
    for round in 0..6 {
        let array = if round % 2 == 0 { first } else { second };
        array.gantry(&["host", "tag", "h", &format!("round={round}")])?;
    }
    for array in [first, second] {
        wait_until("the last change counts", || Ok(tag(array, "round")?.as_deref() == Some("5")))?;
    }
    second.gantry(&["volume", "unmap", "q/b", "--host", "h"])?;
    first.gantry(&["volume", "unmap", "p/w", "--host", "h"])?;
    first.gantry(&["host", "delete", "h"])?;
    wait_until("it is deleted at both", || Ok(!names(second, "host")?.contains("h")))
}

#[test]
fn no_number_is_given_twice_when_both_map_at_once_and_all_is_there_after_a_take_over() -> Result<()>
{
    let mut pair = start()?;
    pair.first.gantry(&["host", "create", "h", "--iqn", "iqn.2026-01.org.example:h"])?;
    let make = |array: &Array, pool: &str| -> Result<Vec<String>> {
        let mut made = Vec::new();
        for number in 0..MANY {
            let name = format!("{pool}/n{number}");
            array.gantry(&["volume", "create", &name, "--size", "16M"])?;
            array.gantry(&["volume", "map", &name, "--host", "h"])?;
            made.push(name);
        }
        Ok(made)
    };
    let made = thread::scope(|scope| -> Result<Vec<String>> {
        let one = scope.spawn(|| make(&pair.first, "p"));
        let two = make(&pair.second, "q")?;
        let one = one.join().expect("it returns its errors")?;
        Ok([one, two].concat())
    })?;
    let [here, there] = [&pair.first, &pair.second].map(|array| luns(array, &made, "h"));
    let (here, there) = (here?, there?);
    ensure!(here == there, "{here:?} {there:?}");
    let numbers: BTreeSet<&u64> = here.values().collect();
    ensure!((here.len(), numbers.len()) == (2 * MANY, 2 * MANY), "{here:?}");

    pair.second.kill()?;
    wait_until("the first one has both pools", || serves(&pair.first, "q"))?;
    ensure!(luns(&pair.first, &made, "h")? == here, "as before");
    // It has all pools, so that it waits for nobody.
    pair.first.gantry(&["volume", "create", "q/alone", "--size", "16M"])?;
    pair.first.gantry(&["host", "tag", "h", "alone=yes"])?;
    // Whoever comes back follows, and has what was changed meanwhile.
    pair.second.restart()?;
    wait_until("it knows the last change", || Ok(tag(&pair.second, "alone")?.is_some()))?;
    call(&pair.second, "q")?;
    wait_until("it has its pool again", || serves(&pair.second, "q"))?;
    pair.second.gantry(&["host", "tag", "h", "back=yes"])?;
    wait_until("the first one hears of it", || Ok(tag(&pair.first, "back")?.is_some()))?;
    ensure!(luns(&pair.second, &made, "h")? == here);
    Ok(())
}

#[test]
fn while_one_stands_still_the_other_one_changes_its_own_pool_and_nothing_that_both_know()
-> Result<()> {
    let pair = start()?;
    pair.first.gantry(&["volume", "create", "p/w", "--size", "32M"])?;
    signal(&pair.second, Signal::STOP)?;
    wait_until("it is missed", || Ok(!hears(&pair.first, 2)?))?;
    let began = Instant::now();
    let refused = pair.first.try_gantry(&["volume", "create", "p/x", "--size", "32M"]);
    let waited = began.elapsed();
    let scrubbed = pair.first.try_gantry(&["scrub", "start", "p"]);
    signal(&pair.second, Signal::CONT)?;
    let said = refused?.failure()?;
    ensure!(said.contains("Nothing was changed"), "{said}");
    ensure!(waited < REFUSED_WITHIN, "{waited:?}");
    ensure!(scrubbed?.status.success(), "a pool's own");
    wait_until("both change again", || {
        let made = pair.first.try_gantry(&["volume", "create", "p/x", "--size", "32M"])?;
        Ok(made.status.success())
    })?;
    pair.second.gantry(&["volume", "create", "q/x", "--size", "32M"])?;
    ensure!(names(&pair.first, "volume")? == names(&pair.second, "volume")?);
    Ok(())
}

/// A daemon that dies while it has the turn gives it back, and what it had changed is known to both.
#[test]
fn a_controller_that_is_started_again_holds_nobody_up_and_forgets_nothing() -> Result<()> {
    let mut pair = start()?;
    pair.first.gantry(&["host", "create", "h", "--iqn", "iqn.2026-01.org.example:h"])?;
    for round in 0..3 {
        pair.second.gantry(&["host", "tag", "h", &format!("round={round}")])?;
        pair.second.kill()?;
        pair.second.restart()?;
        wait_until("it is asked again", || {
            let name = format!("p/r{round}");
            Ok(pair
                .first
                .try_gantry(&["volume", "create", &name, "--size", "16M"])?
                .status
                .success())
        })?;
        for array in [&pair.first, &pair.second] {
            wait_until("what it had changed is known", || {
                Ok(tag(array, "round")? == Some(round.to_string()))
            })?;
        }
    }
    Ok(())
}

#[test]
fn tasks_of_both_are_listed_and_found_at_either() -> Result<()> {
    let pair = start()?;
    let tasks = |array: &Array| -> Result<Vec<(u64, String)>> {
        let list = array.gantry_json(&["task", "list"])?;
        let tasks = list.as_array().into_iter().flatten();
        let seen = |task: &Value| Some((task["id"].as_u64()?, task["object"].as_str()?.to_owned()));
        Ok(tasks.filter_map(seen).collect())
    };
    pair.first.gantry(&["scrub", "start", "p"])?;
    pair.first.gantry(&["scrub", "start", "q"])?;
    let [here, there] = [tasks(&pair.first)?, tasks(&pair.second)?];
    ensure!(here == there, "{here:?} {there:?}");
    for pool in ["pool p", "pool q"] {
        let (id, _) = here.iter().find(|(_, object)| object == pool).context("a task of each")?;
        for array in [&pair.first, &pair.second] {
            let shown = array.gantry_json(&["task", "show", &id.to_string()])?;
            ensure!(shown["object"] == pool, "{shown:#}");
        }
    }
    Ok(())
}

#[test]
fn a_third_controller_without_a_pool_lists_all_and_has_each_change_made_where_it_belongs()
-> Result<()> {
    let pair = start()?;
    let third = pair.add_third()?;
    wait_until("the others know that the third knows all", || {
        let made = pair.first.try_gantry(&[
            "host",
            "create",
            "h",
            "--iqn",
            "iqn.2026-01.org.example:h",
        ])?;
        Ok(made.status.success())
    })?;
    for name in ["p/t", "q/t"] {
        third.gantry(&["volume", "create", name, "--size", "16M"])?;
        third.gantry(&["volume", "map", name, "--host", "h"])?;
    }
    third.gantry(&[
        "schedule", "create", "nightly", "--volume", "q/t", "--every", "1d", "--keep", "2",
    ])?;
    let schedules = |array: &Array| names(array, "schedule");
    wait_until("the first one knows the schedule of the second one's pool", || {
        Ok(schedules(&pair.first)?.iter().any(|name| name.ends_with("nightly")))
    })?;
    third.gantry(&["host", "tag", "h", "by=third"])?;
    for array in [&pair.first, &pair.second, &third] {
        wait_until("all know all", || {
            Ok(names(array, "volume")? == names(&third, "volume")?
                && tag(array, "by")?.as_deref() == Some("third"))
        })?;
    }
    ensure!(names(&third, "volume")?.is_superset(&["p/t", "q/t"].map(str::to_owned).into()));
    Ok(())
}
