//! End notice: a process beside the daemon that waits for the daemon's end, however it comes, and tells the other
//! controllers of it. They need not wait then until heartbeat and link were silent for long.
//!
//! It is the same program, started with `--tell-end-of`. The daemon writes into its standard input what it is to know:
//! the certificate of the link, and the peers. That the daemon has ended the kernel says (pidfd): its last thread is
//! gone, so that it answers nobody any more. One that stands still has not ended, and nothing is told of it.

use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use control::link::{Fingerprint, Message};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::connections::connect;
use super::identity::{Identity, Papers};
use crate::limits::{
    END_NOTICE_LOOK, END_NOTICE_ORDERS_BYTES_MAX, END_NOTICE_PATIENCE, END_NOTICE_RETRY,
    END_NOTICE_START_RETRY,
};

/// What the process is to do when the daemon has ended: a line of JSON, of which the last one counts. The key of the
/// link is in it.
#[derive(Serialize, Deserialize)]
pub(super) struct Orders {
    /// Drawn when the daemon was started.
    life: u64,
    papers: Papers,
    peers: Vec<Peer>,
}

/// A controller that is to be told.
#[derive(Clone, Serialize, Deserialize)]
struct Peer {
    address: String,
    fingerprint: Fingerprint,
}

/// Keeps such a process while peers are known, in a thread of its own.
///
/// # Errors
/// When there is no thread.
pub(super) fn keep(shared: Arc<Shared>, life: u64) -> Result<()> {
    let watch = move || {
        let (mut helper, mut is_missed) = (None, false);
        loop {
            let orders = Orders::of(&shared, life);
            if helper.is_some() || !orders.peers.is_empty() {
                let attended = attend(&mut helper, &orders);
                if let Err(error) = &attended
                    && !is_missed
                {
                    tracing::warn!(
                        "other controllers are not told at once if this daemon's process ends: {error:#}"
                    );
                }
                is_missed = attended.is_err();
            }
            thread::sleep(if is_missed { END_NOTICE_START_RETRY } else { END_NOTICE_LOOK });
        }
    };
    let thread = thread::Builder::new().name("end notice".to_owned());
    thread.spawn(watch).context("cannot start a thread").map(drop)
}

/// Has the process know the newest orders, and starts it if it is not there.
fn attend(helper: &mut Option<Helper>, orders: &Orders) -> Result<()> {
    let mut line = serde_json::to_vec(orders)?;
    line.push(b'\n');
    let mut running = match helper.take() {
        Some(mut known) => match known.child.try_wait()? {
            None => known,
            Some(status) => bail!("the process that would do it has ended: {status}"),
        },
        None => Helper::start()?,
    };
    if running.told != line {
        let orders = running.child.stdin.as_mut().context("no pipe to the process")?;
        orders.write_all(&line).context("the process that would do it takes no orders")?;
        running.told = line;
    }
    *helper = Some(running);
    Ok(())
}

/// The process, as the daemon has it.
struct Helper {
    child: Child,
    told: Vec<u8>,
}

impl Helper {
    fn start() -> Result<Self> {
        // Also after an upgrade this is the program that runs.
        let child = Command::new("/proc/self/exe")
            .arg0("gantryd")
            .arg("--tell-end-of")
            .arg(std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start a process of this program")?;
        Ok(Self { child, told: Vec::new() })
    }
}

/// Waits for the end of the daemon that started this process, and tells the peers that it named last.
///
/// # Errors
/// When it cannot be waited for, or one of them could not be told.
pub(crate) fn tell_end_of(daemon: u32) -> Result<()> {
    // A service manager asks all processes of a service to end, before or after the daemon has.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let orders = thread::Builder::new().name("orders".to_owned()).spawn(read_orders)?;
    wait_for_end(daemon)?;
    // The daemon's end of the pipe is closed.
    let orders = orders.join().map_err(|_| anyhow!("the thread that reads orders has ended"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(orders?.tell_all())
}

fn wait_for_end(daemon: u32) -> Result<()> {
    let id = i32::try_from(daemon).ok().and_then(Pid::from_raw).context("no process's number")?;
    let process = pidfd_open(id, PidfdFlags::empty());
    // If it had ended before, the number may be another process's by now.
    if getppid() != Some(id) {
        return Ok(());
    }
    let process = process.context("cannot wait for the daemon's end")?;
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    while ends[0].revents().is_empty() {
        match poll(&mut ends, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The last orders, when there are no more.
fn read_orders() -> Result<Orders> {
    let (mut lines, mut line, mut last) = (std::io::stdin().lock(), Vec::new(), Vec::new());
    loop {
        line.clear();
        let part = &mut (&mut lines).take(END_NOTICE_ORDERS_BYTES_MAX);
        if part.read_until(b'\n', &mut line)? == 0 {
            return serde_json::from_slice(&last).context("there were no orders");
        }
        if line.ends_with(b"\n") {
            std::mem::swap(&mut line, &mut last);
        }
    }
}

impl Orders {
    pub(super) fn of(shared: &Shared, life: u64) -> Self {
        let state = shared.state();
        let peers = state.known.peers.values().filter_map(|peer| {
            let (address, fingerprint) = (peer.address.clone()?, peer.fingerprint?);
            Some(Peer { address, fingerprint })
        });
        Self { life, papers: shared.identity.papers(), peers: peers.collect() }
    }

    /// Tells all peers at once, for as long as it matters.
    pub(super) async fn tell_all(self) -> Result<()> {
        let identity = Arc::new(Identity::of(self.papers)?);
        let mut telling = JoinSet::new();
        for peer in self.peers {
            telling.spawn(peer.tell(Arc::clone(&identity), self.life));
        }
        let told = timeout(END_NOTICE_PATIENCE, telling.join_all()).await;
        told.map(drop).context("not every controller could be told")
    }
}

impl Peer {
    /// Tells it, again and again until that is done.
    async fn tell(self, identity: Arc<Identity>, life: u64) {
        while self.try_to_tell(&identity, life).await.is_err() {
            sleep(END_NOTICE_RETRY).await;
        }
    }

    async fn try_to_tell(&self, identity: &Identity, life: u64) -> Result<(), String> {
        let mut lines = connect(identity, &self.address, self.fingerprint).await?;
        lines.send(&Message::Ended { life }).await?;
        // It closes the connection when it has read that.
        lines.ended().await;
        Ok(())
    }
}
