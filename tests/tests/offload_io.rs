//! Offloads are work on the map: the device's own byte counters prove it.

use anyhow::Result;
use harness::pdu::RawSession;
use harness::{Array, Value, initiator, number, text};

const MIB: u64 = 1 << 20;

/// What journal and map may cost, far below the 4 MiB that a copy of data would.
const METADATA_BYTES_MAX: u64 = MIB / 2;

struct Bench {
    array: Array,
    session: RawSession,
    lun: u8,
    naa: Vec<u8>,
}

/// An array with one LUN whose first 16 MiB hold a pattern.
fn bench() -> Result<Bench> {
    let array = Array::start()?;
    array.create_pool("p", "2G")?;
    let lun = array.create_lun("p/v", "1G")?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 0x5a 0 16M"])?;
    let volume = array.gantry_json(&["volume", "show", "p/v"])?;
    let digits = text(&volume, "/naa")?.trim_start_matches("naa.").to_owned();
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16);
    let naa = (0..digits.len()).step_by(2).map(pair).collect::<Result<Vec<_>, _>>()?;
    let name = "iqn.2026-01.org.example:offload";
    let session = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    Ok(Bench { array, session, lun: u8::try_from(lun)?, naa })
}

impl Bench {
    fn pool(&self) -> Result<Value> {
        self.array.gantry_json(&["pool", "show", "p"])
    }

    fn device_bytes(&self) -> Result<DeviceBytes> {
        let pool = self.pool()?;
        let counter = |name: &str| number(&pool, &format!("/counters/{name}"));
        Ok(DeviceBytes {
            data_written: counter("data_bytes_written")?,
            written: counter("device_bytes_written")?,
            read: counter("device_bytes_read")?,
        })
    }

    fn url(&self) -> Result<String> {
        self.array.lun_url(self.lun.into())
    }
}

#[derive(Clone, Copy)]
struct DeviceBytes {
    data_written: u64,
    written: u64,
    read: u64,
}

impl DeviceBytes {
    fn assert_only_metadata_since(self, earlier: Self) {
        assert_eq!(self.data_written - earlier.data_written, 0, "bytes of data written");
        let (written, read) = (self.written - earlier.written, self.read - earlier.read);
        assert!(written <= METADATA_BYTES_MAX, "{written} bytes written");
        assert!(read <= METADATA_BYTES_MAX, "{read} bytes read");
    }
}

/// EXTENDED COPY(LID1) parameter list with one block-to-block segment (SPC-4 6.4), as ESXi
/// sends it: no list identifier, two identification descriptors.
fn copy_parameters(naa: &[u8], blocks: u16, from: u64, to: u64) -> Vec<u8> {
    let mut list = vec![0; 16];
    list[1] = 0x18;
    list[3] = 64;
    list[11] = 28;
    for _ in 0..2 {
        let mut descriptor = [0; 32];
        descriptor[0] = 0xe4;
        descriptor[4..8].copy_from_slice(&[1, 3, 0, 16]);
        descriptor[8..24].copy_from_slice(naa);
        descriptor[30] = 2;
        list.extend(descriptor);
    }
    let mut segment = [0; 28];
    segment[..8].copy_from_slice(&[0x02, 0, 0, 0x18, 0, 0, 0, 1]);
    segment[10..12].copy_from_slice(&blocks.to_be_bytes());
    segment[12..20].copy_from_slice(&from.to_be_bytes());
    segment[20..28].copy_from_slice(&to.to_be_bytes());
    list.extend(segment);
    list
}

fn extended_copy(parameters: &[u8]) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[13] = u8::try_from(parameters.len()).expect("one segment is short");
    cdb
}

#[test]
fn extended_copy_of_an_aligned_range_moves_no_data() -> Result<()> {
    let mut bench = bench()?;
    let blocks = u16::try_from(4 * MIB / 512)?;
    let parameters = copy_parameters(&bench.naa, blocks, 0, 64 * MIB / 512);
    let before = bench.device_bytes()?;
    bench.session.write(bench.lun, &extended_copy(&parameters), &parameters)?.good()?;
    bench.device_bytes()?.assert_only_metadata_since(before);
    initiator::qemu_io(
        &["-f", "raw", &bench.url()?],
        &["read -P 0x5a 64M 4M", "read -P 0 68M 4M"],
    )?;
    Ok(())
}

#[test]
fn write_same_of_zeroes_writes_no_data_and_reads_as_zeroes() -> Result<()> {
    let mut bench = bench()?;
    let mut cdb = [0; 16];
    cdb[0] = 0x93;
    cdb[10..14].copy_from_slice(&u32::try_from(4 * MIB / 512)?.to_be_bytes());
    let before = bench.device_bytes()?;
    bench.session.write(bench.lun, &cdb, &[0; 512])?.good()?;
    bench.device_bytes()?.assert_only_metadata_since(before);
    initiator::qemu_io(&["-f", "raw", &bench.url()?], &["read -P 0 0 4M", "read -P 0x5a 4M 12M"])?;
    Ok(())
}

#[test]
fn unmap_writes_no_data_and_gives_the_space_back() -> Result<()> {
    let mut bench = bench()?;
    let mapped = |bench: &Bench| -> Result<u64> {
        number(&bench.array.gantry_json(&["volume", "show", "p/v"])?, "/mapped_bytes")
    };
    let mapped_before = mapped(&bench)?;
    let mut parameters = [0; 24];
    parameters[..4].copy_from_slice(&[0, 22, 0, 16]);
    parameters[16..20].copy_from_slice(&u32::try_from(8 * MIB / 512)?.to_be_bytes());
    let before = bench.device_bytes()?;
    let cdb = [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    bench.session.write(bench.lun, &cdb, &parameters)?.good()?;
    bench.device_bytes()?.assert_only_metadata_since(before);
    assert_eq!(mapped_before - mapped(&bench)?, 8 * MIB);
    initiator::qemu_io(&["-f", "raw", &bench.url()?], &["read -P 0 0 8M", "read -P 0x5a 8M 8M"])?;
    Ok(())
}
