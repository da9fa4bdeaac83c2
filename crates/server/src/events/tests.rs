use super::*;

#[test]
fn the_latest_events_are_kept_and_the_oldest_make_room() {
    let mut events = Events::new(Alerts::start("test").unwrap());
    for number in 0..EVENTS_MAX + 5 {
        events.note(Severity::Information, "pool p".to_owned(), number.to_string());
    }
    assert_eq!(events.latest().count(), EVENTS_MAX);
    assert_eq!(events.latest().next().unwrap().number, 6);
    assert_eq!(events.latest().last().unwrap().message, (EVENTS_MAX + 4).to_string());
}
