use super::*;
use crate::limits::EVENT_BURST_MAX;

fn open(place: &Path) -> Events {
    Events::open(place, Alerts::start("test").unwrap()).unwrap()
}

fn event(number: u64) -> Event {
    Event {
        number,
        time: 7,
        severity: Severity::Warning,
        object: "pool p".to_owned(),
        message: "is full".to_owned(),
        kind: EventKind::General,
        count: 1,
        last_time: 7,
    }
}

/// An event that is none like the others, at that second.
fn at(time: u64, object: &str, message: String) -> Event {
    Event { time, last_time: time, object: object.to_owned(), message, ..event(0) }
}

#[test]
fn the_latest_events_are_kept_and_the_oldest_make_room() {
    let place = tempfile::tempdir().unwrap();
    let mut events = open(place.path());
    for number in 0..EVENTS_MAX as u64 + 5 {
        events.take(at(1000 + number, "pool p", number.to_string()));
    }
    assert_eq!(events.latest().count(), EVENTS_MAX);
    assert_eq!(events.latest().next().unwrap().number, 6);
    assert_eq!(events.latest().last().unwrap().message, (EVENTS_MAX + 4).to_string());
}

#[test]
fn numbers_go_on_where_the_record_ends() {
    let place = tempfile::tempdir().unwrap();
    let mut log = RotatingLog::open(place.path(), NAME, 4096, |_: Event| {}).unwrap();
    [41, 42].iter().for_each(|&number| log.write(&event(number)).unwrap());
    let mut events = open(place.path());
    events.note(Severity::Information, "pool p".to_owned(), "is not full".to_owned());
    let numbers: Vec<u64> = events.latest().map(|event| event.number).collect();
    assert_eq!(numbers, [41, 42, 43]);
}

#[test]
fn a_record_of_before_the_count_is_read() {
    let place = tempfile::tempdir().unwrap();
    let line = r#"{"number":7,"time":9,"severity":"error","object":"pool p","message":"is full"}"#;
    std::fs::write(place.path().join("events.jsonl"), format!("{line}\n")).unwrap();
    let events = open(place.path());
    let read = Event { number: 7, time: 9, last_time: 9, severity: Severity::Error, ..event(0) };
    assert_eq!(events.latest().map(|event| &**event).collect::<Vec<_>>(), [&read]);
}

#[test]
fn equal_events_are_one_with_a_count_that_outlives_the_daemon() {
    let place = tempfile::tempdir().unwrap();
    let mut events = open(place.path());
    let start = now();
    for second in 0..30 {
        events.take(at(start + second, "pool p", "is full".to_owned()));
    }
    drop(events);
    let events = open(place.path());
    let kept: Vec<&Event> = events.latest().map(|event| &**event).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].number, kept[0].count), (1, 30));
    assert_eq!((kept[0].time, kept[0].last_time), (start, start + 29));
}

#[test]
fn a_state_that_comes_back_is_an_event_of_its_own_and_so_is_one_after_the_time() {
    let place = tempfile::tempdir().unwrap();
    let mut events = open(place.path());
    for (second, message) in [(0, "full"), (1, "not full"), (2, "full"), (3, "full")] {
        events.take(at(1000 + second, "pool p", message.to_owned()));
    }
    events.take(at(1003 + EVENT_FOLD_SECONDS, "pool p", "full".to_owned()));
    let told: Vec<_> = events.latest().map(|e| (e.message.as_str(), e.count)).collect();
    assert_eq!(told, [("full", 1), ("not full", 1), ("full", 2), ("full", 1)]);
}

#[test]
fn places_that_alternate_are_folded_each() {
    let place = tempfile::tempdir().unwrap();
    let mut events = open(place.path());
    for number in 0..100 {
        let message = format!("at LBA {}", number % 2);
        let kind = EventKind::MediumError;
        events.take(Event { kind, ..at(1000, "volume p/v", message) });
    }
    let counts: Vec<u64> = events.latest().map(|event| event.count).collect();
    assert_eq!(counts, [50, 50]);
}

#[test]
fn a_noisy_kind_neither_floods_nor_pushes_out_the_others() {
    let place = tempfile::tempdir().unwrap();
    let mut events = open(place.path());
    events.take(at(1, "pool p", "is read-only".to_owned()));
    for number in 0..9_000 {
        let kind = EventKind::LockRetry;
        events.take(Event { kind, ..at(1000 + number / 3000, "volume p/v", number.to_string()) });
    }
    let told = events.latest().filter(|event| event.object == "volume p/v").count() as u64;
    assert_eq!(told, EVENT_BURST_MAX + 2);
    let summary = events.latest().find(|event| event.object == "events").unwrap();
    assert_eq!(summary.count, 9_000 - told);
    assert!(summary.message.contains("'lock retry', about 'volume'"), "{}", summary.message);
    for number in 0..3 * EVENTS_MAX as u64 {
        events.take(at(2000 + number, "volume p/v", number.to_string()));
    }
    assert_eq!(events.latest().count(), EVENTS_MAX);
    assert_eq!(events.latest().next().unwrap().message, "is read-only");
}
