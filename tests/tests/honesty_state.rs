//! The array keeps what it says of forms of volumes, provisioning, ports, reservations, tasks and
//! mode parameters: each bit, tried.

use anyhow::{Context, Result};
use harness::wire::{Wire, cdb16, function};
use harness::{Array, number};

const NAME: &str = "iqn.2026-01.org.example:state";
const INVALID_CDB: Option<(u8, u8, u8)> = Some((5, 0x24, 0));
const INVALID_LIST: Option<(u8, u8, u8)> = Some((5, 0x26, 0));

struct Bench {
    array: Array,
    session: Wire,
}

impl Bench {
    /// An array with a volume for each list of words, mapped as LUN 0, 1 and so on.
    fn start(volumes: &[&[&str]]) -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        for (lun, words) in volumes.iter().enumerate() {
            let path = format!("p/v{lun}");
            let words = [&["volume", "create", &path, "--size", "16M"], *words].concat();
            array.gantry(&words)?;
            array.gantry(&["volume", "map", &path, "--host", "any", "--lun", &lun.to_string()])?;
        }
        let session = log_in(&array, NAME)?;
        Ok(Self { array, session })
    }

    fn page(&mut self, lun: u16, code: u8) -> Result<Vec<u8>> {
        self.session.run(lun, &[0x12, 1, code, 4, 0, 0], &[], 1024)?.good()
    }

    fn capacity(&mut self, lun: u16) -> Result<Vec<u8>> {
        self.session.run(lun, &cdb16(0x9e, 0x10, 0, 32), &[], 32)?.good()
    }

    /// PROVISIONING STATUS of a block.
    fn state_of(&mut self, lun: u16, lba: u64) -> Result<u8> {
        let told = self.session.run(lun, &cdb16(0x9e, 0x12, lba, 24), &[], 24)?.good()?;
        Ok(told[20] & 0x0f)
    }
}

