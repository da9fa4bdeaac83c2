//! Known faults of other arrays under ESXi, tried here. The names begin with the case's name in
//! docs/testing.md, where those that are tested elsewhere are listed too.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::pdu::{Answer, HEADER_BYTES, Pdu, RawConnection, RawSession, cdb16};
use harness::random::Random;
use harness::{Array, initiator, number};

const BLOCK: usize = 512;
const NAME: &str = "iqn.2026-01.org.example:faults";

struct Bench {
    array: Array,
    session: RawSession,
    /// Two LUNs of 64 MiB in one pool.
    luns: [u8; 2],
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        let a = u8::try_from(array.create_lun("p/a", "64M")?)?;
        let b = u8::try_from(array.create_lun("p/b", "64M")?)?;
        let session = log_in(&array, NAME)?;
        Ok(Self { array, session, luns: [a, b] })
    }

    fn kill_and_restart(&mut self) -> Result<()> {
        self.array.kill()?;
        self.array.restart()?;
        self.session = log_in(&self.array, NAME)?;
        Ok(())
    }

    fn mapped_bytes(&self, volume: &str) -> Result<u64> {
        number(&self.array.gantry_json(&["volume", "show", volume])?, "/mapped_bytes")
    }
}

fn log_in(array: &Array, name: &str) -> Result<RawSession> {
    RawSession::log_in(array.portal(), name, &array.target_name()?)
}

fn write(session: &mut RawSession, lun: u8, lba: u64, data: &[u8]) -> Result<Answer> {
    session.write(lun, &cdb16(0x8a, 0, lba, (data.len() / BLOCK) as u32), data)
}

fn read(session: &mut RawSession, lun: u8, lba: u64, count: u32) -> Result<Vec<u8>> {
    session.read(lun, &cdb16(0x88, 0, lba, count), count * BLOCK as u32)?.good()
}

fn compare_and_write_cdb(lba: u64, count: u8) -> [u8; 16] {
    let mut cdb = cdb16(0x89, 0, lba, 0);
    cdb[13] = count;
    cdb
}

/// COMPARE AND WRITE of one block from a byte to another.
fn swap(session: &mut RawSession, lun: u8, lba: u64, from: u8, to: u8) -> Result<Answer> {
    let data = [[from; BLOCK], [to; BLOCK]].concat();
    session.write(lun, &compare_and_write_cdb(lba, 1), &data)
}

