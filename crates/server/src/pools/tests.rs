use array::{Pool as Configuration, PoolDevice, Thresholds};
use store::Tag;

use super::*;
use crate::options::IoMethod;
use crate::pool::{PoolOptions, create_devices};

fn pool(name: &str) -> Pool {
    let devices = vec![PoolDevice { device: "memory:".parse().unwrap(), size_bytes: 1 << 30 }];
    let made = create_devices(&devices, IoMethod::Threads).unwrap();
    let configuration = Configuration {
        uuid: [1; 16],
        devices,
        thresholds: Thresholds::default(),
        delete_scheduled_snapshots: false,
        read_only: false,
        mirroring: array::Mirroring::default(),
        departure: None,
        fail_back: array::FailBack::default(),
    };
    let options = PoolOptions {
        io: IoMethod::Threads,
        memory_bytes: 256 << 20,
        sampling: false,
        mode: store::OpenMode::ReadWrite,
        hang_limit: std::time::Duration::from_secs(10),
        evacuation_rate: u64::MAX,
    };
    let made = made.into_iter().map(|device| (device, [2; 16])).collect();
    Pool::create(name, &configuration, options, (made, Vec::new()), Tag(1))
}

#[test]
fn the_number_of_a_pool_that_is_closed_finds_nothing_although_others_came() {
    let mut pools = Pools::default();
    let first = pools.insert(pool("first"));
    let second = pools.insert(pool("second"));
    assert_eq!(pools.remove(first).unwrap().name, "first");
    let third = pools.insert(pool("third"));
    assert!(pools.get(first).is_none());
    assert!(pools.get_mut(first).is_none());
    assert!(pools.remove(first).is_none());
    assert_eq!(pools.ids(), [second, third]);
    assert_eq!(pools.get(third).unwrap().name, "third");
    let names: Vec<&str> = pools.iter().map(|(_, pool)| pool.name.as_str()).collect();
    assert_eq!(names, ["second", "third"]);
}

/// A pool with so many volumes.
fn pool_of(name: &str, volumes: u64) -> Pool {
    let mut pool = pool(name);
    let settle = |pool: &mut Pool| while pool.pump() {};
    settle(&mut pool);
    for number in 0..volumes {
        let spec = store::VolumeSpec {
            id: VolumeId(number + 1),
            name: format!("v{number}"),
            size_bytes: 4096,
            thick: false,
            naa: [0; 16],
            snapshot: false,
            created: 0,
        };
        pool.store.change(Tag(number + 2), store::Change::CreateVolume(spec));
        settle(&mut pool);
    }
    while pool.store.next_done().is_some() {}
    pool
}

/// A tick looked at every volume there is.
#[test]
fn a_round_comes_to_every_volume_with_a_bound_on_each_step() {
    let mut pools = Pools::default();
    let (first, second) = (pools.insert(pool_of("a", 5)), pools.insert(pool_of("b", 2)));
    pools.insert(pool("empty"));
    let mut round = Round::default();
    let mut seen = Vec::new();
    for _ in 0..7 {
        let part = round.next(&pools, 3);
        assert_eq!(part.len(), 3);
        seen.extend(part);
    }
    let places = (1..=5).map(|id| (first, VolumeId(id)));
    let places: Vec<_> = places.chain((1..=2).map(|id| (second, VolumeId(id)))).collect();
    assert_eq!(seen, [&places[..], &places[..], &places[..]].concat(), "each in its turn");
    assert_eq!(round.next(&pools, 100).len(), 7, "each once, however many there may be");
    pools.remove(first);
    assert_eq!(round.next(&pools, 100).len(), 2);
    pools.remove(second);
    assert!(round.next(&pools, 100).is_empty());
    assert!(Round::default().next(&Pools::default(), 3).is_empty());
}
