use super::*;

fn file() -> Configuration {
    serde_json::from_value(serde_json::json!({
        "version": 1,
        "pools": [
            {
                "name": "p",
                "devices": [{ "device": "file:/a", "size_bytes": 1 << 30 }],
                "thresholds": { "soft_percent": 75, "hard_percent": 90 },
            },
            { "name": "old", "thresholds": { "soft_percent": 75, "hard_percent": 90 } },
        ],
        "volumes": [
            { "volume": "p/v", "shape": { "size_bytes": 1 << 20, "thick": true } },
            { "volume": "p/s" },
        ],
    }))
    .expect("a configuration")
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn what_is_described_and_not_there_is_made_and_snapshots_are_left_out() {
    let mut configuration = file();
    let missing = Missing::find(&mut configuration, &names(&[]), &names(&[]));
    assert_eq!(
        missing.in_words(),
        [
            "pool p is created on file:/a",
            "volume p/v of 1 MiB is created, empty",
            "snapshot p/s is not here, and what is said of it is left out",
        ]
    );
    let left: Vec<&str> = configuration.volumes.iter().map(|one| one.volume.as_str()).collect();
    assert_eq!(left, ["p/v"]);
}

#[test]
fn what_is_there_is_left_alone() {
    let mut configuration = file();
    let missing = Missing::find(&mut configuration, &names(&["p"]), &names(&["p/v", "p/s"]));
    assert!(missing.is_empty() && missing.in_words().is_empty());
    assert_eq!(configuration.volumes.len(), 2);
}
