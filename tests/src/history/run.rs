//! Many clients at once, in rounds: after each round the LUNs are reset, so that nothing of it can
//! happen any more, and what is there then is where the next round begins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use anyhow::{Result, anyhow};

use super::client::{Arena, Client, Counts, Watch};
use super::registers::{Finding, check};
use super::{Action, Event, Values};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Clients at once.
    pub clients: u64,
    /// Rounds.
    pub rounds: u64,
    /// Commands of each client in a round.
    pub commands: u64,
    /// Where the sequences of random numbers begin.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// Operations that were written down and checked.
    pub operations: u64,
    /// What the clients counted.
    pub counts: Counts,
    /// Blocks whose operations do not fit together, with the number of the round.
    pub findings: Vec<(u64, Finding)>,
    /// The first round as it was written down.
    pub first: Round,
    /// What was there at the end.
    pub after: Values,
}

/// A round: what was there before, and what was done.
pub type Round = (Values, Vec<Event>);

/// Lets clients loose on blocks that are all zeros.
///
/// # Errors
/// When the target does not answer as it should.
pub fn run(arena: &Arena, scale: Scale) -> Result<Report> {
    run_until(arena, scale, Values::new(), &Arc::default())
}

/// The same on blocks with values, and no further than to the end of the round in which somebody
/// says so.
///
/// # Errors
/// When the target does not answer as it should.
pub fn run_until(
    arena: &Arena,
    scale: Scale,
    before: Values,
    stop: &Arc<AtomicBool>,
) -> Result<Report> {
    let clients: Vec<_> =
        (0..scale.clients).map(|number| Client::new(number, scale.seed, arena.clone())).collect();
    let (sender, rounds) = channel();
    let watch = Arc::clone(&arena.watch);
    let checker = thread::spawn(move || check_rounds(&rounds, &watch));
    let shared = Arc::new(Shared {
        barrier: Barrier::new(clients.len()),
        collected: Mutex::new((Vec::new(), before)),
        asked_to_stop: Arc::clone(stop),
        stops: AtomicBool::new(false),
        failed: Mutex::new(None),
        sender,
    });
    let threads: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, client)| {
            let (shared, luns) = (Arc::clone(&shared), arena.luns.clone());
            thread::spawn(move || work(client, number == 0, scale, &shared, &luns))
        })
        .collect();
    let mut report = Report::default();
    for thread in threads {
        let counts = thread.join().map_err(|_| anyhow!("a client panicked"))?;
        report.counts = report.counts.plus(counts);
    }
    if let Some(error) = shared.failed.lock().expect("no client panicked").take() {
        return Err(error);
    }
    let after = std::mem::take(&mut shared.collected.lock().expect("no client panicked").1);
    drop(shared);
    let checked = checker.join().map_err(|_| anyhow!("the checker panicked"))?;
    Ok(Report { counts: report.counts, after, ..checked })
}

struct Shared {
    barrier: Barrier,
    /// What was written down in this round, and what was there before it.
    collected: Mutex<(Vec<Event>, Values)>,
    /// The first failure; then nobody does anything more.
    failed: Mutex<Option<anyhow::Error>>,
    asked_to_stop: Arc<AtomicBool>,
    /// What the leader makes of it, the same for all clients.
    stops: AtomicBool,
    sender: Sender<Round>,
}

impl Shared {
    fn has_failed(&self) -> bool {
        self.failed.lock().expect("no client panicked").is_some()
    }

    /// Does something, unless something has failed already.
    fn attempt(&self, act: impl FnOnce() -> Result<()>) {
        if !self.has_failed()
            && let Err(error) = act()
        {
            self.failed.lock().expect("no client panicked").get_or_insert(error);
        }
    }
}

fn work(
    mut client: Client,
    leads: bool,
    scale: Scale,
    shared: &Shared,
    luns: &[(u8, Vec<u8>)],
) -> Counts {
    for _ in 0..scale.rounds {
        client.forget_session();
        for _ in 0..scale.commands {
            shared.attempt(|| client.act());
        }
        shared.collected.lock().expect("no client panicked").0.append(&mut client.events);
        shared.barrier.wait();
        if leads {
            client.forget_session();
            shared.attempt(|| finish_round(&mut client, shared, luns));
            let stops = shared.has_failed() || shared.asked_to_stop.load(Ordering::Relaxed);
            shared.stops.store(stops, Ordering::Relaxed);
        }
        shared.barrier.wait();
        if shared.stops.load(Ordering::Relaxed) {
            break;
        }
    }
    client.counts
}

fn finish_round(client: &mut Client, shared: &Shared, luns: &[(u8, Vec<u8>)]) -> Result<()> {
    for (lun, _) in luns {
        client.reset(*lun)?;
    }
    client.read_all()?;
    let mut collected = shared.collected.lock().expect("no client panicked");
    let mut after = Values::new();
    for event in &client.events {
        let Action::Read { at, values } = &event.action else { continue };
        after.extend(values.iter().enumerate().map(|(offset, value)| (at.plus(offset), *value)));
    }
    let mut events = std::mem::take(&mut collected.0);
    events.append(&mut client.events);
    let before = std::mem::replace(&mut collected.1, after);
    // The checker goes only when all clients have.
    shared.sender.send((before, events)).map_err(|_| anyhow!("the checker is gone"))
}

fn check_rounds(rounds: &Receiver<Round>, watch: &Watch) -> Report {
    let mut report = Report::default();
    for (number, (before, events)) in rounds.iter().enumerate() {
        report.operations += events.len() as u64;
        let found = check(&before, &events);
        watch.round_checked(found.len() as u64);
        report.findings.extend(found.into_iter().map(|finding| (number as u64, finding)));
        if number == 0 {
            report.first = (before, events);
        }
    }
    report
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            answered: self.answered + other.answered,
            swapped: self.swapped + other.swapped,
            differed: self.differed + other.differed,
            aborted: self.aborted + other.aborted,
            resets: self.resets + other.resets,
            dropped: self.dropped + other.dropped,
            refused: self.refused + other.refused,
            without_space: self.without_space + other.without_space,
        }
    }
}
