use super::*;
use crate::cdb::Cdb;
use crate::commands::table;
use crate::tests::cdb16;

/// What the row of a CDB says, with blocks of 512 bytes.
fn work(cdb: &[u8], data_out: &[u8], data_in_max: u64) -> Work {
    let cdb = Cdb::new(cdb);
    let row = table::rows(cdb.opcode()).iter().find(|row| {
        row.service_action.is_none_or(|service_action| service_action == cdb.service_action())
    });
    let row = row.unwrap();
    let extent = (row.extent)(&cdb);
    (row.work)(&Asked { extent, block_bytes: 512, data_out, data_in_max })
}

/// At the beginning of the LUN.
fn first(opcode: u8, blocks: u32) -> [u8; 16] {
    cdb16(opcode, 0, 0, blocks)
}

const ALL: u32 = (32 << 20) / 512;
const BYTES: u64 = 32 << 20;

#[test]
fn a_read_costs_what_the_initiator_takes_in_whole_blocks() {
    for (takes, reads) in [(0, 0), (1, 512), (512, 512), (513, 1024), (BYTES, BYTES)] {
        let expected = Work { data_in: reads, read: reads, ..Work::default() };
        assert_eq!(work(&first(0x88, ALL), &[], takes), expected);
    }
    assert_eq!(work(&first(0x88, 8), &[], u64::MAX).read, 4096);
    let read6 = [0x08, 0, 0, 0, 0, 0];
    assert_eq!(work(&read6, &[], u64::MAX).data_in, 256 * 512);
}

#[test]
fn what_moves_no_data_between_host_and_array_costs_what_it_does() {
    let verify = work(&first(0x8f, ALL), &[], 0);
    assert_eq!(verify, Work { read: BYTES, ..Work::default() });
    let pattern = work(&first(0x93, ALL), &[7; 512], 0);
    assert_eq!(pattern, Work { written: BYTES, ..Work::default() });
    let zeros = work(&first(0x93, ALL), &[0; 512], 0);
    assert_eq!(zeros, Work { mapped: BYTES, ..Work::default() });
    assert!(zeros.cost() * 32 < pattern.cost());
    let write_and_verify = work(&first(0x8e, 8), &[1; 4096], 0);
    assert_eq!((write_and_verify.read, write_and_verify.written), (4096, 4096));
    let atomic = work(&first(0x9c, 0), &[1; 8192], 0);
    assert_eq!(atomic.written, 8192);
}

#[test]
fn descriptors_cost_what_they_name_and_each_besides() {
    let mut list = vec![0; 8];
    for _ in 0..300 {
        let mut descriptor = [0; 16];
        descriptor[8..12].copy_from_slice(&8_u32.to_be_bytes());
        list.extend(descriptor);
    }
    let unmap = work(&[0x42, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0], &list, 0);
    assert_eq!((unmap.operations, unmap.mapped), (256, 256 * 4096));
    assert!(unmap.cost() >= 256 * 4096, "{unmap:?}");
}

#[test]
fn a_command_that_is_refused_for_its_length_costs_nothing() {
    assert_eq!(work(&first(0x88, ALL + 1), &[], u64::MAX), Work::default());
    assert_eq!(work(&first(0x8f, u32::MAX), &[], u64::MAX), Work::default());
}

// A new command that names an extent of blocks has to say what it does with them.
#[test]
fn every_command_that_moves_blocks_says_so() {
    let data = [1; 4096];
    for row in table::ROWS {
        let mut cdb = [0; 32];
        for (byte, used) in cdb.iter_mut().zip(row.usage) {
            *byte = used & 0x11;
        }
        cdb[..1].copy_from_slice(&row.usage[..1]);
        let cdb = Cdb(cdb);
        let extent = (row.extent)(&cdb);
        let takes_blocks = (row.data_out)(&cdb, extent, 512) >= 512;
        let asked = Asked { extent, block_bytes: 512, data_out: &data, data_in_max: 4096 };
        let work = (row.work)(&asked);
        let parameters = ["MODE", "LOG", "PERSISTENT", "SANITIZE", "SET", "EXTENDED"];
        if takes_blocks && !parameters.iter().any(|start| row.name.starts_with(start)) {
            assert!(work.cost() > 0, "{}", row.name);
        }
    }
}

#[test]
fn no_parameter_list_makes_the_sum_overflow() {
    let list = [0xff; 65_536];
    for opcode in 0..=255_u8 {
        for row in table::rows(opcode) {
            let mut cdb = [0xff; 32];
            cdb[0] = opcode;
            let extent = (row.extent)(&Cdb(cdb));
            let asked = Asked { extent, block_bytes: 4096, data_out: &list, data_in_max: u64::MAX };
            let _ = (row.work)(&asked).cost();
        }
    }
}
