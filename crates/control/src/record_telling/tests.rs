//! Records are told: all of them, then those that changed, a page at a time, to the one who has heard least.

use array::{FreeLuns, Host, Rest};

use super::*;
use crate::pool_records::Slots;

const REST: Rest<'static> = Rest { now: 0, seconds: 0, held: &[], free: FreeLuns::Known };

/// A pool, and the configuration of the controller that serves it.
struct Pool {
    array: Configuration,
    slots: Slots,
}

impl Pool {
    fn new() -> Self {
        let array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
        Self { array, slots: Slots::default() }
    }

    fn write(&mut self, key: &RecordKey) {
        let text = text(&self.array, key, &|_| None);
        let (text, is_deleted) = (text.clone().unwrap_or_else(|| tombstone(key)), text.is_none());
        self.slots.place(key, (&text, self.array.generation), is_deleted).unwrap();
    }

    fn add_host(&mut self, name: &str) {
        let host = Host {
            initiators: [format!("iqn.2026-11.org.example:{name}")].into(),
            ..Host::default()
        };
        self.array.hosts.insert(name.to_owned(), host);
        self.write(&RecordKey::Host(name.to_owned()));
    }

    fn page(&self, heard: &[Option<Mark>], bytes_max: usize) -> Option<RecordPage> {
        let telling =
            Telling { opening: 5, slots: &self.slots, array: &self.array, seal: &|_| None };
        let after = telling.after(heard.iter().copied())?;
        telling.page(after, (bytes_max, bytes_max), |id| Some(id.0 * 4096))
    }
}

fn heard(page: &RecordPage) -> Vec<RecordKey> {
    page.records.iter().map(|record| parse(record).unwrap().0).collect()
}

fn hosts(names: &[&str]) -> Vec<RecordKey> {
    names.iter().map(|name| RecordKey::Host((*name).to_owned())).collect()
}

#[test]
fn what_changed_is_told_once_and_what_units_keep_is_not() {
    let mut pool = Pool::new();
    pool.add_host("a");
    pool.add_host("b");
    pool.slots.place(&RecordKey::Unit(1), ("{}", 1), false).unwrap();
    let all = pool.page(&[None], 1 << 16).unwrap();
    assert_eq!((heard(&all), all.is_last), (hosts(&["a", "b"]), true));
    let mark = Some(all.end());
    assert_eq!(pool.page(&[mark], 1 << 16), None);
    pool.add_host("c");
    pool.array.hosts.remove("a");
    pool.write(&RecordKey::Host("a".to_owned()));
    let news = pool.page(&[mark], 1 << 16).unwrap();
    assert!(news.continues(mark) && !news.continues(None));
    assert_eq!(heard(&news), hosts(&["c", "a"]));
    let again = pool.page(&[None], 1 << 16).unwrap();
    assert_eq!(heard(&again), hosts(&["b", "c", "a"]));
}

#[test]
fn pages_follow_each_other_and_the_one_who_has_heard_least_is_told() {
    let mut pool = Pool::new();
    (0..600).for_each(|number| pool.add_host(&format!("host-{number:03}")));
    let (mut mark, mut told, mut pages) = (None, Vec::new(), 0);
    while let Some(page) = pool.page(&[mark], 20_000) {
        assert!(page.continues(mark));
        assert!(page.bytes() <= 20_000);
        assert!(serde_json::to_string(&page).unwrap().len() <= page.bytes());
        told.extend(heard(&page));
        mark = Some(page.end());
        pages += 1;
    }
    assert_eq!(told.len(), 600);
    assert!(pages > 3, "{pages}");
    let first = pool.page(&[mark, None], 20_000).unwrap();
    assert_eq!(first.after, 0);
    assert!(!first.continues(mark), "whoever has heard it does not take it again");
    assert_eq!(pool.page(&[mark], 20_000), None);
    assert_eq!(pool.page(&[], 20_000), None, "nobody listens");
    let other = Some(Mark { opening: 6, ..mark.unwrap() });
    assert_eq!(pool.page(&[other], 20_000).unwrap().after, 0, "a mark of another opening");
}

