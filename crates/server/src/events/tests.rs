use super::*;

#[test]
fn the_latest_events_are_kept_and_the_oldest_make_room() {
    let place = tempfile::tempdir().unwrap();
    let mut events = Events::open(place.path(), Alerts::start("test").unwrap()).unwrap();
    for number in 0..EVENTS_MAX + 5 {
        events.note(Severity::Information, "pool p".to_owned(), number.to_string());
    }
    assert_eq!(events.latest().count(), EVENTS_MAX);
    assert_eq!(events.latest().next().unwrap().number, 6);
    assert_eq!(events.latest().last().unwrap().message, (EVENTS_MAX + 4).to_string());
}

#[test]
fn numbers_go_on_where_the_record_ends() {
    let place = tempfile::tempdir().unwrap();
    let event = |number| Event {
        number,
        time: 7,
        severity: Severity::Warning,
        object: "pool p".to_owned(),
        message: "is full".to_owned(),
    };
    let mut record = Record::open(place.path(), NAME, 4096, |_: Event| {}).unwrap();
    [41, 42].iter().for_each(|&number| record.write(&event(number)).unwrap());
    let mut events = Events::open(place.path(), Alerts::start("test").unwrap()).unwrap();
    events.note(Severity::Information, "pool p".to_owned(), "is not full".to_owned());
    let numbers: Vec<u64> = events.latest().map(|event| event.number).collect();
    assert_eq!(numbers, [41, 42, 43]);
}
