//! One simulated run: the engine, its disks, its users, the clock, and the power that fails.

mod backups;
mod checks;
mod copies;
mod copy_probes;
mod departures;
mod figures;
mod power;
mod presence;
mod probes;
mod replacements;
mod rewind;
mod slots;
mod trouble;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use block::{BLOCK, BlockError, DeviceOperation, VolumeId};
use store::{Change, ChangeError, DeviceSpec, Failure, Io, IoId, Store, Tag};

use crate::action::Action;
use crate::audit::{Audit, List};
use crate::backup::Backup;
use crate::disk::SimDisk;
use crate::limits::COMMAND_NANOSECONDS_MAX;
use crate::oracle::{Excuses, Oracle, Violation, violation};
use crate::planted::PlantedBug;
use crate::profile::Profile;
use crate::random::Random;
use crate::reserve::Reserve;
use crate::scan::Scan;
use crate::trace::{DeviceEvent, Event, Trace};
use crate::workload::Workload;
pub use figures::Figures;
use presence::Witness;
use replacements::{Replacement, Rotted};
pub(crate) use slots::device_uuid;
use slots::{Slots, plain, plug, pool_spec};

const POOL_UUID: [u8; 16] = *b"simulated pool 1";

/// The tag of opening and of requests that the checks make.
const OWN_TAG: u64 = 0;

/// Labels and superblocks lie below this block.
const SUPERBLOCKS_END: u64 = 256;

/// Runs in a hundred that have mirrors.
const MIRRORED_PERCENT: u64 = 35;

/// Virtual time that passes at once while a copy hangs or all devices are idle, in nanoseconds.
const HANG_STEP: u64 = 100_000_000;

/// Idle looks at the clock until a command is taken for forgotten.
const IDLE_STEPS_MAX: u64 = 1000;

type Answer = Result<store::Outcome, Failure>;

/// Which run to play.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Everything follows from it.
    pub seed: u64,
    /// Commands.
    pub operations: u64,
    /// A deliberate mistake that was switched on in the engine.
    pub planted: Option<PlantedBug>,
    /// Events to keep for the story.
    pub events: usize,
    /// Which runs have mirrors.
    pub mirrors: MirrorShare,
    /// Runs in a hundred, by their seeds, in which devices leave.
    pub departures: u64,
}

/// Which runs have mirrors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorShare {
    /// Some, by their seeds.
    Some,
    /// Every one.
    All,
    /// None.
    #[default]
    None,
}

impl Run {
    /// A run of the engine as it is.
    pub fn new(seed: u64, operations: u64) -> Self {
        Self {
            seed,
            operations,
            planted: None,
            events: crate::limits::TRACE_EVENTS,
            mirrors: MirrorShare::default(),
            departures: 0,
        }
    }

    /// The conditions that it makes.
    pub fn profile(&self) -> Profile {
        self.draw_profile(&mut Random::new(self.seed))
    }

    /// Chance of its own, so that the runs without such a host stay what they were before there
    /// were any.
    fn of_scans(&self) -> Random {
        Random::new(!self.seed)
    }

    /// The same for a backup program.
    fn of_backups(&self) -> Random {
        Random::new(!self.seed.rotate_left(8))
    }

    fn draw_profile(&self, random: &mut Random) -> Profile {
        let mut profile = Profile::new(random, self.operations);
        profile.scans = self.of_scans().percent(30);
        profile.backups = self.of_backups().percent(20);
        if Random::new(!self.seed.rotate_left(32)).percent(8) {
            profile.besiege();
        }
        // Drawn beside the others, as above. Planted bugs are found without turns.
        let mut turns = Random::new(!self.seed.rotate_left(16));
        if self.planted.is_none() && turns.percent(25) {
            profile.turn_blocks = Some(turns.pick(&[1, 16, 256, 1024]));
        }
        if let Some(bug) = self.planted {
            profile.plant(bug);
        }
        let mut departs = self.of_departures();
        let departing = match self.planted {
            Some(bug) => bug.needs_departures(),
            None => departs.percent(self.departures) && !profile.siege,
        };
        if departing {
            profile.depart(&mut departs);
        }
        let mut chance = self.of_copies();
        let drawn = chance.percent(MIRRORED_PERCENT);
        let mirrored = match (self.planted, self.mirrors) {
            (Some(bug), _) => bug.needs_mirrors(),
            (None, MirrorShare::Some) => drawn,
            (None, MirrorShare::All) => true,
            (None, MirrorShare::None) => false,
        };
        if mirrored {
            profile.mirror(&mut chance, self.planted);
        }
        profile
    }

