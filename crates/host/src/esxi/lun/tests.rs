//! Time-outs, retries and lost paths of a LUN, against a scripted target: answers that are late, refused,
//! or missing. Time-outs are divided.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use vmfs::Disk;
use vmfs::disk::Guard;

use super::fake::{Fake, Reply, Seen};
use super::*;
use crate::esxi::vaai::Status;
use crate::initiator::times::{self, Times};

const CAW: u8 = 0x89;
const WRITE: u8 = 0x8a;

/// A heartbeat is aborted after 200 ms, a NOP-Out sent after 375.
fn connect(fakes: &[&Fake]) -> Lun {
    times::choose(Times::HOST.divided(40));
    let urls: Vec<String> = fakes.iter().map(|fake| fake.url.clone()).collect();
    Lun::connect(&urls, "iqn.1998-01.com.vmware:test", &Settings::default()).expect("it answers")
}

/// Gives these replies to commands of one operation code, in turn, and then healthy ones.
fn in_turn(opcode: u8, replies: Vec<Reply>) -> impl FnMut(&[u8]) -> Option<Reply> + Send {
    let mut replies = replies.into_iter();
    move |cdb| if cdb[0] == opcode { replies.next() } else { None }
}

fn seen(fake: &Fake) -> std::sync::MutexGuard<'_, Seen> {
    fake.seen.lock().expect("no panic")
}

#[test]
fn a_heartbeat_that_is_not_answered_is_aborted_and_tried_again() {
    let fake = Fake::start(in_turn(CAW, vec![Reply::Silence]));
    let mut lun = connect(&[&fake]);
    let begun = Instant::now();
    assert_eq!(lun.heartbeat(512, &[1; 512], &[2; 512]), Ok(true));
    assert!(begun.elapsed() >= times().heartbeat);
    assert_eq!(seen(&fake).functions, [1], "one ABORT TASK");
    assert_eq!((lun.counters.aborts, lun.counters.resets, seen(&fake).logins), (1, 0, 1));
}

/// The first attempt was carried out, its answer lost: the second one misses, and finds its own.
#[test]
fn a_heartbeat_that_met_its_own_first_attempt_is_no_miscompare() {
    let mut turn = 0;
    let fake = Fake::start(move |cdb| {
        turn += u32::from(cdb[0] == CAW);
        match (cdb[0], turn) {
            (CAW, 1) => Some(Reply::Silence),
            (CAW, _) => Some(Reply::Status(2, [0xe, 0x1d, 0])),
            (0x88, _) => Some(Reply::Good(vec![2; 512])),
            _ => None,
        }
    });
    assert_eq!(connect(&[&fake]).heartbeat(512, &[1; 512], &[2; 512]), Ok(true));
    let fake = Fake::start(in_turn(CAW, vec![Reply::Status(2, [0xe, 0x1d, 0])]));
    assert_eq!(connect(&[&fake]).heartbeat(512, &[1; 512], &[2; 512]), Ok(false));
}

#[test]
fn where_an_abort_is_refused_the_lun_is_reset() {
    let fake = Fake::start(in_turn(CAW, vec![Reply::Silence]));
    let mut lun = connect(&[&fake]);
    seen(&fake).responses = vec![5, 0];
    assert_eq!(lun.heartbeat(512, &[1; 512], &[2; 512]), Ok(true));
    assert_eq!(seen(&fake).functions, [1, 5], "ABORT TASK, LOGICAL UNIT RESET");
    assert_eq!((lun.counters.aborts, lun.counters.resets, seen(&fake).logins), (1, 1, 1));
}

#[test]
fn where_the_reset_is_refused_too_the_session_is_given_up() {
    let fake = Fake::start(in_turn(CAW, vec![Reply::Silence]));
    let mut lun = connect(&[&fake]);
    seen(&fake).responses = vec![5, 5];
    assert_eq!(lun.heartbeat(512, &[1; 512], &[2; 512]), Ok(true));
    assert_eq!((seen(&fake).logins, lun.counters.outages), (2, 1));
}

