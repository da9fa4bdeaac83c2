//! Changed blocks of snapshots, as a backup program asks for them: compared with what a host wrote,
//! in parts, while snapshots are deleted, in a full pool, and with what cannot be meant.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use harness::http::{Answer, Request};
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::random::Random;
use harness::{Array, Value, number, text};
use serde_json::json;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const NAME: &str = "iqn.2026-01.org.example:backup";

/// Bytes of the volume.
const SIZE: u64 = 64 * MIB;

/// What is told of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Data,
    Zero,
}

/// A host that remembers what it wrote.
struct Host {
    session: RawSession,
    lun: u8,
    content: Vec<u8>,
}

impl Host {
    fn of(array: &Array, lun: u16) -> Result<Self> {
        let session = RawSession::log_in(array.portal(), NAME, &array.target_name()?)?;
        Ok(Self { session, lun: u8::try_from(lun)?, content: vec![0; usize::try_from(SIZE)?] })
    }

    fn write(&mut self, at: u64, data: &[u8]) -> Result<()> {
        let cdb = cdb16_of_bytes(0x8a, 0, at, data.len() as u64);
        self.session.write(self.lun, &cdb, data)?.good()?;
        self.content[usize::try_from(at)?..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    /// WRITE SAME with UNMAP.
    fn unmap(&mut self, at: u64, length: u64) -> Result<()> {
        let cdb = cdb16_of_bytes(0x93, 0x08, at, length);
        self.session.write(self.lun, &cdb, &[0; 512])?.good()?;
        self.content[usize::try_from(at)?..][..usize::try_from(length)?].fill(0);
        Ok(())
    }

    fn change_something(&mut self, random: &mut Random) -> Result<()> {
        let length = BLOCK * (1 + random.below(32));
        let at = random.below((SIZE - length) / BLOCK) * BLOCK;
        if random.below(4) == 0 {
            self.unmap(at, length)
        } else {
            self.write(at, &random.bytes(usize::try_from(length)?))
        }
    }
}

fn ask(array: &Array, path_and_query: &str) -> Result<Answer> {
    let path = format!("/v1/snapshots/{path_and_query}");
    Request::new("GET", &path).send_to_socket(&array.data().join("gantry.sock"))
}

/// All that is told, by block; how many answers there were; what they cost.
fn changes(array: &Array, snapshot: &str, query: &str) -> Result<(BTreeMap<u64, Told>, u64, u64)> {
    let (mut told, mut answers, mut pages, mut offset) = (BTreeMap::new(), 0, 0, 0);
    loop {
        let answer = ask(array, &format!("p/{snapshot}/changes?offset={offset}&{query}"))?;
        let answer = answer.success()?;
        ensure!(number(&answer, "/offset")? == offset && number(&answer, "/size_bytes")? == SIZE);
        answers += 1;
        pages += number(&answer, "/map_pages")?;
        let mut behind = offset;
        for extent in answer["extents"].as_array().context("a list")? {
            let (first, length) = (number(extent, "/offset")?, number(extent, "/length")?);
            ensure!(first >= behind && length > 0 && (first | length).is_multiple_of(BLOCK));
            behind = first + length;
            let state = if text(extent, "/state")? == "data" { Told::Data } else { Told::Zero };
            told.extend((first / BLOCK..behind / BLOCK).map(|block| (block, state)));
        }
        if answer["next_offset"].is_null() {
            return Ok((told, answers, pages));
        }
        let next = number(&answer, "/next_offset")?;
        ensure!(next > offset && next >= behind, "{next} after {offset}");
        offset = next;
    }
}

/// Every block that differs is told, and what is told is so.
fn check(told: &BTreeMap<u64, Told>, before: &[u8], after: &[u8]) {
    let blocks = before.chunks(4096).zip(after.chunks(4096));
    for (number, (before, after)) in (0..).zip(blocks) {
        let is_zero = after.iter().all(|&byte| byte == 0);
        match told.get(&number) {
            None => assert!(before == after, "block {number} differs and is not told"),
            Some(Told::Data) => assert!(!is_zero, "block {number} is told as data"),
            Some(Told::Zero) => assert!(is_zero, "block {number} is told as zeros"),
        }
    }
}

fn array_with_volume() -> Result<(Array, Host)> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "64M")?;
    let host = Host::of(&array, lun)?;
    Ok((array, host))
}

