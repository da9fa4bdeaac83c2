//! The array keeps what it advertises: each bit and limit of INQUIRY, the VPD pages, REPORT
//! SUPPORTED OPERATION CODES and the copy manager's parameters works at its limit and reads back
//! right; one beyond it is refused with the right sense data and changes nothing.

use std::slice::from_ref;

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::pdu::{Answer, RawSession, cdb10, cdb16};

const BLOCK: usize = 512;

/// Blocks of each LUN: more than the longest transfer.
const BLOCKS: u64 = 48 << 11;

const INVALID_CDB: Option<(u8, u8, u8)> = Some((5, 0x24, 0));
const INVALID_LIST: Option<(u8, u8, u8)> = Some((5, 0x26, 0));
const INVALID_OPCODE: Option<(u8, u8, u8)> = Some((5, 0x20, 0));
const OUT_OF_RANGE: Option<(u8, u8, u8)> = Some((5, 0x21, 0));

/// An array with two LUNs, the first of which is full of data.
struct Bench {
    /// Stops the daemon when it goes.
    array: Array,
    session: RawSession,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Blocks that differ from each other.
fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    let byte = |at: usize| seed ^ (at / BLOCK) as u8 ^ (at / BLOCK / 256) as u8 ^ (at % 253) as u8;
    (0..blocks * BLOCK).map(byte).collect()
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        for name in ["p/a", "p/b"] {
            array.create_lun(name, "48M")?;
        }
        let name = "iqn.2026-01.org.example:honesty";
        let session = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
        let mut bench = Self { array, session };
        let half = BLOCKS as u32 / 2;
        let data = pattern(0x33, half as usize);
        bench.write(0, &cdb16(0x8a, 0, 0, half), &data)?.good()?;
        bench.write(0, &cdb16(0x8a, 0, half.into(), half), &data)?.good()?;
        Ok(bench)
    }

    fn read(&mut self, lun: u8, cdb: &[u8], length: u32) -> Result<Answer> {
        self.session.read(lun, cdb, length)
    }

    fn write(&mut self, lun: u8, cdb: &[u8], data: &[u8]) -> Result<Answer> {
        self.session.write(lun, cdb, data)
    }

    fn page(&mut self, code: u8) -> Result<Vec<u8>> {
        self.read(0, &[0x12, 1, code, 0x10, 0, 0], 4096)?.good()
    }

    fn blocks(&mut self, lun: u8, lba: u64, count: u32) -> Result<Vec<u8>> {
        self.read(lun, &cdb16(0x88, 0, lba, count), count * BLOCK as u32)?.good()
    }

    fn whole(&mut self, lun: u8) -> Result<Vec<u8>> {
        let half = BLOCKS as u32 / 2;
        Ok([self.blocks(lun, 0, half)?, self.blocks(lun, half.into(), half)?].concat())
    }

    /// Runs something that must not change either LUN.
    fn unchanged(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = [self.whole(0)?, self.whole(1)?];
        act(self)?;
        ensure!(before == [self.whole(0)?, self.whole(1)?], "a LUN has changed");
        Ok(())
    }

    /// Commands as REPORT SUPPORTED OPERATION CODES lists them.
    fn supported(&mut self) -> Result<Vec<Supported>> {
        let cdb = [0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0];
        let list = self.read(0, &cdb, 0x8000)?.good()?;
        ensure!(u32_at(&list, 0) as usize == list.len() - 4, "the list says its length");
        list[4..].chunks(8).map(|row| self.usage(row)).collect()
    }

    fn usage(&mut self, row: &[u8]) -> Result<Supported> {
        let action = (row[5] & 1 != 0).then(|| u16_at(row, 2));
        let option = if action.is_some() { 2 } else { 1 };
        let [high, low] = action.unwrap_or(0).to_be_bytes();
        let cdb = [0xa3, 0x0c, option, row[0], high, low, 0, 0, 0, 255, 0, 0];
        let one = self.read(0, &cdb, 255)?.good()?;
        let length = usize::from(u16_at(&one, 2));
        ensure!(length == usize::from(u16_at(row, 6)) && one[1] & 7 == 3, "{row:02x?}");
        Ok(Supported { opcode: row[0], action, usage: one[4..4 + length].to_vec() })
    }

    /// Whether blocks occupy space (GET LBA STATUS).
    fn is_deallocated(&mut self, lba: u64, count: u32) -> Result<bool> {
        let mut cdb = cdb16(0x9e, 0x12, lba, 0);
        cdb[12] = 1;
        let told = self.read(0, &cdb, 256)?.good()?;
        Ok(told[20] & 0x0f == 1 && u32_at(&told, 16) >= count)
    }
}

