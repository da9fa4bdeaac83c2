//! Mirrors of the open pools: membership lists that were kept, members that were lost or came back,
//! and where members are.

use std::time::Instant;

use api::{ControlResilver, EventKind, Problem, ResilverAction, Severity};
use block::DeviceName;
use control::claims::Purpose;
use control::members::{self, Admitting, Deed, LostMember};
use control::pools;
use control::procedures::{AfterChange, AfterSave, Change};
use store::limits::READ_ERRORS_MAX;
use store::{Health, MemberSpec, MemberState, MemberStatus, Membership, ResilverChange};

use super::describe::hexadecimal;
use super::facts::Facts;
use super::problems::{bad_request, conflict, gone};
use super::{Caller, Management, PoolStep, Progress};
use crate::data_plane::DataPlane;
use crate::pool::{MemberNews, Pool};
use crate::pools::PoolId;

impl Management {
    /// Membership lists are kept, or cannot be: what waited for them goes on.
    pub(crate) fn witnessed(
        &mut self,
        plane: &mut DataPlane,
        number: u64,
        problem: Option<String>,
    ) {
        let kept = plane.witness.kept(number);
        tell_kept(plane, &kept);
        match (problem, self.is_witness_failing) {
            (Some(problem), false) => self.tell_witness(&format!("cannot be kept: {problem}")),
            (None, true) => {
                self.is_witness_failing = false;
                let (object, message) = ("record mirrors".to_owned(), "is kept again".to_owned());
                self.events.note_kind(EventKind::Record, Severity::Information, object, message);
            }
            (Some(_), true) | (None, false) => {}
        }
    }

    fn tell_witness(&mut self, what: &str) {
        self.is_witness_failing = true;
        let message = format!(
            "which members of mirrors are current {what}; the mirrors go on, and know it themselves"
        );
        let object = "record mirrors".to_owned();
        self.events.note_kind(EventKind::Record, Severity::Error, object, message);
    }

    /// Looks at the mirrors of all pools.
    pub(super) fn look_at_mirrors(&mut self, plane: &mut DataPlane) {
        let late = plane.witness.late(Instant::now());
        if !late.is_empty() && !self.is_witness_failing {
            self.tell_witness("is not kept: the data directory does not answer");
        }
        tell_kept(plane, &late);
        for id in plane.pools.ids() {
            let Some(mut pool) = plane.pools.get_mut(id) else { continue };
            let has_lost = pool.devices.iter().any(|(_, open)| open.is_lost);
            if pool.mirrors().next().is_none() && !has_lost {
                continue;
            }
            let (lost, news) = (pool.release_lost(), pool.member_news());
            for member in self.leaving(&pool.name) {
                pool.store.going_to_leave(member);
            }
            drop(pool);
            if !lost.is_empty() {
                self.in_background(move || drop(lost));
            }
            let Some(pool) = plane.pools.get(id) else { continue };
            for one in &news {
                self.tell_member(pool, one);
            }
            self.scrub_what_is_owed(plane, id);
            let Some(pool) = plane.pools.get(id) else { continue };
            if let Some(change) = self.members_to_know(pool) {
                let saved = self.save_for(&Change::Pool(change), AfterSave::Forgotten);
                self.begin(plane, saved);
            }
            self.tend_mirrors(plane, id);
        }
    }

    /// Devices of members that a pool was opened without, because they are too small or another's, are
    /// closed: so they are looked at again as those that were not there.
    pub(super) fn close_refused_members(&self, plane: &mut DataPlane, id: PoolId) {
        let Some(mut pool) = plane.pools.get_mut(id) else { return };
        let Some(configured) = self.configuration.pools.get(&pool.name) else { return };
        let is_away = |member: &MemberStatus| member.state.is_away() && member.slot.is_none();
        let away: Vec<MemberStatus> =
            pool.mirrors().flat_map(|mirror| mirror.members).filter(is_away).collect();
        let places = away.iter().filter_map(|member| configured.mirroring.place_of(member.uuid));
        let places: Vec<DeviceName> = places.cloned().collect();
        pool.give_up_unused(&places);
    }

