use super::*;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn nonsense_makes_few_lines_and_events_and_all_of_it_is_counted() {
    let mut refusals = Refusals::default();
    let mut events = 0;
    for number in 0..100_000_u64 {
        let now = Duration::from_millis(number);
        events += refusals.note(Reason::Protocol, ADDRESS, "", now).iter().count();
        refusals.tick(now);
    }
    assert_eq!(refusals.count(Reason::Protocol), 100_000);
    assert_eq!(events, 2, "one in the first minute, one in the second");
}

#[test]
fn the_second_event_says_how_often_it_happened() {
    let mut refusals = Refusals::default();
    let reason = Reason::AuthenticationFailure;
    let first = refusals.note(reason, ADDRESS, "iqn.x", seconds(0)).unwrap();
    assert_eq!(first.object, "address 127.0.0.1");
    assert_eq!(first.message, "iqn.x was refused: CHAP failed or is missing");
    assert_eq!(refusals.note(reason, ADDRESS, "iqn.x", seconds(59)), None);
    let second = refusals.note(reason, ADDRESS, "iqn.x", seconds(60)).unwrap();
    assert!(second.message.ends_with("(2 times since the last event about it)"), "{second:?}");
}

#[test]
fn many_addresses_share_the_last_place_and_the_events_of_a_minute() {
    let mut refusals = Refusals::default();
    let mut events = 0;
    for number in 0..5_000_u32 {
        let address = IpAddr::V4(number.into());
        events += refusals.note(Reason::NotFound, address, "", seconds(1)).iter().count();
    }
    assert_eq!(events, REFUSAL_EVENTS_PER_INTERVAL as usize);
    assert!(refusals.buckets.len() <= REFUSAL_SOURCES_MAX + Reason::ALL.len());
    assert_eq!(refusals.count(Reason::NotFound), 5_000);
    refusals.tick(seconds(100));
    refusals.tick(seconds(300));
    assert!(refusals.buckets.is_empty(), "quiet addresses are forgotten");
}

#[test]
fn every_status_but_a_redirection_is_a_refusal_with_a_label() {
    assert_eq!(Reason::of_status([1, 1]), None);
    assert_eq!(Reason::of_status([2, 1]), Some(Reason::AuthenticationFailure));
    assert_eq!(Reason::of_status([2, 0]), Some(Reason::InitiatorError));
    assert_eq!(Reason::of_status([3, 2]), Some(Reason::OutOfResources));
    for (number, reason) in Reason::ALL.iter().enumerate() {
        assert_eq!(*reason as usize, number);
        assert!(reason.label().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
    }
}

#[test]
fn sessions_that_come_and_go_make_a_bounded_number_of_lines() {
    let mut chatter = Chatter::default();
    let mut lines = 0;
    for number in 0..100_000 {
        let now = seconds(100) + Duration::from_micros(200 * number);
        lines += u32::from(chatter.may_tell(now));
        chatter.tick(now);
    }
    assert!(lines <= 3 * SESSION_LINES_PER_INTERVAL, "{lines}");
}