struct Supported {
    opcode: u8,
    action: Option<u16>,
    usage: Vec<u8>,
}

impl Supported {
    /// A CDB with nothing but the operation code and service action.
    fn bare(&self) -> Vec<u8> {
        let mut cdb = vec![0; self.usage.len()];
        (cdb[0], cdb[1]) = (self.opcode, self.action.unwrap_or(0) as u8);
        cdb
    }
}

/// Parameter list of UNMAP.
fn unmap_list(extents: &[(u64, u32)]) -> Vec<u8> {
    let length = 16 * extents.len() as u16;
    let mut list = (length + 6).to_be_bytes().to_vec();
    list.extend(length.to_be_bytes());
    list.extend([0; 4]);
    for (lba, count) in extents {
        list.extend(lba.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn unmap_cdb(list: &[u8]) -> [u8; 10] {
    cdb10(0x42, 0, 0, list.len() as u16)
}

#[test]
fn every_page_that_is_listed_is_there_and_no_other() -> Result<()> {
    let mut bench = Bench::start()?;
    let listed = bench.page(0)?[4..].to_vec();
    assert!(listed.is_sorted());
    for code in 0..=255 {
        let answer = bench.read(0, &[0x12, 1, code, 1, 0, 0], 256)?;
        if listed.contains(&code) {
            assert_eq!(answer.good()?[1], code);
        } else {
            assert_eq!(answer.code(), INVALID_CDB, "page {code:02x}h");
        }
    }
    Ok(())
}

#[test]
fn compare_and_write_takes_as_many_blocks_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    let most = bench.page(0xb0)?[5];
    assert_eq!(most, 255, "one more cannot be said in the CDB");
    let (old, new) = (bench.blocks(0, 7, 255)?, pattern(0x99, 255));
    let mut cdb = cdb16(0x89, 0, 7, 0);
    cdb[13] = most;
    bench.write(0, &cdb, &[&old[..], &new].concat())?.good()?;
    assert_eq!(bench.blocks(0, 7, 255)?, new);
    bench.unchanged(|bench| {
        let mut wrong = new.clone();
        wrong[254 * BLOCK + 100] ^= 1;
        let answer = bench.write(0, &cdb, &[&wrong[..], &old].concat())?;
        assert_eq!(answer.code(), Some((14, 0x1d, 0)));
        assert_eq!(u32_at(&answer.sense, 3) as usize, 254 * BLOCK + 100);
        let short = [&new[..], &old[BLOCK..]].concat();
        assert_eq!(bench.write(0, &cdb, &short)?.code(), INVALID_CDB);
        cdb[13] = 0;
        bench.write(0, &cdb, &[])?.good()?;
        Ok(())
    })
}

#[test]
fn the_longest_transfer_works_and_one_block_more_is_refused() -> Result<()> {
    let mut bench = Bench::start()?;
    let page = bench.page(0xb0)?;
    let (longest, prefetch) = (u32_at(&page, 8), u32_at(&page, 16));
    let (granularity, optimal) = (u32::from(u16_at(&page, 6)), u32_at(&page, 12));
    assert!(optimal <= longest && optimal.is_multiple_of(granularity), "{optimal}");
    let data = pattern(0x51, longest as usize);
    for opcode in [0x8a, 0x8e] {
        bench.write(0, &cdb16(opcode, 0, 3, longest), &data)?.good()?;
        assert!(bench.blocks(0, 3, longest)? == data);
    }
    bench.write(0, &cdb16(0x8f, 2, 3, longest), &data)?.good()?;
    bench.read(0, &cdb16(0x90, 0, 3, prefetch), 0)?.good()?;
    bench.unchanged(|bench| {
        let more = pattern(0x52, longest as usize + 1);
        for opcode in [0x8a, 0x8e, 0x8b] {
            let answer = bench.write(0, &cdb16(opcode, 0, 3, longest + 1), &more)?;
            assert_eq!((answer.code(), answer.field()), (INVALID_CDB, Some((10, None))));
        }
        for (opcode, count) in [(0x88, longest + 1), (0x8f, longest + 1), (0x90, prefetch + 1)] {
            assert_eq!(bench.read(0, &cdb16(opcode, 0, 3, count), 512)?.code(), INVALID_CDB);
        }
        Ok(())
    })
}

#[test]
fn an_atomic_write_is_as_long_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    let longest = u32_at(&bench.page(0xb0)?, 44);
    let cdb = |count: u32| {
        let mut cdb = cdb16(0x9c, 0, 1, 0);
        cdb[12..14].copy_from_slice(&(count as u16).to_be_bytes());
        cdb
    };
    let data = pattern(0x61, longest as usize + 1);
    bench.write(0, &cdb(longest), &data[..longest as usize * BLOCK])?.good()?;
    assert!(bench.blocks(0, 1, longest)? == data[..longest as usize * BLOCK]);
    bench.unchanged(|bench| {
        assert_eq!(bench.write(0, &cdb(longest + 1), &data)?.code(), INVALID_CDB);
        let mut boundary = cdb(1);
        boundary[11] = 1;
        assert_eq!(bench.write(0, &boundary, &data[..BLOCK])?.code(), INVALID_CDB);
        Ok(())
    })
}

#[test]
fn unmap_takes_as_many_blocks_and_descriptors_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    let page = bench.page(0xb0)?;
    let (blocks, descriptors) = (u32_at(&page, 20), u32_at(&page, 24) as usize);
    let granularity = u32_at(&page, 28);
    assert!(granularity > 0 && 2048 % granularity == 0, "it divides 1 MiB");
    assert_eq!(u32_at(&page, 32), 0x8000_0000, "aligned to itself");
    bench.unchanged(|bench| {
        let more = unmap_list(&[(0, blocks), (u64::from(blocks), 1)]);
        assert_eq!(bench.write(0, &unmap_cdb(&more), &more)?.code(), INVALID_LIST);
        let more = unmap_list(&vec![(0, 1); descriptors + 1]);
        assert_eq!(bench.write(0, &unmap_cdb(&more), &more)?.code(), INVALID_LIST);
        let beyond = unmap_list(&[(0, 8), (BLOCKS - 1, 2)]);
        assert_eq!(bench.write(0, &unmap_cdb(&beyond), &beyond)?.code(), OUT_OF_RANGE);
        // ANCHOR, which VPD page B2h does not offer.
        let one = unmap_list(&[(0, 8)]);
        let mut anchor = unmap_cdb(&one);
        anchor[1] = 1;
        assert_eq!(bench.write(0, &anchor, &one)?.code(), INVALID_CDB);
        // The null forms.
        bench.write(0, &unmap_cdb(&[]), &[])?.good()?;
        for list in [unmap_list(&[]), unmap_list(&[(0, 0)]), unmap_list(&[(BLOCKS, 0)])] {
            bench.write(0, &unmap_cdb(&list), &list)?.good()?;
        }
        Ok(())
    })?;
    let granules: Vec<_> =
        (0..descriptors as u32).map(|at| (u64::from(2 * at * granularity), granularity)).collect();
    let list = unmap_list(&granules);
    bench.write(0, &unmap_cdb(&list), &list)?.good()?;
    for &(lba, count) in &granules {
        assert!(bench.is_deallocated(lba, count)?, "{lba}");
        assert!(!bench.is_deallocated(lba + u64::from(count), count)?, "{lba}");
    }
    let first = bench.blocks(0, 0, 2 * granularity)?;
    let (gone, kept) = first.split_at(granularity as usize * BLOCK);
    assert!(gone.iter().all(|&byte| byte == 0));
    assert_eq!(kept, &pattern(0x33, 2 * granularity as usize)[kept.len()..]);
    let list = unmap_list(&[(0, blocks)]);
    bench.write(0, &unmap_cdb(&list), &list)?.good()?;
    assert!(bench.is_deallocated(0, blocks)?);
    assert!(bench.blocks(0, 0, blocks)?.iter().all(|&byte| byte == 0));
    assert!(!bench.is_deallocated(blocks.into(), 1)?);
    Ok(())
}

