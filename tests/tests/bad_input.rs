//! Nonsense on the wire stops nobody: not the daemon, not the session beside it.

use std::time::Duration;

use anyhow::Result;
use harness::pdu::{HEADER_BYTES, Pdu, RawConnection, RawSession};
use harness::random::Random;
use harness::{Array, initiator};

const INITIATOR: &str = "iqn.2026-01.org.example:nonsense";

/// How long a connection may be silent before the test takes it for an answer.
const SILENCE: Duration = Duration::from_millis(20);

/// A daemon with one LUN for nonsense and one for the bystander.
struct Bench {
    array: Array,
    target: String,
    nonsense_lun: u8,
    bystander_url: String,
}

fn bench() -> Result<Bench> {
    let array = Array::start()?;
    array.create_pool("p", "4G")?;
    let bystander = array.create_lun("p/bystander", "1G")?;
    let nonsense = array.create_lun("p/nonsense", "1G")?;
    Ok(Bench {
        target: array.target_name()?,
        nonsense_lun: u8::try_from(nonsense)?,
        bystander_url: array.lun_url(bystander)?,
        array,
    })
}

impl Bench {
    /// Runs `nonsense` beside verified I/O of another session, which must not notice.
    fn with_bystander(mut self, nonsense: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let bystander = initiator::start_verified_io(&self.bystander_url, 5)?;
        nonsense(&self)?;
        assert!(self.array.is_running()?, "the daemon stopped:\n{}", self.array.log());
        bystander.wait(Duration::from_secs(60)).and_then(|finished| finished.success())?;
        let log_in = RawConnection::log_in(self.array.portal(), INITIATOR, &self.target);
        assert!(log_in.is_ok(), "{log_in:?}");
        assert!(!self.array.log().contains("panicked"), "{}", self.array.log());
        Ok(())
    }

    fn connect(&self) -> Result<RawConnection> {
        RawConnection::open(self.array.portal())
    }

    fn log_in(&self) -> Result<RawConnection> {
        RawConnection::log_in(self.array.portal(), INITIATOR, &self.target)
    }

    fn login(&self) -> Pdu {
        Pdu::login(INITIATOR, &self.target)
    }
}

/// Sends bytes, takes what comes back, closes.
fn send(mut connection: RawConnection, bytes: &[u8]) -> Result<()> {
    connection.send_and_expect_anything(bytes);
    connection.drain(SILENCE)
}

#[test]
fn truncated_pdus_disturb_nobody() -> Result<()> {
    bench()?.with_bystander(|bench| {
        let login = bench.login().bytes();
        for length in [0, 1, 4, 5, 47, 48, 49, 52, login.len() - 1] {
            send(bench.connect()?, &login[..length])?;
        }
        let mut write =
            Pdu::command(1, bench.nonsense_lun, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0], 0x20, 4096);
        write.data = vec![0x55; 4096];
        let write = write.bytes();
        for length in [1, 8, 47, 48, 49, 2048, write.len() - 1] {
            send(bench.log_in()?, &write[..length])?;
        }
        Ok(())
    })
}

#[test]
fn oversized_pdus_disturb_nobody() -> Result<()> {
    bench()?.with_bystander(|bench| {
        let mut login = bench.login().bytes();
        login[5..8].copy_from_slice(&[0xff; 3]);
        login.resize(1 << 20, b'A');
        send(bench.connect()?, &login)?;
        let mut headers = bench.login().bytes();
        headers[4] = 0xff;
        headers.resize(4096, 0);
        send(bench.connect()?, &headers)?;
        let keys =
            Pdu { header: bench.login().header, additional: Vec::new(), data: vec![b'K'; 8192] };
        send(bench.connect()?, &keys.bytes())?;
        for (flags, expected_length) in
            [(0x20, u32::MAX), (0x40, u32::MAX), (0x60, u32::MAX), (0, 1)]
        {
            let cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0];
            let mut pdu = Pdu::command(2, bench.nonsense_lun, &cdb, flags, expected_length);
            pdu.data = vec![0x55; 1 << 20];
            send(bench.log_in()?, &pdu.bytes())?;
            let mut bytes = pdu.bytes();
            bytes[4..8].copy_from_slice(&[0xff; 4]);
            send(bench.log_in()?, &bytes)?;
        }
        Ok(())
    })
}

#[test]
fn random_bytes_instead_of_a_login_disturb_nobody() -> Result<()> {
    bench()?.with_bystander(|bench| {
        let mut random = Random::new(1);
        for _ in 0..50 {
            let length = usize::try_from(random.below(4096))?;
            send(bench.connect()?, &random.bytes(length))?;
        }
        for _ in 0..100 {
            let mut login = bench.login().bytes();
            for _ in 0..=random.below(8) {
                let at = usize::try_from(random.below(login.len() as u64))?;
                login[at] = random.bytes(1)[0];
            }
            send(bench.connect()?, &login)?;
        }
        Ok(())
    })
}

