use super::*;

const ATTACKER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 66));
const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const NOW: Duration = Duration::ZERO;

fn admission(total: usize, per_address: usize) -> Admission {
    Admission::new(Quotas::new(total, per_address, 8))
}

/// Connects as the reactor does; what must make room goes first.
fn connect(
    admission: &mut Admission,
    slot: usize,
    address: IpAddr,
) -> Result<Option<usize>, Reason> {
    let evicted = admission.room_for(address)?;
    evicted.into_iter().for_each(|slot| admission.left(slot));
    admission.came(slot, address);
    Ok(evicted)
}

#[test]
fn logins_under_way_have_a_share_and_the_oldest_of_the_greediest_makes_room() {
    let mut admission = admission(64, 64);
    for slot in 0..8 {
        assert_eq!(connect(&mut admission, slot, ATTACKER), Ok(None));
    }
    assert_eq!(connect(&mut admission, 8, HOST), Ok(Some(0)));
    assert_eq!(connect(&mut admission, 9, ATTACKER), Ok(Some(1)));
    assert_eq!(admission.begins_session(8, "host", false), Ok(()));
    for slot in 10..1000 {
        connect(&mut admission, slot, ATTACKER).unwrap();
    }
    assert_eq!(admission.counts(), [8, 0, 1]);
}

#[test]
fn it_says_for_whom_there_is_room() {
    let mut admission = admission(16, 64);
    let places = |known_hosts, strangers| Places { connections_max: 16, known_hosts, strangers };
    for slot in 0..12 {
        assert_eq!(admission.places(), places(true, slot < 8));
        connect(&mut admission, slot, HOST).unwrap();
        let name = format!("host-{slot}");
        assert_eq!(admission.begins_session(slot, &name, slot >= 8), Ok(()));
    }
    assert_eq!(admission.places(), places(false, false));
    admission.left(11);
    assert_eq!(admission.places(), places(true, false));
    admission.left(0);
    assert_eq!(admission.places(), places(true, true));
}

#[test]
fn four_thousand_discovery_sessions_of_one_name_take_64_places() {
    let mut admission = admission(4096, 4096);
    for slot in 0..4200 {
        connect(&mut admission, slot, ATTACKER).unwrap();
        let evicted = admission.discovers(slot, "anonymous", NOW);
        assert_eq!(evicted, slot.checked_sub(64));
        evicted.into_iter().for_each(|slot| admission.left(slot));
    }
    assert_eq!(admission.counts(), [0, 64, 0]);
}

#[test]
fn discovery_sessions_of_many_names_take_an_eighth() {
    let mut admission = admission(64, 64);
    for slot in 0..100 {
        connect(&mut admission, slot, ATTACKER).unwrap();
        let evicted = admission.discovers(slot, &format!("n{slot}"), NOW);
        assert_eq!(evicted, slot.checked_sub(8));
        evicted.into_iter().for_each(|slot| admission.left(slot));
    }
    assert_eq!(admission.initiators.len(), 8);
    assert_eq!(admission.sources.len(), 1);
}

#[test]
fn a_quarter_is_kept_for_known_hosts() {
    let mut admission = admission(64, 64);
    let mut slot = 0;
    let mut log_in = |admission: &mut Admission, is_known| {
        slot += 1;
        connect(admission, slot, if is_known { HOST } else { ATTACKER }).unwrap();
        let begun = admission.begins_session(slot, &format!("n{slot}"), is_known);
        if begun.is_err() {
            admission.left(slot);
        }
        begun
    };
    for _ in 0..32 {
        assert_eq!(log_in(&mut admission, false), Ok(()));
    }
    assert_eq!(log_in(&mut admission, false), Err(Reason::KnownHostsShare));
    for _ in 0..16 {
        assert_eq!(log_in(&mut admission, true), Ok(()));
    }
    assert_eq!(log_in(&mut admission, true), Err(Reason::ConnectionsMax));
    assert_eq!(admission.counts(), [0, 0, 48]);
}

#[test]
fn an_address_and_an_initiator_have_quotas() {
    let mut admission = admission(64, 12);
    for slot in 0..8 {
        assert_eq!(connect(&mut admission, slot, ATTACKER), Ok(None));
        assert_eq!(admission.begins_session(slot, "one", true), Ok(()));
    }
    assert_eq!(connect(&mut admission, 8, ATTACKER), Ok(None));
    assert_eq!(admission.begins_session(8, "one", true), Err(Reason::InitiatorQuota));
    assert_eq!(admission.begins_session(8, "two", true), Ok(()));
    for slot in 9..12 {
        assert_eq!(connect(&mut admission, slot, ATTACKER), Ok(None));
    }
    assert_eq!(connect(&mut admission, 12, ATTACKER), Ok(Some(9)), "its own login makes room");
    for slot in 10..13 {
        assert_eq!(admission.begins_session(slot, &format!("n{slot}"), true), Ok(()));
    }
    assert_eq!(connect(&mut admission, 13, ATTACKER), Err(Reason::AddressQuota));
    assert_eq!(connect(&mut admission, 13, HOST), Ok(None));
}

#[test]
fn whatever_comes_and_goes_is_counted_right() {
    let mut admission = admission(40, 20);
    let mut random = 7_u64;
    let mut open: Vec<usize> = Vec::new();
    for slot in 0..5000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bits = random >> 33;
        let address = if bits & 1 == 0 { HOST } else { ATTACKER };
        if let Ok(evicted) = connect(&mut admission, slot, address) {
            open.retain(|other| Some(*other) != evicted);
            open.push(slot);
        }
        let chosen = open[bits as usize / 7 % open.len()];
        let is_login = admission.logging_in.values().any(|slot| *slot == chosen);
        let gone = match bits >> 3 & 3 {
            0 if is_login => admission.discovers(chosen, &format!("n{}", bits & 7), NOW),
            1 if is_login => {
                let _ = admission.begins_session(chosen, &format!("n{}", bits & 7), bits & 64 == 0);
                None
            }
            2 => Some(chosen),
            _ => None,
        };
        gone.into_iter().for_each(|slot| {
            admission.left(slot);
            open.retain(|other| *other != slot);
        });
        assert_eq!(admission.counts().iter().sum::<usize>(), open.len());
        assert!(open.len() <= 40);
    }
    open.into_iter().for_each(|slot| admission.left(slot));
    assert_eq!((admission.strangers, admission.sources.len()), (0, 0));
    assert_eq!((admission.initiators.len(), admission.entries.len()), (0, 0));
    assert_eq!((admission.logging_in.len(), admission.discovery.len()), (0, 0));
}

#[test]
fn idle_discovery_sessions_are_found() {
    let mut admission = admission(64, 64);
    for slot in 0..2 {
        connect(&mut admission, slot, HOST).unwrap();
        admission.discovers(slot, "host", NOW);
    }
    admission.asks(1, Duration::from_secs(50));
    assert_eq!(admission.idle_discovery(Duration::from_secs(60), Duration::from_secs(60)), [0]);
}

#[test]
fn one_ipv6_network_is_one_address() {
    let of = |text: &str| source(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
}

#[test]
fn a_single_connection_can_still_become_a_session() {
    let mut admission = admission(1, 1);
    assert_eq!(connect(&mut admission, 0, HOST), Ok(None));
    assert_eq!(admission.begins_session(0, "host", false), Ok(()));
    assert_eq!(connect(&mut admission, 1, HOST), Err(Reason::AddressQuota));
}
