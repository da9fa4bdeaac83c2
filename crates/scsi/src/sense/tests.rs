use block::{BlockError, LogicalBlockLength};

use super::*;
use crate::completion::{Completion, Status};

#[test]
fn a_miscompare_is_told_in_fixed_format_with_its_offset() {
    let sense = Sense::from(MISCOMPARE_DURING_VERIFY_OPERATION).with_information(0x1ff);
    let mut expected = vec![0xf0, 0, 0x0e, 0, 0, 0x01, 0xff, 10, 0, 0, 0, 0, 0x1d, 0];
    expected.extend([0; 4]);
    assert_eq!(sense.emit(), expected);
}

#[test]
fn information_beyond_32_bits_is_valid_in_descriptor_format_only() {
    let sense = Sense::from(UNRECOVERED_READ_ERROR).with_information(1 << 32);
    assert_eq!(sense.emit()[0], 0x70);
    assert_eq!(sense.emit()[3..7], [0; 4]);
    let expected = [0x72, 3, 0x11, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    assert_eq!(sense.emit_descriptors(), expected);
}

#[test]
fn a_field_pointer_names_byte_and_bit() {
    assert_eq!(Sense::invalid_cdb_bit(1, 4).emit()[15..], [0xcc, 0, 1]);
    assert_eq!(Sense::invalid_cdb_field(10).emit()[15..], [0xc0, 0, 10]);
    let in_list = Sense::in_parameter_list(INVALID_FIELD_IN_PARAMETER_LIST, 0x123);
    assert_eq!(in_list.emit()[15..], [0x80, 1, 0x23]);
    assert_eq!(in_list.emit_descriptors()[8..], [2, 6, 0, 0, 0x80, 1, 0x23, 0]);
}

#[test]
fn every_block_error_has_its_words() {
    let told = |error| {
        let completion = Completion::from_block_error(error, LogicalBlockLength::B512);
        let sense = completion.sense?;
        Some((sense.code.key as u8, sense.code.asc, sense.code.ascq, sense.information))
    };
    assert_eq!(told(BlockError::OutOfRange), Some((5, 0x21, 0, None)));
    assert_eq!(told(BlockError::Miscompare { offset: 7 }), Some((0xe, 0x1d, 0, Some(7))));
    assert_eq!(told(BlockError::OutOfSpace), Some((7, 0x27, 7, None)));
    assert_eq!(told(BlockError::Medium { offset: 1024 }), Some((3, 0x11, 0, Some(2))));
    assert_eq!(told(BlockError::ReadOnly), Some((7, 0x27, 0, None)));
    assert_eq!(told(BlockError::NoSuchVolume), Some((5, 0x25, 0, None)));
    assert_eq!(told(BlockError::Closed), Some((2, 4, 1, None)));
    assert_eq!(told(BlockError::Busy), None);
    let busy = Completion::from_block_error(BlockError::Busy, LogicalBlockLength::B512);
    assert_eq!(busy.status, Status::Busy);
}