#[test]
fn a_record_that_fits_into_no_message_is_left_out_and_stops_nothing() {
    let mut pool = Pool::new();
    pool.add_host("a");
    pool.add_host(&"long".repeat(1000));
    pool.add_host("c");
    let first = pool.page(&[None], 2000).unwrap();
    assert_eq!(heard(&first), hosts(&["a"]));
    let second = pool.page(&[Some(first.end())], 2000).unwrap();
    assert_eq!((heard(&second), second.is_last), (hosts(&["c"]), true));
}

#[test]
fn the_size_of_a_volume_is_told_with_its_record_and_news_are_what_differs() {
    let mut pool = Pool::new();
    pool.add_host("a");
    let id = VolumeId(9);
    let own = pool.array.clone();
    pool.array.map_volume(id, "a", (Some(3), array::Access::ReadWrite), &REST).unwrap();
    pool.write(&RecordKey::Volume(9));
    let page = pool.page(&[None], 1 << 16).unwrap();
    assert_eq!(page.sizes, [(9, 9 * 4096)]);
    let news = page.news((&own, &|_| None), |_, _| true);
    assert_eq!(news.into_keys().collect::<Vec<_>>(), [RecordKey::Volume(9)]);
    assert!(page.news((&pool.array, &|_| None), |_, _| true).is_empty());
    pool.slots.touch(&RecordKey::Volume(9));
    pool.slots.touch(&RecordKey::Volume(10));
    let grown = pool.page(&[Some(page.end())], 1 << 16).unwrap();
    assert_eq!(heard(&grown), [RecordKey::Volume(9)]);
    let mut strange = page;
    strange.records = vec!["{}".to_owned(), r#"{"key":"later"}"#.to_owned(), String::new()];
    strange.records.push(crate::pool_records::unit_text(id, "{}".to_owned()));
    assert!(
        strange.news((&own, &|_| None), |_, _| true).is_empty(),
        "what a later program says is left"
    );
}

/// What another pool's records leave of a message is little, or nothing: that costs time, and no record.
#[test]
fn what_does_not_fit_beside_the_records_of_another_pool_is_told_in_the_next_message() {
    let mut pool = Pool::new();
    (0..3).for_each(|number| pool.add_host(&format!("host-{number}")));
    let telling = Telling { opening: 5, slots: &pool.slots, array: &pool.array, seal: &|_| None };
    let page = |after, left| telling.page(after, (left, 20_000), |_| None);
    for left in [0, PAGE_BYTES, PAGE_BYTES + 50] {
        assert_eq!(page(0, left), None, "{left}");
    }
    let one = page(0, PAGE_BYTES + 300).unwrap();
    assert_eq!((heard(&one), one.is_last), (hosts(&["host-0"]), false));
    let rest = page(one.to, 20_000).unwrap();
    assert_eq!((heard(&rest), rest.is_last), (hosts(&["host-1", "host-2"]), true));
}

#[test]
fn each_record_is_told_with_the_version_of_its_change_and_who_hears_says_what_counts() {
    let mut pool = Pool::new();
    pool.array.generation = 3;
    pool.add_host("a");
    pool.array.generation = 7;
    pool.add_host("b");
    let page = pool.page(&[None], 1 << 16).unwrap();
    let shared: Vec<(RecordKey, u64)> =
        page.shared().map(|(key, version, _)| (key, version)).collect();
    assert_eq!(shared, hosts(&["a", "b"]).into_iter().zip([3, 7]).collect::<Vec<_>>());
    let own = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
    let counts = |_: &RecordKey, version: Option<u64>| version.is_some_and(|told| told > 3);
    let news = page.news((&own, &|_| None), counts);
    assert_eq!(news.into_keys().collect::<Vec<_>>(), hosts(&["b"]));
    // An earlier program tells no versions.
    let page = RecordPage { versions: Vec::new(), ..page };
    assert!(page.news((&own, &|_| None), counts).is_empty());
    assert_eq!(page.news((&own, &|_| None), |_, _| true).len(), 2);
}
