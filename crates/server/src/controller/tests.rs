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
