//! Resume of a pool that stopped taking writes, or could not be opened, without a restart.
//!
//! The engine of a pool that failed is given up: its requests are answered NOT READY, what the
//! devices still do comes to its end, and the pool is opened anew on the same devices, through
//! recovery. Logical units and sessions stay. If that fails it is opened read-only, so that hosts
//! can read as before. A pool that was not open is opened from its configuration.

use std::time::Instant;

use api::{PoolMode, Problem, ProblemKind, ResumePool};
use block::VolumeId;
use control::claims::Purpose;
use control::reopening::Asked;
use control::settings;
use device::Breaking;
use hashbrown::HashSet;
use store::{Failure, Health, OpenMode, Outcome};

use super::departures::evacuation_rate;
use super::opening::{Lacking, trouble_of, unavailable};
use super::problems::{conflict, failed, gone, problem, refused};
use super::{Management, PoolStep, Progress, Touched, deliver};
use crate::data_plane::{DataPlane, Ticket};
use crate::events::now;
use crate::exports::ExportEvent;
use crate::limits::RESUME_PATIENCE;
use crate::pool::{Knowledge, PoolOptions};
use crate::pools::PoolId;
use crate::rod_token_spaces::is_hidden;

/// A pool whose devices still work on what its engine asked for before it was given up.
pub(super) struct Quiescing {
    ticket: Ticket,
    pool: PoolId,
    mode: OpenMode,
    since: Instant,
}

/// How a pool is opened anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resuming {
    /// As it was asked for.
    Asked(OpenMode),
    /// As it is configured, without being asked.
    ByItself,
    /// Read-only, as that failed.
    FallenBack,
}

impl Management {
    /// Opens a pool anew that takes no writes, or is unavailable.
    pub(super) fn resume_pool(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        request: &ResumePool,
    ) -> Result<Progress, Problem> {
        self.configuration.pool(name).map_err(|error| refused(&error))?;
        let mode = open_mode(request.mode);
        self.check_breaking(name, &request.break_locks)?;
        if self.reopening.is_trying(name) && !request.dry_run {
            return Ok(Progress::Join(name.to_owned()));
        }
        let found = plane.pool_named(name).map(|(slot, pool)| (slot, pool.health()));
        self.check_resume(plane, name, mode, found.as_ref().map(|(_, health)| health))?;
        if request.dry_run {
            return Ok(Progress::answer(&self.describe_pool(plane, name)?));
        }
        match found {
            Some((pool, _)) if !self.unavailable.contains_key(name) => {
                self.claims.claim(name, Purpose::Resume)?;
                self.resume_in_place(plane, pool, mode)
            }
            Some(_) | None => {
                self.claims.check_free(name)?;
                let lacking = if request.degraded { Lacking::Members } else { Lacking::Nothing };
                let breaking = Breaking { holders: request.break_locks.clone() };
                self.tell_breaking(name, &breaking);
                self.try_to_open(plane, name, (mode, Asked::ByAdministrator), (lacking, breaking))
            }
        }
    }

    fn check_resume(
        &self,
        plane: &DataPlane,
        name: &str,
        mode: OpenMode,
        health: Option<&Health>,
    ) -> Result<(), Problem> {
        let is_unavailable = self.unavailable.contains_key(name);
        match health {
            Some(Health::Ready) => {
                return Err(conflict(&format!("pool '{name}' serves: there is nothing to resume")));
            }
            Some(Health::ReadOnly { .. }) if mode == OpenMode::ReadOnly => {
                return Err(conflict(&format!("pool '{name}' is read-only already")));
            }
            Some(Health::Opening) | Some(Health::Closed) if !is_unavailable => {
                return Err(conflict(&format!(
                    "pool '{name}' is just being opened or closed: try again"
                )));
            }
            Some(Health::ReadOnly { .. } | Health::Opening | Health::Closed) | None => {}
        }
        if mode == OpenMode::Rewind && self.journal_loss(plane, name).is_none() {
            return Err(conflict(&format!(
                "nothing of the journal of pool '{name}' is known to be lost, so there is nothing \
                 to rewind: resume it without"
            )));
        }
        Ok(())
    }

