use array::{FreeLuns, Host, OwnerRecord, Rest};

use super::*;
use crate::limits::{RECORD_BLOCKS_MAX, TOMBSTONES_MAX};

const BLOCK: usize = block::BLOCK as usize;
const REST: Rest<'static> = Rest { now: 0, seconds: 0, held: &[], free: FreeLuns::Known };

/// The volume of records, in memory.
#[derive(Clone, Default)]
struct Volume(BTreeMap<u64, Vec<u8>>);

impl Volume {
    fn write(&mut self, placed: &Placed) {
        for (number, block) in (placed.blocks.first..).zip(placed.bytes.chunks(BLOCK)) {
            self.0.insert(number, block.to_vec());
        }
    }

    fn unmap(&mut self, blocks: Blocks) {
        (blocks.first..blocks.first + blocks.count).for_each(|number| drop(self.0.remove(&number)));
    }

    fn load(&self) -> Loaded {
        Slots::load(self.0.iter().map(|(&number, block)| (number, block.as_slice())))
    }

    /// Writes a record as the daemon does.
    fn put(&mut self, slots: &mut Slots, key: &RecordKey, text: &str, version: u64) {
        let placed = slots.place(key, (text, version), false).unwrap();
        self.write(&placed);
        if let Some(left) = placed.left {
            self.unmap(left);
            slots.release(left);
        }
    }
}

fn unit(number: u64, length: usize) -> (RecordKey, String) {
    (RecordKey::Unit(number), unit_text(VolumeId(number), "x".repeat(length)))
}

