//! Paths of a client to several controllers: it looks for the one that serves, and leaves one that does not.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::client::Client;
use crate::pdu::{ANSWER_TIMEOUT, Answer, Pdu, RawConnection, cdb16};

/// How long a client with several paths waits for an answer before it takes the path for dead.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long it waits for a login, and for a first answer, of one that may serve.
const PATIENCE_OF_LOOKS: Duration = Duration::from_millis(300);

/// How long it waits between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// How long all paths may be without an answer: then it has seen an error, as ESXi's machines do (140 s) and before
/// Windows' do (60 s).
const OUTAGE_MAX: Duration = Duration::from_secs(50);

/// Whether it says to come back later, or elsewhere (02h/04h).
pub(super) fn is_not_ready(answer: &Answer) -> bool {
    matches!(answer.code(), Some((2, 4, _)))
}

impl Client {
    pub(super) fn has_other_paths(&self) -> bool {
        self.arena.portals.len() > 1
    }

    /// Sees to it that there is a session, with a controller that serves where there are several.
    pub(super) fn ensure_path(&mut self) -> Result<()> {
        if self.connection.is_some() {
            return Ok(());
        }
        if !self.has_other_paths() {
            self.connection = Some(self.log_in(ANSWER_TIMEOUT)?);
            self.command_sequence_number = 0;
            return Ok(());
        }
        self.waits_since.get_or_insert_with(Instant::now);
        loop {
            match self.look() {
                Ok(()) => {
                    self.is_answered();
                    return Ok(());
                }
                Err(error) => self.leave_path(error)?,
            }
        }
    }

    fn log_in(&self, patience: Duration) -> Result<RawConnection> {
        let name = format!("iqn.2026-01.org.example:history-{}", self.number);
        let portal = self.arena.portals[self.path];
        RawConnection::log_in_within(patience, portal, &name, &self.arena.target)
    }

    /// Logs in on the path whose turn it is, and reads a block there.
    fn look(&mut self) -> Result<()> {
        self.connection = Some(self.log_in(PATIENCE_OF_LOOKS)?);
        self.command_sequence_number = 0;
        let lun = self.arena.luns[0].0;
        let pdu = |task| Pdu::command(task, lun, &cdb16(0x88, 0, 0, 1), 0x40, 512);
        loop {
            let answer = self.run_to_answer(pdu, lun)?;
            // A unit attention of the new nexus, or of what happened meanwhile.
            if answer.code().is_none_or(|(key, ..)| key != 6) {
                answer.good()?;
                break;
            }
        }
        self.connection.as_ref().context("a session")?.set_patience(PATIENCE)
    }

    /// Goes to the next path, unless that has been tried for too long.
    pub(super) fn leave_path(&mut self, why: anyhow::Error) -> Result<()> {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let waited = since.elapsed();
        ensure!(waited < OUTAGE_MAX, "no path has served for {waited:.1?}: {why:#}");
        self.connection = None;
        self.path = (self.path + 1) % self.arena.portals.len();
        thread::sleep(PAUSE);
        Ok(())
    }

    /// An answer has come on this path: what was lost on another one cannot happen any more, since its controller
    /// does not serve.
    pub(super) fn is_answered(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.arena.watch.answered_after(since.elapsed());
        }
        let (now, path) = (self.arena.now(), self.path);
        for (event, _) in self.open_ended.extract_if(.., |(_, sent_on)| *sent_on != path) {
            self.events[event].returned = now;
        }
    }
}