#[test]
fn write_same_takes_as_many_blocks_as_told_and_unmaps_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    let (limits, provisioning) = (bench.page(0xb0)?, bench.page(0xb2)?);
    let longest = u32_at(&limits, 40);
    assert_eq!(u32_at(&limits, 36), 0);
    assert_eq!(limits[4] & 1, 1, "WSNZ: no blocks are refused");
    // LBPU, LBPWS, LBPWS10, LBPRZ, and no ANC_SUP.
    assert_eq!(provisioning[5], 0xe4);
    let block = pattern(0x71, 1);
    bench.write(0, &cdb16(0x93, 0, 5, longest), &block)?.good()?;
    assert!(bench.blocks(0, 5, longest)?.chunks(BLOCK).all(|each| each == block));
    bench.unchanged(|bench| {
        for count in [0, longest + 1] {
            assert_eq!(bench.write(0, &cdb16(0x93, 0, 5, count), &block)?.code(), INVALID_CDB);
        }
        assert_eq!(bench.write(0, &cdb10(0x41, 0, 5, 0), &block)?.code(), INVALID_CDB);
        for flags in [0x10, 0x18] {
            assert_eq!(bench.write(0, &cdb16(0x93, flags, 5, 8), &block)?.code(), INVALID_CDB);
            assert_eq!(bench.write(0, &cdb10(0x41, flags, 5, 8), &block)?.code(), INVALID_CDB);
        }
        Ok(())
    })?;
    let zeros = [0; BLOCK];
    bench.write(0, &cdb16(0x93, 0x08, 0, 2048), &zeros)?.good()?;
    bench.write(0, &cdb10(0x41, 0x08, 2048, 2048), &zeros)?.good()?;
    bench.read(0, &cdb16(0x93, 0x09, 4096, 2048), 0)?.good()?;
    assert!(bench.is_deallocated(0, 6144)?);
    assert!(bench.blocks(0, 0, 6144)?.iter().all(|&byte| byte == 0));
    let longest_10 = u16::try_from(longest).unwrap_or(u16::MAX);
    bench.write(0, &cdb10(0x41, 0, 0, longest_10), &block)?.good()?;
    assert!(bench.blocks(0, 0, longest_10.into())?.chunks(BLOCK).all(|each| each == block));
    Ok(())
}

