use super::*;

fn open(place: &Path) -> (Record, Vec<u32>) {
    let mut held = Vec::new();
    let record = Record::open(place, "r", 100, |number| held.push(number)).unwrap();
    (record, held)
}

#[test]
fn a_record_outlives_its_writer_and_a_torn_line_is_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let (mut record, held) = open(place.path());
    assert!(held.is_empty());
    record.write(&1).unwrap();
    record.write(&2).unwrap();
    append(&place.path().join("r.jsonl")).unwrap().write_all(b"{\"num").unwrap();
    let (mut record, held) = open(place.path());
    assert_eq!(held, [1, 2]);
    record.write(&3).unwrap();
    assert_eq!(open(place.path()).1, [1, 2, 3]);
}

#[test]
fn a_full_record_becomes_the_old_one() {
    let place = tempfile::tempdir().unwrap();
    let (mut record, _) = open(place.path());
    for number in 0..51 {
        record.write(&(number % 10)).unwrap();
    }
    let lines =
        |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap().lines().count();
    assert_eq!((lines("r.old.jsonl"), lines("r.jsonl")), (50, 1));
    assert_eq!(open(place.path()).1, [0]);
}
