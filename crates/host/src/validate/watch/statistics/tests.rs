use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::esxi::lun::fake::{Fake, Reply};

/// The page with a parameter of another kind before the one that counts.
fn page(counters: [u64; 4]) -> Vec<u8> {
    let mut parameters = vec![0, 2, 3, 8, 0, 0, 0, 0, 0, 0, 0, 7];
    parameters.extend([0, 1, 2, 64]);
    counters.iter().chain(&[0; 4]).for_each(|counter| parameters.extend(counter.to_be_bytes()));
    [&[0x19, 0, 0, parameters.len() as u8][..], &parameters].concat()
}

#[test]
fn the_counters_are_those_of_the_first_parameter() {
    let whole = page([1, 2, 3, u64::MAX]);
    let wanted = Counters { reads: 1, writes: 2, received: 1536, transmitted: u64::MAX };
    assert_eq!(decode(&whole), Some(wanted));
    // A parameter list longer than the page says is not looked at; one that is shorter is no page.
    assert_eq!(decode(&[&whole[..], &[9; 40]].concat()), Some(wanted));
    for cut in 0..whole.len() {
        assert_eq!(decode(&whole[..cut]), None, "{cut}");
    }
    for (at, byte) in [(0, 0x0c), (1, 1), (17, 2), (19, 65), (19, 24), (7, 255)] {
        let mut wrong = whole.clone();
        wrong[at] = byte;
        assert_eq!(decode(&wrong), None, "byte {at} is {byte}");
    }
    assert_eq!(decode(&[0x19, 0, 0, 0]), None, "no parameter");
}

/// A LUN whose counters grow with each look: 100 reads of 8 blocks, until it ends or is reset.
fn growing(looks_max: u64) -> Fake {
    let looks = Arc::new(AtomicU64::new(0));
    Fake::with_data(move |cdb, _| {
        if cdb[0] != 0x4d {
            return None;
        }
        assert_eq!(cdb[2], 0x59, "cumulative values of page 19h");
        let look = looks.fetch_add(1, Ordering::Relaxed);
        let reads = if look == 3 { 10 } else { look * 100 };
        if look >= looks_max {
            return Some(Reply::Close);
        }
        let mut data = page([reads, 0, 0, reads * 8]);
        data.resize(usize::from(u16::from_be_bytes([cdb[7], cdb[8]])).min(data.len()), 0);
        Some(Reply::Good(data))
    })
}

fn looked(units: &mut Units) -> Page {
    let mut page = Page::new();
    units.look(&mut page);
    page
}

#[test]
fn what_luns_count_is_added_up_through_a_reset_and_a_lost_session() {
    let iqn = "iqn.a:host".to_owned();
    let (one, other) = (growing(3), growing(100));
    let mut units = Units::connect(&[(one.url, iqn.clone()), (other.url, iqn.clone())]);
    let expected = [200.0, 400.0, 410.0, 800.0];
    for (number, reads) in expected.into_iter().enumerate() {
        let page = looked(&mut units);
        assert_eq!(page.get(READS), Some(&reads), "look {number}");
        assert_eq!(page.get(TRANSMITTED), Some(&(reads * 4096.0)));
        assert_eq!((page.get(WRITES), page.get(RECEIVED)), (Some(&0.0), Some(&0.0)));
    }
}

#[test]
fn a_lun_without_the_page_is_not_watched() {
    let without =
        Fake::with_data(|cdb, _| (cdb[0] == 0x4d).then_some(Reply::Status(2, [5, 0x24, 0])));
    let with = growing(100);
    choose([without.url.as_str(), "iscsi://127.0.0.1:1/a/0", &with.url].into_iter(), "iqn.a:host");
    assert_eq!(chosen(), [(with.url, "iqn.a:host-statistics".to_owned())]);
    let mut units = Units::connect(&[(without.url, "iqn.a:host".to_owned())]);
    assert!(looked(&mut units).is_empty());
}
