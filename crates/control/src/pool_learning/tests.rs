//! Pools that are told and learned: changed, new, of another version, and those that cannot be known.

use array::PoolDevice;

use super::*;
use crate::pools::parse_device;

fn pool(uuid: u8, devices: &[&str]) -> Pool {
    let device =
        |name: &&str| PoolDevice { device: parse_device(name).unwrap(), size_bytes: 1 << 30 };
    Pool {
        uuid: [uuid; 16],
        devices: devices.iter().map(device).collect(),
        thresholds: array::Thresholds::default(),
        delete_scheduled_snapshots: false,
        read_only: false,
        mirroring: array::Mirroring::default(),
        departure: None,
        fail_back: array::FailBack::default(),
    }
}

fn knowing(pools: &[(&str, Pool)]) -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
    array.pools = pools.iter().map(|(name, pool)| ((*name).to_owned(), pool.clone())).collect();
    array
}

fn told(name: &str, pool: &Pool) -> Value {
    let name = name.to_owned();
    describe([(&name, pool)].into_iter()).remove(&name).unwrap()
}

#[test]
fn devices_that_joined_or_left_are_known_under_the_name_that_the_pool_has_here() {
    let (before, after) = (pool(1, &["file:/a"]), pool(1, &["file:/a", "file:/b"]));
    let array = knowing(&[("here", before.clone()), ("other", pool(2, &["file:/c"]))]);
    assert_eq!(learn(&array, "there", &told("there", &before)), Ok(None));
    let learned = learn(&array, "there", &told("there", &after)).unwrap();
    assert_eq!(learned, Some(("here".to_owned(), after.clone())));
    let array = knowing(&[("here", after)]);
    let learned = learn(&array, "here", &told("here", &before)).unwrap();
    assert_eq!(learned, Some(("here".to_owned(), before)));
}

#[test]
fn a_new_pool_is_known_unless_its_name_or_a_device_is_another_one_s() {
    let array = knowing(&[("p", pool(1, &["file:/a"]))]);
    let new = pool(2, &["file:/b"]);
    assert_eq!(learn(&array, "q", &told("q", &new)), Ok(Some(("q".to_owned(), new.clone()))));
    let taken = learn(&array, "p", &told("p", &new)).unwrap_err();
    assert!(taken.contains("'p'"), "{taken}");
    let shared = learn(&array, "q", &told("q", &pool(2, &["file:/b", "file:/a"]))).unwrap_err();
    assert!(shared.contains("file:/a"), "{shared}");
    let array = knowing(&[("p", pool(1, &["file:/a"])), ("q", pool(2, &["file:/b"]))]);
    let grown = pool(2, &["file:/b", "file:/a"]);
    assert!(learn(&array, "q", &told("q", &grown)).unwrap_err().contains("file:/a"));
    assert!(learn(&array, "..", &told("..", &pool(3, &["file:/c"]))).is_err());
}

#[test]
fn what_is_of_another_version_or_says_nonsense_changes_nothing() {
    let array = knowing(&[("p", pool(1, &["file:/a"]))]);
    let mut later = told("p", &pool(1, &["file:/b"]));
    later["colour"] = "blue".into();
    assert!(learn(&array, "p", &later).unwrap_err().contains("another version"));
    for wrong in [Value::Null, serde_json::json!({}), serde_json::json!([1, 2])] {
        assert!(learn(&array, "p", &wrong).is_err(), "{wrong}");
    }
    let mut thresholds = told("p", &pool(1, &["file:/b"]));
    thresholds["thresholds"] = serde_json::json!({"soft_percent": 95, "hard_percent": 90});
    assert!(learn(&array, "p", &thresholds).is_err());
}

#[test]
fn pools_in_memory_are_not_told_nor_those_that_do_not_fit_into_a_message() {
    let memory = pool(1, &["memory:"]);
    let name = "p".to_owned();
    assert!(describe([(&name, &memory)].into_iter()).is_empty());
    let long = format!("file:/{}", "x".repeat(1500));
    let names: Vec<String> = (0..64).map(|number| format!("pool-{number}")).collect();
    let pools: Vec<Pool> = (0..64).map(|number| pool(number, &[&long])).collect();
    let described = describe(names.iter().zip(&pools));
    assert!((20..64).contains(&described.len()), "{}", described.len());
    assert!(serde_json::to_vec(&described).unwrap().len() < LINK_POOLS_BYTES_MAX + (4 << 10));
}