#[test]
fn what_a_host_changed_is_told_however_it_is_asked_and_after_a_crash() -> Result<()> {
    let (mut array, mut host) = array_with_volume()?;
    let mut random = Random::new(7);
    let mut kept: Vec<(String, Vec<u8>)> = Vec::new();
    for number in 0..4 {
        for _ in 0..60 {
            host.change_something(&mut random)?;
        }
        let name = format!("s{number}");
        array.gantry(&["snapshot", "create", "p/v", &name])?;
        kept.push((name, host.content.clone()));
    }
    let nothing = vec![0; usize::try_from(SIZE)?];
    for crashed in [false, true] {
        if crashed {
            array.kill()?;
            array.restart()?;
        }
        for (at, (name, after)) in kept.iter().enumerate() {
            let (told, ..) = changes(&array, name, "limit=1000")?;
            check(&told, &nothing, after);
            let (base, before) = &kept[(at + 1) % kept.len()];
            let (told, answers, _) = changes(&array, name, &format!("base={base}&limit=10000"))?;
            check(&told, before, after);
            assert_eq!(answers, 1);
            let (again, answers, _) = changes(&array, name, &format!("base={base}&limit=3"))?;
            assert!(again == told && answers > 10, "{answers} answers");
        }
    }
    let (told, _, pages) = changes(&array, "s1", "base=s1")?;
    assert!(told.is_empty() && pages == 0, "a snapshot is equal to itself at no cost");
    Ok(())
}

