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