    /// Chance of its own for devices that leave.
    fn of_departures(&self) -> Random {
        Random::new(!self.seed.rotate_left(40))
    }

    /// Chance of its own for copies that others replace.
    fn of_replacements(&self) -> Random {
        Random::new(!self.seed.rotate_left(56))
    }

    /// Chance of its own for what happens to copies, so that runs of plain devices stay what they
    /// were before there were mirrors.
    fn of_copies(&self) -> Random {
        Random::new(!self.seed.rotate_left(48))
    }
}

/// How a run ended; `F` counts what it did.
#[derive(Clone, Debug)]
pub struct RunReport<F = Figures> {
    /// Makes the same run again.
    pub seed: u64,
    /// What it did.
    pub figures: F,
    /// A sum over everything that happened, in its order.
    pub sum: u64,
    /// What was wrong; `None` if nothing was.
    pub violation: Option<String>,
    /// The last events in words.
    pub story: String,
}

struct Flight {
    action: Action,
    since: u64,
}

/// One simulated world.
pub struct World {
    profile: Profile,
    random: Random,
    now: u64,
    /// By slot.
    disks: Vec<SimDisk>,
    slots: Slots,
    /// Which slots the engine was told of.
    opened: Vec<bool>,
    /// The newest membership list of each device that was written.
    lists: BTreeMap<usize, List>,
    witness: Witness,
    /// Decides what happens to copies.
    chance: Random,
    /// Decides about devices that leave.
    departs: Random,
    /// Decides about copies that others replace.
    replaces: Random,
    /// A copy that is to leave when the one that replaces it is current.
    replacement: Option<Replacement>,
    /// The copy that rotted last.
    rotted: Option<Rotted>,
    /// What may be moved from the one that leaves, once it was looked at.
    to_move: Option<departures::ToMove>,
    /// Another copy is audited, and was not looked at yet.
    reference_changed: bool,
    /// When copies began to hang.
    hangs: Vec<u64>,
    /// Times that a copy was spoilt, and how often when the scrub began that is under way.
    spoilt: u64,
    scrubbing: Option<u64>,
    /// The same of a scrub that is over, until the checkpoint after it.
    scrubbed: Option<u64>,
    /// Copies that joined or were to.
    copies_made: u64,
    store: Store,
    oracle: Oracle,
    reserve: Reserve,
    workload: Workload,
    scan: Option<Scan>,
    backup: Option<Backup>,
    trace: Trace,
    figures: Figures,
    in_flight: BTreeMap<u64, Flight>,
    next_tag: u64,
    issued: u64,
    /// Commands whose fate a power failure left open.
    lost: Vec<Action>,
    /// Hosts repeat what was lost, and ask for nothing else until that is done.
    repeating: bool,
    /// Device events until the power fails.
    crash_in: u64,
    /// The answer to the world's own request.
    answer: Option<Answer>,
    /// What the durable superblock reaches.
    audit: Option<Audit>,
    superblock_written: bool,
    /// Copies that were made from spoilt ones, and not judged yet.
    tainted: std::collections::BTreeSet<[u8; 16]>,
    /// The pool is being made; what an earlier attempt left may be overwritten.
    making: bool,
    /// The medium has faults now.
    faulty: bool,
    closing: bool,
    /// The pool is said to be being extended.
    extending: bool,
    read_only: bool,
    /// The run ends here, because the medium lost what cannot be judged.
    ended: bool,
}

