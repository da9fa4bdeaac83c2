use api::ProblemKind;
use array::HeldLun;
use serde_json::json;

use super::*;
use crate::change::tests::{World, empty, make, names, refusal, volume, written};
use crate::hosts;

fn request(lun: Option<u16>, read_only: bool) -> MapVolume {
    MapVolume { lun, read_only }
}

fn mapped(host: &str, lun: Option<u16>) -> Change {
    map(&request(lun, false), volume(), host).unwrap()
}

/// Hosts 'h1' and 'h2', and group 'g' of both.
fn array(world: &World) -> Draft {
    let mut draft = empty();
    for name in ["h1", "h2"] {
        let initiators = [format!("iqn.x:{name}")].into();
        let host = hosts::Change::CreateHost { name: name.to_owned(), initiators, chap: None };
        make(&mut draft, world, &host).unwrap();
    }
    let hosts = ["h1", "h2"].map(str::to_owned).into();
    make(&mut draft, world, &hosts::Change::SetGroup { name: "g".to_owned(), hosts }).unwrap();
    draft
}

#[test]
fn a_map_is_answered_with_the_number_that_it_got() {
    let world = World::new();
    let mut draft = array(&world);
    let applied = make(&mut draft, &world, &mapped("h1", Some(4))).unwrap();
    let expected = json!({ "volume": "p/a", "host": "h1", "lun": 4, "read_only": false });
    assert_eq!(*written(&applied), expected);
    assert_eq!(applied.touched, names(&["h1"]), "nobody else looks at LUNs again");
    let read_only = map(&request(None, true), volume(), "g").unwrap();
    let applied = make(&mut draft, &world, &read_only).unwrap();
    assert_eq!(written(&applied)["lun"], 4, "others see it by that number");
    assert_eq!(written(&applied)["read_only"], true);
    assert_eq!(applied.touched, names(&["g"]));
}

#[test]
fn what_cannot_be_mapped_leaves_the_maps_as_they_were() {
    let world = World::new();
    let mut draft = array(&world);
    make(&mut draft, &world, &mapped("h1", Some(4))).unwrap();
    let other = Found { name: "b".to_owned(), id: VolumeId(2), ..volume() };
    let taken = map(&request(Some(4), false), other, "h1").unwrap();
    assert_eq!(refusal(&mut draft, &world, &taken), ProblemKind::LunTaken);
    assert_eq!(refusal(&mut draft, &world, &mapped("h1", Some(5))), ProblemKind::LunFixed);
    assert_eq!(refusal(&mut draft, &world, &mapped("h3", None)), ProblemKind::NotFound);
    let unmapped = unmap(&volume(), "h2");
    assert_eq!(refusal(&mut draft, &world, &unmapped), ProblemKind::NotMapped);
    let going = Found { is_going: true, ..volume() };
    let problem = map(&request(None, false), going.clone(), "h1").unwrap_err();
    assert_eq!((problem.status, problem.detail.as_str()), (409, "it is just being deleted"));
    make(&mut draft, &world, &unmap(&going, "h1")).unwrap();
}

/// A number rests after its volume was unmapped: a host that has not looked yet would write to
/// another one.
#[test]
fn a_number_rests_by_the_time_that_the_daemon_has_run() {
    let mut world = World::new();
    let mut draft = array(&world);
    make(&mut draft, &world, &mapped("h1", Some(4))).unwrap();
    let applied = make(&mut draft, &world, &unmap(&volume(), "h1")).unwrap();
    assert_eq!((applied.answer, applied.touched), (Answer::DONE, names(&["h1"])));
    let other = Found { name: "b".to_owned(), id: VolumeId(2), ..volume() };
    let reused = map(&request(Some(4), false), other, "h1").unwrap();
    world.uptime += 59;
    assert_eq!(refusal(&mut draft, &world, &reused), ProblemKind::LunResting);
    world.uptime += 1;
    let initiator = "iqn.x:h1".to_owned();
    world.held = vec![HeldLun { initiator, lun: 4, volume: volume().id }];
    assert_eq!(refusal(&mut draft, &world, &reused), ProblemKind::LunHeld);
    world.held.clear();
    make(&mut draft, &world, &reused).unwrap();
}