/// The command line shows all parts as one.
#[test]
fn the_command_line_shows_what_differs() -> Result<()> {
    let (array, mut host) = array_with_volume()?;
    host.write(0, &vec![1; 1 << 20])?;
    array.gantry(&["snapshot", "create", "p/v", "monday"])?;
    host.write(8192, &[2; 4096])?;
    host.write(5 * MIB, &[3; 8192])?;
    host.unmap(512 << 10, 64 << 10)?;
    array.gantry(&["snapshot", "create", "p/v", "tuesday"])?;
    let diff = |words: &[&str]| array.gantry_json(&[&["snapshot", "diff"], words].concat());
    let expected = json!([
        { "offset": 8192, "length": 4096, "state": "data" },
        { "offset": 512 << 10, "length": 64 << 10, "state": "zero" },
        { "offset": 5 * MIB, "length": 8192, "state": "data" },
    ]);
    for base in ["monday", "p/monday"] {
        let shown = diff(&["p/tuesday", "--base", base])?;
        assert_eq!(shown["extents"], expected);
        assert_eq!((text(&shown, "/base")?, &shown["next_offset"]), ("monday", &Value::Null));
    }
    let first = diff(&["p/tuesday", "--base", "monday", "--limit", "1"])?;
    assert_eq!(first["extents"].as_array().map(Vec::len), Some(1));
    let rest = ["p/tuesday", "--base", "monday", "--offset", "12288"];
    assert_eq!(diff(&rest)?["extents"].as_array().map(Vec::len), Some(2));
    let words = array.gantry(&["snapshot", "diff", "p/tuesday", "--base", "monday"])?;
    assert!(words.contains("zero") && words.contains("3 extents, 76 KiB"), "{words}");
    let refused =
        array.try_gantry(&["snapshot", "diff", "p/tuesday", "--base", "q/x"])?.failure()?;
    assert!(refused.contains("two pools"), "{refused}");
    Ok(())
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() -> Result<()> {
    let (array, mut host) = array_with_volume()?;
    host.write(0, &[1; 4096])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    array.create_pool("q", "1G")?;
    array.gantry(&["volume", "create", "q/w", "--size", "64M"])?;
    array.gantry(&["snapshot", "create", "q/w", "t"])?;
    for (query, status, reason) in [
        ("p/s/changes?offset=1", 400, "multiple of 4096"),
        ("p/s/changes?offset=67112960", 400, "from 0 to 67108864"),
        ("p/s/changes?offset=-4096", 400, "whole number"),
        ("p/s/changes?offset=99999999999999999999", 400, "whole number"),
        ("p/s/changes?offset=", 400, "whole number"),
        ("p/s/changes?limit=0", 400, "1 to 10000"),
        ("p/s/changes?limit=10001", 400, "1 to 10000"),
        ("p/s/changes?limit=many", 400, "whole number"),
        ("p/none/changes", 404, "p/none"),
        ("p/s/changes?base=none", 404, "p/none"),
        ("p/s/changes?base=t", 404, "p/t"),
        ("p/s/changes?base=", 404, "p/"),
        ("x/s/changes", 404, "x/s"),
        ("p/v/changes", 409, "only snapshots"),
        ("p/s/changes?base=v", 409, "only snapshots"),
    ] {
        let said = ask(&array, query)?.problem(status).context(query.to_owned())?;
        assert!(said.contains(reason), "{query}: {said}");
    }
    let end = ask(&array, "p/s/changes?offset=67108864")?.success()?;
    assert_eq!((&end["extents"], &end["next_offset"]), (&json!([]), &Value::Null));
    Ok(())
}

/// A clone's snapshot compared with its origin's, and one with a stranger's.
#[test]
fn snapshots_of_other_volumes_of_the_pool_are_compared_by_what_they_share() -> Result<()> {
    let (array, mut host) = array_with_volume()?;
    host.write(0, &vec![1; 4 << 20])?;
    array.gantry(&["snapshot", "create", "p/v", "golden"])?;
    array.gantry(&["volume", "clone", "p/golden", "c"])?;
    let map = array.gantry_json(&["volume", "map", "p/c", "--host", "any"])?;
    let mut user = Host::of(&array, u16::try_from(number(&map, "/lun")?)?)?;
    user.write(MIB, &[2; 4096])?;
    array.gantry(&["snapshot", "create", "p/c", "used"])?;
    let (told, ..) = changes(&array, "used", "base=golden")?;
    assert_eq!(told, BTreeMap::from([(256, Told::Data)]));
    let lun = array.create_lun("p/stranger", "64M")?;
    let mut stranger = Host::of(&array, lun)?;
    stranger.write(0, &[1; 4096])?;
    array.gantry(&["snapshot", "create", "p/stranger", "other"])?;
    let (told, ..) = changes(&array, "other", "base=golden")?;
    assert_eq!(told.len(), 1024, "they share nothing, so all that either holds is told");
    Ok(())
}

/// One is deleted between two answers; what was told before is complete as far as it goes.
#[test]
fn a_snapshot_that_is_deleted_between_two_parts_is_not_found_any_more() -> Result<()> {
    let (array, mut host) = array_with_volume()?;
    for number in 0..8 {
        host.write(number * 2 * MIB, &[1; 4096])?;
    }
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    array.gantry(&["snapshot", "create", "p/v", "t"])?;
    let first = ask(&array, "p/s/changes?limit=2")?.success()?;
    let next = number(&first, "/next_offset")?;
    array.gantry(&["snapshot", "delete", "p/s", "--yes"])?;
    ask(&array, &format!("p/s/changes?limit=2&offset={next}"))?.problem(404)?;
    ask(&array, "p/t/changes?base=s")?.problem(404)?;
    assert_eq!(changes(&array, "t", "limit=2")?.0.len(), 8);
    Ok(())
}

/// A full pool is backed up, too: nothing is written for it.
#[test]
fn a_full_pool_tells_what_changed() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "64M")?;
    let mut host = Host::of(&array, lun)?;
    host.write(0, &[1; 4096])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    let filler = u8::try_from(array.create_lun("p/filler", "2G")?)?;
    let mut at = 0;
    let fill = vec![2; 1 << 20];
    while host.session.write(filler, &cdb16_of_bytes(0x8a, 0, at, MIB), &fill)?.status == 0 {
        at += MIB;
        ensure!(at < 2 << 30, "the pool never fills");
    }
    let (told, ..) = changes(&array, "s", "limit=1")?;
    assert_eq!(told, BTreeMap::from([(0, Told::Data)]));
    Ok(())
}

/// Backup programs ask without end, while hosts write and are answered.
#[test]
fn hosts_are_served_while_many_ask() -> Result<()> {
    let (array, mut host) = array_with_volume()?;
    let mut random = Random::new(3);
    for _ in 0..200 {
        host.change_something(&mut random)?;
    }
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    let kept = host.content.clone();
    let nothing = vec![0; usize::try_from(SIZE)?];
    std::thread::scope(|scope| -> Result<()> {
        let askers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| changes(&array, "s", "limit=2"))).collect();
        for _ in 0..50 {
            host.change_something(&mut random)?;
        }
        for asker in askers {
            let (told, ..) = asker.join().expect("an asker does not panic")?;
            check(&told, &nothing, &kept);
        }
        Ok(())
    })
}
