//! Numbers that do not fit where SCSI first had room for them: addresses beyond 2 TiB, LUN numbers
//! beyond 255.

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::pdu::{Answer, Pdu, RawConnection};

const BLOCK: usize = 512;
const NAME: &str = "iqn.2026-01.org.example:large";

/// A session that addresses LUNs by the first two bytes of the LUN field.
struct Session {
    connection: RawConnection,
    sent: u32,
}

impl Session {
    fn log_in(array: &Array) -> Result<Self> {
        let connection = RawConnection::log_in(array.portal(), NAME, &array.target_name()?)?;
        Ok(Self { connection, sent: 0 })
    }

    /// Runs a command, again if it only brought a unit attention.
    fn run(&mut self, lun: u16, cdb: &[u8], data: &[u8], length: u32) -> Result<Answer> {
        loop {
            let answer = self.run_once(lun, cdb, data, length)?;
            if answer.code().is_none_or(|(key, ..)| key != 6) {
                return Ok(answer);
            }
        }
    }

    fn run_once(&mut self, lun: u16, cdb: &[u8], data: &[u8], length: u32) -> Result<Answer> {
        let (flags, length) = match (data.len(), length) {
            (0, 0) => (0, 0),
            (0, length) => (0x40, length),
            (sent, _) => (0x20, u32::try_from(sent)?),
        };
        let mut pdu = Pdu::command(self.sent, 0, cdb, flags, length).numbered(self.sent);
        pdu.header[8..10].copy_from_slice(&lun.to_be_bytes());
        pdu.data = data.to_vec();
        self.sent += 1;
        self.connection.send(&pdu.bytes())?;
        let mut received = Vec::new();
        loop {
            let pdu = self.connection.receive()?.context("the target closed the connection")?;
            let status = pdu.header[3];
            match pdu.header[0] & 0x3f {
                0x25 => received.extend(&pdu.data),
                0x21 => {
                    let sense = pdu.data.get(2..).unwrap_or_default().to_vec();
                    return Ok(Answer { status, data: received, sense });
                }
                other => ensure!(other == 0x20, "unexpected PDU {other:02x}h"),
            }
            if pdu.header[0] & 0x3f == 0x25 && pdu.header[1] & 1 != 0 {
                return Ok(Answer { status, data: received, sense: Vec::new() });
            }
        }
    }

    fn read(&mut self, lun: u16, lba: u64, count: u32) -> Result<Vec<u8>> {
        self.run(lun, &cdb16(0x88, 0, lba, count), &[], count * BLOCK as u32)?.good()
    }
}

fn cdb16(opcode: u8, flags: u8, lba: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..8 * BLOCK).map(|at| seed ^ (at % 251) as u8 ^ (at / BLOCK) as u8).collect()
}

/// EXTENDED COPY of 8 blocks within the LUN that it is sent to.
fn copy_list(from: u64, to: u64) -> Vec<u8> {
    let mut list = vec![0; 16];
    (list[1], list[11]) = (0x18, 28);
    let mut segment = [0; 28];
    segment[..8].copy_from_slice(&[0x02, 0, 0, 0x18, 0xff, 0xff, 0xff, 0xff]);
    segment[11] = 8;
    segment[12..20].copy_from_slice(&from.to_be_bytes());
    segment[20..28].copy_from_slice(&to.to_be_bytes());
    list.extend(segment);
    list
}

#[test]
fn a_volume_of_three_tebibytes_works_at_both_ends() -> Result<()> {
    const BLOCKS: u64 = 3 << 31;
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.create_lun("p/v", "3T")?;
    let mut session = Session::log_in(&array)?;
    let short = session.run(lun, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[], 8)?.good()?;
    assert_eq!(short[..4], [0xff; 4], "READ CAPACITY (10) points to the other one");
    let long = session.run(lun, &cdb16(0x9e, 0x10, 0, 32), &[], 32)?.good()?;
    assert_eq!(long[..8], (BLOCKS - 1).to_be_bytes());
    // The same place but for the bits beyond 32 must not be meant.
    let places = [0, 100, (1 << 32) - 8, 1 << 32, (1 << 32) + 100, BLOCKS - 8];
    for (seed, &lba) in places.iter().enumerate() {
        session.run(lun, &cdb16(0x8a, 0, lba, 8), &pattern(seed as u8), 0)?.good()?;
    }
    for (seed, &lba) in places.iter().enumerate() {
        assert!(session.read(lun, lba, 8)? == pattern(seed as u8), "block {lba}");
    }
    let last = pattern(5);
    let mut swap = cdb16(0x89, 0, BLOCKS - 8, 0);
    swap[13] = 1;
    let data = [&last[..BLOCK], &pattern(9)[..BLOCK]].concat();
    session.run(lun, &swap, &data, 0)?.good()?;
    assert_eq!(session.read(lun, BLOCKS - 8, 1)?, pattern(9)[..BLOCK]);
    let list = copy_list(BLOCKS - 8, 5000);
    let cdb = cdb16(0x83, 0, 0, u32::try_from(list.len())?);
    session.run(lun, &cdb, &list, 0)?.good()?;
    assert_eq!(session.read(lun, 5000, 8)?, session.read(lun, BLOCKS - 8, 8)?);
    session.run(lun, &cdb16(0x93, 0x08, 1 << 32, 8), &[0; BLOCK], 0)?.good()?;
    assert!(session.read(lun, 1 << 32, 8)?.iter().all(|&byte| byte == 0));
    assert!(session.read(lun, 0, 8)? == pattern(0));
    for lba in [BLOCKS - 7, BLOCKS, 1 << 63, u64::MAX - 7] {
        let answer = session.run(lun, &cdb16(0x8a, 0, lba, 8), &pattern(0), 0)?;
        assert_eq!(answer.code(), Some((5, 0x21, 0)), "block {lba}");
    }
    Ok(())
}

#[test]
fn lun_numbers_beyond_255_are_addressed_in_flat_space() -> Result<()> {
    const FLAT: u16 = 0x4000;
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    for (name, lun) in [("p/a", "1"), ("p/b", "257"), ("p/c", "16383")] {
        array.gantry(&["volume", "create", name, "--size", "16M"])?;
        array.gantry(&["volume", "map", name, "--host", "any", "--lun", lun])?;
    }
    let mut session = Session::log_in(&array)?;
    let list = session.run(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[], 256)?.good()?;
    let fields: Vec<_> = list[8..].chunks(8).map(|field| &field[..2]).collect();
    assert_eq!(fields, [[0, 1], [0x41, 1], [0x7f, 0xff]]);
    let luns = [1, FLAT | 257, FLAT | 16_383];
    for (seed, lun) in luns.into_iter().enumerate() {
        session.run(lun, &cdb16(0x8a, 0, 3, 8), &pattern(seed as u8), 0)?.good()?;
    }
    for (seed, lun) in luns.into_iter().enumerate() {
        assert!(session.read(lun, 3, 8)? == pattern(seed as u8), "LUN {lun:#x}");
    }
    // 1 may be said in both ways; nothing else is there.
    assert!(session.read(FLAT | 1, 3, 8)? == pattern(0));
    for nobody in [257, FLAT | 258, 0x8001, 0xc101] {
        let answer = session.run(nobody, &cdb16(0x88, 0, 3, 8), &[], 4096)?;
        assert_eq!(answer.code(), Some((5, 0x25, 0)), "LUN {nobody:#x}");
    }
    Ok(())
}
