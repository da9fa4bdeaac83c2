use bytes::Bytes;

use super::*;

const VOLUME: VolumeId = VolumeId(1);
const MIB: u64 = 1 << 20;

fn write(offset: u64, length: u64) -> Request {
    let data = Bytes::from(vec![1; length as usize]);
    Request::Write { range: ByteRange::new(offset, length), data }
}

fn lock(offset: u64) -> Request {
    let bytes = Bytes::from(vec![1; 512]);
    let range = ByteRange::new(offset, 512);
    Request::CompareAndWrite { range, compare: bytes.clone(), write: bytes }
}

#[test]
fn the_surer_a_write_is_metadata_the_deeper_it_may_draw() {
    let mut metadata = Metadata::default();
    let standing =
        |metadata: &Metadata, request: &Request| metadata.standing(VOLUME, request, false);
    assert_eq!(standing(&metadata, &lock(0)), Some(Standing::Lock));
    assert_eq!(standing(&metadata, &write(512, 512)), Some(Standing::Part));
    assert_eq!(standing(&metadata, &write(0, 4096)), None, "new data");
    assert_eq!(metadata.standing(VOLUME, &write(0, 4096), true), Some(Standing::Overwrite));
    metadata.note(VOLUME, &lock(40 * MIB + 512));
    metadata.note(VOLUME, &write(80 * MIB + 512, 512));
    let cases = [
        (40 * MIB, 65_536, Some(Standing::LockArea)),
        (40 * MIB, 65_536 + 4096, None),
        (41 * MIB - 4096, 8192, Some(Standing::NearLock)),
        (24 * MIB, 4096, Some(Standing::NearLock)),
        (23 * MIB, 4096, None),
        (57 * MIB - 4096, 4096, Some(Standing::NearLock)),
        (57 * MIB, 4096, None),
        (80 * MIB, 4096, Some(Standing::Part)),
        (81 * MIB, 4096, None),
    ];
    for (offset, length, expected) in cases {
        assert_eq!(standing(&metadata, &write(offset, length)), expected, "{offset} {length}");
    }
    metadata.forget(VOLUME);
    assert_eq!(standing(&metadata, &write(40 * MIB, 4096)), None);
    let ranks = [
        Standing::Lock,
        Standing::LockArea,
        Standing::NearLock,
        Standing::Part,
        Standing::Overwrite,
    ];
    assert_eq!(ranks.map(|rank| rank.leaves(800)), [0, 100, 200, 400, 600]);
}

#[test]
fn of_the_last_quarter_each_volume_with_locks_has_an_equal_share() {
    let mut metadata = Metadata::default();
    let (all, mut left) = (4000, 1200);
    let volumes = [VOLUME, VolumeId(2), VolumeId(3), VolumeId(4)];
    volumes.iter().for_each(|&volume| metadata.note(volume, &lock(0)));
    let mut drawn = [0; 4];
    let mut draw_all = |metadata: &mut Metadata, at: usize, left: &mut u64| {
        while *left > 0 && metadata.may_draw(volumes[at], 1, *left, all) {
            metadata.draw(volumes[at], 1, *left, all);
            (*left, drawn[at]) = (*left - 1, drawn[at] + 1);
        }
        drawn[at]
    };
    let greedy = draw_all(&mut metadata, 0, &mut left);
    assert_eq!(greedy, 200 + 250, "what is common, and a fourth of 1,000 blocks");
    for at in 1..4 {
        assert!(draw_all(&mut metadata, at, &mut left) >= 249, "volume {at}");
    }
    assert!(metadata.may_draw(VOLUME, 1, 1100, all), "the reserve was filled meanwhile");
}

#[test]
fn what_is_known_of_volumes_has_a_bound() {
    let mut metadata = Metadata::default();
    for area in 0..3000 {
        metadata.note(VOLUME, &lock(area * MIB));
    }
    assert_eq!(metadata.volumes[&VOLUME].locks.known.len(), METADATA_AREAS_OF_VOLUME_MAX);
    assert_eq!(metadata.standing(VOLUME, &write(0, 4096), false), None, "the oldest made room");
    for volume in 2..2002 {
        (0..100).for_each(|area| metadata.note(VolumeId(volume), &lock(area * MIB)));
    }
    let last = metadata.volumes[&VolumeId(2001)].locks.known.len();
    assert_eq!(last, METADATA_AREAS_MAX / 2001);
}