/// A header of random bytes that leaves the bystander's LUN alone.
fn random_header(random: &mut Random, nonsense_lun: u8) -> Pdu {
    let mut header = [0; HEADER_BYTES];
    random.fill(&mut header);
    header[4] &= 3;
    header[8] = 0;
    header[9] = nonsense_lun;
    let length = usize::try_from(random.below(64)).expect("below 64");
    Pdu { header, additional: Vec::new(), data: random.bytes(length) }
}

#[test]
fn random_pdus_in_full_feature_phase_disturb_nobody() -> Result<()> {
    bench()?.with_bystander(|bench| {
        let mut random = Random::new(2);
        for opcode in 0..=0x3f {
            for _ in 0..4 {
                let mut pdu = random_header(&mut random, bench.nonsense_lun);
                pdu.header[0] = opcode | pdu.header[0] & 0x40;
                pdu.header[4] = 0;
                send(bench.log_in()?, &pdu.numbered(u32::from(opcode & 1)).bytes())?;
            }
        }
        for _ in 0..64 {
            let pdu = random_header(&mut random, bench.nonsense_lun);
            send(bench.log_in()?, &pdu.bytes())?;
        }
        Ok(())
    })
}

#[test]
fn random_cdbs_and_parameter_lists_disturb_nobody() -> Result<()> {
    bench()?.with_bystander(|bench| {
        let mut random = Random::new(3);
        for opcode in 0..=0xff_u8 {
            let mut connection = bench.log_in()?;
            for number in 0..8 {
                let mut cdb = random.bytes(16);
                cdb[0] = opcode;
                let flags = [0, 0x20, 0x40, 0x60][usize::try_from(random.below(4))?];
                let length = u32::try_from(random.below(8192))?;
                let mut pdu = Pdu::command(number, bench.nonsense_lun, &cdb, flags, length);
                if flags & 0x20 != 0 {
                    pdu.data = random.bytes(length as usize);
                }
                connection.send_and_expect_anything(&pdu.numbered(number).bytes());
            }
            connection.drain(SILENCE)?;
        }
        Ok(())
    })
}

#[test]
fn connections_that_say_nothing_disturb_nobody() -> Result<()> {
    bench()?.with_bystander(|bench| {
        let silent = (0..200).map(|_| bench.connect()).collect::<Result<Vec<_>>>()?;
        let logged_in = (0..8).map(|_| bench.log_in()).collect::<Vec<_>>();
        drop((silent, logged_in));
        Ok(())
    })
}

#[test]
fn the_bystander_notices_when_its_data_is_wrong() -> Result<()> {
    let bench = bench()?;
    initiator::qemu_io(&["-f", "raw", &bench.bystander_url], &["write -P 1 0 1M"])?;
    let wrong = initiator::qemu_io(&["-f", "raw", &bench.bystander_url], &["read -P 2 0 1M"]);
    assert!(wrong.is_err(), "a check that cannot fail proves nothing");
    Ok(())
}

/// Sense key of sense data in fixed or descriptor format (SPC-4 4.5).
fn sense_key(sense: &[u8]) -> Option<u8> {
    match sense.first()? & 0x7f {
        0x70 => sense.get(2).map(|key| key & 0x0f),
        _ => sense.get(1).map(|key| key & 0x0f),
    }
}

#[test]
fn compare_and_write_and_write_same_refuse_data_of_the_wrong_size() -> Result<()> {
    let bench = bench()?;
    let mut session = RawSession::log_in(bench.array.portal(), INITIATOR, &bench.target)?;
    let command = |operation: u8, blocks: u8| {
        let mut cdb = [0; 16];
        cdb[0] = operation;
        cdb[13] = blocks;
        cdb
    };
    for (cdb, length) in [
        (command(0x89, 1), 2048),
        (command(0x89, 1), 512),
        (command(0x89, 3), 2048),
        (command(0x89, 0), 1024),
        (command(0x93, 1), 1024),
        (command(0x93, 8), 4096),
    ] {
        let answer = session.write(bench.nonsense_lun, &cdb, &vec![0x55; length])?;
        assert_eq!(answer.status, 2, "{cdb:02x?} with {length} bytes");
        assert_eq!(sense_key(&answer.sense), Some(5), "{cdb:02x?}: {:02x?}", answer.sense);
    }
    let url = bench.array.lun_url(bench.nonsense_lun.into())?;
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 0 0 1M"])?;
    Ok(())
}
