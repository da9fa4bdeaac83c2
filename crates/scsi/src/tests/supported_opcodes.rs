use super::*;
use crate::command::Scope;
use crate::commands::table;

fn report(options: u8, opcode: u8, action: u16, length: u32) -> [u8; 12] {
    let mut cdb = [0xa3, 0x0c, options, opcode, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[4..6].copy_from_slice(&action.to_be_bytes());
    cdb[6..10].copy_from_slice(&length.to_be_bytes());
    cdb
}

#[test]
fn the_table_is_sorted_and_its_masks_are_whole() {
    assert!(table::ROWS.is_sorted_by(|one, other| {
        (one.opcode, one.service_action) < (other.opcode, other.service_action)
    }));
    for row in table::ROWS {
        let length = match row.opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            3 => 32,
            4 => 16,
            _ => 12,
        };
        assert_eq!(row.usage.len(), length, "{}", row.name);
        assert_eq!(row.usage[0], row.opcode, "{}", row.name);
        let shares = table::rows(row.opcode).len() > 1 || [0x7f, 0xa4].contains(&row.opcode);
        assert_eq!(row.service_action.is_some(), shares, "{}", row.name);
        let field = if row.opcode == 0x7f { row.usage[9] } else { row.usage[1] };
        assert!(row.service_action.is_none() || field & 0x1f == 0x1f, "{}", row.name);
    }
}

#[test]
fn every_command_is_listed_and_told_one_by_one() {
    let mut world = World::new();
    for timeouts in [false, true] {
        let rctd = if timeouts { 0x80 } else { 0 };
        let list = world.good(0, &report(rctd, 0, 0, 65_535), &[]);
        assert_eq!(list[..4], (list.len() as u32 - 4).to_be_bytes());
        let size = if timeouts { 20 } else { 8 };
        assert_eq!(list.len(), 4 + size * table::ROWS.len());
        for (row, told) in table::ROWS.iter().zip(list[4..].chunks(size)) {
            let action = u16::from(row.service_action.unwrap_or(0));
            assert_eq!((told[0], told[3]), (row.opcode, action as u8));
            assert_eq!(told[5] & 1 == 1, row.service_action.is_some());
            assert_eq!(told[5] & 2 == 2, timeouts);
            assert_eq!(usize::from(told[7]), row.usage.len(), "{}", row.name);
            let (right, wrong) = if row.service_action.is_some() { (2, 1) } else { (1, 2) };
            let one = world.good(0, &report(rctd | right, row.opcode, action, 255), &[]);
            assert_eq!(one[1], rctd | 3);
            assert_eq!(&one[4..4 + row.usage.len()], row.usage);
            assert_eq!(one.len(), 4 + row.usage.len() + if timeouts { 12 } else { 0 });
            assert_eq!(world.good(0, &report(rctd | 3, row.opcode, action, 255), &[]), one);
            let told = world.fails(0, &report(wrong, row.opcode, action, 255), &[]);
            assert_eq!(told, INVALID_CDB);
        }
    }
}

#[test]
fn what_is_not_supported_is_told_so() {
    let mut world = World::new();
    assert_eq!(world.good(0, &report(1, 0xee, 0, 255), &[]), [0, 1, 0, 0]);
    assert_eq!(world.good(0, &report(2, 0x5e, 9, 255), &[]), [0, 1, 0, 0]);
    assert_eq!(world.good(0, &report(3, 0x5e, 9, 255), &[]), [0, 1, 0, 0]);
    assert_eq!(world.good(0, &report(2, 0x83, 2, 255), &[]), [0, 1, 0, 0]);
    assert_eq!(world.good(0, &report(3, 0x83, 2, 255), &[]), [0, 1, 0, 0]);
    assert_eq!(world.good(0, &report(3, 0x28, 1, 255), &[]), [0, 1, 0, 0]);
    assert_eq!(world.fails(0, &report(2, 0xee, 0, 255), &[]), INVALID_CDB);
    assert_eq!(world.fails(0, &report(4, 0x28, 0, 255), &[]), INVALID_CDB);
}

#[test]
fn every_bit_outside_a_mask_is_refused_with_a_pointer_to_it() {
    let mut world = World::new();
    for row in table::ROWS.iter().filter(|row| row.scope != Scope::AnyLun) {
        for byte in 1..row.usage.len() {
            for bit in (0..8).filter(|bit| row.usage[byte] & 1 << bit == 0) {
                let mut cdb = with_action(row);
                cdb[byte] |= 1 << bit;
                let sense = world.run(ALICE, 0, &cdb, &[]).sense.expect(row.name);
                assert_eq!(sense.code.asc, 0x24, "{} {byte}.{bit}", row.name);
                let field = FieldPointer { in_cdb: true, byte: byte as u16, bit: Some(bit) };
                assert_eq!(sense.field, Some(field), "{}", row.name);
            }
        }
    }
    assert_eq!(world.requests, []);
}