fn unmap(session: &mut RawSession, lun: u8, extents: &[(u64, u32)]) -> Result<Answer> {
    let length = 16 * extents.len() as u16;
    let mut list = (length + 6).to_be_bytes().to_vec();
    list.extend(length.to_be_bytes());
    list.extend([0; 4]);
    for (lba, count) in extents {
        list.extend(lba.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    let [high, low] = (list.len() as u16).to_be_bytes();
    session.write(lun, &[0x42, 0, 0, 0, 0, 0, 0, high, low, 0], &list)
}

fn naa(session: &mut RawSession, lun: u8) -> Result<Vec<u8>> {
    let page = session.read(lun, &[0x12, 1, 0x83, 1, 0, 0], 256)?.good()?;
    ensure!(page[4..8] == [1, 3, 0, 16], "the first designator is the NAA name");
    Ok(page[8..24].to_vec())
}

/// EXTENDED COPY as ESXi sends it, to any LUN that is there.
fn copy(session: &mut RawSession, to: u8, naas: [&[u8]; 2], blocks: [u64; 3]) -> Result<Answer> {
    let [count, from_lba, to_lba] = blocks;
    let mut list = vec![0; 16];
    (list[1], list[3], list[11]) = (0x18, 64, 28);
    for naa in naas {
        let mut descriptor = [0; 32];
        descriptor[0] = 0xe4;
        descriptor[4..8].copy_from_slice(&[1, 3, 0, 16]);
        descriptor[8..24].copy_from_slice(naa);
        list.extend(descriptor);
    }
    list.extend([0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0]);
    list.extend((count as u16).to_be_bytes());
    list.extend(from_lba.to_be_bytes());
    list.extend(to_lba.to_be_bytes());
    session.write(to, &cdb16(0x83, 0, 0, list.len() as u32), &list)
}

fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    let byte = |at: usize| seed ^ (at / BLOCK) as u8 ^ (at / BLOCK / 256) as u8 ^ (at % 251) as u8;
    (0..blocks * BLOCK).map(byte).collect()
}

#[test]
fn a1_ten_thousand_compare_and_writes_of_one_block_do_not_stall() -> Result<()> {
    let mut bench = Bench::start()?;
    let lun = bench.luns[0];
    for round in 0..10_000_u32 {
        let (from, to) = (round as u8, round as u8 + 1_u8.min(u8::MAX - round as u8));
        let to = if to == from { 0 } else { to };
        swap(&mut bench.session, lun, 77, from, to)?.good().with_context(|| round.to_string())?;
    }
    // The same with data that comes in later PDUs.
    let (old, new) = (pattern(1, 255), pattern(2, 255));
    write(&mut bench.session, lun, 1000, &old)?.good()?;
    let cdb = compare_and_write_cdb(1000, 255);
    for _ in 0..20 {
        bench.session.write(lun, &cdb, &[&old[..], &new].concat())?.good()?;
        bench.session.write(lun, &cdb, &[&new[..], &old].concat())?.good()?;
    }
    assert_eq!(read(&mut bench.session, lun, 1000, 255)?, old);
    Ok(())
}

/// A connection that sends a COMPARE AND WRITE with an ABORT TASK behind it; returns whether the
/// command was answered.
fn swap_and_abort(
    connection: &mut RawConnection,
    lun: u8,
    task: u32,
    (from, to): (u8, u8),
) -> Result<bool> {
    let mut pdu = Pdu::command(task, lun, &compare_and_write_cdb(9, 1), 0x20, 1024).numbered(task);
    pdu.data = [[from; BLOCK], [to; BLOCK]].concat();
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[0x42, 0x81]);
    header[9] = lun;
    header[16..20].copy_from_slice(&0x8000_0000_u32.to_be_bytes());
    header[20..24].copy_from_slice(&task.to_be_bytes());
    header[24..28].copy_from_slice(&(task + 1).to_be_bytes());
    header[32..36].copy_from_slice(&task.to_be_bytes());
    let abort = Pdu { header, additional: Vec::new(), data: Vec::new() };
    connection.send(&[pdu.bytes(), abort.bytes()].concat())?;
    let mut answered = false;
    loop {
        let pdu = connection.receive()?.context("the target closed the connection")?;
        match pdu.header[0] & 0x3f {
            0x21 => answered = true,
            0x22 => {
                ensure!(pdu.header[2] == 0, "ABORT TASK: response {}", pdu.header[2]);
                return Ok(answered);
            }
            _ => {}
        }
    }
}

#[test]
fn a2_and_a7_after_an_abort_the_block_does_not_change_and_is_not_locked() -> Result<()> {
    let mut bench = Bench::start()?;
    let lun = bench.luns[0];
    let target = bench.array.target_name()?;
    let mut other =
        RawConnection::log_in(bench.array.portal(), "iqn.2026-01.org.example:o", &target)?;
    let mut value = 0;
    for task in 0..500 {
        let next = value % 250 + 1;
        swap_and_abort(&mut other, lun, task, (value, next))?;
        let seen = read(&mut bench.session, lun, 9, 1)?[0];
        ensure!(seen == value || seen == next, "{seen} after {value} to {next}");
        // Whatever it is now, it stays so, and the next one succeeds at once.
        value = seen % 250 + 1;
        swap(&mut bench.session, lun, 9, seen, value)?.good()?;
    }
    Ok(())
}

