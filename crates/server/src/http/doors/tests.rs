use super::*;

const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

fn is_lost(doors: &Doors, place: &Place) -> bool {
    !doors.state().entries.contains_key(&place.number)
}

#[test]
fn an_idle_connection_makes_room_and_a_busy_one_does_not() {
    let doors = Arc::new(Doors::new(3, 2));
    let places: Vec<Place> = (0..2).filter_map(|_| doors.enter(ONE)).collect();
    let work = places[0].work();
    let third = doors.enter(ONE).unwrap();
    assert_eq!([is_lost(&doors, &places[0]), is_lost(&doors, &places[1])], [false, true]);
    let other = third.work();
    assert!(doors.enter(ONE).is_none());
    assert_eq!(doors.closed(Closed::AddressQuota), 1);
    let far = doors.enter(TWO).unwrap();
    drop(other);
    let newcomer = doors.enter(TWO).unwrap();
    assert!(is_lost(&doors, &third), "the greediest address has an idle one");
    let (far_work, newcomer_work) = (far.work(), newcomer.work());
    assert!(doors.enter(TWO).is_none());
    assert!(doors.enter("10.0.0.3".parse().unwrap()).is_none());
    assert_eq!(doors.closed(Closed::ConnectionsMax), 1);
    drop((work, far_work, newcomer_work));
    drop((places, third, far, newcomer));
    assert_eq!((doors.len(), doors.state().sources.len()), (0, 0));
    assert_eq!(doors.closed(Closed::Idle), 2);
}

#[test]
fn who_has_just_been_served_is_not_the_one_that_is_idle_longest() {
    let doors = Arc::new(Doors::new(2, 2));
    let first = doors.enter(ONE).unwrap();
    let second = doors.enter(ONE).unwrap();
    drop(first.work());
    let _third = doors.enter(ONE).unwrap();
    assert_eq!([is_lost(&doors, &first), is_lost(&doors, &second)], [false, true]);
}