#[test]
fn the_last_block_is_where_it_is_told_and_nothing_is_behind_it() -> Result<()> {
    let mut bench = Bench::start()?;
    let capacity = bench.read(0, &cdb16(0x9e, 0x10, 0, 32), 32)?.good()?;
    assert_eq!(capacity[..8], (BLOCKS - 1).to_be_bytes());
    assert_eq!(u32_at(&capacity, 8), BLOCK as u32);
    assert_eq!(capacity[12], 0, "no protection information");
    assert_eq!(capacity[14] >> 6, 3, "LBPME, LBPRZ");
    let block = pattern(0x81, 1);
    bench.write(0, &cdb16(0x8a, 0x18, BLOCKS - 1, 1), &block)?.good()?;
    assert_eq!(bench.blocks(0, BLOCKS - 1, 1)?, block);
    bench.unchanged(|bench| {
        let two = pattern(0x82, 2);
        for opcode in [0x8a, 0x8b, 0x8e, 0x93] {
            let data = if opcode == 0x93 { &two[..BLOCK] } else { &two };
            for lba in [BLOCKS - 1, BLOCKS, u64::MAX] {
                let answer = bench.write(0, &cdb16(opcode, 0, lba, 2), data)?;
                assert_eq!(answer.code(), OUT_OF_RANGE, "{opcode:02x}h");
            }
        }
        for opcode in [0x88, 0x8f, 0x90, 0x91] {
            let answer = bench.read(0, &cdb16(opcode, 0, BLOCKS - 1, 2), 1024)?;
            assert_eq!(answer.code(), OUT_OF_RANGE, "{opcode:02x}h");
        }
        // PROTECT is zero: RDPROTECT, WRPROTECT and VRPROTECT are refused.
        for (opcode, data) in [(0x8a, &two[..BLOCK]), (0x8e, &two[..BLOCK]), (0x93, &two[..BLOCK])]
        {
            assert_eq!(bench.write(0, &cdb16(opcode, 0x20, 0, 1), data)?.code(), INVALID_CDB);
        }
        Ok(())
    })
}

#[test]
fn every_bit_outside_a_usage_mask_is_refused_and_every_other_code_too() -> Result<()> {
    let mut bench = Bench::start()?;
    let supported = bench.supported()?;
    bench.unchanged(|bench| {
        for row in &supported {
            // Discovery ignores what it does not know (SPC-4 6.6).
            if [0x03, 0x12, 0xa0].contains(&row.opcode) {
                continue;
            }
            for byte in 1..row.usage.len() {
                for bit in (0..8).filter(|bit| row.usage[byte] & 1 << bit == 0) {
                    let mut cdb = row.bare();
                    cdb[byte] |= 1 << bit;
                    let answer = bench.read(0, &cdb, 0)?;
                    let place = Some((byte as u16, Some(bit)));
                    assert_eq!((answer.code(), answer.field()), (INVALID_CDB, place), "{cdb:02x?}");
                }
            }
        }
        for opcode in 0..=255u8 {
            let mut cdb = [0; 16];
            cdb[0] = opcode;
            let rows: Vec<_> = supported.iter().filter(|row| row.opcode == opcode).collect();
            if rows.is_empty() {
                assert_eq!(bench.read(0, &cdb, 0)?.code(), INVALID_OPCODE, "{opcode:02x}h");
            } else if rows[0].action.is_some() {
                let others =
                    (0..32).filter(|action| rows.iter().all(|r| r.action != Some(*action)));
                for action in others {
                    cdb[1] = action as u8;
                    assert_eq!(bench.read(0, &cdb, 0)?.code(), INVALID_CDB, "{cdb:02x?}");
                }
            }
        }
        Ok(())
    })
}

