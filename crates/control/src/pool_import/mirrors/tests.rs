use api::PoolImport;
use array::{Configuration, Secrets};
use store::ListedMember;

use super::super::{Account, Choices, take};
use super::*;
use crate::change::Draft;

const MIRROR: [u8; 16] = [9; 16];

fn name(text: &str) -> DeviceName {
    format!("file:/{text}").parse().unwrap()
}

fn identity(member: u8) -> DeviceIdentity {
    DeviceIdentity { pool_uuid: [1; 16], device_uuid: MIRROR, index: 0, member: Some([member; 16]) }
}

fn list(generation: u64, states: [MemberState; 2]) -> ListedMembers {
    let member = |(number, state)| ListedMember { uuid: [number; 16], size_bytes: 1 << 30, state };
    ListedMembers { generation, members: (1..).zip(states).map(member).collect() }
}

const BOTH: [MemberState; 2] = [MemberState::Current, MemberState::Current];
const FIRST: [MemberState; 2] = [MemberState::Current, MemberState::Absent];

/// What an import says of a mirror of which these members were found, each with its list.
fn import(
    found: &[(u8, ListedMembers)],
    witnessed: &[([u8; 16], u64)],
    members: Members,
) -> (Vec<FoundMirror>, PoolImport) {
    let found: Vec<_> = found
        .iter()
        .map(|(member, list)| (name(&member.to_string()), identity(*member), list))
        .collect();
    let devices = found.iter().map(|(name, identity, list)| (name, identity, Some(*list)));
    let mirrors = mirrors_of(devices, witnessed);
    let pool = FoundPool {
        uuid: [1; 16],
        devices: vec![],
        members: vec![],
        mirrors: mirrors.clone(),
        volumes: BTreeMap::new(),
        records: BTreeMap::new(),
    };
    let array = Configuration::new("iqn.2026-11.io.gantry:a".to_owned());
    let mut draft = Draft { array, secrets: Secrets::default() };
    let choices = Choices { members, ..Choices::default() };
    let report = take(&pool, &mut draft, (&choices, 0), &|_, _| Account::Unknown("none"));
    (mirrors, report)
}

#[test]
fn a_mirror_whose_current_members_are_all_there_comes() {
    for found in [
        vec![(1, list(4, BOTH)), (2, list(4, BOTH))],
        vec![(1, list(5, FIRST))],
        // The stale one still has the list from when it was current.
        vec![(2, list(4, BOTH)), (1, list(5, FIRST))],
    ] {
        let (mirrors, report) = import(&found, &[], Members::Needed);
        assert_eq!(report.collisions, [], "{found:?}");
        assert_eq!(mirrors[0].why_not(), None);
        let is_whole = found.iter().all(|(_, list)| list.generation == 4);
        assert_eq!(report.mirrors[0].degraded, !is_whole, "{found:?}");
    }
}

#[test]
fn a_missing_member_that_may_be_newer_is_a_collision_that_can_be_given_up() {
    let (mirrors, report) = import(&[(2, list(4, BOTH))], &[], Members::Needed);
    assert_eq!(report.collisions.len(), 1, "{report:?}");
    assert!(report.collisions[0].what.contains(&"01".repeat(16)), "{report:?}");
    assert!(report.collisions[0].solution.contains("--degraded"));
    let why = mirrors[0].why_not().unwrap();
    assert!(why.contains("only file:/2 was found") && why.contains(&"01".repeat(16)), "{why}");
    let (_, report) = import(&[(2, list(4, BOTH))], &[], Members::GivenUp);
    assert_eq!(report.collisions, []);
    assert!(report.missing[0].contains("is given up"), "{report:?}");
}

#[test]
fn a_missing_member_is_not_newer_than_what_the_array_knows() {
    let (_, report) = import(&[(2, list(4, BOTH))], &[(MIRROR, 4)], Members::Needed);
    assert_eq!(report.collisions, []);
    assert!(report.missing[0].contains("nothing newer"), "{report:?}");
    for witnessed in [(MIRROR, 5), (MIRROR, 3), ([8; 16], 4)] {
        let (_, report) = import(&[(2, list(4, BOTH))], &[witnessed], Members::Needed);
        assert_eq!(report.collisions.len(), 1, "{witnessed:?}");
    }
}

#[test]
fn the_states_of_the_newest_list_count_and_plain_devices_are_no_mirrors() {
    let found = [(2, list(4, BOTH)), (1, list(5, FIRST))];
    let (mirrors, report) = import(&found, &[], Members::Needed);
    let members: Vec<_> = mirrors[0]
        .members
        .iter()
        .map(|member| (member.device.clone(), member.state, member.generation))
        .collect();
    let expected = [
        (Some(name("1")), MemberState::Current, Some(5)),
        (Some(name("2")), MemberState::Absent, Some(4)),
    ];
    assert_eq!(members, expected);
    assert!(report.changes.iter().any(|change| change.contains("is stale, and is filled")));
    let plain = DeviceIdentity { member: None, ..identity(1) };
    let name = name("p");
    assert_eq!(mirrors_of([(&name, &plain, None)].into_iter(), &[]), []);
}
