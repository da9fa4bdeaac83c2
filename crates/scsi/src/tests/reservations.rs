use super::*;

const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
const RESERVE_10: [u8; 10] = [0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const RELEASE_10: [u8; 10] = [0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_reservation_keeps_the_other_nexus_out_until_its_holder_releases_it() {
    let mut world = World::new();
    for (reserve, release) in [(&RESERVE_6[..], &RELEASE_6[..]), (&RESERVE_10, &RELEASE_10)] {
        world.good(0, reserve, &[]);
        world.good(0, reserve, &[]);
        world.good(0, &cdb10(0x2a, 0, 0, 1), &pattern(1, 1));
        for cdb in [&[0; 6][..], reserve, &cdb10(0x28, 0, 0, 1), &compare_and_write_cdb(0, 1)] {
            let status = world.run(BOB, 0, cdb, &[0; 2 * BLOCK]).status;
            assert_eq!(status, Status::ReservationConflict);
        }
        assert_eq!(world.run(BOB, 0, release, &[]).status, Status::Good);
        assert_eq!(world.run(BOB, 0, &[0; 6], &[]).status, Status::ReservationConflict);
        assert_eq!(world.run(BOB, 1, &[0; 6], &[]).status, Status::Good);
        world.good(0, release, &[]);
        assert_eq!(world.run(BOB, 0, &[0; 6], &[]).status, Status::Good);
    }
}

#[test]
fn discovery_works_on_a_unit_that_another_nexus_reserved() {
    let mut world = World::new();
    world.good(0, &RESERVE_6, &[]);
    let allowed: [&[u8]; 6] = [
        &[0x12, 0, 0, 0, 96, 0],
        &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        &[0x03, 0, 0, 0, 18, 0],
        &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
        &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
    ];
    for cdb in allowed {
        assert_eq!(world.run(BOB, 0, cdb, &[]).status, Status::Good, "{cdb:x?}");
    }
}

#[test]
fn loss_of_the_holder_or_a_reset_ends_a_reservation() {
    let mut world = World::new();
    world.good(0, &RESERVE_6, &[]);
    world.target.close_nexus(ALICE);
    assert_eq!(world.run(BOB, 0, &RESERVE_6, &[]).status, Status::Good);
    let reset = TaskManagement::LogicalUnitReset;
    world.target.manage(TaskId(99), BOB, emit_lun(0), reset);
    let (_, response) = world.target.next_management_done().unwrap();
    assert_eq!(response, TaskManagementResponse::FunctionComplete);
    world.target.open_nexus(ALICE, nexus_spec("alice"));
    assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x29, 0));
    assert_eq!(world.run(ALICE, 0, &[0; 6], &[]).status, Status::Good);
}

#[test]
fn a_reservation_waits_for_a_compare_and_write_that_is_under_way() {
    let mut world = World::new();
    let data = [vec![0; BLOCK], pattern(1, 1)].concat();
    let lock = world.begin(BOB, 0, &compare_and_write_cdb(0, 1), &data);
    let reserve = world.begin(ALICE, 0, &RESERVE_6, &[]);
    let late = world.begin(BOB, 0, &compare_and_write_cdb(1, 1), &data);
    assert!(world.target.next_done().is_none());
    while world.step() {}
    let ends: Vec<_> = std::iter::from_fn(|| world.target.next_done())
        .map(|(id, completion)| (id, completion.status))
        .collect();
    let expected =
        [(lock, Status::Good), (reserve, Status::Good), (late, Status::ReservationConflict)];
    assert_eq!(ends, expected);
    assert!(world.bytes(ONE, 1, 1).iter().all(|&byte| byte == 0));
}
