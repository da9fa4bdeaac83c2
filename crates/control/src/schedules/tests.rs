use std::cell::Cell;

use super::*;

const HOUR: u64 = 3600;
/// 2026-03-29 00:00 UTC; in Europe the clocks go forward an hour at 01:00.
const SPRING: u64 = 1_774_742_400;
/// 2026-10-25 00:00 UTC; they go back at 01:00.
const AUTUMN: u64 = 1_792_886_400;

/// A pool 'p' with volumes 'a' and 'b'.
#[derive(Default)]
struct Pools {
    is_unready: bool,
    is_running: bool,
    there: BTreeSet<VolumeId>,
    locked: BTreeSet<VolumeId>,
    mapped: BTreeSet<VolumeId>,
    going: BTreeSet<VolumeId>,
    last_id: Cell<u64>,
}

impl View for Pools {
    fn ready(&self, pool: &str) -> Result<(), Problem> {
        if self.is_unready { Err(conflict(&format!("pool '{pool}' is read-only"))) } else { Ok(()) }
    }

    fn serves(&self, _: &str) -> bool {
        !self.is_unready
    }

    fn volume(&self, _: &str, name: &str) -> Result<VolumeId, Problem> {
        let known = ["a", "b"].iter().position(|known| *known == name);
        let id = known.map(|position| VolumeId(1000 + position as u64));
        id.ok_or_else(|| conflict(&"there is no such volume"))
    }

    fn holds(&self, _: &str, id: VolumeId) -> bool {
        self.there.contains(&id)
    }

    fn deletable(&self, id: VolumeId) -> Result<(), ArrayError> {
        if self.locked.contains(&id) {
            return Err(ArrayError::Locked { until: 1 });
        }
        if self.mapped.contains(&id) {
            Err(ArrayError::StillMapped("h".to_owned()))
        } else {
            Ok(())
        }
    }

    fn is_going(&self, id: VolumeId) -> bool {
        self.going.contains(&id)
    }

    fn is_running(&self, _: &str) -> bool {
        self.is_running
    }

    fn name_of(&self, snapshot: VolumeId) -> String {
        format!("snapshot p/{}", snapshot.0)
    }

    fn new_id(&self) -> Result<VolumeId, Problem> {
        self.last_id.set(self.last_id.get() + 1);
        Ok(VolumeId(self.last_id.get()))
    }
}

/// The server, in small: it saves whatever is asked of it, and its pools do what they are asked.
struct Server {
    array: Configuration,
    schedules: Schedules,
    pools: Pools,
    /// When runs began, and the names of their first snapshots.
    made: Vec<(u64, String)>,
    notes: Vec<(Severity, String)>,
}

impl Server {
    fn new(schedule: Schedule, now: u64) -> Self {
        let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
        array.set_schedule("s", schedule, now).unwrap();
        let (schedules, pools) = (Schedules::default(), Pools::default());
        Self { array, schedules, pools, made: Vec::new(), notes: Vec::new() }
    }

    /// Looks, and performs what comes of it.
    fn look(&mut self, now: u64) {
        let effects = self.schedules.look(now, &self.array, &self.pools);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let next = match effect {
                Effect::Note(note) => {
                    self.notes.push((note.severity, note.message));
                    Vec::new()
                }
                Effect::Save(change) => match change.apply(&mut self.array) {
                    Ok(()) => self.schedules.saved(change, Ok(()), &self.array, &self.pools),
                    Err(error) => self.schedules.refused(change, refused(&error)),
                },
                Effect::Snapshot(run) => {
                    self.pools.there.extend(run.snapshots());
                    self.made.push((run.moment, run.members()[0].1.name.clone()));
                    self.schedules.made(run, Ok(()), &self.array, &self.pools)
                }
                Effect::Delete(deletion) => {
                    self.pools.there.remove(&deletion.id);
                    Vec::new()
                }
                Effect::Tell(_)
                | Effect::Volume(_)
                | Effect::Pool(_)
                | Effect::OpenPortal(_)
                | Effect::ClosePortal(_)
                | Effect::CloseUnsaved(_)
                | Effect::ConfigureReceivers
                | Effect::Forget(_)
                | Effect::Audit { .. } => panic!("{effect:?}"),
            };
            self.perform(next);
        }
    }

    fn moments(&self) -> Vec<u64> {
        self.made.iter().map(|(moment, _)| *moment).collect()
    }

    fn runs(&self) -> usize {
        self.array.schedule("s").unwrap().runs().len()
    }
}

fn hourly() -> Schedule {
    Schedule {
        pool: "p".to_owned(),
        volumes: ["a".to_owned()].into(),
        every_seconds: HOUR,
        offset_seconds: 0,
        keep: 3,
        lock_seconds: None,
        enabled: true,
    }
}

#[test]
fn a_run_is_made_once_at_its_moment_and_the_oldest_beyond_those_kept_go() {
    let mut server = Server::new(hourly(), SPRING);
    for now in SPRING..=SPRING + 10 * HOUR {
        server.look(now);
    }
    let expected: Vec<u64> = (1..=10).map(|hour| SPRING + hour * HOUR).collect();
    assert_eq!(server.moments(), expected);
    assert_eq!(server.pools.there.iter().map(|id| id.0).collect::<Vec<_>>(), [8, 9, 10]);
    assert_eq!(server.notes, []);
}