/// DPO, FUA, BYTCHK, IMMED, START and NO_FLUSH: what a usage mask says may be set does no harm.
#[test]
fn every_flag_inside_a_usage_mask_is_taken() -> Result<()> {
    let mut bench = Bench::start()?;
    let supported = bench.supported()?;
    let commands: [(&[u8], &[u8], usize); 6] = [
        (&[0x28, 0xa8, 0x88], &[0x08, 0x10, 0x18], 0),
        (&[0x2a, 0xaa, 0x8a, 0x8b, 0x9c, 0x89], &[0x08, 0x10, 0x18], BLOCK),
        (&[0x2e, 0xae, 0x8e], &[0x02, 0x10, 0x12], BLOCK),
        (&[0x2f, 0xaf, 0x8f], &[0x02, 0x12], BLOCK),
        (&[0x2f, 0xaf, 0x8f], &[0x10], 0),
        (&[0x35, 0x91, 0x34, 0x90], &[0x02], 0),
    ];
    bench.unchanged(|bench| {
        let block = bench.blocks(0, 0, 1)?;
        for (opcodes, flags, length) in commands {
            let each =
                opcodes.iter().flat_map(|opcode| flags.iter().map(move |flag| (opcode, flag)));
            for (&opcode, &flags) in each {
                let row = supported.iter().find(|row| row.opcode == opcode);
                let row = row.with_context(|| format!("{opcode:02x}h"))?;
                assert_eq!(row.usage[1] & flags, flags, "{opcode:02x}h");
                let mut cdb = row.bare();
                cdb[1] = flags;
                let last_of_length = match opcode {
                    0x89 | 0x8a | 0x8b | 0x8e | 0x8f | 0x88 | 0x90 | 0x91 | 0x9c => 13,
                    0xa8..=0xaf => 9,
                    _ => 8,
                };
                cdb[last_of_length] = 1;
                let data = if opcode == 0x89 { block.repeat(2) } else { block[..length].to_vec() };
                let answer = match length {
                    0 => bench.read(0, &cdb, BLOCK as u32)?,
                    _ => bench.write(0, &cdb, &data)?,
                };
                answer.good().with_context(|| format!("{cdb:02x?}"))?;
            }
        }
        for cdb in [[0x1b, 1, 0, 0, 1, 0], [0x1b, 0, 0, 0, 5, 0]] {
            bench.read(0, &cdb, 0)?.good()?;
        }
        Ok(())
    })
}

/// The LUN's NAA designator.
fn naa(bench: &mut Bench, lun: u8) -> Result<Vec<u8>> {
    let page = bench.read(lun, &[0x12, 1, 0x83, 1, 0, 0], 256)?.good()?;
    ensure!(page[4..8] == [1, 3, 0, 16], "the first designator is the NAA name");
    Ok(page[8..24].to_vec())
}

fn cscd(naa: &[u8]) -> Vec<u8> {
    let mut descriptor = vec![0; 32];
    descriptor[0] = 0xe4;
    descriptor[4..8].copy_from_slice(&[1, 3, 0, 16]);
    descriptor[8..24].copy_from_slice(naa);
    descriptor
}

