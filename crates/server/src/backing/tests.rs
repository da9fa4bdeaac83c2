use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn backing(file_system: u64, free_bytes: u64, unallocated_bytes: u64) -> Backing {
    let mount_point = "/srv".into();
    Backing { file_system, mount_point, size_bytes: 100 * GIB, free_bytes, unallocated_bytes }
}

fn pool(found: &[Backing]) -> PoolBacking {
    let file_systems = file_systems(found.iter().cloned().enumerate());
    PoolBacking { file_systems, ..PoolBacking::default() }
}

fn space(used: u64, free: u64, unbacked: u64, promised: u64) -> Space {
    let total = used + free + unbacked;
    Space { total, used, free, unbacked, promised, ..Space::default() }
}

#[test]
fn devices_on_one_file_system_share_its_space_and_it_counts_once() {
    let two = pool(&[backing(7, 3 * GIB, 2 * GIB), backing(7, 3 * GIB, 2 * GIB)]);
    assert_eq!((two.file_systems.len(), two.free_bytes()), (1, Some(3 * GIB)));
    let capped = two.cap(space(GIB, 4 * GIB, 0, 0));
    assert_eq!((capped.free, capped.unbacked), (3 * GIB, GIB));
    let apart = pool(&[backing(7, 3 * GIB, 2 * GIB), backing(8, 3 * GIB, 2 * GIB)]);
    assert_eq!(apart.free_bytes(), Some(6 * GIB));
    assert_eq!(apart.cap(space(GIB, 4 * GIB, 0, 0)).unbacked, 0);
}

#[test]
fn what_is_promised_stays_and_the_sum_is_the_total() {
    for free in [0, 100 * MIB, 128 * MIB, 300 * MIB, 4 * GIB, 9 * GIB] {
        for (unbacked, promised) in [(0, 0), (GIB, 0), (0, 2 * GIB), (GIB, 2 * GIB)] {
            let engine = space(GIB, 4 * GIB, unbacked, promised);
            let capped = pool(&[backing(1, free, 4 * GIB)]).cap(engine);
            assert_eq!(capped.used + capped.free + capped.unbacked, capped.total);
            assert!(capped.free >= promised && capped.unbacked >= unbacked, "{capped:?}");
        }
    }
}

#[test]
fn a_pool_is_full_until_there_is_room_again() {
    let mut pool = pool(&[backing(1, 0, 3 * GIB)]);
    let look = |pool: &mut PoolBacking, free_bytes, engine: Space| {
        pool.file_systems[0].free_bytes = free_bytes;
        pool.note_refusal(engine.unbacked);
        pool.state = pool.state_after(&pool.cap(engine));
        pool.state
    };
    let engine = space(GIB, 3 * GIB, 0, 0);
    assert_eq!(look(&mut pool, 4 * GIB, engine), BackingState::Enough);
    assert_eq!(look(&mut pool, 2 * GIB, engine), BackingState::Short);
    assert_eq!(look(&mut pool, 100 * MIB, engine), BackingState::Full);
    assert_eq!(look(&mut pool, 128 * MIB, engine), BackingState::Short);
    assert_eq!(look(&mut pool, 4 * GIB, engine), BackingState::Enough);
}

#[test]
fn a_refusal_that_the_file_system_does_not_show_holds_until_something_changes() {
    let mut pool = pool(&[backing(1, 50 * GIB, 3 * GIB)]);
    let quiet = space(GIB, 3 * GIB, 0, 0);
    pool.note_refusal(3 * GIB);
    pool.note_refusal(0);
    assert_eq!(pool.cap(quiet).free, 0);
    pool.file_systems[0].unallocated_bytes -= GROUP_BYTES;
    pool.note_refusal(0);
    assert_eq!(pool.cap(quiet).free, 3 * GIB);
    // Room that comes while the engine still waits to ask again counts once it does.
    pool.note_refusal(3 * GIB);
    pool.file_systems[0].free_bytes += GIB;
    pool.note_refusal(3 * GIB);
    assert_eq!(pool.cap(quiet).free, 0);
    pool.note_refusal(0);
    assert_eq!(pool.cap(quiet).free, 3 * GIB);
}

#[test]
fn sizes_are_written_for_people() {
    let words = [0, 1023, 1536, 5 * MIB, 3 * GIB / 2].map(size);
    assert_eq!(words, ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "1.5 GiB"]);
}