/// Schedules are in UTC: a day on which local clocks change has as many runs as any other, each with
/// a name of its own, and in the order of the names.
#[test]
fn daylight_saving_neither_repeats_nor_leaves_out_a_run() {
    for midnight in [SPRING, AUTUMN] {
        let mut server = Server::new(hourly(), midnight);
        (midnight..midnight + 24 * HOUR).step_by(60).for_each(|now| server.look(now));
        let names: Vec<&String> = server.made.iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), 23);
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    }
    let mut daily = Server::new(Schedule { every_seconds: 24 * HOUR, ..hourly() }, AUTUMN);
    (AUTUMN..=AUTUMN + 48 * HOUR).step_by(600).for_each(|now| daily.look(now));
    assert_eq!(daily.moments(), [AUTUMN + 24 * HOUR, AUTUMN + 48 * HOUR]);
}

#[test]
fn missed_runs_are_told_and_one_is_made_in_their_place() {
    let mut server = Server::new(hourly(), SPRING);
    server.look(SPRING + 5 * HOUR + 30);
    server.look(SPRING + 5 * HOUR + 31);
    assert_eq!(server.moments(), [SPRING + 5 * HOUR]);
    let (severity, message) = &server.notes[0];
    assert_eq!((*severity, server.notes.len()), (Severity::Warning, 1));
    assert!(message.starts_with("4 run(s) were missed"), "{message}");
}

#[test]
fn a_clock_that_goes_back_a_little_repeats_no_run_and_far_back_counts_anew_once() {
    let mut server = Server::new(hourly(), SPRING);
    server.look(SPRING + HOUR);
    for now in [SPRING + HOUR - 1, SPRING + 30, SPRING + HOUR] {
        server.look(now);
    }
    assert_eq!((server.made.len(), server.notes.len()), (1, 0));
    let back = SPRING - 100 * HOUR;
    (0..30).for_each(|second| server.look(back + second));
    assert_eq!(server.made.len(), 1);
    let told = "the clock went back: runs are counted from now on".to_owned();
    assert_eq!(server.notes, [(Severity::Warning, told)]);
    server.look(back + HOUR);
    assert_eq!(server.moments(), [SPRING + HOUR, back + HOUR]);
}

#[test]
fn a_clock_that_jumps_far_ahead_makes_one_run() {
    let mut server = Server::new(hourly(), SPRING);
    let ahead = SPRING + 100 * 365 * 24 * HOUR;
    (0..30).for_each(|second| server.look(ahead + second));
    assert_eq!((server.made.len(), server.notes.len()), (1, 1));
    server.look(u64::MAX);
    server.look(0);
    assert!(server.runs() <= 3);
}

#[test]
fn a_pool_that_cannot_is_told_once_and_the_run_after_it_can_is_made() {
    let mut server = Server::new(hourly(), SPRING);
    server.pools.is_unready = true;
    (1..=5).for_each(|hour| server.look(SPRING + hour * HOUR));
    assert_eq!(server.notes, [(Severity::Error, "pool 'p' is read-only".to_owned())]);
    let shown = server.schedules.describe(&server.array, "s").unwrap();
    assert_eq!(shown.problem.as_deref(), Some("pool 'p' is read-only"));
    server.pools.is_unready = false;
    server.look(SPRING + 5 * HOUR + 1);
    assert_eq!(server.made, []);
    server.look(SPRING + 6 * HOUR);
    assert_eq!(server.moments(), [SPRING + 6 * HOUR]);
    assert_eq!(server.schedules.describe(&server.array, "s").unwrap().problem, None);
}

#[test]
fn a_run_that_takes_longer_than_a_period_lets_the_next_ones_be_missed() {
    let mut server = Server::new(hourly(), SPRING);
    server.pools.is_running = true;
    (1..=3).for_each(|hour| server.look(SPRING + hour * HOUR));
    assert_eq!(server.made, []);
    server.pools.is_running = false;
    server.look(SPRING + 3 * HOUR + 1);
    assert_eq!(server.moments(), [SPRING + 3 * HOUR]);
}

#[test]
fn a_run_that_the_pool_could_not_make_is_forgotten_unless_the_pool_failed() {
    for (is_unready, left) in [(false, 0), (true, 1)] {
        let mut server = Server::new(hourly(), SPRING);
        let effects = server.schedules.look(SPRING + HOUR, &server.array, &server.pools);
        let [Effect::Save(change)] = &effects[..] else { panic!("{effects:?}") };
        change.apply(&mut server.array).unwrap();
        let begun = server.schedules.saved(change.clone(), Ok(()), &server.array, &server.pools);
        let [Effect::Snapshot(run)] = &begun[..] else { panic!("{begun:?}") };
        server.pools.is_unready = is_unready;
        let failed = Err(conflict(&"the pool is full"));
        let after = server.schedules.made(run.clone(), failed, &server.array, &server.pools);
        server.perform(after);
        assert_eq!(server.runs(), left);
        assert_eq!(server.notes, [(Severity::Error, "the pool is full".to_owned())]);
    }
}