/// A host that sends a COMPARE AND WRITE, reads no answer, and is gone when this is dropped. (An
/// array need not do what a host asked that is gone before it is done.)
fn swap_unanswered(bench: &Bench, name: &str, lba: u64, from: u8, to: u8) -> Result<RawConnection> {
    let (array, lun) = (&bench.array, bench.luns[0]);
    let mut host = RawConnection::log_in(array.portal(), name, &array.target_name()?)?;
    let test_unit_ready = Pdu::command(0, lun, &[0; 6], 0, 0).numbered(0);
    host.send(&test_unit_ready.bytes())?;
    host.receive()?.context("TEST UNIT READY has an answer")?;
    let mut swap = Pdu::command(1, lun, &compare_and_write_cdb(lba, 1), 0x20, 1024).numbered(1);
    swap.data = [[from; BLOCK], [to; BLOCK]].concat();
    host.send(&swap.bytes())?;
    Ok(host)
}

fn lock_retries(array: &Array) -> Result<Vec<String>> {
    let events = array.gantry_json(&["events"])?;
    let events = events.as_array().context("a list of events")?;
    let retries = events.iter().filter(|event| event["kind"] == "lock_retry");
    Ok(retries.filter_map(|event| event["message"].as_str()).map(str::to_owned).collect())
}

#[test]
fn a7_a_retry_of_an_own_compare_and_write_is_counted_and_named() -> Result<()> {
    let mut bench = Bench::start()?;
    let lun = bench.luns[0];
    let counted = |bench: &Bench| -> Result<[u64; 2]> {
        let target = bench.array.gantry_json(&["target", "show"])?;
        let names = ["/compare_and_write_miscompares", "/compare_and_write_retries"];
        Ok([number(&target, names[0])?, number(&target, names[1])?])
    };
    let other = "iqn.2026-01.org.example:vanishes";
    let host = swap_unanswered(&bench, other, 77, 0, 1)?;
    let begun = Instant::now();
    while read(&mut bench.session, lun, 77, 1)?[0] != 1 {
        ensure!(begun.elapsed().as_secs() < 30, "the command was not done");
    }
    drop(host);
    // Another host that finds the same bytes has lost a race.
    assert_eq!(swap(&mut bench.session, lun, 77, 0, 1)?.code(), Some((14, 0x1d, 0)));
    assert_eq!(counted(&bench)?, [1, 0]);
    // The answer was lost: the host repeats it.
    let mut again = log_in(&bench.array, other)?;
    assert_eq!(swap(&mut again, lun, 77, 0, 1)?.code(), Some((14, 0x1d, 0)));
    assert_eq!(swap(&mut again, lun, 77, 0, 2)?.code(), Some((14, 0x1d, 0)));
    assert_eq!(counted(&bench)?, [3, 1]);
    let retries = lock_retries(&bench.array)?;
    assert_eq!(retries.len(), 1, "{retries:?}");
    assert!(retries[0].contains(other) && retries[0].contains("at 77"), "{retries:?}");
    Ok(())
}

