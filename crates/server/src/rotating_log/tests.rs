use super::*;

fn open(place: &Path) -> (RotatingLog, Vec<u32>) {
    let mut held = Vec::new();
    let log = RotatingLog::open(place, "r", 100, |number| held.push(number)).unwrap();
    (log, held)
}

/// What a crash may leave behind.
fn tear(place: &Path) {
    let mut file = OpenOptions::new().append(true).open(place.join("r.jsonl")).unwrap();
    file.write_all(b"{\"num").unwrap();
}

#[test]
fn a_record_outlives_its_writer_and_a_torn_line_is_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let (mut log, held) = open(place.path());
    assert!(held.is_empty());
    log.write(&1).unwrap();
    log.write(&2).unwrap();
    tear(place.path());
    let (mut log, held) = open(place.path());
    assert_eq!(held, [1, 2]);
    log.write(&3).unwrap();
    assert_eq!(open(place.path()).1, [1, 2, 3]);
}

#[test]
fn a_full_record_becomes_the_old_one() {
    let place = tempfile::tempdir().unwrap();
    let (mut log, _) = open(place.path());
    for number in 0..51 {
        log.write(&(number % 10)).unwrap();
    }
    let lines =
        |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap().lines().count();
    assert_eq!((lines("r.old.jsonl"), lines("r.jsonl")), (50, 1));
    assert_eq!(open(place.path()).1, [0]);
}

#[test]
fn a_record_that_cannot_be_written_is_opened_and_goes_on_when_it_can() {
    let place = tempfile::tempdir().unwrap();
    open(place.path()).0.write(&1).unwrap();
    tear(place.path());
    let path = place.path().join("r.jsonl");
    let (mut log, _) = open(place.path());
    std::fs::rename(&path, place.path().join("kept")).unwrap();
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    log.reopen().unwrap();
    assert!(format!("{:#}", log.write(&2).unwrap_err()).contains("No space left"));
    assert!(log.write(&2).is_err());
    std::fs::rename(place.path().join("kept"), &path).unwrap();
    log.write(&3).unwrap();
    assert_eq!(open(place.path()).1, [1, 3]);
}

#[test]
fn what_is_not_a_file_is_not_read() {
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", place.path().join("r.jsonl")).unwrap();
    assert!(RotatingLog::open(place.path(), "r", 100, |_: u32| {}).is_err());
}

#[test]
fn a_line_without_end_is_read_in_pieces() {
    let place = tempfile::tempdir().unwrap();
    let long = vec![b'x'; 3 * RECORD_LINE_BYTES_MAX as usize];
    std::fs::write(place.path().join("r.jsonl"), long).unwrap();
    let mut log = RotatingLog::open(place.path(), "r", 1 << 20, |_: u32| {}).unwrap();
    log.write(&3).unwrap();
    let mut held = Vec::new();
    RotatingLog::open(place.path(), "r", 1 << 20, |number: u32| held.push(number)).unwrap();
    assert_eq!(held, [3]);
}
