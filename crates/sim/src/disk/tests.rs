//! The disk keeps what a disk must keep, and nothing else.

use block::Buffer;

use super::*;

fn disk() -> SimDisk {
    SimDisk::new(1 << 20, Random::new(1))
}

fn block_of(byte: u8) -> Rope {
    let mut buffer = Buffer::zeroed(BLOCK as usize);
    buffer.fill(byte);
    buffer.freeze().into()
}

fn write(disk: &mut SimDisk, offset: u64, byte: u8) {
    disk.submit(0, 0, DeviceOperation::Write { offset, data: block_of(byte) });
}

fn finish(disk: &mut SimDisk) {
    while let Some(completion) = disk.complete_next() {
        completion.result.unwrap();
    }
}

fn flush(disk: &mut SimDisk) {
    disk.submit(0, 0, DeviceOperation::Flush);
    finish(disk);
}

fn read(disk: &mut SimDisk, offset: u64) -> Vec<u8> {
    let buffer = Buffer::zeroed(BLOCK as usize);
    disk.submit(0, 7, DeviceOperation::Read { offset, buffer });
    let completion = disk.complete_next().unwrap();
    assert_eq!(completion.token, 7);
    completion.result.unwrap().unwrap().to_vec()
}

fn all(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK as usize]
}

#[test]
fn a_completed_write_is_read_back() {
    let mut disk = disk();
    write(&mut disk, 4096, 3);
    finish(&mut disk);
    assert_eq!(read(&mut disk, 4096), all(3));
    assert_eq!(read(&mut disk, 0), all(0));
}

#[test]
fn a_flushed_write_survives_and_an_unflushed_one_may_not() {
    let mut disk = disk();
    write(&mut disk, 0, 1);
    finish(&mut disk);
    flush(&mut disk);
    write(&mut disk, 0, 2);
    finish(&mut disk);
    disk.crash(Crash::LoseAll);
    assert_eq!(read(&mut disk, 0), all(1));
    write(&mut disk, 0, 3);
    disk.crash(Crash::KeepAll);
    assert_eq!(read(&mut disk, 0), all(3), "even a write that did not complete may be kept");
}

#[test]
fn a_flush_does_not_cover_a_write_that_completed_after_it_was_submitted() {
    let mut disk = disk();
    write(&mut disk, 0, 1);
    disk.submit(0, 0, DeviceOperation::Flush);
    finish(&mut disk);
    disk.crash(Crash::LoseAll);
    assert_eq!(read(&mut disk, 0), all(0));
}

#[test]
fn a_mixed_crash_keeps_loses_and_tears() {
    let mut disk = disk();
    for at in 0..200 {
        write(&mut disk, at * BLOCK, 9);
    }
    finish(&mut disk);
    disk.crash(Crash::Mixed);
    let mut counts = [0; 3];
    for at in 0..200 {
        let nines = read(&mut disk, at * BLOCK).iter().filter(|&&byte| byte == 9).count();
        assert!(nines.is_multiple_of(SECTOR_BYTES), "a sector is never torn");
        counts[usize::from(nines > 0) + usize::from(nines == BLOCK as usize)] += 1;
    }
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}

#[test]
fn of_two_unflushed_writes_to_one_place_either_may_win() {
    let winners: Vec<u8> = (0..40)
        .map(|seed| {
            let mut disk = SimDisk::new(1 << 20, Random::new(seed));
            write(&mut disk, 0, 1);
            finish(&mut disk);
            write(&mut disk, 0, 2);
            finish(&mut disk);
            disk.crash(Crash::Mixed);
            read(&mut disk, 0)[0]
        })
        .collect();
    assert!((0..=2).all(|byte| winners.contains(&byte)), "{winners:?}");
}

#[test]
fn what_is_read_beyond_the_end_is_an_error() {
    let mut disk = disk();
    let buffer = Buffer::zeroed(8192);
    disk.submit(0, 0, DeviceOperation::Read { offset: (1 << 20) - 4096, buffer });
    let end = (1 << 20) + 4096;
    assert_eq!(disk.complete_next().unwrap().result.unwrap_err(), DeviceError::BeyondEnd { end });
    disk.grow(2 << 20);
    assert_eq!(read(&mut disk, 1 << 20), all(0));
}