/// Four that raced for the same bytes made 9,003 events 'a retry of its own' in 3 s.
#[test]
fn a7_hosts_that_race_for_the_same_bytes_make_no_event() -> Result<()> {
    let mut bench = Bench::start()?;
    let lun = bench.luns[0];
    let mut racers = (0..4)
        .map(|number| log_in(&bench.array, &format!("{NAME}-{number}")))
        .collect::<Result<Vec<_>>>()?;
    for round in 0..100 {
        let (from, to) = (round % 2, (round + 1) % 2);
        let outcomes = racers.iter_mut().map(|racer| swap(racer, lun, 5, from, to));
        let lost = outcomes.collect::<Result<Vec<_>>>()?;
        assert_eq!(lost.iter().filter(|answer| answer.code().is_some()).count(), 3);
    }
    swap(&mut bench.session, lun, 5, 0, 9)?.good()?;
    assert_eq!(lock_retries(&bench.array)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a8_a_reset_disturbs_one_lun_and_all_recover() -> Result<()> {
    let mut bench = Bench::start()?;
    let [a, b] = bench.luns;
    let mut others = (0..8)
        .map(|number| log_in(&bench.array, &format!("{NAME}-{number}")))
        .collect::<Result<Vec<_>>>()?;
    for session in &mut others {
        read(session, a, 0, 1)?;
        read(session, b, 0, 1)?;
    }
    assert_eq!(swap(&mut bench.session, a, 0, 9, 9)?.code(), Some((14, 0x1d, 0)));
    let target = bench.array.target_name()?;
    let name = "iqn.2026-01.org.example:resets";
    let mut connection = RawConnection::log_in(bench.array.portal(), name, &target)?;
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[0x42, 0x85]);
    header[9] = a;
    header[20..24].fill(0xff);
    connection.send(&Pdu { header, additional: Vec::new(), data: Vec::new() }.bytes())?;
    let answer = connection.receive()?.context("the target closed the connection")?;
    assert_eq!((answer.header[0] & 0x3f, answer.header[2]), (0x22, 0));
    for session in &mut others {
        let told = session.read_once(a, &cdb16(0x88, 0, 0, 1), 512)?;
        assert_eq!(told.code().map(|(key, asc, _)| (key, asc)), Some((6, 0x29)));
        session.read_once(a, &cdb16(0x88, 0, 0, 1), 512)?.good()?;
        session.read_once(b, &cdb16(0x88, 0, 0, 1), 512)?.good()?;
    }
    Ok(())
}

#[test]
fn a9_of_two_that_swap_the_same_block_exactly_one_succeeds() -> Result<()> {
    let bench = Bench::start()?;
    let lun = bench.luns[0];
    let rounds = 200;
    let contend = |name: &str| -> Result<thread::JoinHandle<Result<Vec<bool>>>> {
        let mut session = log_in(&bench.array, name)?;
        Ok(thread::spawn(move || {
            (0..rounds).map(|lba| Ok(swap(&mut session, lun, lba, 0, 1)?.status == 0)).collect()
        }))
    };
    // Two paths of one host, and another host.
    let names = ["iqn.2026-01.org.example:h1", "iqn.2026-01.org.example:h2"];
    let threads = names.map(contend).into_iter().collect::<Result<Vec<_>>>()?;
    let results = threads
        .into_iter()
        .map(|thread| thread.join().expect("it did not panic"))
        .collect::<Result<Vec<_>>>()?;
    for lba in 0..rounds as usize {
        let winners = results.iter().filter(|won| won[lba]).count();
        assert_eq!(winners, 1, "block {lba}");
    }
    Ok(())
}

#[test]
fn x2_and_w4_what_was_answered_is_seen_by_others_at_once_and_after_a_kill() -> Result<()> {
    let mut bench = Bench::start()?;
    let [a, b] = bench.luns;
    let mut other = log_in(&bench.array, "iqn.2026-01.org.example:other")?;
    let data = pattern(5, 8192);
    write(&mut bench.session, a, 3, &data)?.good()?;
    write(&mut bench.session, b, 20_000, &pattern(6, 2048))?.good()?;
    let (from, to) = (naa(&mut bench.session, a)?, naa(&mut bench.session, b)?);
    copy(&mut bench.session, a, [&from, &to], [8192, 3, 99])?.good()?;
    assert!(read(&mut other, b, 99, 8192)? == data);
    let zeros = cdb16(0x93, 0, 20_001, 2046);
    bench.session.write(b, &zeros, &[0; BLOCK])?.good()?;
    bench.kill_and_restart()?;
    assert!(read(&mut bench.session, b, 99, 8192)? == data);
    let around = read(&mut bench.session, b, 20_000, 2048)?;
    assert!(around[BLOCK..2047 * BLOCK].iter().all(|&byte| byte == 0));
    assert_eq!(around[..BLOCK], pattern(6, 2048)[..BLOCK]);
    assert_eq!(around[2047 * BLOCK..], pattern(6, 2048)[2047 * BLOCK..]);
    Ok(())
}

#[test]
fn x5_a_host_cannot_copy_from_or_to_what_it_does_not_see() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let name = "iqn.2026-01.org.example:tenant";
    array.gantry(&["host", "create", "tenant", "--initiator", name])?;
    for volume in ["p/mine", "p/secret"] {
        array.gantry(&["volume", "create", volume, "--size", "16M"])?;
    }
    let map = array.gantry_json(&["volume", "map", "p/mine", "--host", "tenant"])?;
    let mine = u8::try_from(number(&map, "/lun")?)?;
    let owner = "iqn.2026-01.org.example:owner";
    array.gantry(&["host", "create", "owner", "--initiator", owner])?;
    let map = array.gantry_json(&["volume", "map", "p/secret", "--host", "owner"])?;
    let secret = u8::try_from(number(&map, "/lun")?)?;
    let (mut tenant, mut owner) = (log_in(&array, name)?, log_in(&array, owner)?);
    write(&mut owner, secret, 0, &pattern(7, 8))?.good()?;
    let (mine_naa, secret_naa) = (naa(&mut tenant, mine)?, naa(&mut owner, secret)?);
    for naas in [[&secret_naa[..], &mine_naa], [&mine_naa, &secret_naa], [&secret_naa, &secret_naa]]
    {
        let answer = copy(&mut tenant, mine, naas, [8, 0, 8])?;
        assert_eq!(answer.code(), Some((10, 0x0d, 2)));
    }
    assert!(read(&mut tenant, mine, 0, 64)?.iter().all(|&byte| byte == 0));
    assert_eq!(read(&mut owner, secret, 0, 8)?, pattern(7, 8));
    assert!(read(&mut owner, secret, 8, 8)?.iter().all(|&byte| byte == 0));
    Ok(())
}

