use super::*;

#[test]
fn a_first_start_makes_a_configuration_that_the_next_start_finds() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("a/b");
    let first = DataDirectory::open(&data).unwrap().load().unwrap();
    let second = DataDirectory::open(&data).unwrap().load().unwrap();
    assert_eq!(first, second);
    assert!(first.target_name.starts_with("iqn."));
}

#[test]
fn two_daemons_cannot_share_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let held = DataDirectory::open(place.path()).unwrap();
    assert!(DataDirectory::open(place.path()).is_err());
    drop(held);
    assert!(DataDirectory::open(place.path()).is_ok());
}

#[test]
fn a_damaged_configuration_is_refused_and_left_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(CONFIGURATION_NAME);
    for text in ["", "{}", "{\"version\": 1, \"surprise\": 2}"] {
        fs::write(&path, text).unwrap();
        assert!(DataDirectory::open(place.path()).unwrap().load().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

/// A directory whose configuration, secrets or users were saved four times.
fn saved() -> (tempfile::TempDir, Configuration) {
    let place = tempfile::tempdir().unwrap();
    let directory = DataDirectory::open(place.path()).unwrap();
    let mut configuration = directory.load().unwrap();
    for name in ["a", "b", "c"] {
        configuration.target_name = format!("iqn.2026-11.io.gantry:{name}");
        directory.save(&configuration).unwrap();
    }
    (place, configuration)
}

fn load(place: &tempfile::TempDir) -> (Result<Configuration>, Vec<String>) {
    let directory = DataDirectory::open(place.path()).unwrap();
    let loaded = directory.load();
    let findings = directory.findings().clone();
    (loaded, findings)
}

#[test]
fn generations_are_numbered_and_the_two_before_are_kept() {
    let (place, configuration) = saved();
    let number = |end: &str| {
        generations::number_of(&place.path().join(format!("gantry.json{end}"))).unwrap()
    };
    assert_eq!(["", ".copy", ".1", ".2"].map(number), [Some(4), Some(4), Some(3), Some(2)]);
    let (loaded, findings) = load(&place);
    assert_eq!((loaded.unwrap(), findings), (configuration, Vec::new()));
}

/// Whatever happens to one file, nothing is lost: each byte flipped, cut short anywhere, empty,
/// missing, a directory in its place.
#[test]
fn any_damage_of_one_file_loses_nothing_and_is_told() {
    let (place, configuration) = saved();
    let path = place.path().join(CONFIGURATION_NAME);
    let good = fs::read(&path).unwrap();
    // A line feed at the very end means nothing.
    let flipped = (0..good.len() - 1).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    let cut = (0..good.len() - 1).step_by(7).map(|length| good[..length].to_vec());
    for (number, bytes) in flipped.chain(cut).enumerate() {
        fs::write(&path, &bytes).unwrap();
        let (loaded, findings) = load(&place);
        assert_eq!(loaded.unwrap(), configuration, "case {number}");
        assert!(!findings.is_empty(), "case {number}");
    }
    fs::remove_file(&path).unwrap();
    let (loaded, findings) = load(&place);
    assert_eq!(loaded.unwrap(), configuration);
    assert!(findings[0].contains("was missing"), "{findings:?}");
    fs::remove_file(&path).expect("it was written again at once");
    fs::create_dir(&path).unwrap();
    let (loaded, findings) = load(&place);
    assert_eq!(loaded.unwrap(), configuration);
    assert!(findings[0].contains("cannot be read"), "{findings:?}");
    let kept = fs::read_dir(place.path()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().contains(".damaged-")
    });
    assert!((1..=DAMAGED_KEPT).contains(&kept.count()));
    // The next save makes both whole again.
    DataDirectory::open(place.path()).unwrap().save(&configuration).unwrap();
    assert_eq!(load(&place).1, Vec::<String>::new());
}

const DAMAGED_KEPT: usize = crate::limits::DAMAGED_FILES_MAX + 1;

#[test]
fn an_earlier_generation_is_used_loudly_when_both_copies_are_damaged() {
    let (place, configuration) = saved();
    for end in ["", ".copy"] {
        fs::write(place.path().join(format!("gantry.json{end}")), "{").unwrap();
    }
    let (loaded, findings) = load(&place);
    let earlier = loaded.unwrap();
    assert_ne!(earlier, configuration);
    assert!(earlier.target_name.ends_with(":b"), "{}", earlier.target_name);
    assert!(findings.iter().any(|finding| finding.contains("EARLIER")), "{findings:?}");
    // Numbers go on: what is saved now is newer than anything before.
    DataDirectory::open(place.path()).unwrap().save(&earlier).unwrap();
    assert_eq!(load(&place).0.unwrap(), earlier);
}

#[test]
fn with_nothing_intact_the_daemon_does_not_start_and_changes_nothing() {
    let (place, _) = saved();
    for end in ["", ".copy", ".1", ".2"] {
        fs::write(place.path().join(format!("gantry.json{end}")), "x").unwrap();
    }
    let error = load(&place).0.unwrap_err().to_string();
    assert!(error.contains("no generation of gantry.json is intact"), "{error}");
    assert_eq!(fs::read(place.path().join("gantry.json.1")).unwrap(), b"x");
}

#[test]
fn a_configuration_of_before_generations_is_read_and_gets_them() {
    let (place, configuration) = saved();
    for end in [".copy", ".1", ".2"] {
        fs::remove_file(place.path().join(format!("gantry.json{end}"))).unwrap();
    }
    let text = serde_json::to_vec_pretty(&configuration).unwrap();
    fs::write(place.path().join(CONFIGURATION_NAME), text).unwrap();
    let (loaded, findings) = load(&place);
    assert_eq!((loaded.unwrap(), findings), (configuration.clone(), Vec::new()));
    DataDirectory::open(place.path()).unwrap().save(&configuration).unwrap();
    fs::write(place.path().join(CONFIGURATION_NAME), "").unwrap();
    assert_eq!(load(&place).0.unwrap(), configuration);
}

#[test]
fn secrets_and_users_are_kept_the_same_way_and_never_quoted() {
    let place = tempfile::tempdir().unwrap();
    let directory = DataDirectory::open(place.path()).unwrap();
    directory.save_secrets(&Secrets::default()).unwrap();
    directory.save_users(&Users::default()).unwrap();
    for name in [SECRETS_NAME, USERS_NAME] {
        fs::write(place.path().join(name), "{\"hidden-word\": 1").unwrap();
    }
    assert_eq!(directory.load_secrets().unwrap(), Secrets::default());
    directory.load_users().unwrap();
    let findings = directory.findings().join("\n");
    assert!(
        findings.contains("users.json is damaged") && !findings.contains("hidden"),
        "{findings}"
    );
    // The load above has made the damaged copy whole again, and kept the other one as earlier.
    for end in ["", ".copy", ".1", ".2"] {
        fs::write(place.path().join(format!("{SECRETS_NAME}{end}")), "{\"hidden-word\": 1")
            .unwrap();
    }
    let error = format!("{:#}", directory.load_secrets().unwrap_err());
    assert!(!error.contains("hidden"), "{error}");
}
