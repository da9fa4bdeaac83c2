use array::{DeviceName, Pool as Configuration, PoolDevice, Thresholds};
use store::Tag;

use super::*;
use crate::options::IoMethod;
use crate::pool::{PoolOptions, create_devices};

fn pool(name: &str) -> Pool {
    let devices = vec![PoolDevice { device: DeviceName::Memory, size_bytes: 1 << 30 }];
    let made = create_devices(&devices, IoMethod::Threads).unwrap();
    let configuration = Configuration { uuid: [1; 16], devices, thresholds: Thresholds::default() };
    let options = PoolOptions { io: IoMethod::Threads, memory_bytes: 256 << 20, sampling: false };
    let made = made.into_iter().map(|device| (device, [2; 16])).collect();
    Pool::create(name, &configuration, options, made, Tag(1))
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