#[test]
fn x14_a_copy_of_nothing_occupies_nothing() -> Result<()> {
    let mut bench = Bench::start()?;
    let [a, b] = bench.luns;
    write(&mut bench.session, b, 0, &pattern(8, 8192))?.good()?;
    let before = bench.mapped_bytes("p/b")?;
    let (from, to) = (naa(&mut bench.session, a)?, naa(&mut bench.session, b)?);
    copy(&mut bench.session, b, [&from, &to], [8192, 0, 0])?.good()?;
    assert!(read(&mut bench.session, b, 0, 8192)?.iter().all(|&byte| byte == 0));
    assert_eq!(before - bench.mapped_bytes("p/b")?, 8192 * BLOCK as u64);
    Ok(())
}

#[test]
fn w3_zeros_and_patterns_keep_to_their_blocks_whether_they_unmap_or_not() -> Result<()> {
    let mut bench = Bench::start()?;
    let lun = bench.luns[0];
    let (before, block) = (pattern(9, 64), pattern(10, 1));
    for flags in [0x00, 0x08, 0x09, 0x01] {
        for (content, data) in [(vec![0; BLOCK], &[0; BLOCK][..]), (block.clone(), &block)] {
            let no_data = flags & 1 != 0;
            if no_data && content[0] != 0 {
                continue;
            }
            write(&mut bench.session, lun, 0, &before)?.good()?;
            let cdb = cdb16(0x93, flags, 3, 30);
            if no_data {
                bench.session.read(lun, &cdb, 0)?.good()?
            } else {
                bench.session.write(lun, &cdb, data)?.good()?
            };
            let after = read(&mut bench.session, lun, 0, 64)?;
            assert_eq!(after[..3 * BLOCK], before[..3 * BLOCK]);
            assert!(after[3 * BLOCK..33 * BLOCK].chunks(BLOCK).all(|each| each == content));
            assert_eq!(after[33 * BLOCK..], before[33 * BLOCK..]);
        }
    }
    Ok(())
}