impl World {
    /// Plays a whole run.
    pub fn run(run: &Run) -> RunReport {
        let mut world = Self::new(run);
        let played = catch_unwind(AssertUnwindSafe(|| world.play()));
        let violation = match played {
            Ok(Ok(())) => None,
            Ok(Err(violation)) => Some(violation.0),
            Err(panic) => Some(format!("the engine stopped: {}", words_of(&*panic))),
        };
        world.figures.healed += world.healed_blocks();
        world.figures.faults = world.disks.iter().map(|disk| disk.statistics().faults).sum();
        RunReport {
            seed: run.seed,
            figures: world.figures,
            sum: world.trace.sum(),
            story: if violation.is_some() { world.trace.story() } else { String::new() },
            violation,
        }
    }

    fn new(run: &Run) -> Self {
        let mut random = Random::new(run.seed);
        let profile = run.draw_profile(&mut random);
        let mut chance = run.of_copies().fork();
        let (disks, slots) = plug(&profile, &mut random, &mut chance);
        let mut workload = Workload::new(random.fork());
        workload.renames = run.seed.is_multiple_of(profile.renames_one_in.max(1));
        let scan = profile.scans.then(|| Scan::new(run.of_scans().fork()));
        let backup = profile.backups.then(|| Backup::new(run.of_backups().fork()));
        let store = Store::format(&pool_spec(&slots, &disks), profile.options(), Tag(OWN_TAG));
        Self {
            random,
            now: 0,
            disks,
            opened: vec![true; slots.count()],
            slots,
            lists: BTreeMap::new(),
            witness: Witness::default(),
            chance,
            departs: run.of_departures().fork(),
            replaces: run.of_replacements(),
            replacement: None,
            rotted: None,
            to_move: None,
            reference_changed: false,
            hangs: Vec::new(),
            spoilt: 0,
            scrubbing: None,
            scrubbed: None,
            copies_made: 0,
            store,
            oracle: Oracle::default(),
            reserve: Reserve::default(),
            workload,
            scan,
            backup,
            trace: Trace::new(run.events),
            figures: Figures::default(),
            in_flight: BTreeMap::new(),
            next_tag: 1,
            issued: 0,
            lost: Vec::new(),
            repeating: false,
            crash_in: u64::MAX,
            answer: None,
            audit: None,
            superblock_written: false,
            tainted: std::collections::BTreeSet::new(),
            making: true,
            faulty: false,
            closing: false,
            extending: false,
            read_only: false,
            ended: false,
            profile,
        }
    }

    fn play(&mut self) -> Result<(), Violation> {
        self.format()?;
        let refuse_one_in = self.profile.refuse_one_in;
        self.disks.iter_mut().for_each(|disk| disk.set_refusals(refuse_one_in));
        self.set_faulty(true);
        self.plan_crash();
        while self.issued < self.profile.operations && !self.ended {
            self.step()?;
        }
        if self.ended { Ok(()) } else { self.finish_run() }
    }

    /// One turn: new commands, then the end of one device operation.
    fn step(&mut self) -> Result<(), Violation> {
        self.submit_commands();
        self.read_on();
        self.back_up();
        self.pump()?;
        if self.crash_in == 0 {
            return self.power_failure_and_recovery();
        }
        if self.read_only {
            return self.leave_read_only();
        }
        if self.repeating && self.in_flight.is_empty() {
            return self.end_repeating();
        }
        self.wait_for_device()?;
        self.trouble()?;
        self.depart();
        self.check_moved_once()?;
        if self.random.one_in(4096) {
            self.extending = !self.extending;
            self.store.set_extending(self.extending);
        }
        if self.random.one_in(8192) {
            self.trace.add(self.now, Event::Note("a scrub begins"));
            self.store.start_scrub();
        }
        if self.figures.device_operations.is_multiple_of(64) {
            self.check_accounts()?;
            self.check_devices()?;
            self.check_scrub()?;
            self.check_memory()?;
            self.check_groups()?;
            self.check_members()?;
            self.look_at_scrub();
        }
        Ok(())
    }

