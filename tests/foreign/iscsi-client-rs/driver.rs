//! Driver for iscsi-client-rs: logs in with CHAP and digests, asks, writes, reads, is refused.
//!
//! Usage: driver FILE refused, or driver FILE BLOCKS SESSIONS. FILE is that initiator's own
//! configuration. All I/O is to LUN 0.
//!
//! One thread: the library forgets a command at the F bit of an R2T, and finds it again only if
//! nothing runs between the two.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use iscsi_client_rs::cfg::config::Config;
use iscsi_client_rs::client::client::ClientConnection;
use iscsi_client_rs::client::pool_sessions::Pool;
use iscsi_client_rs::control_block::inquiry::{
    VpdPage, fill_inquiry_standard_simple, fill_inquiry_vpd_simple, parse_inquiry_standard,
    parse_vpd_device_id, parse_vpd_supported_pages, parse_vpd_unit_serial,
};
use iscsi_client_rs::control_block::read::{build_read10, build_read16};
use iscsi_client_rs::control_block::read_capacity::{
    build_read_capacity10, build_read_capacity16, parse_read_capacity10_zerocopy,
    parse_read_capacity16_zerocopy,
};
use iscsi_client_rs::control_block::write::{build_write10, build_write16};
use iscsi_client_rs::state_machine::read_states::ReadCtx;
use iscsi_client_rs::state_machine::tur_states::TurCtx;
use iscsi_client_rs::state_machine::write_states::WriteCtx;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const BLOCK: usize = 512;

/// What each session has to itself.
const PART_BLOCKS: u32 = 16_384;

/// The connection of each session, which has one.
const CID: u16 = 0;

type Cdb = [u8; 16];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [file, "refused"] => refused(file).await,
        [file, blocks, sessions] => run(file, blocks.parse()?, sessions.parse()?).await,
        _ => bail!("usage: driver FILE refused, or driver FILE BLOCKS SESSIONS"),
    }
}

async fn refused(file: &str) -> Result<()> {
    let config = Config::load_from_file(file)?;
    match Session::open(&config, 0).await {
        Ok(_) => bail!("the login was let in"),
        Err(error) => println!("refused: {error:#}"),
    }
    Ok(())
}

async fn run(file: &str, blocks: u64, sessions: u8) -> Result<()> {
    let config = Arc::new(Config::load_from_file(file)?);
    let mut set = JoinSet::new();
    for index in 0..sessions {
        let config = Arc::clone(&config);
        set.spawn(async move {
            work(&config, index, blocks).await.with_context(|| format!("session {index}"))
        });
    }
    while let Some(outcome) = set.join_next().await {
        outcome??;
    }
    println!("done");
    Ok(())
}

async fn work(config: &Config, index: u8, blocks: u64) -> Result<()> {
    let session = Session::open(config, index).await?;
    // The unit attention of a new I_T nexus, which this library hands on.
    let first = session.test_unit_ready().await;
    ensure!(first.is_err(), "no unit attention at the first command");
    session.test_unit_ready().await?;
    session.identify().await?;
    session.capacity(blocks).await?;
    let start = u32::from(index) * PART_BLOCKS;
    for length in [1, 8, 128, 129, 4096] {
        let data: Vec<_> = (0..length * BLOCK).map(|at| (at / 3 + length) as u8 ^ index).collect();
        session.write(start, &data).await?;
        ensure!(session.read(start, data.len()).await? == data, "{length} blocks differ");
    }
    session.at_once(start, 0x61 + index).await?;
    session.refusals(blocks).await?;
    session.close().await
}

struct Session {
    pool: Arc<Pool>,
    tsih: u16,
    max_burst: usize,
}

impl Session {
    async fn open(config: &Config, index: u8) -> Result<Self> {
        let pool = Arc::new(Pool::new(config));
        pool.attach_self();
        let connection =
            ClientConnection::connect(config.clone(), CancellationToken::new()).await?;
        let target = Arc::from(config.login.identity.target_name.as_str());
        let isid = [0x40, 0, 0, 0, 0, index];
        let tsih = pool.login_and_insert(target, isid, CID, connection).await?;
        let max_burst = config.login.flow.max_burst_length as usize;
        Ok(Self { pool, tsih, max_burst })
    }

    /// A command that brings data.
    async fn ask(&self, cdb: Cdb, length: usize) -> Result<Vec<u8>> {
        let length = u32::try_from(length)?;
        let outcome = self.pool.execute_with(self.tsih, CID, |connection, itt, cmd_sn, stat_sn| {
            ReadCtx::new(connection, 0, itt, cmd_sn, stat_sn, length, cdb)
        });
        Ok(outcome.await?.data)
    }

    async fn tell(&self, cdb: Cdb, data: &[u8]) -> Result<()> {
        let outcome = self.pool.execute_with(self.tsih, CID, |connection, itt, cmd_sn, stat_sn| {
            WriteCtx::new(connection, 0, itt, cmd_sn, stat_sn, cdb, data)
        });
        outcome.await.map(drop)
    }

    async fn test_unit_ready(&self) -> Result<()> {
        let outcome = self.pool.execute_with(self.tsih, CID, |connection, itt, cmd_sn, stat_sn| {
            TurCtx::new(connection, itt, cmd_sn, stat_sn, 0)
        });
        outcome.await.map(drop)
    }