#[test]
fn a_silent_session_is_found_by_its_nop_out_and_another_path_is_used() {
    let silent = Fake::start(in_turn(WRITE, vec![Reply::Silence; 9]));
    let fine = Fake::start(|_| None);
    let mut lun = connect(&[&silent, &fine]);
    seen(&silent).mute = true;
    let begun = Instant::now();
    assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    let [least, most] = [times().noop_timeout, times().command + times().noop_timeout];
    assert!((least..most).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert_eq!((lun.counters.failovers, lun.counters.outages), (1, 0));
    // It was given up, whether or not it was tried again since.
    let is_active = lun.paths().next().is_some_and(|(_, state)| state == PathState::Active);
    assert!(!is_active || seen(&silent).logins > 1);
}

#[test]
fn busy_full_aborted_not_ready_and_unit_attentions_are_asked_again() {
    let replies = vec![
        Reply::Status(BUSY as u8, [0; 3]),
        Reply::Status(TASK_SET_FULL as u8, [0; 3]),
        Reply::Status(TASK_ABORTED as u8, [0; 3]),
        Reply::Status(2, [6, 0x29, 0]),
        Reply::Status(2, [2, 4, 1]),
        Reply::Status(2, [2, 4, 0x14]),
    ];
    let fake = Fake::start(in_turn(WRITE, std::iter::repeat_n(replies, 45).flatten().collect()));
    let mut lun = connect(&[&fake]);
    assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    assert_eq!((lun.counters.writes, lun.counters.aborts, lun.counters.failovers), (1, 0, 0));
    let fake = Fake::start(in_turn(WRITE, vec![Reply::Status(2, [3, 0xc, 0])]));
    assert!(connect(&[&fake]).write(0, &[7; 512]).is_err(), "a medium error is the end");
}

/// A reservation that a dead session left is found by its conflicts, and ended by a LUN RESET, which every
/// session then hears of: that news comes behind many conflicts.
#[test]
fn the_news_of_a_reset_is_heard_behind_any_number_of_reservation_conflicts() {
    let mut replies = vec![Reply::Status(RESERVATION_CONFLICT as u8, [0; 3]); 150];
    replies.push(Reply::Status(2, [6, 0x29, 3]));
    let mut lun = connect(&[&Fake::start(in_turn(WRITE, replies))]);
    assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    assert_eq!((lun.counters.cons, lun.counters.writes), (150, 1));
}

/// A machine's commands end while its host waits for a heartbeat.
#[test]
fn a_command_that_ends_while_another_is_waited_for_is_under_way_until_its_end_is_taken() {
    let mut lun = connect(&[&Fake::start(|_| None)]);
    let (cdb, data) = (cdb::write(0, 1), Data::Out(vec![7; 512]));
    lun.submit(Job { tag: 5, kind: Kind::Write, cdb, data, bytes: 512 }).expect("it has a path");
    // Its answer comes first.
    assert_eq!(lun.heartbeat(512, &[1; 512], &[2; 512]), Ok(true));
    assert_eq!(lun.in_flight(), 1);
    let done = lun.wait_for(Duration::from_secs(9));
    assert_eq!(done.iter().map(|done| done.tag).collect::<Vec<_>>(), [5]);
    assert_eq!(lun.in_flight(), 0);
}

/// A LUN may have something to tell at any moment, also to a session that is just being made.
#[test]
fn unit_attentions_are_heard_while_a_lun_is_looked_at() {
    for opcode in [0x9e, 0x12, 0x84] {
        let news = [[6, 0x2a, 9], [6, 0x3f, 0xe], [6, 0x29, 0]];
        let replies = news.map(|sense| Reply::Status(2, sense)).into();
        let mut lun = connect(&[&Fake::start(in_turn(opcode, replies))]);
        assert_eq!((lun.identity.naa.is_some(), lun.identity.size_bytes), (true, 1 << 30));
        assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    }
}

/// An array that does what it refused before says that its INQUIRY data changed.
#[test]
fn after_the_news_of_other_inquiry_data_refusals_are_forgotten_and_limits_asked_again() {
    const SAME: u8 = 0x93;
    let (mut refused, mut told, mut limit) = (false, false, 0_u8);
    let fake = Fake::start(move |cdb| match (cdb[0], cdb[1], cdb[2]) {
        (SAME, ..) if !refused => {
            refused = true;
            Some(Reply::Status(2, [5, 0x20, 0]))
        }
        (WRITE, ..) if refused && !told => {
            (told, limit) = (true, 8);
            Some(Reply::Status(2, [6, 0x3f, 3]))
        }
        (0x12, 1, 0) => Some(Reply::Good(vec![0, 0, 0, 2, 0, 0xb0])),
        (0x12, 1, 0xb0) => {
            let mut page = vec![0; 64];
            (page[1], page[3], page[43]) = (0xb0, 60, limit);
            Some(Reply::Good(page))
        }
        _ => None,
    });
    let mut lun = connect(&[&fake]);
    assert_eq!(lun.zero_range([0, 4096]), Ok(()));
    assert_eq!((lun.counters.zero, lun.counters.zero_f, lun.counters.writes), (0, 1, 1));
    assert_eq!((lun.vaai.zero, lun.identity.write_same_blocks_max), (Status::Unknown, 0));
    assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    assert_eq!(lun.identity.write_same_blocks_max, 8, "asked before the next command");
    assert_eq!(lun.zero_range([0, 4096]), Ok(()));
    assert_eq!((lun.counters.zero, lun.vaai.zero), (1, Status::Supported));
}

#[test]
fn a_device_is_lost_by_its_sense_codes_only_and_on_all_paths_only() {
    for sense in [[5, 0x25, 0], [4, 0x4c, 0], [4, 0x3e, 1], [4, 0x3e, 3]] {
        let lost = || Fake::start(in_turn(WRITE, vec![Reply::Status(2, sense); 9]));
        let (one, other, fine) = (lost(), lost(), Fake::start(|_| None));
        let mut lun = connect(&[&one, &other]);
        let lost = lun.write(0, &[7; 512]);
        assert_eq!(lost, Err(disk_error(SessionError::PermanentlyLost)), "{sense:x?}");
        assert_eq!(connect(&[&one, &fine]).write(0, &[7; 512]), Ok(()), "{sense:x?}");
    }
    let fake = Fake::start(in_turn(WRITE, vec![Reply::Status(2, [4, 0x44, 0])]));
    let mut lun = connect(&[&fake]);
    assert!(lun.write(0, &[7; 512]).is_err());
    assert!(!lun.is_down(), "INTERNAL TARGET FAILURE is a failure of one command");
}

/// A target that goes away with the first write and is back for the fourth login.
fn away_for_a_while(taken_over: &Arc<AtomicBool>) -> Fake {
    let (taken_over, tries) = (Arc::clone(taken_over), Arc::new(AtomicU32::new(0)));
    let is_away = Mutex::new(false);
    Fake::start(move |cdb| {
        let mut is_away = is_away.lock().expect("no panic");
        if cdb[0] == WRITE && tries.load(Ordering::Relaxed) == 0 {
            *is_away = true;
        }
        if *is_away && tries.fetch_add(1, Ordering::Relaxed) < 3 {
            return Some(Reply::Close);
        }
        *is_away = false;
        let other = taken_over.load(Ordering::Relaxed);
        (cdb[0] == 0x88).then(|| Reply::Good(vec![if other { 9 } else { 4 }; 512]))
    })
}

#[test]
fn what_waited_for_a_path_is_sent_only_if_the_heartbeat_is_still_ours() {
    for taken_over in [false, true] {
        let other = Arc::new(AtomicBool::new(taken_over));
        let fake = away_for_a_while(&other);
        let mut lun = connect(&[&fake]);
        lun.guard(Some(Guard { disk: None, offset: 512, image: [4; 512], ignored: 20..28 }));
        let before = lun.now_us();
        let written = lun.write(0, &[7; 512]);
        let fenced = Err(disk_error(SessionError::TakenOver));
        assert_eq!(written, if taken_over { fenced } else { Ok(()) });
        assert_eq!((lun.counters.outages, lun.is_down()), (1, false));
        let passed = Duration::from_micros(lun.now_us() - before);
        assert!(passed + lun.time_down() / 2 < lun.time_down() + times().tick() * 8, "{passed:?}");
    }
}

#[test]
fn without_a_path_commands_fail_after_a_time_and_at_once_from_then_on() {
    let fake = Fake::start(in_turn(WRITE, vec![Reply::Close]));
    let mut lun = connect(&[&fake]);
    lun.settings.apd_timeout = 20;
    // Nobody answers there.
    lun.paths[0].url = "iscsi://127.0.0.1:1/iqn.a:b/0".to_owned();
    let begun = Instant::now();
    assert_eq!(lun.write(0, &[7; 512]), Err(disk_error(SessionError::AllPathsDown)));
    let waited = begun.elapsed();
    assert!(waited >= times().all_paths_down / 7, "{waited:?}");
    for _ in 0..3 {
        assert_eq!(lun.write(0, &[7; 512]), Err(disk_error(SessionError::AllPathsDown)));
    }
    lun.paths[0].url.clone_from(&fake.url);
    std::thread::sleep(times().reconnect);
    assert_eq!(lun.write(0, &[7; 512]), Ok(()), "there is a path again");
}

/// A command of the heartbeat ended in one go with others behind it, whose ends were thrown away: a
/// machine waited for them for ever.
#[test]
fn what_ends_together_with_a_command_and_behind_it_is_not_lost() {
    let fake = Fake::start(|_| None);
    let mut lun = connect(&[&fake]);
    let done = |tag| Done { tag, result: Ok(()), data: Data::None };
    lun.early = vec![done(5), done(u64::MAX), done(7)];
    let read = lun.command(Kind::Read, cdb::read(0, 1), Data::In(vec![0; 512]), 512);
    assert_eq!(read, Ok(Vec::new()));
    let tags: Vec<u64> = lun.wait_for(Duration::ZERO).iter().map(|done| done.tag).collect();
    assert_eq!(tags, [5, 7]);
}

/// Zeros that the host sends itself over a wire on which a mebibyte takes long.
#[test]
fn on_a_slow_wire_few_commands_with_data_are_outstanding() {
    let fake = Fake::start(|cdb| {
        if cdb[0] == WRITE {
            std::thread::sleep(Duration::from_millis(60));
        }
        None
    });
    let mut lun = connect(&[&fake]);
    lun.settings.hardware_accelerated_init = false;
    assert!(lun.zero_range([0, 24 << 20]).is_ok());
    assert_eq!((lun.counters.writes, lun.counters.outages, lun.counters.aborts), (24, 0, 0));
    assert!(lun.pace.outstanding() <= 2, "{:?}", lun.pace);
    let fake = Fake::start(|_| None);
    let mut lun = connect(&[&fake]);
    assert!(
        lun.over([0, 64 << 20], 1 << 20, |at, length| Job {
            tag: 0,
            kind: Kind::Write,
            cdb: cdb::write(at / 512, (length / 512) as u32),
            data: Data::Out(vec![0; length as usize]),
            bytes: length,
        })
        .is_ok()
    );
    assert_eq!(lun.counters.writes, 64);
}

/// ASYMMETRIC ACCESS STATE codes of two controllers, of which each port tells both.
type States = Arc<[AtomicU32; 2]>;

const OPTIMIZED: u32 = 0;
const STANDBY: u32 = 2;

/// A port of one of two controllers; one that is in standby refuses what is for the medium. Writes are
/// counted.
fn port(own: usize, states: &States, writes: &Arc<AtomicU32>) -> Fake {
    let (states, writes) = (Arc::clone(states), Arc::clone(writes));
    Fake::start(move |cdb| {
        let state = states[own].load(Ordering::SeqCst);
        match (cdb[0], cdb[1], cdb[2]) {
            (0x12, 0, _) => Some(Reply::Good([&[0, 0, 6, 2, 91, 0x10][..], &[b' '; 90]].concat())),
            (0x12, 1, 0x83) => {
                let name = [&[1, 3, 0, 16, 0x60][..], &[7; 15]].concat();
                let group = [0x51, 0x95, 0, 4, 0, 0, 0, own as u8 + 1];
                Some(Reply::Good([&[0, 0x83, 0, 28][..], &name, &group].concat()))
            }
            (0xa3, 0x0a, _) => {
                let of = |at: usize| {
                    let state = states[at].load(Ordering::SeqCst) as u8;
                    [state, 0x0f, 0, at as u8 + 1, 0, 2, 0, 1, 0, 0, 0, at as u8 + 1]
                };
                Some(Reply::Good([&[0, 0, 0, 24][..], &of(0), &of(1)].concat()))
            }
            (WRITE | 0x88, ..) if state != OPTIMIZED => Some(Reply::Status(2, [2, 4, 0x0b])),
            (WRITE, ..) => {
                writes.fetch_add(1, Ordering::SeqCst);
                None
            }
            _ => None,
        }
    })
}

fn states(of: [u32; 2]) -> States {
    Arc::new(of.map(AtomicU32::new))
}

#[test]
fn nothing_is_sent_to_a_controller_that_does_not_serve_the_lun() {
    let (states, writes) = (states([STANDBY, OPTIMIZED]), Arc::new(AtomicU32::new(0)));
    let ports = [0, 1].map(|own| port(own, &states, &writes));
    let mut lun = connect(&[&ports[0], &ports[1]]);
    lun.settings.round_robin_iops = 1;
    for _ in 0..8 {
        assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    }
    let found: Vec<_> = lun.paths().map(|(_, state)| state).collect();
    assert_eq!(found, [PathState::Standby, PathState::Active]);
    assert_eq!((writes.load(Ordering::SeqCst), lun.counters.failovers), (8, 0));
}

/// The one that served becomes standby before the other one serves: commands wait for that.
#[test]
fn commands_go_where_the_lun_is_served_now_and_wait_while_it_is_nowhere() {
    let (states, writes) = (states([OPTIMIZED, STANDBY]), Arc::new(AtomicU32::new(0)));
    let ports = [0, 1].map(|own| port(own, &states, &writes));
    let mut lun = connect(&[&ports[0], &ports[1]]);
    assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    states[0].store(STANDBY, Ordering::SeqCst);
    let later = Arc::clone(&states);
    let switch = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        later[1].store(OPTIMIZED, Ordering::SeqCst);
    });
    let begun = Instant::now();
    assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    switch.join().expect("it does not panic");
    assert_eq!((lun.counters.outages, writes.load(Ordering::SeqCst)), (1, 2));
}

/// A LUN without another way waits in place.
#[test]
fn on_its_only_path_a_lun_that_changes_controllers_is_asked_again() {
    let replies = vec![Reply::Status(2, [2, 4, 0x0a]), Reply::Status(2, [2, 4, 0x0b])];
    let mut lun = connect(&[&Fake::start(in_turn(WRITE, replies))]);
    assert_eq!(lun.write(0, &[7; 512]), Ok(()));
    assert_eq!(lun.counters.outages, 0);
}