    /// Members of a pool that leave when what takes their place is filled.
    fn leaving(&self, pool: &str) -> Vec<[u8; 16]> {
        let configured = self.configuration.pools.get(pool);
        let members = configured.iter().flat_map(|pool| &pool.mirroring.members);
        members.filter_map(|member| member.replaces).collect()
    }

    /// Does what the array does about the mirrors of a pool by itself.
    fn tend_mirrors(&mut self, plane: &mut DataPlane, id: PoolId) {
        let now = self.clock();
        let Some(pool) = plane.pools.get(id) else { return };
        let Some(configured) = self.configuration.pools.get(&pool.name) else { return };
        let (name, mirrors) = (pool.name.clone(), pool.mirrors().collect::<Vec<_>>());
        let is_there = |member: &MemberStatus| {
            let place = configured.mirroring.place_of(member.uuid);
            pool.devices.iter().any(|(_, open)| Some(&open.name) == place)
        };
        if pool.health() != Health::Ready || self.closing {
            return;
        }
        for deed in self.lost_members.deeds(&mirrors, configured, is_there, now) {
            let lost = |uuid| LostMember { pool: id, name: name.clone(), uuid };
            let begun = match deed {
                Deed::Return(uuid) => {
                    let begun =
                        self.begin_procedure(plane, |view| members::give_back(lost(uuid), view));
                    if begun.is_err() {
                        self.lost_members.ended(uuid, now);
                    }
                    begun
                }
                // Blocks that had rotted where nobody read them may be right on this one alone.
                Deed::Leave(uuid) if self.is_sound_source(plane, id, uuid) => continue,
                Deed::Leave(uuid) => {
                    self.begin_procedure(plane, |view| members::detach(lost(uuid), view))
                }
                Deed::Spare(mirror, spare, replaces) => {
                    if self.claims.check_free(&name).is_err() {
                        continue;
                    }
                    self.lost_members.spare_begins(&spare, now);
                    let stage = members::step_in((id, &name), mirror, &spare, replaces);
                    self.take(plane, stage)
                }
            };
            let claim = self.claims.take_new();
            self.proceed(plane, begun, Caller { is_quiet: true, claim, ..Caller::default() });
        }
    }

    /// Puts an open device into a slot, and has the engine take it as a member.
    pub(super) fn admit(
        &mut self,
        plane: &mut DataPlane,
        admitting: Admitting,
    ) -> Result<Progress, Problem> {
        let opened = self.open_devices.remove(&admitting.open).unwrap_or_default();
        let (pool, uuid, joins) = (admitting.pool, admitting.uuid, admitting.joins);
        let is_witness = admitting.is_witness;
        let then = AfterChange::Admit(admitting);
        let ticket = plane.new_ticket();
        let (Some(open), Some(mut served)) = (opened.into_iter().next(), plane.pools.get_mut(pool))
        else {
            return self.pool_changed(plane, pool, then, Err(gone()));
        };
        let size_bytes = open.device.size_bytes();
        let Some(slot) = served.devices.add(open) else {
            drop(served);
            let full = conflict(&"the pool has as many devices as it can have");
            return self.pool_changed(plane, pool, then, Err(full));
        };
        let member = MemberSpec { uuid, slot, size_bytes };
        for leaving in self.leaving(&served.name) {
            served.store.going_to_leave(leaving);
        }
        let change = match joins {
            Some(device) if is_witness => store::Change::AttachWitness { device, member },
            Some(device) => store::Change::AttachMember { device, member },
            None if served.is_witness(uuid) => store::Change::ReturnWitness { member },
            None => store::Change::ReturnMember { member },
        };
        served.store.change(ticket.tag(), change);
        Ok(Progress::Wait(ticket, PoolStep::Procedure { pool, then }))
    }