#[test]
fn u1_an_unmap_of_nothing_does_nothing() -> Result<()> {
    let mut bench = Bench::start()?;
    let lun = bench.luns[0];
    let data = pattern(11, 4096);
    write(&mut bench.session, lun, 0, &data)?.good()?;
    unmap(&mut bench.session, lun, &[(8, 64), (2048, 8)])?.good()?;
    let before = read(&mut bench.session, lun, 0, 4096)?;
    assert_ne!(before, data);
    for _ in 0..3 {
        bench.session.write(lun, &[0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[])?.good()?;
        unmap(&mut bench.session, lun, &[])?.good()?;
        unmap(&mut bench.session, lun, &[(100, 0)])?.good()?;
    }
    assert!(read(&mut bench.session, lun, 0, 4096)? == before);
    Ok(())
}

#[test]
fn u3_and_u6_space_comes_back_whatever_the_alignment_and_order() -> Result<()> {
    let mut bench = Bench::start()?;
    let lun = bench.luns[0];
    let url = bench.array.lun_url(lun.into())?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x5a 0 64M"])?;
    assert_eq!(bench.mapped_bytes("p/a")?, 64 << 20);
    // 1 MiB each, three blocks off, in any order; the first and last parts too.
    let mut extents: Vec<(u64, u32)> = (0..63).map(|at| (3 + at * 2048, 2048)).collect();
    extents.extend([(0, 3), (3 + 63 * 2048, 2045)]);
    let mut random = Random::new(3);
    while !extents.is_empty() {
        let extent = extents.swap_remove(random.below(extents.len() as u64) as usize);
        unmap(&mut bench.session, lun, &[extent])?.good()?;
    }
    assert_eq!(bench.mapped_bytes("p/a")?, 0);
    Ok(())
}

#[test]
fn u5_in_a_full_pool_only_what_needs_space_is_refused() -> Result<()> {
    const FULL: Option<(u8, u8, u8)> = Some((7, 0x27, 7));
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = u8::try_from(array.create_lun("p/a", "2G")?)?;
    let mut session = log_in(&array, NAME)?;
    let mut filled = 0;
    // Each MiB is different, so that none is stored once for all.
    let refused = loop {
        let answer = write(&mut session, lun, filled, &pattern((filled >> 11) as u8, 8192))?;
        if answer.status != 0 {
            break answer.code();
        }
        filled += 8192;
        ensure!(filled < 2 << 21, "a pool of 1 GiB took more than 2 GiB");
    };
    assert_eq!(refused, FULL);
    assert!(filled > 800 << 11, "only {} MiB fitted", filled >> 11);
    // Overwrites, the heartbeat, reads and zeros need no space.
    let deadline = Instant::now() + Duration::from_secs(60);
    for round in 0..50_u8 {
        let at = u64::from(round) * 64;
        write(&mut session, lun, at, &pattern(round, 8))?.good().context("an overwrite")?;
        let old = read(&mut session, lun, 40_000, 1)?;
        let new = pattern(round ^ 0x55, 1);
        let both = [&old[..], &new].concat();
        session.write(lun, &compare_and_write_cdb(40_000, 1), &both)?.good().context("ATS")?;
        assert_eq!(read(&mut session, lun, at, 8)?, pattern(round, 8));
        ensure!(Instant::now() < deadline, "a full pool is slow");
    }
    assert_eq!(write(&mut session, lun, 2 << 20, &pattern(1, 8192))?.code(), FULL);
    assert!(read(&mut session, lun, 2 << 20, 64)?.iter().all(|&byte| byte == 0));
    // What is unmapped can be used again, as soon as it is stable that it was.
    for part in 0..4 {
        unmap(&mut session, lun, &[(part * 65_536, 65_536)])?.good()?;
    }
    while write(&mut session, lun, 2 << 20, &pattern(2, 8192))?.code() == FULL {
        ensure!(Instant::now() < deadline, "the space of what was unmapped does not come back");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(read(&mut session, lun, 2 << 20, 8192)? == pattern(2, 8192));
    Ok(())
}