/// A CDB of that command whose other fields are zero.
fn with_action(row: &command::Row) -> Vec<u8> {
    let mut cdb = vec![0; row.usage.len()];
    cdb[0] = row.opcode;
    let action = row.service_action.unwrap_or(0);
    if row.opcode == 0x7f {
        (cdb[7], cdb[9]) = (24, action);
    } else {
        cdb[1] = action;
    }
    cdb
}

#[test]
fn a_variable_length_cdb_must_say_its_length_and_action() {
    let mut world = World::new();
    for (additional, action, byte) in [(23, 0x12, 7), (0, 0x12, 7), (24, 0x09, 8), (24, 0, 8)] {
        let mut cdb = [0; 32];
        (cdb[0], cdb[7], cdb[9]) = (0x7f, additional, action);
        let sense = world.run(ALICE, 0, &cdb, &[]).sense.unwrap();
        assert_eq!((sense.code.asc, sense.field.unwrap().byte), (0x24, byte));
    }
    let mut cdb = [0; 32];
    (cdb[0], cdb[7], cdb[8], cdb[9]) = (0x7f, 24, 1, 0x12);
    assert_eq!(world.fails(0, &cdb, &[]), INVALID_CDB);
}

#[test]
fn an_unknown_command_or_service_action_is_refused() {
    let mut world = World::new();
    for opcode in 0..=255u8 {
        let known = !table::rows(opcode).is_empty();
        let mut cdb = [0; 16];
        (cdb[0], cdb[1]) = (opcode, 0x1f);
        let sense = world.run(ALICE, 0, &cdb, &[]).sense;
        assert_eq!(sense.is_some_and(|sense| sense.code.asc == 0x20), !known, "{opcode:#x}");
    }
    for (opcode, action) in [(0x83, 0x02), (0x83, 0x1d), (0x84, 0x01), (0x9e, 0x11), (0xa3, 5)] {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1]) = (opcode, action);
        assert_eq!(world.fails(0, &cdb, &[]), INVALID_CDB);
    }
}

#[test]
fn task_management_functions_are_reported() {
    let mut world = World::new();
    let report = |flags, length| [0xa3, 0x0d, flags, 0, 0, 0, 0, 0, 0, length, 0, 0];
    assert_eq!(world.good(0, &report(0, 4), &[]), [0xde, 7, 0, 0]);
    assert_eq!(world.good(0, &report(0x80, 16), &[])[..4], [0xde, 7, 0, 12]);
    assert_eq!(world.fails(0, &report(0, 3), &[]), INVALID_CDB);
}

#[test]
fn the_reference_page_has_every_command() {
    let page = reference();
    for row in table::ROWS {
        assert!(page.contains(&format!("| {} |", row.name)));
    }
}

#[test]
fn long_cdbs_are_taken_only_by_a_target_that_says_so() {
    let mut target = DeviceServer::new(Identity::gantry("iqn.2026-01.example:target"));
    target.add_unit(ONE, spec(ONE));
    target.open_nexus(ALICE, nexus_spec("alice"));
    let mut run = |cdb: &[u8]| {
        let command = Command {
            decoded: target.decode(ALICE, 0, cdb),
            attribute: TaskAttribute::Simple,
            expected: Expected { data_out: 0, data_in: u64::MAX },
            data_out: Bytes::new(),
            since: target.now(),
        };
        target.execute(TaskId(1), command);
        target.next_done().unwrap().1
    };
    assert_eq!(run(&[0; 6]).sense.unwrap().code.asc, 0x29);
    let mut cdb = [0; 32];
    (cdb[0], cdb[7], cdb[9]) = (0x7f, 24, 0x12);
    assert_eq!(run(&cdb).sense.unwrap().code.asc, 0x20);
    assert_eq!(run(&report(3, 0x7f, 0x12, 255)).data_in.to_vec(), [0, 1, 0, 0]);
    let list = run(&report(0, 0, 0, 65_535)).data_in.to_vec();
    assert_eq!(list.len(), 4 + 8 * (table::ROWS.len() - table::rows(0x7f).len()));
    assert!(list[4..].chunks(8).all(|row| row[0] != 0x7f));
}
