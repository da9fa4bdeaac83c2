//! Options of controllers: numbers, groups and portals of peers, as the command line says them.

use super::*;

fn peer(text: &str) -> PeerPortal {
    text.parse().expect(text)
}

#[test]
fn the_only_controller_is_as_before_and_others_have_groups_of_their_own() {
    let only = Controller::default();
    assert_eq!((only.is_one_of_several(), only.group()), (false, TARGET_PORTAL_GROUP_TAG));
    let second = only.changed(Some(2), &[peer("1=192.0.2.1:3260"), peer("1=[2001:db8::1]:3260")]);
    let second = second.unwrap();
    assert_eq!((second.is_one_of_several(), second.group()), (true, 2));
    assert!(second.is_of_another(1) && !second.is_of_another(2) && !second.is_of_another(3));
    assert_eq!(second.other_ports(), BTreeMap::from([(1, 1)]));
    assert_eq!(second.others().len(), 2);
    let kept = second.clone().changed(None, &[]).unwrap();
    assert_eq!(kept, second, "what is not said stays");
}

#[test]
fn what_would_give_two_controllers_one_group_is_refused() {
    let refused = |number, peers: &[PeerPortal]| Controller::default().changed(number, peers);
    assert!(refused(None, &[peer("1=192.0.2.1:3260")]).is_err());
    assert!(refused(Some(1), &[peer("1=192.0.2.1:3260")]).is_err());
    for text in ["", "1", "0=192.0.2.1:3260", "1=192.0.2.1", "1=0.0.0.0:3260", "1=192.0.2.1:0"] {
        assert!(text.parse::<PeerPortal>().is_err(), "{text}");
    }
    for text in ["0", "-1", "257", "a", ""] {
        assert!(parse_number(text).is_err(), "{text}");
    }
    assert_eq!(parse_number("256"), Ok(256));
}

#[test]
fn what_others_tell_of_their_portals_counts_in_place_of_the_command_line() {
    let peers = [peer("1=192.0.2.1:3260"), peer("3=192.0.2.3:3260")];
    let mut second = Controller::default().changed(Some(2), &peers).unwrap();
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let told = || {
        BTreeMap::from([
            (1, BTreeMap::from([(address("192.0.2.9:3260"), 1), (address("192.0.2.9:3270"), 7)])),
            (4, BTreeMap::from([(address("192.0.2.4:3260"), 2)])),
            (2, BTreeMap::from([(address("192.0.2.2:3260"), 2)])),
        ])
    };
    assert!(second.learn(told()) && !second.learn(told()));
    let found: Vec<SocketAddr> = second.others().into_keys().collect();
    let expected = ["192.0.2.3:3260", "192.0.2.9:3260", "192.0.2.9:3270"].map(address);
    assert_eq!(found, expected, "nobody has this controller's group");
    assert_eq!(second.other_ports().into_keys().collect::<Vec<_>>(), [1, 3, 7]);
    assert!(second.is_of_another(7) && !second.is_of_another(2));
    let text = serde_json::to_string(&second).unwrap();
    let kept = serde_json::from_str::<Controller>(&text).unwrap();
    assert_eq!(kept.others().len(), 2, "the link keeps what was told");
}

#[test]
fn where_a_link_listens_is_written_with_the_number_of_its_controller() {
    let expected = PeerLink { number: 2, address: "array-2.example.org:3262".to_owned() };
    assert_eq!("2=array-2.example.org:3262".parse(), Ok(expected));
    for text in ["", "2", "0=a:1", "257=a:1", "2=a", "2=a:0", "2=:3262", "2=a/b:3262"] {
        assert!(text.parse::<PeerLink>().is_err(), "{text}");
    }
}