fn state(loaded: &Loaded, key: &RecordKey) -> Option<usize> {
    match loaded.records.get(key)?.record.as_ref()? {
        Record::Unit(state) => Some(state.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_of_every_length_are_found_again_and_their_places_used_again() {
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    let lengths = [0, 1, 3900, 4020, 4060, 8000, 100_000, 10, 20_000];
    for round in 0..6 {
        for number in 0..9 {
            let (key, text) = unit(number, lengths[(number as usize + round) % 9]);
            assert!(!slots.is_current(&key, Some(&text)));
            volume.put(&mut slots, &key, &text, round as u64 + 1);
            assert!(slots.is_current(&key, Some(&text)));
        }
        let loaded = volume.load();
        assert_eq!((loaded.damaged, loaded.garbage.len()), (0, 0));
        for number in 0..9 {
            let (key, text) = unit(number, lengths[(number as usize + round) % 9]);
            assert_eq!(state(&loaded, &key), Some(lengths[(number as usize + round) % 9]));
            assert!(loaded.slots.is_current(&key, Some(&text)));
            assert_eq!(loaded.records[&key].version, round as u64 + 1);
        }
        slots = loaded.slots;
    }
    let last = volume.0.keys().max().unwrap();
    assert!(*last < 150, "blocks are used again: {last}");
}

/// A record is one request, so one commit: it is there as before or as after. What may be left is the
/// old place of a record that moved.
#[test]
fn of_two_versions_the_newer_one_counts_wherever_it_is() {
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    let ((key, old), (_, new)) = (unit(1, 5000), unit(1, 10));
    volume.put(&mut slots, &key, &old, 1);
    let placed = slots.place(&key, (&new, 2), false).unwrap();
    assert!(placed.left.is_some());
    volume.write(&placed);
    let loaded = volume.load();
    assert_eq!(state(&loaded, &key), Some(10));
    assert_eq!(loaded.garbage, [placed.left.unwrap()]);
    assert_eq!(loaded.damaged, 0);
    // The other way round in the volume.
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    volume.put(&mut slots, &unit(0, 10).0, &unit(0, 10).1, 1);
    volume.put(&mut slots, &key, &old, 1);
    let place = slots.place(&RecordKey::Unit(0), (&tombstone(&RecordKey::Unit(0)), 2), true);
    volume.unmap(place.unwrap().blocks);
    let gone = Blocks { first: 0, count: 1 };
    slots.release(gone);
    let placed = slots.place(&key, (&new, 2), false).unwrap();
    assert_eq!(placed.blocks, gone);
    volume.write(&placed);
    assert_eq!(state(&volume.load(), &key), Some(10));
}

#[test]
fn damage_costs_the_record_that_it_hits_and_no_other() {
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    for number in 0..4 {
        let (key, text) = unit(number, 9000);
        volume.put(&mut slots, &key, &text, 1);
    }
    for number in volume.0.keys().copied().collect::<Vec<_>>() {
        for damage in 0..3 {
            let mut damaged = volume.clone();
            let block = damaged.0.get_mut(&number).unwrap();
            match damage {
                0 => block[4000] ^= 1,
                1 => block.fill(0),
                _ => *block = volume.0[&((number + 3) % 12)].clone(),
            }
            let loaded = damaged.load();
            let lost = number / 3;
            for unit in (0..4).filter(|unit| *unit != lost) {
                assert_eq!(state(&loaded, &RecordKey::Unit(unit)), Some(9000), "{number} {damage}");
            }
            assert_eq!(state(&loaded, &RecordKey::Unit(lost)), None, "{number} {damage}");
            assert!(!loaded.garbage.is_empty());
        }
    }
    // What is no block at all is refused, too.
    for nonsense in [vec![0xff; BLOCK], vec![], vec![b'G'; 100]] {
        assert!(encoding::Part::parse(&nonsense).is_none());
    }
}

#[test]
fn a_record_that_is_too_large_changes_nothing() {
    let mut slots = Slots::default();
    let (key, text) = unit(1, RECORD_BLOCKS_MAX * 4096);
    assert_eq!(slots.place(&key, (&text, 1), false), Err(Unplaced::TooLarge));
    assert!(slots.is_current(&key, None));
    let (_, text) = unit(1, (RECORD_BLOCKS_MAX - 1) * 4000);
    let mut number = 0;
    let refused = loop {
        if let Err(refused) = slots.place(&RecordKey::Unit(number), (&text, 1), false) {
            break refused;
        }
        number += 1;
    };
    assert_eq!(refused, Unplaced::Full);
    assert!(number > 100);
}

#[test]
fn what_was_deleted_is_remembered_and_the_oldest_of_it_forgotten() {
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    let count = TOMBSTONES_MAX as u64 + 3;
    for number in 0..count {
        let key = RecordKey::Unit(number);
        volume.put(&mut slots, &key, &unit(number, 1).1, 1);
        let placed = slots.place(&key, (&tombstone(&key), number + 2), true).unwrap();
        volume.write(&placed);
        assert!(slots.is_current(&key, None));
    }
    let loaded = volume.load();
    let first = &loaded.records[&RecordKey::Unit(0)];
    assert_eq!((first.version, first.record.as_ref()), (2, None));
    assert_eq!(loaded.slots.keys().count(), 0);
    for mut slots in [slots, loaded.slots] {
        let old = slots.take_old_tombstones();
        assert_eq!(old.iter().map(|blocks| blocks.first).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(slots.take_old_tombstones().is_empty());
    }
}

fn array() -> Configuration {
    let mut array = Configuration::new("iqn.2026-11.io.gantry:a".to_owned());
    array.generation = 5;
    let host = Host { chap_name: Some("esx".to_owned()), ..Host::default() };
    array.create_host("esx", host).unwrap();
    array.map_volume(VolumeId(1), "esx", (Some(3), array::Access::ReadWrite), &REST).unwrap();
    array.map_volume(VolumeId(2), "esx", (Some(4), array::Access::ReadWrite), &REST).unwrap();
    array
}

fn sealed(key: &RecordKey) -> Option<String> {
    (*key == RecordKey::Host("esx".to_owned())).then(|| "sealed".to_owned())
}

/// Only what differs is written; what another pool's volume has is not, and what is gone is.
#[test]
fn a_pool_is_brought_up_to_date_with_what_differs() {
    let array = array();
    let holds = |id| id == VolumeId(1);
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    let all = compare(
        &volume.load(),
        (&array, "p", Authority::Configuration),
        (holds, &BTreeMap::new()),
        &sealed,
    );
    let host = RecordKey::Host("esx".to_owned());
    let expected = BTreeSet::from([RecordKey::Array, host.clone(), RecordKey::Volume(1)]);
    assert_eq!(&all.stale - &BTreeSet::from([RecordKey::Pool("p".to_owned())]), expected);
    for key in &all.stale {
        if let Some(text) = text(&array, key, &sealed) {
            volume.put(&mut slots, key, &text, array.generation);
        }
    }
    let loaded = volume.load();
    assert_eq!(
        compare(
            &loaded,
            (&array, "p", Authority::Configuration),
            (holds, &BTreeMap::new()),
            &sealed
        ),
        Differences { version: 5, ..Differences::default() }
    );
    let Some(Record::Host(record)) = &loaded.records[&host].record else { panic!() };
    assert_eq!(record.chap.as_deref(), Some("sealed"));
    // Another secret, and a volume that is gone.
    let other = |key: &RecordKey| sealed(key).map(|_| "other".to_owned());
    let changed = compare(
        &loaded,
        (&array, "p", Authority::Configuration),
        (|_| false, &BTreeMap::new()),
        &other,
    );
    assert_eq!(changed.stale, BTreeSet::from([host.clone(), RecordKey::Volume(1)]));
    // The data directory is an earlier one.
    let mut earlier = Configuration::new(array.target_name.clone());
    earlier.generation = 4;
    let differences = compare(
        &loaded,
        (&earlier, "p", Authority::Configuration),
        (holds, &BTreeMap::new()),
        &sealed,
    );
    assert_eq!(differences.newer.len(), 3);
    assert!(differences.stale.is_empty(), "{:?}", differences.stale);
}

#[test]
fn whose_pool_it_is_is_a_record() {
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    assert_eq!(owner(&volume.load().records), None);
    let owner_is = OwnerRecord { array: "a".repeat(32), exported: true, ..OwnerRecord::default() };
    volume.put(&mut slots, &RecordKey::Owner, &owner_text(owner_is.clone()), 1);
    assert_eq!(owner(&volume.load().records), Some(&owner_is));
}

#[test]
fn a_pool_that_another_controller_had_last_says_how_the_array_is() {
    let mut array = array();
    let holds = |id| id == VolumeId(1);
    let (mut volume, mut slots) = (Volume::default(), Slots::default());
    let all = compare(
        &volume.load(),
        (&array, "p", Authority::Configuration),
        (holds, &BTreeMap::new()),
        &sealed,
    );
    for key in &all.stale {
        let text = text(&array, key, &sealed).unwrap();
        volume.put(&mut slots, key, &text, 5);
    }
    let owner_of = |controller| {
        let mut volume = volume.clone();
        let mut slots = volume.load().slots;
        let owner = OwnerRecord {
            array: "a".to_owned(),
            target_name: "t".to_owned(),
            machine: None,
            exported: false,
            controller,
        };
        volume.put(&mut slots, &RecordKey::Owner, &owner_text(owner), 5);
        volume.load()
    };
    for (last, this, authority) in [
        (0, 0, Authority::Configuration),
        (0, 1, Authority::Configuration),
        (1, 0, Authority::Configuration),
        (2, 2, Authority::Configuration),
        (0, 2, Authority::Pool),
        (1, 2, Authority::Pool),
        (2, 1, Authority::Pool),
        (2, 0, Authority::Pool),
    ] {
        assert_eq!(Authority::over(&owner_of(last).records, this), authority, "{last} {this}");
    }
    assert_eq!(Authority::over(&volume.load().records, 2), Authority::Configuration);

    // Both changed the same version: what the last one stored counts.
    let esx = RecordKey::Host("esx".to_owned());
    array.generation = 5;
    array.hosts.clear();
    let (loaded, other) = (volume.load(), array.clone());
    let own = compare(
        &loaded,
        (&other, "p", Authority::Configuration),
        (holds, &BTreeMap::new()),
        &sealed,
    );
    assert!(own.newer.is_empty() && own.stale.contains(&esx));
    let pool = compare(&loaded, (&other, "p", Authority::Pool), (holds, &BTreeMap::new()), &sealed);
    assert!(pool.newer.contains_key(&esx) && !pool.stale.contains(&esx));
    // Unless another pool has what was said later: there it had been heard, and here not any more.
    for (version, counts) in [(4, true), (5, false), (6, false)] {
        for (authority, is_heard) in [(Authority::Pool, false), (Authority::Configuration, true)] {
            let known = BTreeMap::from([(esx.clone(), Known { version, is_heard })]);
            let pool = compare(&loaded, (&other, "p", authority), (holds, &known), &sealed);
            assert_eq!(pool.newer.contains_key(&esx), counts, "{version}");
            assert_eq!(pool.stale.contains(&esx), !counts, "{version}");
        }
    }
}