fn block_segment(source: u16, destination: u16, count: u16, from: u64, to: u64) -> Vec<u8> {
    let mut segment = vec![0x02, 0, 0, 0x18];
    segment.extend(source.to_be_bytes());
    segment.extend(destination.to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(count.to_be_bytes());
    segment.extend(from.to_be_bytes());
    segment.extend(to.to_be_bytes());
    segment
}

fn byte_segment(source: u16, destination: u16, count: u32, from: u64, to: u64) -> Vec<u8> {
    let mut segment = vec![0x0a, 0, 0, 0x1c];
    segment.extend(source.to_be_bytes());
    segment.extend(destination.to_be_bytes());
    segment.extend(count.to_be_bytes());
    segment.extend((from / 512).to_be_bytes());
    segment.extend((to / 512).to_be_bytes());
    segment.extend(((from % 512) as u16).to_be_bytes());
    segment.extend(((to % 512) as u16).to_be_bytes());
    segment
}

fn copy(bench: &mut Bench, cscds: &[Vec<u8>], segments: &[Vec<u8>]) -> Result<Answer> {
    let (cscds, segments) = (cscds.concat(), segments.concat());
    let mut list = vec![0; 16];
    list[1] = 0x18;
    list[2..4].copy_from_slice(&(cscds.len() as u16).to_be_bytes());
    list[8..12].copy_from_slice(&(segments.len() as u32).to_be_bytes());
    let list = [list, cscds, segments].concat();
    let cdb = cdb16(0x83, 0, 0, list.len() as u32);
    bench.write(0, &cdb, &list)
}

/// The descriptors of VPD page 8Fh, by type.
fn third_party(page: &[u8], kind: u16) -> Result<Vec<u8>> {
    let mut rest = &page[4..];
    while rest.len() >= 4 {
        let (head, after) = rest.split_at(4);
        let (value, next) = after.split_at(u16_at(head, 2).into());
        if u16_at(head, 0) == kind {
            return Ok(value.to_vec());
        }
        rest = next;
    }
    None.with_context(|| format!("descriptor {kind:04x}h"))
}

#[test]
fn the_copy_manager_says_the_same_in_all_places() -> Result<()> {
    let mut bench = Bench::start()?;
    let page = bench.page(0x8f)?;
    let parameters = bench.read(0, &cdb16(0x84, 3, 0, 256), 256)?.good()?;
    let data = third_party(&page, 0x0004)?;
    assert_eq!(data[4..8], parameters[8..12], "descriptor counts");
    assert_eq!(data[8..12], parameters[12..16], "list length");
    let codes = third_party(&page, 0x0008)?;
    let count = usize::from(codes[0]);
    assert_eq!(codes[1..=count], parameters[44..], "descriptor type codes");
    let general = third_party(&page, 0x8001)?;
    assert_eq!(u32_at(&general, 0), u32::from(u16_at(&parameters, 34)), "concurrent copies");
    assert_eq!(u32_at(&general, 4), u32::from(parameters[36]), "those with a name");
    assert_eq!(general[8..12], parameters[16..20], "segment length");
    let commands = third_party(&page, 0x0001)?;
    let mut told = Vec::new();
    let mut rest = &commands[1..=usize::from(commands[0])];
    while let [opcode, count, after @ ..] = rest {
        let (actions, next) = after.split_at(usize::from(*count));
        told.extend(actions.iter().map(|action| (*opcode, Some(u16::from(*action)))));
        rest = next;
    }
    let supported = bench.supported()?;
    let third = supported.iter().filter(|row| [0x83, 0x84].contains(&row.opcode));
    assert_eq!(told, third.map(|row| (row.opcode, row.action)).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn the_copy_manager_takes_as_much_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    let parameters = bench.read(0, &cdb16(0x84, 3, 0, 256), 256)?.good()?;
    let cscds_max = usize::from(u16_at(&parameters, 8));
    let segments_max = usize::from(u16_at(&parameters, 10));
    let list_max = u32_at(&parameters, 12) as usize;
    let longest = u32_at(&parameters, 16);
    let codes = parameters[44..].to_vec();
    let (a, b) = (cscd(&naa(&mut bench, 0)?), cscd(&naa(&mut bench, 1)?));

    let mut cscds = vec![b.clone(); cscds_max];
    cscds[cscds_max - 1] = a.clone();
    let (last, zero) = (cscds_max as u16 - 1, 0);
    let segments: Vec<_> = (0..segments_max as u64)
        .map(|at| byte_segment(last, zero, 1536, at * 1536, (segments_max as u64 - at) * 1536))
        .collect();
    assert_eq!(32 * (cscds_max + segments_max), list_max, "the longest list is one of these");
    assert!(copy(&mut bench, &cscds, &segments)?.good()?.is_empty());
    let count = 3 * segments_max as u32;
    let (source, target) = (bench.blocks(0, 0, count)?, bench.blocks(1, 3, count)?);
    assert!(source.chunks(1536).rev().collect::<Vec<_>>().concat() == target);

    let pair = [a.clone(), b.clone()];
    let most = block_segment(0, 1, u16::MAX, 9, 11);
    copy(&mut bench, &pair, &[most])?.good()?;
    assert!(bench.blocks(0, 9, 65_535)? == bench.blocks(1, 11, 65_535)?);
    bench.unchanged(|bench| {
        let one = block_segment(0, 1, 8, 0, 0);
        let cscds = vec![a.clone(); cscds_max + 1];
        assert_eq!(copy(bench, &cscds, from_ref(&one))?.code(), Some((5, 0x26, 6)));
        let segments = vec![one.clone(); segments_max + 1];
        assert_eq!(copy(bench, &pair, &segments)?.code(), Some((5, 0x26, 8)));
        let long = byte_segment(0, 1, longest + 1, 0, 0);
        assert_eq!(copy(bench, &pair, &[long])?.code(), INVALID_LIST);
        for code in (0..=255u8).filter(|code| !codes.contains(code)) {
            let mut segment = one.clone();
            segment[0] = code;
            assert_eq!(copy(bench, &pair, &[segment])?.code(), Some((5, 0x26, 9)), "{code:02x}h");
            let mut descriptor = a.clone();
            descriptor[0] = code;
            let answer = copy(bench, &[descriptor, b.clone()], from_ref(&one))?;
            assert_eq!(answer.code(), Some((5, 0x26, 7)), "{code:02x}h");
        }
        let stranger = cscd(&[0x60; 16]);
        let answer = copy(bench, &[a.clone(), stranger], from_ref(&one))?;
        assert_eq!(answer.code(), Some((10, 0x0d, 2)));
        let mut inline = vec![0; 16];
        (inline[1], inline[15]) = (0x18, 1);
        let answer = bench.write(0, &cdb16(0x83, 0, 0, 17), &[inline, vec![0]].concat())?;
        assert_eq!(answer.code(), Some((5, 0x26, 0x0b)));
        Ok(())
    })
}

/// POPULATE TOKEN of as many ranges of one block as wanted.
fn populate(bench: &mut Bench, timeout: u32, ranges: u64) -> Result<Answer> {
    let mut list = vec![0; 14];
    list[4..8].copy_from_slice(&timeout.to_be_bytes());
    list.extend((16 * ranges as u16).to_be_bytes());
    for at in 0..ranges {
        list.extend((2 * at).to_be_bytes());
        list.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    }
    let length = list.len() as u16 - 2;
    list[..2].copy_from_slice(&length.to_be_bytes());
    bench.write(0, &cdb16(0x83, 0x10, 0, list.len() as u32), &list)
}

#[test]
fn tokens_are_made_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    let page = bench.page(0x8f)?;
    let limits = third_party(&page, 0x0000)?;
    let (ranges, timeout) = (u64::from(u16_at(&limits, 6)), u32_at(&limits, 8));
    let features = third_party(&page, 0x0106)?;
    assert_eq!(u32_at(&features, 20), timeout, "inactivity timeout");
    let kinds = third_party(&page, 0x0108)?;
    assert_eq!(usize::from(u16_at(&kinds, 2)), kinds.len() - 4);
    let kinds: Vec<_> = kinds[4..].chunks(64).map(|kind| (u32_at(kind, 0), kind[4])).collect();
    assert_eq!(kinds, [(0x0080_0000, 3), (0xffff_0001, 2)]);
    populate(&mut bench, timeout, ranges)?.good()?;
    bench.unchanged(|bench| {
        assert_eq!(populate(bench, timeout, ranges + 1)?.code(), Some((5, 0x26, 8)));
        assert_eq!(populate(bench, timeout + 1, ranges)?.code(), INVALID_LIST);
        let mut other = vec![0; 32];
        (other[1], other[2], other[8], other[15], other[27]) = (30, 2, 1, 16, 1);
        let answer = bench.write(0, &cdb16(0x83, 0x10, 0, 32), &other)?;
        assert_eq!((answer.code(), answer.field()), (INVALID_LIST, Some((8, None))));
        Ok(())
    })
}

/// SNLID: a copy with LIST ID USAGE 11b has no list identifier, and leaves no outcome to ask for.
#[test]
fn a_copy_needs_no_list_identifier_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    assert_eq!(bench.read(0, &cdb16(0x84, 3, 0, 256), 256)?.good()?[4], 1, "SNLID");
    let (a, b) = (cscd(&naa(&mut bench, 0)?), cscd(&naa(&mut bench, 1)?));
    let list = |usage: u8, id: u8| {
        let mut header = vec![0; 16];
        (header[0], header[1], header[3], header[11]) = (id, usage, 64, 28);
        [header, a.clone(), b.clone(), block_segment(0, 1, 8, 0, 0)].concat()
    };
    let mut copy = |usage, id| {
        let list = list(usage, id);
        bench.write(0, &cdb16(0x83, 0, 0, list.len() as u32), &list)
    };
    copy(0x18, 0)?.good()?;
    assert_eq!(copy(0x18, 7)?.code(), INVALID_LIST, "an identifier that is said not to be there");
    copy(0x10, 7)?.good()?;
    let mut status = cdb16(0x84, 0, 0, 12);
    assert_eq!(bench.read(0, &status, 12)?.code(), INVALID_CDB, "no identifier, no outcome");
    status[2] = 7;
    assert_eq!(bench.read(0, &status, 12)?.good()?[4], 1, "completed");
    Ok(())
}

