//! Answers of PERSISTENT RESERVE IN as devices give them, and names of holders.

use super::status::{Cut, Registrant, full_status, keys, reservation};
use super::{Breaking, Holder, ReservationKey};

fn answer(body: &[u8]) -> Vec<u8> {
    let mut data = vec![0, 0, 0, 9];
    data.extend((body.len() as u32).to_be_bytes());
    data.extend(body);
    data
}

fn descriptor(key: u64, flags: u8, transport_id: &[u8]) -> Vec<u8> {
    let mut data = key.to_be_bytes().to_vec();
    data.extend([0, 0, 0, 0, flags, 0x05, 0, 0, 0, 0, 0, 1]);
    data.extend((transport_id.len() as u32).to_be_bytes());
    data.extend(transport_id);
    data
}

fn iscsi(format: u8, name: &str) -> Vec<u8> {
    let mut padded = name.as_bytes().to_vec();
    padded.resize((name.len() + 4) / 4 * 4, 0);
    let mut id = vec![format << 6 | 5, 0, 0, padded.len() as u8];
    id.extend(padded);
    id
}

#[test]
fn registrants_are_named_by_what_their_transport_calls_them() {
    let sas = [0x06, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut fibre_channel = [0_u8; 24];
    fibre_channel[8..16].copy_from_slice(&0x2100_0000_0000_00ff_u64.to_be_bytes());
    let ids: [(Vec<u8>, Option<&str>); 5] = [
        (iscsi(0, "iqn.2026-01.org.example:a"), Some("iqn.2026-01.org.example:a")),
        (iscsi(1, "iqn.2026-01.org.example:b,i,0x00023d000001"), Some("iqn.2026-01.org.example:b")),
        (sas.to_vec(), Some("sas.500000000000000a")),
        (fibre_channel.to_vec(), Some("wwn.21000000000000ff")),
        (vec![0x04; 24], None),
    ];
    for (number, (id, name)) in (1_u64..).zip(ids) {
        let body = [descriptor(number, 1, &id), descriptor(99, 0, &[])].concat();
        let found = full_status(&answer(&body)).unwrap();
        let port = name.map(str::to_owned);
        let second = Registrant { key: 99, is_holder: false, port: None };
        assert_eq!(found, [Registrant { key: number, is_holder: true, port }, second]);
    }
}

#[test]
fn an_answer_that_is_cut_anywhere_is_refused() {
    let whole = answer(&descriptor(5, 1, &iscsi(0, "iqn.2026-01.org.example:a")));
    assert!(full_status(&whole).is_ok());
    for length in 0..whole.len() {
        assert_eq!(full_status(&whole[..length]), Err(Cut), "{length}");
    }
    // A name that says it is longer than its descriptor is no name.
    let mut long = iscsi(0, "iqn");
    long[2] = 0xff;
    assert_eq!(full_status(&answer(&descriptor(5, 1, &long))).unwrap()[0].port, None);
    let mut beyond = descriptor(5, 1, &[]);
    beyond[20] = 0xff;
    assert_eq!(full_status(&answer(&beyond)), Err(Cut));
}

#[test]
fn keys_and_a_reservation_are_read_where_there_is_no_full_status() {
    let two = [7_u64.to_be_bytes(), 9_u64.to_be_bytes()].concat();
    assert_eq!(keys(&answer(&two)), Ok(vec![7, 9]));
    assert_eq!(keys(&answer(&two[..12])), Err(Cut));
    assert_eq!(keys(&answer(&[])), Ok(Vec::new()));
    assert_eq!(reservation(&answer(&[])), Ok(None));
    let held = [&9_u64.to_be_bytes()[..], &[0; 8]].concat();
    assert_eq!(reservation(&answer(&held)), Ok(Some(9)));
}

#[test]
fn only_a_holder_with_a_name_can_be_broken_and_only_by_that_name() {
    let identity = ReservationKey::identity(7);
    let breaking = Breaking { holders: vec![identity.clone(), String::new()] };
    let holder = |identity: &str| Holder { identity: identity.to_owned(), place: None };
    assert!(breaking.includes(&holder(&identity)));
    assert!(!breaking.includes(&holder("key 0x0000000000000008")));
    assert!(!breaking.includes(&holder("")));
    assert!(!Breaking::NONE.includes(&holder(&identity)));
    assert_eq!(ReservationKey::new(0), None);
}
