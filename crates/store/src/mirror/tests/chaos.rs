//! Random orders of writes, flushes, reads, failures and power cuts: what was answered as flushed is
//! on every member that any opening would take for current, whichever member is lost.

use super::*;
use crate::tests::random::Random;

const BLOCKS: usize = 12;

/// What was asked of a mirror, and what is known of each block.
struct Known {
    /// The content that the last write gave, its token, and whether it has ended.
    written: [Option<(u8, Token, bool)>; BLOCKS],
    /// The content that was answered as flushed, until a write begins.
    flushed: [Option<u8>; BLOCKS],
    /// For each flush under way what it makes stable.
    flushes: BTreeMap<Token, [Option<u8>; BLOCKS]>,
    reads: BTreeMap<Token, usize>,
}

fn number(block: usize) -> u64 {
    5000 + block as u64
}

/// Members that are current for an opening without those in `lost`; none if it would be refused.
fn current_after_power_cut(room: &Room, witnessed: u64, lost: Option<usize>) -> Vec<usize> {
    let there = || (0..room.disks.len()).filter(|slot| Some(*slot) != lost);
    let lists = there().filter_map(|slot| room.stable_list(slot));
    let newest = lists
        .max_by_key(|list| list.generation)
        .unwrap_or(List::first(POOL, &spec(room.disks.len())));
    if newest.generation < witnessed {
        return Vec::new();
    }
    let is_current = |slot: &usize| newest.entries[*slot].state == MemberState::Current;
    there().filter(is_current).collect()
}

fn check(room: &Room, known: &Known, witnessed: u64) {
    let losses = (0..room.disks.len()).map(Some).chain([None]);
    for lost in losses {
        for slot in current_after_power_cut(room, witnessed, lost) {
            for (block, flushed) in known.flushed.iter().enumerate() {
                let Some(flushed) = flushed else { continue };
                let stable = room.disks[slot].stable.get(&number(block));
                let found = stable.map_or(0, |bytes| bytes[0]);
                assert_eq!(found, *flushed, "block {block} of member {slot} without {lost:?}");
            }
        }
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let members = 2 + random.index(2);
    let mut room = Room::new(members);
    let mut known = Known {
        written: [None; BLOCKS],
        flushed: [None; BLOCKS],
        flushes: BTreeMap::new(),
        reads: BTreeMap::new(),
    };
    let mut witnessed = 1;
    // Some runs lose members, others meet bad blocks: with both there may be no right copy.
    let failures = [0, 40, 150][random.index(3)];
    for token in 0..400 {
        match random.index(10) {
            5 if failures == 0 => rot(&mut room, &mut random),
            6 => {
                room.pass(Duration::from_secs(1));
            }
            _ => ask(&mut room, &mut known, &mut random, token),
        }
        for _ in 0..random.index(6) {
            if room.under_way.is_empty() {
                break;
            }
            let place = random.index(room.under_way.len());
            if random.index(1000) < failures {
                room.fail(place, EIO_ERROR)
            } else {
                room.serve(place)
            }
        }
        if random.index(2) == 0 {
            // The generation is kept before the mirror hears of it.
            while let Some(told) = room.mirrors.next_membership() {
                witnessed = witnessed.max(told.generation);
                room.mirrors.witnessed(told.mirror, told.generation);
                room.pull();
            }
        }
        hear(&mut room, &mut known);
        check(&room, &known, witnessed);
    }
}

/// Asks for something, or for nothing.
fn ask(room: &mut Room, known: &mut Known, random: &mut Random, token: Token) {
    let block = random.index(BLOCKS);
    match (random.index(8), known.written[block]) {
        // The engine writes a block again only when the last write has ended.
        (0..3, None | Some((_, _, true))) => {
            let content = (token % 251) as u8 + 1;
            known.written[block] = Some((content, token, false));
            known.flushed[block] = None;
            known.flushes.values_mut().for_each(|flush| flush[block] = None);
            room.write(token, number(block), &[content]);
        }
        (3, _) => {
            let stable = known.written.map(|written| match written {
                Some((content, _, true)) => Some(content),
                _ => None,
            });
            known.flushes.insert(token, stable);
            room.flush(token);
        }
        (4, Some((content, _, true))) => {
            known.reads.insert(token, block);
            let breadth = [Breadth::One, Breadth::All][random.index(2)];
            room.read_as(token, number(block), &[content], breadth);
        }
        _ => {}
    }
}

/// A copy rots, of which the others are right.
fn rot(room: &mut Room, random: &mut Random) {
    let members = room.disks.len();
    let (slot, block) = (random.index(members), number(random.index(BLOCKS)));
    let is_right = |other: usize| {
        room.state(other) == MemberState::Current && !room.disks[other].rotten.contains(&block)
    };
    if (0..members).all(|other| other == slot || is_right(other)) {
        room.disks[slot].rotten.insert(block);
    }
}

fn hear(room: &mut Room, known: &mut Known) {
    for (token, result) in std::mem::take(&mut room.ended) {
        if let Some(stable) = known.flushes.remove(&token) {
            if result.is_ok() {
                for (flushed, stable) in known.flushed.iter_mut().zip(stable) {
                    *flushed = stable.or(*flushed);
                }
            }
            continue;
        }
        if let Some(block) = known.reads.remove(&token) {
            // What no write has touched since must be right.
            let (Ok(Some(bytes)), Some((content, written, true))) = (result, known.written[block])
            else {
                continue;
            };
            if written < token {
                assert_eq!(bytes[0], content, "block {block}");
            }
            continue;
        }
        for (block, written) in known.written.iter_mut().enumerate() {
            if let Some((_, of, ended)) = written
                && *of == token
            {
                *ended = true;
                if result.is_err() {
                    // Nobody knows what it holds now.
                    known.flushes.values_mut().for_each(|flush| flush[block] = None);
                    *written = None;
                    break;
                }
            }
        }
    }
}

#[test]
fn what_was_flushed_survives_the_loss_of_any_member_at_any_moment() {
    for seed in 0..3000 {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}