#[test]
fn a_change_that_is_not_saved_makes_nothing_and_says_why() {
    let mut server = Server::new(hourly(), SPRING);
    let effects = server.schedules.look(SPRING + HOUR, &server.array, &server.pools);
    let [Effect::Save(change)] = &effects[..] else { panic!("{effects:?}") };
    let failed = Err(conflict(&"the disk is full"));
    let after = server.schedules.saved(change.clone(), failed, &server.array, &server.pools);
    server.perform(after);
    assert_eq!(server.made, []);
    assert_eq!(server.notes, [(Severity::Error, "the disk is full".to_owned())]);
}

#[test]
fn locked_snapshots_stay_without_a_word_and_mapped_ones_are_told() {
    let mut server = Server::new(Schedule { keep: 1, ..hourly() }, SPRING);
    server.look(SPRING + HOUR);
    server.pools.locked.insert(VolumeId(1));
    server.look(SPRING + 2 * HOUR);
    assert_eq!((server.pools.there.len(), server.notes.len()), (2, 0));
    server.pools.mapped.insert(VolumeId(2));
    (3..6).for_each(|hour| server.look(SPRING + hour * HOUR));
    assert_eq!(server.notes.len(), 1);
    assert!(server.notes[0].1.starts_with("snapshot p/2 is kept beyond its time"));
    server.pools.locked.clear();
    server.pools.mapped.clear();
    server.pools.going.insert(VolumeId(1));
    server.look(SPRING + 6 * HOUR);
    let left: Vec<u64> = server.pools.there.iter().map(|id| id.0).collect();
    assert_eq!(left, [1, 6], "somebody else deletes the first one");
}

#[test]
fn new_snapshots_are_locked_with_the_change_that_makes_them_known() {
    let schedule = Schedule { lock_seconds: Some(600), ..hourly() };
    let mut server = Server::new(schedule, SPRING);
    let effects = server.schedules.look(SPRING + HOUR + 5, &server.array, &server.pools);
    let [Effect::Save(change)] = &effects[..] else { panic!("{effects:?}") };
    change.apply(&mut server.array).unwrap();
    let until = SPRING + HOUR + 5 + 600;
    assert!(server.array.check_unlocked(VolumeId(1), until - 1).is_err());
    assert!(server.array.check_unlocked(VolumeId(1), until).is_ok());
}

#[test]
fn moments_in_names_sort_as_they_follow_each_other() {
    assert_eq!(compact(0), "19700101T000000Z");
    assert_eq!(compact(1_795_247_849), "20261121T075729Z");
}

#[test]
fn volumes_of_several_pools_have_several_schedules() {
    let request = |volumes: &[&str]| SetSchedule {
        volumes: volumes.iter().map(|&volume| volume.to_owned()).collect(),
        every_seconds: 60,
        offset_seconds: 0,
        keep: 1,
        lock_seconds: None,
        enabled: true,
    };
    for volumes in [&[][..], &["a"], &["p/a", "q/b"], &["p/a", "p/"], &["/a"]] {
        assert!(parse(&request(volumes)).is_err(), "{volumes:?}");
    }
    let set = request(&["p/a", "p/b"]);
    assert_eq!(settings(&parse(&set).unwrap()), set);
}

fn wanted(volumes: &[&str]) -> SetSchedule {
    SetSchedule {
        volumes: volumes.iter().map(|&path| path.to_owned()).collect(),
        every_seconds: HOUR,
        offset_seconds: 0,
        keep: 2,
        lock_seconds: None,
        enabled: true,
    }
}

#[test]
fn a_schedule_is_set_from_the_next_moment_that_it_names_and_starts_without_a_problem() {
    use crate::change::tests::{NOW, World, empty, make, refusal, written};
    let (mut draft, world) = (empty(), World::new());
    let applied = make(&mut draft, &world, &set("s", &wanted(&["p/a", "p/b"])).unwrap()).unwrap();
    assert_eq!(written(&applied)["next"], NOW - NOW % HOUR + HOUR);
    assert_eq!(applied.touched, Touched::Nobody);
    let forget = Effect::Forget(Forgotten::ScheduleProblem("s".to_owned()));
    assert_eq!(applied.effects, std::slice::from_ref(&forget));
    for (change, kind) in [
        (set("s", &wanted(&["p/c"])).unwrap(), api::ProblemKind::NotFound),
        (
            set("s", &SetSchedule { keep: 0, ..wanted(&["p/a"]) }).unwrap(),
            api::ProblemKind::InvalidRequest,
        ),
        (Setting::Delete("t".to_owned()), api::ProblemKind::NotFound),
    ] {
        assert_eq!(refusal(&mut draft, &world, &change), kind, "{change:?}");
    }
    let applied = make(&mut draft, &world, &Setting::Delete("s".to_owned())).unwrap();
    assert_eq!((applied.answer, applied.effects), (Answer::DONE, vec![forget]));
    assert_eq!(draft, empty());
}