fn log_in(array: &Array, name: &str) -> Result<Wire> {
    Wire::log_in(array.portal(), name, &array.target_name()?)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn unmap_list(lba: u64, count: u32) -> Vec<u8> {
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend(lba.to_be_bytes());
    list.extend(count.to_be_bytes());
    list.extend([0; 4]);
    list
}

#[test]
fn what_is_unmapped_is_anchored_where_told_and_only_there() -> Result<()> {
    let mut bench = Bench::start(&[&[], &["--thick"]])?;
    for (lun, told, state) in [(0, [0xe4, 2], 1), (1, [0xe6, 1], 2)] {
        assert_eq!(bench.page(lun, 0xb2)?[5..7], told);
        assert_eq!(bench.capacity(lun)?[14] >> 6, 3, "LBPME, LBPRZ");
        let data = vec![0x5a; 8192];
        bench.session.run(lun, &cdb16(0x8a, 0, 0, 16), &data, 0)?.good()?;
        assert_eq!((bench.state_of(lun, 0)?, bench.state_of(lun, 16)?), (0, state));
        let anchors = [
            bench.session.run(lun, &cdb16(0x93, 0x18, 0, 8), &[0; 512], 0)?,
            bench.session.run(lun, &[0x42, 1, 0, 0, 0, 0, 0, 0, 24, 0], &unmap_list(8, 8), 0)?,
        ];
        let offers = told[0] & 2 != 0;
        for answer in anchors {
            assert_eq!(answer.code(), if offers { None } else { INVALID_CDB });
        }
        assert_eq!(bench.state_of(lun, 0)?, if offers { 2 } else { 0 });
        bench
            .session
            .run(lun, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &unmap_list(0, 16), 0)?
            .good()?;
        assert_eq!(bench.state_of(lun, 0)?, state);
        let read = bench.session.run(lun, &cdb16(0x88, 0, 0, 16), &[], 8192)?.good()?;
        assert!(read.iter().all(|&byte| byte == 0));
        // ANCHOR without UNMAP.
        let answer = bench.session.run(lun, &cdb16(0x93, 0x10, 0, 8), &[0; 512], 0)?;
        assert_eq!(answer.code(), INVALID_CDB);
    }
    Ok(())
}

#[test]
fn each_form_of_blocks_is_as_told_and_stays_so() -> Result<()> {
    let mut bench = Bench::start(&[&[], &["--block-size", "512e"], &["--block-size", "4096"]])?;
    bench.array.gantry(&["volume", "clone", "p/v2", "copy"])?;
    bench.array.gantry(&["volume", "map", "p/copy", "--host", "any", "--lun", "3"])?;
    let forms = [(0, 512, 0, 8), (1, 512, 3, 8), (2, 4096, 0, 1), (3, 4096, 0, 1)];
    for life in 0..2 {
        for (lun, bytes, exponent, granularity) in forms {
            let capacity = bench.capacity(lun)?;
            let blocks = (16 << 20) / u64::from(bytes);
            assert_eq!(capacity[..8], (blocks - 1).to_be_bytes());
            assert_eq!((u32_at(&capacity, 8), capacity[13] & 15), (bytes, exponent));
            let limits = bench.page(lun, 0xb0)?;
            assert_eq!(u32_at(&limits, 28), granularity, "OPTIMAL UNMAP GRANULARITY");
            assert_eq!(u64::from(u32_at(&limits, 8)) * u64::from(bytes), 32 << 20);
            let data = vec![lun as u8 + 7; bytes as usize];
            bench.session.run(lun, &cdb16(0x8a, 0, blocks - 1, 1), &data, 0)?.good()?;
            let read = bench.session.run(lun, &cdb16(0x88, 0, blocks - 1, 1), &[], bytes)?;
            assert_eq!(read.good()?, data);
            let beyond = bench.session.run(lun, &cdb16(0x8a, 0, blocks, 1), &data, 0)?;
            assert_eq!(beyond.code(), Some((5, 0x21, 0)));
        }
        if life == 0 {
            bench.array.kill()?;
            bench.array.restart()?;
            bench.session = log_in(&bench.array, NAME)?;
        }
    }
    let shown = bench.array.gantry_json(&["volume", "show", "p/copy"])?;
    assert_eq!(shown["block_size"], "4096");
    Ok(())
}

#[test]
fn hidden_reservations_are_not_there() -> Result<()> {
    const INVALID_OPCODE: Option<(u8, u8, u8)> = Some((5, 0x20, 0));
    let mut bench = Bench::start(&[&[], &[]])?;
    bench.array.gantry(&["volume", "reservations", "p/v0", "hidden"])?;
    let commands: [&[u8]; 5] = [
        &[0x16, 0, 0, 0, 0, 0],
        &[0x17, 0, 0, 0, 0, 0],
        &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x5e, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    for _life in 0..2 {
        for cdb in commands {
            assert_eq!(bench.session.run(0, cdb, &[], 0)?.code(), INVALID_OPCODE, "{cdb:02x?}");
            bench.session.run(1, cdb, &[], 0)?.good()?;
            let mut asked = [0xa3, 0x0c, 3, cdb[0], 0, 0, 0, 0, 0, 64, 0, 0];
            assert_eq!(bench.session.run(0, &asked, &[], 64)?.good()?[1] & 7, 1);
            asked[5] = 0;
            assert_eq!(bench.session.run(1, &asked, &[], 64)?.good()?[1] & 7, 3);
        }
        bench.array.kill()?;
        bench.array.restart()?;
        bench.session = log_in(&bench.array, NAME)?;
    }
    bench.array.gantry(&["volume", "reservations", "p/v0", "shown"])?;
    bench.session.run(0, commands[0], &[], 0)?.good()?;
    Ok(())
}

/// Target port groups as REPORT TARGET PORT GROUPS tells them: group and state.
fn groups(session: &mut Wire) -> Result<Vec<(u16, u8)>> {
    let cdb = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    let told = session.run(0, &cdb, &[], 1024)?.good()?;
    let mut rest = &told[4..];
    let mut groups = Vec::new();
    while !rest.is_empty() {
        groups.push((u16_at(rest, 2), rest[0] & 0x0f));
        rest = &rest[8 + 4 * usize::from(rest[7])..];
    }
    Ok(groups)
}

#[test]
fn every_path_tells_of_all_and_each_state_is_kept() -> Result<()> {
    const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let mut bench = Bench::start(&[&[]])?;
    let second = harness::array::free_address()?;
    bench.array.gantry(&["portal", "create", &second.to_string(), "--group", "2"])?;
    let standard = bench.session.run(0, &[0x12, 0, 0, 0, 96, 0], &[], 96)?.good()?;
    assert_eq!(standard[6], 0x10, "MULTIP");
    // Nobody came through the second portal yet.
    assert_eq!(groups(&mut bench.session)?, [(1, 0), (2, 0)]);
    let ports = bench.page(0, 0x88)?;
    let target = bench.array.target_name()?;
    let mut other = Wire::log_in(second, NAME, &target)?;
    assert_eq!(groups(&mut other)?, [(1, 0), (2, 0)]);
    assert_eq!(other.run(0, &[0x12, 1, 0x88, 4, 0, 0], &[], 1024)?.good()?, ports);
    for port in ["0x0001", "0x0002"] {
        let name = format!("{target},t,{port}");
        assert!(ports.windows(name.len()).any(|part| part == name.as_bytes()), "{port}");
    }
    // T_SUP, U_SUP, S_SUP, AN_SUP and AO_SUP, and no others: each state can be had.
    let cdb = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    assert_eq!(other.run(0, &cdb, &[], 1024)?.good()?[5], 0x8f);
    bench.array.gantry(&["portal", "state", "2", "transitioning"])?;
    assert_eq!(other.run_once(0, &READ, &[], 512)?.code(), Some((6, 0x2a, 6)));
    assert_eq!(groups(&mut other)?, [(1, 0), (2, 0xf)]);
    for cdb in [&READ[..], &[0; 6]] {
        assert_eq!(other.run(0, cdb, &[], 512)?.code(), Some((2, 4, 0x0a)));
    }
    bench.session.run(0, &READ, &[], 512)?.good()?;
    let states = [
        ("active-non-optimized", 1, None),
        ("standby", 2, Some((2, 4, 0x0b))),
        ("unavailable", 3, Some((2, 4, 0x0c))),
        ("active-optimized", 0, None),
    ];
    for (name, code, sense) in states {
        bench.array.gantry(&["portal", "state", "2", name])?;
        for session in [&mut other, &mut bench.session] {
            let told = session.run_once(0, &READ, &[], 512)?;
            assert_eq!(told.code(), Some((6, 0x2a, 6)), "{name} is told once");
            assert_eq!(groups(session)?, [(1, 0), (2, code)]);
        }
        assert_eq!(other.run(0, &READ, &[], 512)?.code(), sense, "{name}");
        bench.session.run(0, &READ, &[], 512)?.good()?;
        // What ESXi needs on a path without the medium.
        let discovery: [(&[u8], u32); 5] = [
            (&[0; 6], 0),
            (&[0x12, 0, 0, 0, 96, 0], 96),
            (&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8),
            (&[0x16, 0, 0, 0, 0, 0], 0),
            (&[0x17, 0, 0, 0, 0, 0], 0),
        ];
        for (cdb, length) in discovery {
            other.run(0, cdb, &[], length)?.good().with_context(|| format!("{name} {cdb:02x?}"))?;
        }
    }
    bench.array.gantry(&["portal", "state", "2", "standby"])?;
    bench.array.kill()?;
    bench.array.restart()?;
    let mut again = log_in(&bench.array, NAME)?;
    assert_eq!(groups(&mut again)?, [(1, 0), (2, 2)], "a state outlasts a restart");
    Ok(())
}

#[test]
fn every_task_attribute_that_is_told_is_taken() -> Result<()> {
    let mut bench = Bench::start(&[&[]])?;
    let page = bench.page(0, 0x86)?;
    assert_eq!(page[5] & 7, 7, "HEADSUP, ORDSUP, SIMPSUP");
    bench.session.run(0, &[0; 6], &[], 0)?.good()?;
    let cdb = cdb16(0x88, 0, 0, 1);
    for (attribute, taken) in [(0, true), (1, true), (2, true), (3, true), (4, false)] {
        let mut pdu = bench.session.command(0, &cdb, &[], 512);
        pdu.header[1] = pdu.header[1] & !7 | attribute;
        let answer = bench.session.finish(&pdu)?.answer;
        assert_eq!(answer.status == 0, taken, "task attribute {attribute}: {:?}", answer.code());
    }
    Ok(())
}

#[test]
fn every_task_management_function_that_is_told_is_there_and_no_other() -> Result<()> {
    const COMPLETE: u8 = 0;
    const NOT_SUPPORTED: u8 = 5;
    let mut bench = Bench::start(&[&[], &[]])?;
    let cdb = [0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0];
    let told = bench.session.run(0, &cdb, &[], 4)?.good()?;
    let functions = [
        (told[0] & 0x80, function::ABORT_TASK),
        (told[0] & 0x40, function::ABORT_TASK_SET),
        (told[0] & 0x20, function::CLEAR_ACA),
        (told[0] & 0x10, function::CLEAR_TASK_SET),
        (told[0] & 0x08, function::LOGICAL_UNIT_RESET),
        (told[0] & 0x04, function::QUERY_TASK),
        (told[0] & 0x02, function::TARGET_WARM_RESET),
        (told[1] & 0x04, function::QUERY_ASYNCHRONOUS_EVENT),
        (told[1] & 0x02, function::QUERY_TASK_SET),
        (told[1] & 0x01, function::I_T_NEXUS_RESET),
    ];
    for (is_told, code) in functions {
        // Nothing waits to be told, so that queries find nothing.
        bench.session.run(0, &[0; 6], &[], 0)?.good()?;
        let response = bench.session.manage(code, 0, 77)?;
        let right = if is_told != 0 { COMPLETE } else { NOT_SUPPORTED };
        assert_eq!(response, right, "function {code}");
        if is_told != 0 && ![function::ABORT_TASK, function::QUERY_TASK].contains(&code) {
            let nowhere = bench.session.manage(code, 0x4003, 77)?;
            let anywhere = [function::TARGET_WARM_RESET, function::I_T_NEXUS_RESET];
            let right = if anywhere.contains(&code) { COMPLETE } else { 2 };
            assert_eq!(nowhere, right, "function {code} where no logical unit is");
        }
    }
    Ok(())
}

/// PERSISTENT RESERVE OUT of the whole unit with a list of 24 bytes.
fn reserve_out(session: &mut Wire, action: u8, kind: u8, keys: [u64; 2]) -> Result<u8> {
    let mut list = keys.map(u64::to_be_bytes).concat();
    list.resize(24, 0);
    let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
    Ok(session.run(0, &cdb, &list, 0)?.status)
}

#[test]
fn every_type_of_reservation_that_is_told_can_be_had_and_no_other() -> Result<()> {
    let mut bench = Bench::start(&[&[]])?;
    let cdb = [0x5e, 2, 0, 0, 0, 0, 0, 0, 8, 0];
    let told = bench.session.run(0, &cdb, &[], 8)?.good()?;
    assert_eq!(u16_at(&told, 0), 8);
    assert_eq!(told[2] & 0x1d, 0x1d, "CRH, SIP_C, ATP_C, PTPL_C");
    assert_eq!(told[3] & 0x80, 0x80, "TMV");
    assert_eq!(reserve_out(&mut bench.session, 0, 0, [0, 0xabc])?, 0, "REGISTER");
    for kind in 0..16 {
        let bit = if kind < 8 { told[4] >> kind } else { told[5] >> (kind - 8) } & 1;
        let status = reserve_out(&mut bench.session, 1, kind, [0xabc, 0])?;
        assert_eq!(status == 0, bit == 1, "type {kind:x}h");
        if bit == 1 {
            let held =
                bench.session.run(0, &[0x5e, 1, 0, 0, 0, 0, 0, 0, 24, 0], &[], 24)?.good()?;
            assert_eq!(held[21], kind);
            assert_eq!(reserve_out(&mut bench.session, 2, kind, [0xabc, 0])?, 0, "RELEASE");
        }
    }
    // CRH: RESERVE and RELEASE of the holder succeed, and do nothing (SPC-4 5.13.3).
    assert_eq!(bench.session.run(0, &[0x16, 0, 0, 0, 0, 0], &[], 0)?.status, 0x18);
    assert_eq!(reserve_out(&mut bench.session, 1, 1, [0xabc, 0])?, 0, "RESERVE");
    bench.session.run(0, &[0x16, 0, 0, 0, 0, 0], &[], 0)?.good()?;
    bench.session.run(0, &[0x17, 0, 0, 0, 0, 0], &[], 0)?.good()?;
    Ok(())
}

/// Mode pages without header and block descriptor: `control` is 0 for current values, 1 for what
/// can be changed, 3 for saved ones.
fn mode_pages(session: &mut Wire, control: u8) -> Result<Vec<Vec<u8>>> {
    let cdb = [0x5a, 0x08, control << 6 | 0x3f, 0xff, 0, 0, 0, 4, 0, 0];
    let all = session.run(0, &cdb, &[], 1024)?.good()?;
    let mut rest = &all[8..];
    let mut pages = Vec::new();
    while !rest.is_empty() {
        let length = match rest[0] & 0x40 {
            0 => 2 + usize::from(rest[1]),
            _ => 4 + usize::from(u16_at(rest, 2)),
        };
        let (page, after) = rest.split_at(length);
        pages.push(page.to_vec());
        rest = after;
    }
    Ok(pages)
}

fn mode_select(session: &mut Wire, page: &[u8], save: u8) -> Result<Option<(u8, u8, u8)>> {
    let mut list = vec![0; 8];
    list.extend(page);
    list[8] &= 0x7f;
    let cdb = [0x55, 0x10 | save, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    Ok(session.run(0, &cdb, &list, 0)?.code())
}

#[test]
fn every_mode_bit_that_is_told_can_be_changed_and_no_other() -> Result<()> {
    let mut bench = Bench::start(&[&[]])?;
    let (before, masks) = (mode_pages(&mut bench.session, 0)?, mode_pages(&mut bench.session, 1)?);
    assert_eq!(before.len(), masks.len());
    for (page, mask) in before.iter().zip(&masks) {
        let header = if page[0] & 0x40 == 0 { 2 } else { 4 };
        for bit in header * 8..page.len() * 8 {
            let mut other = page.clone();
            other[bit / 8] ^= 0x80 >> (bit % 8);
            let told = mode_select(&mut bench.session, &other, 0)?;
            let changeable = mask[bit / 8] & 0x80 >> (bit % 8) != 0;
            assert_eq!(told, if changeable { None } else { INVALID_LIST }, "{page:02x?} bit {bit}");
            if changeable {
                assert!(mode_pages(&mut bench.session, 0)?.contains(&other), "bit {bit}");
                assert_eq!(mode_select(&mut bench.session, page, 0)?, None);
            }
        }
    }
    assert_eq!(mode_pages(&mut bench.session, 0)?, before);
    // PS: the control page with TAS cleared is there after a loss of power if it was saved.
    let control = before.iter().position(|page| page[0] & 0x3f == 0x0a).context("page 0Ah")?;
    let mut other = before[control].clone();
    other[5] ^= 0x40;
    assert_eq!(other[0] & 0x80, 0x80, "PS");
    assert_eq!(mode_select(&mut bench.session, &other, 1)?, None);
    bench.array.kill()?;
    bench.array.restart()?;
    bench.session = log_in(&bench.array, NAME)?;
    for control_of_values in [0, 3] {
        assert_eq!(mode_pages(&mut bench.session, control_of_values)?[control], other);
    }
    Ok(())
}

/// VPD pages 87h and 86h: pages are shared by all nexuses, and each unit has its own; that the
/// inventory changed is told on one unit only.
#[test]
fn mode_pages_are_shared_and_attentions_cleared_as_told() -> Result<()> {
    let mut bench = Bench::start(&[&[], &[]])?;
    let mut other = log_in(&bench.array, "iqn.2026-01.org.example:other")?;
    assert_eq!(bench.page(0, 0x87)?[4..], [0x3f, 0xff, 0, 0], "all pages: shared, not by units");
    for lun in [0, 1] {
        other.run(lun, &[0; 6], &[], 0)?.good()?;
        bench.session.run(lun, &[0; 6], &[], 0)?.good()?;
    }
    let before = mode_pages(&mut other, 0)?;
    let control = before.iter().position(|page| page[0] & 0x3f == 0x0a).context("page 0Ah")?;
    let mut wanted = before[control].clone();
    wanted[5] ^= 0x40;
    assert_eq!(mode_select(&mut bench.session, &wanted, 0)?, None);
    assert_eq!(other.run_once(0, &[0; 6], &[], 0)?.code(), Some((6, 0x2a, 1)));
    other.run_once(1, &[0; 6], &[], 0)?.good()?;
    assert_eq!(mode_pages(&mut other, 0)?[control], wanted);
    let of_one = other.run(1, &[0x5a, 8, 0x0a, 0, 0, 0, 0, 4, 0, 0], &[], 1024)?.good()?;
    assert_eq!(of_one[8..], before[control]);
    assert_eq!(bench.page(0, 0x86)?[7], 1, "LUICLR");
    bench.array.create_lun("p/more", "16M")?;
    assert_eq!(other.run_once(1, &[0; 6], &[], 0)?.code(), Some((6, 0x3f, 0x0e)));
    other.run_once(0, &[0; 6], &[], 0)?.good()?;
    assert_eq!(bench.session.run_once(0, &[0; 6], &[], 0)?.code(), Some((6, 0x3f, 0x0e)));
    bench.session.run_once(1, &[0; 6], &[], 0)?.good()?;
    Ok(())
}

#[test]
fn every_log_page_that_is_told_is_there_and_agrees_with_the_administrator() -> Result<()> {
    let mut bench = Bench::start(&[&[]])?;
    let sense = |code: u8| [0x4d, 0, 0x40 | code, 0, 0, 0, 0, 4, 0, 0];
    let list = bench.session.run(0, &sense(0), &[], 1024)?.good()?[4..].to_vec();
    for code in 0..0x40 {
        let answer = bench.session.run(0, &sense(code), &[], 1024)?;
        assert_eq!(answer.status == 0, list.contains(&code), "page {code:02x}h");
    }
    bench.session.run(0, &cdb16(0x8a, 0, 0, 16), &vec![3; 8192], 0)?.good()?;
    let page = bench.session.run(0, &sense(0x0c), &[], 1024)?.good()?;
    // USED LBA MAPPING RESOURCE COUNT, the second parameter, in threshold sets of 4 KiB.
    assert_eq!(page[16..18], [0, 2]);
    let mapped = number(&bench.array.gantry_json(&["volume", "show", "p/v0"])?, "/mapped_bytes")?;
    assert_eq!(u64::from(u32_at(&page, 20)) * 4096, mapped);
    assert_eq!(mapped, 8192);
    Ok(())
}