#[test]
fn a_token_represents_as_much_as_told() -> Result<()> {
    let mut bench = Bench::start()?;
    let limits = third_party(&bench.page(0x8f)?, 0x0000)?;
    let most = u32_at(&limits, 20);
    assert_eq!(u32_at(&limits, 16), 0, "no more than a descriptor can say");
    let lun =
        bench.array.create_lun("p/large", &(u64::from(most) * 512 + (1 << 20)).to_string())?;
    let lun = u8::try_from(lun)?;
    bench.write(lun, &cdb16(0x8a, 0, most.into(), 1), &pattern(0x21, 1))?.good()?;
    let mut populate = |ranges: &[(u64, u32)]| {
        let mut list = vec![0; 16];
        list[1] = 14 + 16 * ranges.len() as u8;
        list[15] = 16 * ranges.len() as u8;
        for (lba, count) in ranges {
            list.extend(lba.to_be_bytes());
            list.extend(count.to_be_bytes());
            list.extend([0; 4]);
        }
        bench.write(lun, &cdb16(0x83, 0x10, 0, list.len() as u32), &list)
    };
    populate(&[(1, most)])?.good()?;
    populate(&[(0, 1), (2, most - 1)])?.good()?;
    assert_eq!(populate(&[(0, most + 1)])?.code(), INVALID_LIST);
    assert_eq!(populate(&[(0, 1), (2, most)])?.code(), INVALID_LIST);
    Ok(())
}