#[test]
fn a_sticky_error_stays_and_a_flipped_bit_too() {
    let mut disk = disk();
    disk.set_faults(Faults { read_error_one_in: 1, sticky: true, ..Faults::default() });
    disk.submit(0, 0, DeviceOperation::Read { offset: 0, buffer: Buffer::zeroed(4096) });
    assert_eq!(disk.complete_next().unwrap().result.unwrap_err(), DeviceError::Os(EIO));
    disk.set_faults(Faults { bit_flip_one_in: 1, ..Faults::default() });
    let flipped = read(&mut disk, 0);
    assert_eq!(flipped.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    disk.set_faults(Faults::default());
    assert_eq!(read(&mut disk, 0), flipped);
}

#[test]
fn a_lying_flush_leaves_writes_volatile() {
    let mut disk = disk();
    disk.set_faults(Faults { lying_flush_one_in: 1, ..Faults::default() });
    write(&mut disk, 0, 1);
    finish(&mut disk);
    flush(&mut disk);
    assert!(disk.has_lied());
    disk.crash(Crash::LoseAll);
    assert_eq!(read(&mut disk, 0), all(0));
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let times = || -> Vec<u64> {
        let mut disk = disk();
        for at in 0..20 {
            write(&mut disk, at * BLOCK, 1);
        }
        let mut times = Vec::new();
        while let Some(time) = disk.next_time() {
            disk.complete_next();
            times.push(time);
        }
        times
    };
    assert_eq!(times(), times());
    assert!(times().is_sorted());
}

#[test]
fn a_lost_disk_fails_what_is_under_way_and_keeps_what_it_had() {
    let mut disk = disk();
    write(&mut disk, 0, 1);
    finish(&mut disk);
    flush(&mut disk);
    write(&mut disk, 0, 2);
    disk.set_condition(Condition::Lost);
    assert_eq!(disk.complete_next().unwrap().result.unwrap_err(), DeviceError::Os(EIO));
    disk.set_condition(Condition::Sound);
    assert_eq!(read(&mut disk, 0), all(1));
}

#[test]
fn a_hung_disk_ends_nothing_before_its_time() {
    let mut disk = disk();
    write(&mut disk, 0, 1);
    disk.set_condition(Condition::Hung { until: u64::MAX });
    assert_eq!(disk.next_time(), None);
    disk.set_condition(Condition::Hung { until: 1 << 40 });
    assert_eq!(disk.next_time(), Some(1 << 40));
    finish(&mut disk);
    disk.set_condition(Condition::Sound);
    assert_eq!(read(&mut disk, 0), all(1), "what ends late takes effect");
}

#[test]
fn a_disk_that_drops_writes_keeps_its_old_content() {
    let mut disk = disk();
    write(&mut disk, 0, 1);
    finish(&mut disk);
    disk.set_condition(Condition::DropsWrites);
    write(&mut disk, 0, 2);
    finish(&mut disk);
    assert_eq!(read(&mut disk, 0), all(1));
}

#[test]
fn a_disk_that_drops_flushes_loses_what_it_was_to_keep() {
    let mut disk = disk();
    disk.set_condition(Condition::DropsFlushes);
    write(&mut disk, 0, 1);
    finish(&mut disk);
    flush(&mut disk);
    disk.crash(Crash::LoseAll);
    assert_eq!(read(&mut disk, 0), all(0));
}

#[test]
fn rot_changes_a_block_for_good() {
    for rot in Rot::ALL {
        let mut disk = disk();
        write(&mut disk, 4096, 0xff);
        finish(&mut disk);
        flush(&mut disk);
        disk.rot(1, rot);
        disk.crash(Crash::KeepAll);
        let found = read(&mut disk, 4096);
        assert_ne!(found, all(0xff), "{rot:?}");
        let ones: u32 = found.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(rot == Rot::Bit, ones == 8 * 4096 - 1);
    }
}