    pub(super) fn control_resilver(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        request: &ControlResilver,
    ) -> Result<Progress, Problem> {
        let facts = Facts::new(self, plane);
        let pool = members::check_mirrored(name, &facts)?;
        let change = match (request.action, &request.member) {
            (ResilverAction::Pause, _) => ResilverChange::Pause,
            (ResilverAction::Resume, _) => ResilverChange::Resume,
            (ResilverAction::Cancel, Some(member)) => {
                let member = members::find(name, member, &facts)?.uuid;
                return self.cancel_resilver(plane, pool, name, member);
            }
            (ResilverAction::Cancel, None) => {
                return Err(bad_request(&"say which member is given up"));
            }
        };
        let then = AfterChange::Resilver(name.to_owned());
        let step = PoolStep::Procedure { pool, then };
        Self::wait_for(plane, pool, store::Change::Resilver(change), step)
    }

    /// The member that is given up leaves its mirror, and is forgotten as one that was detached.
    pub(super) fn cancel_resilver(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        name: &str,
        uuid: [u8; 16],
    ) -> Result<Progress, Problem> {
        let change = store::Change::Resilver(ResilverChange::Cancel { member: uuid });
        let then = AfterChange::Detach(LostMember { pool, name: name.to_owned(), uuid });
        Self::wait_for(plane, pool, change, PoolStep::Procedure { pool, then })
    }

    fn tell_member(&mut self, pool: &Pool, news: &MemberNews) {
        let MemberNews { mirror, member, state, is_unreliable, is_whole } = news;
        let name = self.member_name(pool, *member);
        let (severity, message) = match state {
            MemberState::Absent if *is_unreliable => (
                Severity::Error,
                format!(
                    "mirror {mirror} goes on without {name}, which answered {READ_ERRORS_MAX} reads \
                     within an hour with errors: it is degraded until a spare or another device takes its place; \
                     in an hour it is tried again"
                ),
            ),
            MemberState::Absent => (
                Severity::Error,
                format!(
                    "mirror {mirror} goes on without {name}, which failed, does not answer or is \
                     away: it is degraded until that is back or replaced"
                ),
            ),
            MemberState::Witness => {
                (Severity::Information, format!("{name} is the witness of mirror {mirror}"))
            }
            MemberState::WitnessAbsent => (
                Severity::Warning,
                format!(
                    "mirror {mirror} goes on without its witness {name}, which failed, does not answer or is away: \
                     until that is back no controller opens the mirror without some of its members"
                ),
            ),
            MemberState::Resilvering => {
                (Severity::Information, format!("{name} of mirror {mirror} is being filled"))
            }
            MemberState::Current if *is_whole => (
                Severity::Information,
                format!("{name} of mirror {mirror} is current: the mirror is whole"),
            ),
            MemberState::Current => {
                (Severity::Information, format!("{name} of mirror {mirror} is current"))
            }
        };
        let object = format!("pool {}", pool.name);
        self.events.note_kind(EventKind::Mirror, severity, object, message);
    }

    /// How administrators call a member.
    pub(super) fn member_name(&self, pool: &Pool, member: [u8; 16]) -> String {
        let configured = self.configuration.pools.get(&pool.name);
        let open = pool.member_device(member).map(|open| &open.name);
        let known = configured.and_then(|pool| pool.mirroring.place_of(member));
        let name = open.or(known).map(ToString::to_string);
        name.unwrap_or_else(|| format!("member {}", hexadecimal(&member)))
    }

    /// What the configuration should know of members and does not: where they are.
    fn members_to_know(&self, pool: &Pool) -> Option<pools::Change> {
        let configured = self.saving.accepted().pools.get(&pool.name)?;
        let device_of = |member: &MemberStatus| {
            let open = member.slot.and_then(|slot| pool.devices.get(usize::from(slot)));
            open.map(|open| open.name.clone())
        };
        let is_changing = self.claims.is_claimed(&pool.name, Purpose::Members);
        let members = pool.mirrors().flat_map(|mirror| mirror.members);
        let known = members::to_know(members, configured, device_of, is_changing)?;
        Some(pools::Change::KnowMembers(pool.name.clone(), known))
    }
}

fn tell_kept(plane: &mut DataPlane, kept: &[(PoolId, Membership)]) {
    for (pool, membership) in kept {
        if let Some(mut pool) = plane.pools.get_mut(*pool) {
            pool.store.membership_witnessed(*membership);
        }
    }
}