#[test]
fn standard_inquiry_data_says_what_is_so() -> Result<()> {
    let mut bench = Bench::start()?;
    let one = bench.read(0, &[0x12, 0, 0, 0, 255, 0], 255)?.good()?;
    let two = bench.read(1, &[0x12, 0, 0, 0, 255, 0], 255)?.good()?;
    assert_eq!(one, two, "identical on every LUN");
    assert_eq!(usize::from(one[4]) + 5, one.len());
    assert_eq!(one[5] >> 4 & 3, 1, "TPGS: implicit");
    bench.read(0, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256)?.good()?;
    let set = [0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bench.read(0, &set, 0)?.code(), INVALID_CDB, "another service action");
    assert_eq!(one[5] >> 3 & 1, 1, "3PC");
    assert_eq!(one[5] & 1, 0, "no PROTECT");
    assert_eq!(one[6], 0, "no ENCSERV, and no MULTIP: there is one port");
    assert_eq!(one[7], 2, "CMDQUE");
    assert_eq!([one[0], one[1], one[2], one[3]], [0, 0, 6, 0x12], "no RMB, SPC-4, HISUP, format 2");
    let mut versions = one[58..].chunks(2).map(|version| u16_at(version, 0));
    assert!(versions.all(|version| [0, 0xa0, 0x460, 0x4c0, 0x600, 0x960].contains(&version)));
    Ok(())
}

#[test]
fn sanitize_erases_what_it_says_and_refuses_what_it_does_not_offer() -> Result<()> {
    let mut bench = Bench::start()?;
    let offered: Vec<_> = bench.supported()?;
    let offered = offered.iter().filter(|row| row.opcode == 0x48).map(|row| row.action);
    assert_eq!(offered.collect::<Vec<_>>(), [Some(1), Some(2), Some(0x1f)]);
    bench.unchanged(|bench| {
        for cdb in [[0x48, 3, 0, 0, 0, 0, 0, 0, 0, 0], [0x48, 2, 0, 0, 0, 0, 0, 0, 1, 0]] {
            assert_eq!(bench.read(0, &cdb, 0)?.code(), INVALID_CDB);
        }
        let list = [1, 0, 0, 2, 5];
        let answer = bench.write(0, &[0x48, 1, 0, 0, 0, 0, 0, 0, 5, 0], &list)?;
        assert_eq!(answer.code(), INVALID_LIST);
        Ok(())
    })?;
    // WABEREQ: after a block erase, reads succeed.
    assert_eq!(bench.page(0xb1)?[7] >> 6, 1);
    bench.read(0, &[0x48, 2, 0, 0, 0, 0, 0, 0, 0, 0], 0)?.good()?;
    assert!(bench.whole(0)?.iter().all(|&byte| byte == 0));
    bench.write(0, &[0x48, 1, 0, 0, 0, 0, 0, 0, 6, 0], &[1, 0, 0, 2, 5, 6])?.good()?;
    assert!(bench.whole(0)?.chunks(2).all(|pair| pair == [5, 6]));
    Ok(())
}
