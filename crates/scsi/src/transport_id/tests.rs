use super::*;

fn registrant(name: &str) -> Registrant {
    Registrant {
        initiator_name: name.to_owned(),
        isid: [0x80, 1, 2, 3, 4, 5],
        relative_target_port: 1,
    }
}

#[test]
fn what_is_emitted_is_padded_and_comes_back() {
    for length in 1..=NAME_BYTES_MAX {
        let name = "n".repeat(length);
        let id = emit(&registrant(&name));
        assert!(id.len().is_multiple_of(4) && id.len() >= 24);
        assert_eq!(id[0], 0x45);
        assert_eq!(id.last(), Some(&0));
        let (port, used) = parse(&id).unwrap();
        assert_eq!((port.name, port.isid), (name, Some([0x80, 1, 2, 3, 4, 5])));
        assert_eq!(used, id.len());
    }
}

#[test]
fn a_name_without_isid_names_the_device() {
    let mut id = emit(&registrant("iqn.2026-01.example:host"));
    id[0] = 0x05;
    let (port, _) = parse(&id).unwrap();
    assert_eq!(port.isid, None);
}

#[test]
fn what_is_cut_off_or_foreign_is_no_transport_id() {
    let good = emit(&registrant("iqn.2026-01.example:host"));
    for end in 0..good.len() {
        assert_eq!(parse(&good[..end]), None, "{end}");
    }
    for (at, byte) in [(0, 0x46), (0, 0x85), (0, 0xc5), (3, 1), (3, 16), (2, 1), (4, 0), (7, 0xff)]
    {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(parse(&bad), None, "{at} {byte:#x}");
    }
    let mut unterminated = good.clone();
    unterminated.iter_mut().skip(4).filter(|byte| **byte == 0).for_each(|byte| *byte = b'a');
    assert_eq!(parse(&unterminated), None);
    for isid in ["", "x", "1234567890123", "+1"] {
        assert_eq!(parse_isid(isid), None);
    }
    assert_eq!(parse_isid("23d000001"), Some([0, 2, 0x3d, 0, 0, 1]));
}
