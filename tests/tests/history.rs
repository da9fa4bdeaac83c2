//! 64 clients mix READ, WRITE, COMPARE AND WRITE, WRITE SAME, UNMAP and EXTENDED COPY on
//! overlapping ranges, abort commands, reset LUNs and drop connections: per block, all answers fit
//! into one order.
//!
//! `cargo xtask history --operations N` makes it longer; a round is 6,400 commands.

use anyhow::Result;
use harness::history::client::{Arena, Counts};
use harness::history::registers::check;
use harness::history::run::{Scale, run};
use harness::history::{Action, Event};
use harness::{Array, setting};

/// Rounds, unless the environment says otherwise.
const ROUNDS: u64 = 4;

fn arena(array: &Array) -> Result<Arena> {
    let luns = ["p/a", "p/b"].map(|path| array.create_lun(path, "1M"));
    let luns = luns.into_iter().map(|lun| Ok(u8::try_from(lun?)?)).collect::<Result<Vec<_>>>()?;
    Arena::of(vec![array.portal()], array.target_name()?, &luns, 48)
}

#[test]
fn the_answers_to_64_clients_fit_into_one_order() -> Result<()> {
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    let arena = arena(&array)?;
    let scale = Scale {
        clients: 64,
        rounds: setting("GANTRY_HISTORY_ROUNDS", ROUNDS)?,
        commands: 100,
        seed: 1,
    };
    let report = run(&arena, scale)?;
    eprintln!("{} operations, {:?}", report.operations, report.counts);
    let places: Vec<_> =
        report.findings.iter().map(|(round, found)| (round, found.block, found.verdict)).collect();
    assert!(places.is_empty(), "{places:?}: {:#?}", report.findings[0]);
    let counts = report.counts;
    let Counts { swapped, differed, aborted, resets, dropped, .. } = counts;
    for happened in [swapped, differed, aborted, resets, dropped] {
        assert!(happened > 0, "{counts:?}");
    }
    let (before, events) = report.first;
    for (name, plant) in PLANTS {
        let is_found = |attempt| {
            let mut planted = events.clone();
            plant(&mut planted, attempt);
            !check(&before, &planted).is_empty()
        };
        assert!((0..ATTEMPTS).any(is_found), "not found: {name}");
    }
    Ok(())
}

/// A copy whose fate nobody knows may bring back what was overwritten: then a stale read is right,
/// and another one is tried.
const ATTEMPTS: usize = 16;

type Plant = fn(&mut Vec<Event>, usize);

/// Ways in which an array could have been wrong, put into what a right one has answered.
const PLANTS: [(&str, Plant); 4] = [
    ("a read of what was never written", |events, _| *last_read(events) = u64::MAX),
    ("a read of what was overwritten long before", |events, attempt| {
        let mut stale = events.iter().filter_map(|event| match &event.action {
            Action::Write { value, .. } if event.certain && *value > 0 => Some(*value),
            _ => None,
        });
        let stale = stale.nth(attempt);
        *last_read(events) = stale.expect("something was written");
    }),
    ("a write that is lost", |events, _| {
        let last = *last_read(events);
        for event in events.iter_mut() {
            match &mut event.action {
                Action::Write { value, .. } | Action::Swap { value, .. } if *value == last => {
                    *value = u64::MAX;
                }
                _ => {}
            }
        }
    }),
    ("a compare that found what was not there", |events, _| {
        let swap = events.iter_mut().rev().find_map(|event| match &mut event.action {
            Action::Swap { expected, .. } if event.certain => Some(&mut expected[0]),
            _ => None,
        });
        *swap.expect("something was swapped") = u64::MAX;
    }),
];

/// The first value that is not zero of the last READ that has one.
fn last_read(events: &mut [Event]) -> &mut u64 {
    let mut reads = events.iter_mut().rev().filter_map(|event| match &mut event.action {
        Action::Read { values, .. } => values.iter_mut().find(|value| **value > 0),
        _ => None,
    });
    reads.next().expect("something was read")
}