    fn submit_commands(&mut self) {
        if self.read_only || self.repeating || self.random.percent(40) {
            return;
        }
        let mut left = self.workload.burst();
        while left > 0
            && (self.in_flight.len() as u64) < self.workload.concurrency()
            && self.issued < self.profile.operations
        {
            let changes =
                self.in_flight.values().any(|flight| matches!(flight.action, Action::Change(_)));
            let devices = self.device_sizes();
            let action = self.workload.next(&self.oracle, &self.profile, &devices, changes);
            self.submit(action);
            left -= 1;
            if changes && self.oracle.volumes.is_empty() {
                return;
            }
        }
    }

    /// The host that reads on sends its next request, if the last one was answered.
    fn read_on(&mut self) {
        let Some(scan) = &mut self.scan else { return };
        if self.repeating || self.read_only || self.in_flight.contains_key(&scan.tag) {
            return;
        }
        if let Some(action) = scan.next(&self.oracle) {
            scan.tag = self.next_tag;
            self.submit(action);
        }
    }

    fn submit(&mut self, mut action: Action) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.issued += 1;
        if let Action::Change(Change::AddDevice(spec)) = &mut action {
            self.attach(spec);
        }
        self.trace.add(self.now, Event::Submitted { tag, action: action.clone() });
        let others = || self.in_flight.values().map(|flight| &flight.action);
        self.reserve.locks(&action, others());
        self.reserve.submitted(tag, &action, others());
        if let Action::Change(Change::ExtendDevice { device, size_bytes }) = &action {
            for slot in self.slots.of((*device).into()) {
                self.disks[slot].grow(*size_bytes);
            }
        }
        match (&action, action.volume(), action.request()) {
            (Action::Change(change), ..) => self.store.change(Tag(tag), change.clone()),
            (Action::Compare(question), ..) => self.store.compare(Tag(tag), *question),
            (_, Some(volume), Some(request)) => self.store.submit(Tag(tag), volume, request),
            _ => unreachable!("what is no change is a request"),
        }
        self.in_flight.insert(tag, Flight { action, since: self.now });
    }

    /// A disk for a device that is to join the pool; perhaps one that almost did before.
    fn attach(&mut self, spec: &mut DeviceSpec) {
        let (size_bytes, known) = (spec.size_bytes, self.store.devices().count());
        if self.profile.mirrors.is_some() {
            return self.attach_mirror(spec);
        }
        if self.profile.departures.is_some() {
            return self.attach_where_one_left(spec);
        }
        spec.slot = known as u8;
        self.disks.truncate(known + 1);
        self.slots.keep(&self.known_devices());
        self.slots.put(known, vec![plain(known)]);
        if let Some(disk) = self.disks.get_mut(known)
            && self.random.percent(50)
        {
            return disk.grow(size_bytes);
        }
        self.disks.truncate(known);
        let random = self.random.fork();
        let disk = self.new_disk(size_bytes, random);
        self.disks.push(disk);
    }

    fn new_disk(&self, size_bytes: u64, random: Random) -> SimDisk {
        let mut disk = SimDisk::new(size_bytes, random);
        disk.set_stalls(self.profile.stall_one_in);
        disk.set_refusals(self.profile.refuse_one_in);
        disk.set_faults(self.profile.faults.clone().filter(|_| self.faulty).unwrap_or_default());
        disk
    }

    /// Lets the engine say all it has to say in one turn. Answers are heard before the device hears of what
    /// follows from them, so that the order of answers is the order of effects.
    fn pump(&mut self) -> Result<(), Violation> {
        if let Some(blocks) = self.profile.turn_blocks {
            self.store.begin_turn(blocks);
        }
        loop {
            self.hear_answers()?;
            let Some(io) = self.store.next_io() else {
                self.hear_answers()?;
                if self.keep_witness() {
                    continue;
                }
                return Ok(());
            };
            self.hear_answers()?;
            self.take_io(io)?;
            if self.crash_in == 0 {
                return Ok(());
            }
        }
    }

    fn hear_answers(&mut self) -> Result<(), Violation> {
        while let Some(done) = self.store.next_done() {
            let Tag(tag) = done.tag;
            let result = done.result.as_ref().map(drop).map_err(Clone::clone);
            self.trace.add(self.now, Event::Ended { tag, result });
            if tag == OWN_TAG {
                self.answer = Some(done.result);
                continue;
            }
            let Some(Flight { action, since }) = self.in_flight.remove(&tag) else {
                return violation(format!("command {tag} came to its end twice"));
            };
            self.figures.operations += 1;
            self.figures.mirrored += u64::from(self.profile.mirrors.is_some());
            self.figures.departing += u64::from(self.profile.departures.is_some());
            self.check_latency(since, &action)?;
            self.hear_of_copies(&action, &done.result)?;
            self.hear_of_departure(&action, done.result.is_ok());
            self.hear_of_backup(done.tag, &action, &done.result);
            self.hear_of_reserve(tag, &action, &done.result)?;
            self.hear(action, &done.result)?;
        }
        Ok(())
    }

    fn hear_of_reserve(
        &mut self,
        tag: u64,
        action: &Action,
        result: &Answer,
    ) -> Result<(), Violation> {
        self.reserve.ended(tag, action, result.is_ok(), &self.oracle);
        let is_full =
            matches!(result, Err(Failure::Block(BlockError::OutOfSpace | BlockError::SpaceComing)));
        if is_full && self.profile.faults.is_none() {
            self.reserve.check_refusal(action, &self.store.space())
        } else {
            Ok(())
        }
    }

    fn hear(&mut self, action: Action, result: &Answer) -> Result<(), Violation> {
        if self.failed_meanwhile(&action, result) {
            return Ok(());
        }
        let excuses = Excuses {
            faults: self.faulty,
            had_faults: self.profile.faults.is_some(),
            closing: self.closing,
            changing: self.is_changing(&action),
            extending: self.extending,
            refusing: self.profile.refuse_one_in > 0,
        };
        self.oracle.finished(&action, result, excuses)?;
        match result {
            Err(Failure::Block(BlockError::OutOfSpace | BlockError::SpaceComing)) => {
                self.figures.out_of_space += 1;
            }
            Err(Failure::Block(BlockError::ReadOnly) | Failure::Change(ChangeError::ReadOnly)) => {
                self.read_only = true;
                if matches!(action, Action::Change(_)) {
                    self.lost.push(action);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a volume of the action is being resized or deleted: others may see that before
    /// whoever asked for it is told.
    fn is_changing(&self, action: &Action) -> bool {
        let concerned = |id: &VolumeId| match action {
            Action::Copy { source, volume, .. } => id == source || id == volume,
            Action::Compare(question) => question.target == *id || question.base == Some(*id),
            _ => action.volume() == Some(*id),
        };
        self.in_flight.values().any(|flight| match &flight.action {
            Action::Change(
                Change::ResizeVolume { id, .. }
                | Change::DeleteVolume(id)
                | Change::RevertVolume { volume: id, .. },
            ) => concerned(id),
            _ => false,
        })
    }

    fn take_io(&mut self, io: Io) -> Result<(), Violation> {
        let Io { id: IoId(token), device, operation } = io;
        let event = match &operation {
            DeviceOperation::Read { offset, buffer } => {
                DeviceEvent::Read { offset: *offset, length: buffer.len() as u64 }
            }
            DeviceOperation::Write { offset, data } => {
                DeviceEvent::Write { offset: *offset, length: data.len() as u64 }
            }
            DeviceOperation::Flush => DeviceEvent::Flush,
            DeviceOperation::Reserve { offset, length } => {
                DeviceEvent::Reserve { offset: *offset, length: *length }
            }
        };
        self.trace.add(self.now, Event::Device { token, device, operation: event });
        self.check_departed(device.into(), &operation)?;
        self.check_copy(device.into(), &operation)?;
        self.check_write(device.into(), &operation)?;
        self.figures.device_operations += 1;
        self.disks[usize::from(device)].submit(self.now, token, operation);
        self.crash_in = self.crash_in.saturating_sub(1);
        Ok(())
    }

    /// I1: what the durable superblock reaches is not written, nor is the superblock itself.
    fn check_write(&mut self, slot: usize, operation: &DeviceOperation) -> Result<(), Violation> {
        let DeviceOperation::Write { offset, data } = operation else { return Ok(()) };
        let Some(device) = self.slots.device_of(slot) else {
            return violation(format!("slot {slot} is written, which is no device of the pool"));
        };
        let length = data.len() as u64;
        let has_mirrors = self.profile.mirrors.is_some();
        let is_current = !has_mirrors || self.is_current_slot(device, slot);
        let is_counted = is_current && (!has_mirrors || self.audits_current_copies());
        // One that drops writes drops what is to set space aside, too (51001335), also while it is asked to leave
        // (86001956).
        let is_spoilt = self.slots.devices[device]
            .iter()
            .any(|member| member.slot == slot && member.is_spoilt());
        let is_asked = is_current && !is_spoilt && *offset >= SUPERBLOCKS_END * BLOCK;
        if is_asked && !self.disks[slot].is_housed(*offset, length) {
            return violation(format!(
                "{length} bytes at {offset} of slot {slot} are written where no space was set aside"
            ));
        }
        let blocks = offset / BLOCK..(offset + length) / BLOCK;
        self.superblock_written |= device == 0 && blocks.start < SUPERBLOCKS_END;
        let Some(audit) = self.audit.as_ref().filter(|_| is_counted) else { return Ok(()) };
        // A scrub repairs a page in its place, and a copy gets what others have. Where nothing is
        // damaged, that changes nothing.
        // Where blocks of all copies may be unreadable, the copy that is audited may lack what another one
        // has: a resilver could not read it (72001130).
        let has_faults = has_mirrors && self.profile.faults.is_some();
        let copies: Vec<&SimDisk> = (0..self.disks.len())
            .filter(|&other| has_faults && self.is_current_slot(device, other))
            .chain([self.slots.reference(device)])
            .map(|slot| &self.disks[slot])
            .collect();
        let is_stable =
            |block: u64, new: &[u8]| copies.iter().any(|disk| disk.stable_block(block) == new);
        let changes = |block: u64| {
            let at = (block * BLOCK - offset) as usize;
            let new = data.slice(at, BLOCK as usize).to_vec();
            // A superblock is written again where a copy of it is missing.
            let alike = if block < SUPERBLOCKS_END {
                Audit::copies_of_superblock(block)
            } else {
                [block; 2]
            };
            !alike.into_iter().any(|block| is_stable(block, &new))
        };
        let is_changed = |block: &u64| audit.is_protected(device, *block) && changes(*block);
        match blocks.into_iter().find(is_changed) {
            Some(block) => violation(format!(
                "block {block} of device {device} is written although checkpoint {} reaches it, by \
                 slot {}, compared with slot {}",
                audit.generation(),
                self.slots.reference(0),
                self.slots.reference(device)
            )),
            None => Ok(()),
        }
    }

    /// Ends the next device operation; if there is none, lets time pass.
    fn wait_for_device(&mut self) -> Result<(), Violation> {
        let Some((time, _)) = self.next_completion() else {
            return if self.in_flight.is_empty() { Ok(()) } else { self.let_time_pass() };
        };
        self.advance(time)?;
        let oldest = self.in_flight.first_key_value();
        match oldest.filter(|(_, flight)| self.now - flight.since > COMMAND_NANOSECONDS_MAX) {
            Some((tag, flight)) => {
                violation(format!("command {tag} does not come to its end: {}", flight.action))
            }
            None => Ok(()),
        }
    }

    /// Ends the next operation, whose time is this; or lets some of the time until then pass, if
    /// copies may hang.
    fn advance(&mut self, time: u64) -> Result<(), Violation> {
        if self.profile.mirrors.is_some() && time > self.now + HANG_STEP {
            return self.next_turn();
        }
        self.now = self.now.max(time);
        self.complete_one()
    }

    /// When and in which slot the next operation ends.
    fn next_completion(&self) -> Option<(u64, usize)> {
        let times = self.disks.iter().enumerate();
        times.filter_map(|(index, disk)| Some((disk.next_time()?, index))).min()
    }

    fn devices_are_idle(&self) -> bool {
        self.disks.iter().all(SimDisk::is_idle)
    }

    fn complete_one(&mut self) -> Result<(), Violation> {
        self.store.tick(Duration::from_nanos(self.now));
        let Some((_, slot)) = self.next_completion() else { return Ok(()) };
        let Some(completion) = self.disks[slot].complete_next() else { return Ok(()) };
        let token = completion.token;
        let failed = completion.result.is_err();
        self.trace.add(self.now, Event::DeviceDone { token, failed });
        if self.superblock_written && completion.flush && self.slots.device_of(slot) == Some(0) {
            self.look_at_superblock()?;
        }
        self.look_at_sources();
        self.crash_in = self.crash_in.saturating_sub(1);
        self.store.completed(IoId(token), completion.result);
        self.pump()
    }

    /// The engine's next turn: at once if the last one was cut short, else after a while.
    fn next_turn(&mut self) -> Result<(), Violation> {
        if self.profile.turn_blocks.is_none() || !self.store.has_more() {
            self.now += HANG_STEP;
            self.store.tick(Duration::from_nanos(self.now));
        }
        self.pump()
    }

    /// I17: nothing is under way on the device, so only time can let commands go on.
    fn let_time_pass(&mut self) -> Result<(), Violation> {
        let since = self.now;
        while self.now < since + IDLE_STEPS_MAX * HANG_STEP {
            self.next_turn()?;
            if !self.devices_are_idle() || self.in_flight.is_empty() {
                return Ok(());
            }
        }
        let flights =
            self.in_flight.iter().map(|(tag, flight)| format!("{tag}: {}", flight.action));
        let flights: Vec<String> = flights.collect();
        violation(format!("lost wake-up; forgotten are {}", flights.join("; ")))
    }

    /// Waits until nothing is under way; `false` if the power failed.
    fn quiesce(&mut self) -> Result<bool, Violation> {
        self.pump()?;
        while !self.in_flight.is_empty() || !self.devices_are_idle() {
            if self.crash_in == 0 {
                return Ok(false);
            }
            self.wait_for_device()?;
        }
        Ok(self.crash_in > 0)
    }

    /// A fault made the pool read-only. It must still answer everything; then it is restarted on
    /// a sound device.
    fn leave_read_only(&mut self) -> Result<(), Violation> {
        if !self.faulty {
            return violation("the pool became read-only although nothing failed");
        }
        self.figures.refusals += 1;
        self.crash_in = u64::MAX;
        self.quiesce()?;
        if !self.is_read_only() {
            return violation("a command failed as on a read-only pool, but the pool is not");
        }
        self.power_failure_and_recovery()
    }

    fn set_faulty(&mut self, faulty: bool) {
        let faults = self.profile.faults.clone().filter(|_| faulty);
        self.faulty = faults.is_some();
        for disk in &mut self.disks {
            disk.set_faults(faults.clone().unwrap_or_default());
        }
    }
}

pub(crate) fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let place = crate::campaign::take_panic_place();
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("{} ({place})", text.unwrap_or_else(|| "without words".to_owned()))
}