    async fn identify(&self) -> Result<()> {
        let mut cdb = Cdb::default();
        fill_inquiry_standard_simple(&mut cdb, 36);
        let inquiry = parse_inquiry_standard(&self.ask(cdb, 36).await?)?;
        println!("inquiry {} {}", inquiry.vendor_id, inquiry.product_id);
        let page = |page, length: u8| {
            let mut cdb = Cdb::default();
            fill_inquiry_vpd_simple(&mut cdb, page, length);
            self.ask(cdb, usize::from(length))
        };
        let pages = parse_vpd_supported_pages(&page(VpdPage::SupportedPages, 255).await?)?;
        for number in [0x00, 0x80, 0x83, 0xb0, 0xb2] {
            ensure!(pages.contains(&number), "page {number:02x}h is not among {pages:02x?}");
        }
        let serial = parse_vpd_unit_serial(&page(VpdPage::UnitSerial, 255).await?)?;
        let ids = parse_vpd_device_id(&page(VpdPage::DeviceId, 255).await?)?;
        ensure!(!ids.is_empty(), "page 83h has no designator");
        println!("serial {serial}");
        Ok(())
    }

    async fn capacity(&self, blocks: u64) -> Result<()> {
        let mut cdb = Cdb::default();
        build_read_capacity10(&mut cdb, 0, false, 0);
        let data = self.ask(cdb, 8).await?;
        let ten = parse_read_capacity10_zerocopy(&data)?;
        ensure!(u64::from(ten.max_lba.get()) == blocks - 1, "READ CAPACITY (10) {ten:?}");
        let mut cdb = Cdb::default();
        build_read_capacity16(&mut cdb, 0, false, 32, 0);
        let data = self.ask(cdb, 32).await?;
        let sixteen = parse_read_capacity16_zerocopy(&data)?;
        ensure!(sixteen.max_lba.get() == blocks - 1, "READ CAPACITY (16) {sixteen:?}");
        ensure!(sixteen.block_len.get() as usize == BLOCK, "READ CAPACITY (16) {sixteen:?}");
        Ok(())
    }

    /// Writes by WRITE (10): what is longer than the first burst is asked for by R2T.
    async fn write(&self, start: u32, data: &[u8]) -> Result<()> {
        let mut cdb = Cdb::default();
        build_write10(&mut cdb, start, u16::try_from(data.len() / BLOCK)?, 0, 0);
        self.tell(cdb, data).await
    }

    /// Reads by READ (10), a burst at a time: the library ends a read at the first F bit.
    async fn read(&self, start: u32, length: usize) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        while data.len() < length {
            let bytes = (length - data.len()).min(self.max_burst);
            let at = start + u32::try_from(data.len() / BLOCK)?;
            let mut cdb = Cdb::default();
            build_read10(&mut cdb, at, u16::try_from(bytes / BLOCK)?, 0, 0);
            data.extend(self.ask(cdb, bytes).await?);
        }
        Ok(data)
    }

    /// 32 writes at once, then 32 reads; a second reader finds the byte later.
    async fn at_once(&self, start: u32, byte: u8) -> Result<()> {
        let parts = || (0..32).map(|part| u64::from(start + part * 64));
        let data = vec![byte; 64 * BLOCK];
        let writes = parts().map(|at| {
            let mut cdb = Cdb::default();
            build_write16(&mut cdb, at, 64, 0, 0);
            self.tell(cdb, &data)
        });
        for outcome in all(writes).await {
            outcome?;
        }
        let reads = parts().map(|at| {
            let mut cdb = Cdb::default();
            build_read16(&mut cdb, at, 64, 0, 0);
            self.ask(cdb, data.len())
        });
        for outcome in all(reads).await {
            ensure!(outcome? == data, "a read among 32 found other data");
        }
        Ok(())
    }

    /// Each refusal leaves the session as it is.
    async fn refusals(&self, blocks: u64) -> Result<()> {
        let mut cdb = Cdb::default();
        build_read16(&mut cdb, blocks, 1, 0, 0);
        says(self.ask(cdb, BLOCK).await, "asc: 0x21, ascq: 0x00")?;
        build_write16(&mut cdb, blocks - 1, 2, 0, 0);
        says(self.tell(cdb, &[0; 2 * BLOCK]).await, "asc: 0x21, ascq: 0x00")?;
        let unknown = [0xff; 16];
        says(self.ask(unknown, BLOCK).await, "asc: 0x20, ascq: 0x00")?;
        self.test_unit_ready().await
    }

    async fn close(self) -> Result<()> {
        // Its shutdown alone forbids itself to send before it sends the Logout.
        self.pool.logout_session(self.tsih).await?;
        self.pool.shutdown_gracefully(Duration::from_secs(30)).await?;
        ensure!(self.pool.sessions.is_empty(), "a session is left after the logout");
        Ok(())
    }
}

fn says<T>(outcome: Result<T>, words: &str) -> Result<()> {
    match outcome {
        Ok(_) => bail!("a command that should be refused succeeded; expected {words}"),
        Err(error) => {
            let found = format!("{error:#}");
            ensure!(found.contains(words), "refused with '{found}', expected {words}");
            Ok(())
        }
    }
}

/// Polls futures that borrow together, and hands out their outcomes in order.
async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, outcome) in &mut pending {
            if outcome.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *outcome = Some(value);
            }
        }
        if pending.iter().any(|(_, outcome)| outcome.is_none()) {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
    pending.into_iter().filter_map(|(_, outcome)| outcome).collect()
}