    /// What is lost of a pool's journal, if it could not be opened for that, or only read-only.
    pub(super) fn journal_loss<'a>(
        &'a self,
        plane: &'a DataPlane,
        name: &str,
    ) -> Option<&'a store::JournalLoss> {
        let unavailable = self.unavailable.get(name).and_then(|pool| pool.loss.as_ref());
        let served = plane.pool_named(name).and_then(|(_, pool)| match pool.health() {
            Health::ReadOnly { .. } => pool.store.journal_loss(),
            Health::Ready | Health::Opening | Health::Closed => None,
        });
        unavailable.or(served)
    }

    /// Keeps since when a part of a pool's journal is known to be lost, however often the pool is
    /// opened with that loss.
    pub(super) fn note_journal_loss(&mut self, pool: &str, is_lost: bool) {
        if is_lost {
            self.journal_losses.entry(pool.to_owned()).or_insert_with(now);
        } else {
            self.journal_losses.remove(pool);
        }
    }

    fn resume_in_place(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        mode: OpenMode,
    ) -> Result<Progress, Problem> {
        // Why it stopped is told, however soon it is resumed.
        self.check_health(plane, pool);
        plane.pools.get_mut(pool).ok_or_else(gone)?.store.abandon();
        let ticket = plane.new_ticket();
        self.quiescing.push(Quiescing { ticket, pool, mode, since: Instant::now() });
        self.go_on_resuming(plane);
        Ok(Progress::Wait(ticket, PoolStep::ResumePool { pool, how: Resuming::Asked(mode) }))
    }

    /// Whether a pool waits for its devices to come to rest.
    pub(super) fn is_resuming(&self, plane: &DataPlane, name: &str) -> bool {
        let mut pools = self.quiescing.iter().filter_map(|one| plane.pools.get(one.pool));
        pools.any(|pool| pool.name == name)
    }

    /// Opens pools anew whose devices have come to rest.
    pub(super) fn go_on_resuming(&mut self, plane: &mut DataPlane) {
        let at_rest = |quiescing: &Quiescing| {
            plane.pools.get(quiescing.pool).is_none_or(|pool| !pool.store.has_io())
        };
        let (ready, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.quiescing).into_iter().partition(at_rest);
        let late = waiting.iter().filter(|one| one.since.elapsed() >= RESUME_PATIENCE);
        let late: Vec<_> = late.map(|one| (one.ticket, one.pool)).collect();
        self.quiescing = waiting;
        for (ticket, pool) in late {
            self.tell_stalled(plane, ticket, pool);
        }
        for Quiescing { ticket, pool, mode, since: _ } in ready {
            self.reopen(plane, pool, mode, ticket);
        }
    }

    /// A device does not end what it was asked before: whoever waits is told, once, and the pool goes
    /// on when it does.
    fn tell_stalled(&mut self, plane: &DataPlane, ticket: Ticket, pool: PoolId) {
        let Some(name) = plane.pools.get(pool).map(|pool| pool.name.clone()) else { return };
        let caller = self.under_way.get_mut(&ticket).map(|work| &mut work.caller);
        let Some(reply) = caller.and_then(|caller| caller.reply.take()) else { return };
        let detail = format!(
            "a device of pool '{name}' has not ended for {} s what it was asked to do before: hosts \
             are told to wait, and the pool is opened as soon as the device has; until then nothing \
             else can be done with it",
            RESUME_PATIENCE.as_secs()
        );
        self.alarm(&name, format!("waits to be resumed: {detail}"));
        let stalled = problem(ProblemKind::PoolUnavailable, &detail).with("pool", name.as_str());
        deliver(reply, Err(stalled));
    }

    fn reopen(&self, plane: &mut DataPlane, pool: PoolId, mode: OpenMode, ticket: Ticket) {
        // Its devices were not let go of: nobody else had the pool meanwhile.
        let knowledge =
            Knowledge { shared: false, ..self.knowledge(plane, Lacking::Nothing, Breaking::NONE) };
        let Some(mut pool) = plane.pools.get_mut(pool) else { return };
        let Some(configuration) = self.configuration.pools.get(&pool.name) else { return };
        let memory_bytes = pool.memory_bytes;
        let evacuation_rate = evacuation_rate(configuration);
        let options = PoolOptions { memory_bytes, mode, evacuation_rate, ..self.pool_options(1) };
        pool.reopen(configuration.uuid, options, knowledge, ticket.tag());
    }

    pub(super) fn pool_resumed(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        how: Resuming,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        let name = plane.pools.get(pool).ok_or_else(gone)?.name.clone();
        match (result, how) {
            (Ok(_), how) => {
                self.forget_unavailable(plane, &name);
                self.note_journal_loss(&name, self.journal_loss(plane, &name).is_some());
                self.settle_volumes(plane, pool);
                self.tell_access_anew(plane, &name);
                self.leftovers.begin();
                self.tell_resumed(&name, how);
                self.keep_mode(plane, &name, how)
            }
            (Err(failure), Resuming::Asked(mode)) if mode != OpenMode::ReadOnly => {
                let reason = self.explain(plane, pool, &failure);
                self.alarm(&name, format!("was not resumed: {reason}"));
                if let Some(mut pool) = plane.pools.get_mut(pool) {
                    pool.resume_problem = Some(reason.clone());
                }
                let ticket = plane.new_ticket();
                self.reopen(plane, pool, OpenMode::ReadOnly, ticket);
                let step = PoolStep::ResumePool { pool, how: Resuming::FallenBack };
                self.begin(plane, Ok(Progress::Wait(ticket, step)));
                Err(conflict(&format!("pool '{name}' still fails: {reason}")))
            }
            (Err(failure), Resuming::Asked(_) | Resuming::FallenBack | Resuming::ByItself) => {
                let reason = self.explain(plane, pool, &failure);
                let absent = plane.pools.get(pool).map_or(&[][..], |pool| &pool.absent);
                let trouble = trouble_of(&failure, absent);
                self.set_unavailable(&name, unavailable(reason, &failure), trouble);
                Err(failed(&failure))
            }
        }
    }

    /// A pool that was asked to be read-only is so after a restart, too.
    pub(super) fn keep_mode(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        how: Resuming,
    ) -> Result<Progress, Problem> {
        let read_only = match how {
            Resuming::Asked(mode) => mode == OpenMode::ReadOnly,
            Resuming::FallenBack | Resuming::ByItself => return self.show_pool(plane, name),
        };
        self.make(plane, &settings::set_read_only(name, read_only))
    }

    fn explain(&self, plane: &DataPlane, pool: PoolId, failure: &Failure) -> String {
        let explained = plane.pools.get(pool).and_then(|pool| {
            let configuration = self.configuration.pools.get(&pool.name)?;
            Some(pool.explain(failure, configuration))
        });
        explained.unwrap_or_else(|| failure.to_string())
    }

    pub(super) fn tell_resumed(&mut self, name: &str, how: Resuming) {
        let message = match how {
            Resuming::Asked(OpenMode::ReadWrite) => "was resumed and takes writes again",
            Resuming::Asked(OpenMode::ReadOnly) => "was opened read-only",
            Resuming::Asked(OpenMode::Rewind) => {
                "was rewound to before the damage of its journal, and takes writes again"
            }
            Resuming::FallenBack => "serves reads, as before",
            Resuming::ByItself => "is open again: its devices are there",
        };
        if matches!(
            how,
            Resuming::Asked(OpenMode::ReadWrite | OpenMode::Rewind) | Resuming::ByItself
        ) {
            self.forget_read_only(name);
        }
        self.inform(name, message.to_owned());
    }

    /// Recovery may have found what nobody was told of: a volume that was just being made or
    /// deleted, or another size. A rewound pool lacks what was given up.
    fn settle_volumes(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let Some(mut opened) = plane.pools.get_mut(pool) else { return };
        let there: HashSet<VolumeId> =
            opened.store.volumes().map(|volume| volume.spec.id).collect();
        let shown: Vec<(VolumeId, u64)> = opened
            .store
            .volumes()
            .filter(|volume| !is_hidden(volume))
            .map(|volume| (volume.spec.id, volume.spec.size_bytes))
            .collect();
        if opened.rod_token_space.is_some_and(|space| !there.contains(&space.volume)) {
            opened.rod_token_space = None;
        }
        drop(opened);
        let served: HashSet<VolumeId> = plane.volumes_of(pool).collect();
        for &id in served.difference(&there) {
            plane.exports.tell(&ExportEvent::Removed(id));
            plane.detach(id);
            self.luns_changed = Touched::All;
        }
        for (id, size_bytes) in shown {
            if served.contains(&id) && !self.controller().is_one_of_several() {
                plane.exports.tell(&ExportEvent::Resized(id, size_bytes));
            } else {
                self.serve_volume(plane, pool, id);
                self.luns_changed = Touched::All;
            }
        }
    }
}

/// What the failure says is lost of the journal.
pub(super) fn loss_of(failure: &Failure) -> Option<store::JournalLoss> {
    match failure {
        Failure::Open(store::OpenError::JournalLost(loss)) => Some((**loss).clone()),
        Failure::Open(_) | Failure::Block(_) | Failure::Change(_) | Failure::Compare(_) => None,
    }
}

fn open_mode(mode: PoolMode) -> OpenMode {
    match mode {
        PoolMode::ReadWrite => OpenMode::ReadWrite,
        PoolMode::ReadOnly => OpenMode::ReadOnly,
        PoolMode::Rewind => OpenMode::Rewind,
    }
}
