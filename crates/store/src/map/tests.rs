//! Pages in memory stay within their budget.

use super::*;

fn at(place: u64) -> Address {
    Address::from_bits(place)
}

fn map() -> Map {
    Map::new(100)
}

fn insert(map: &mut Map, blocks: std::ops::Range<u64>) {
    for block in blocks {
        map.insert_clean(at(block), Page::empty());
        map.page_arrived(false);
    }
}

/// Only a checkpoint made room: who did nothing but read filled the memory.
#[test]
fn pages_that_are_only_read_do_not_pile_up() {
    let mut map = map();
    insert(&mut map, 0..5000);
    assert_eq!(map.clean_pages(), 100);
}

#[test]
fn while_others_are_awaited_twice_as_many_may_stay() {
    let mut map = map();
    for block in 0..5000 {
        map.insert_clean(at(block), Page::empty());
        map.page_arrived(true);
    }
    assert_eq!(map.clean_pages(), 200);
    map.page_arrived(false);
    assert!(map.clean_pages() < 200);
}

#[test]
fn pages_that_a_checkpoint_still_writes_are_kept_until_it_is_durable() {
    let mut map = map();
    for block in 0..500 {
        map.insert_clean(at(block), Page::empty());
        map.unwritten.insert(at(block));
    }
    insert(&mut map, 1000..2000);
    assert!((0..500).all(|block| map.clean.contains_key(&at(block))));
    map.checkpoint_durable();
    assert_eq!(map.clean_pages(), 100);
}

/// Every page that a checkpoint moved left its old place behind for good.
#[test]
fn the_clock_forgets_pages_that_are_gone() {
    let mut map = map();
    for round in 0..1000 {
        for block in round * 50..(round + 1) * 50 {
            map.insert_clean(at(block), Page::empty());
            map.clean.remove(&at(block));
        }
        map.insert_clean(at(7), Page::empty());
        map.checkpoint_durable();
    }
    assert!(map.clock.len() <= CLOCK_SLACK + 300, "{}", map.clock.len());
}
