//! Several hosts read, write and swap the same few blocks; what they were answered is recorded.

use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::linearize::{Action, Finding, Operation, decide};
use crate::esxi::counters::Kind;
use crate::esxi::lun::Lun;
use crate::initiator::cdb;
use crate::initiator::session::{Data, SessionError};
use crate::validate::bench::Bench;
use crate::validate::cases::Scale;
use crate::validate::model::History;

const CLIENTS: u64 = 4;
const BLOCKS: u64 = 4;

type Recorded = (u64, Operation);

/// Runs and judges.
///
/// # Errors
/// When the array is not reachable any more, or a block holds something that nobody wrote.
pub(super) fn run(bench: &Bench, scale: Scale) -> Result<History> {
    let each = if scale == Scale::Tiny { 200 } else { 2000 };
    let unit = bench.other();
    let first = (bench.size_bytes(unit) - super::QUIET) / 512 + 64;
    let mut lun = bench.lun_by_one_path(unit, "history")?;
    let zeros = Data::Out(vec![0; (BLOCKS * 512) as usize]);
    lun.command(Kind::Write, cdb::write(first, BLOCKS as u32), zeros, BLOCKS * 512)?;
    let started = Instant::now();
    let recorded: Result<Vec<Vec<Recorded>>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(bench, number, each, first, started)))
            .collect();
        let ends =
            clients.into_iter().map(|client| client.join().ok().context("a client panicked")?);
        ends.collect()
    });
    let recorded: Vec<Recorded> = recorded?.into_iter().flatten().collect();
    let mut history = History {
        clients: CLIENTS,
        blocks: BLOCKS,
        operations: recorded.len() as u64,
        ..History::default()
    };
    for block in 0..BLOCKS {
        let own = recorded.iter().filter(|(number, _)| *number == block);
        match decide(own.map(|(_, operation)| *operation).collect(), 0) {
            Finding::Possible => {}
            Finding::Impossible => history.impossible.push(first + block),
            Finding::Undecided => history.undecided.push(first + block),
        }
    }
    Ok(history)
}

fn client(
    bench: &Bench,
    number: u64,
    operations: u64,
    first: u64,
    started: Instant,
) -> Result<Vec<Recorded>> {
    let mut lun = bench.lun_by_one_path(bench.other(), &format!("history{number}"))?;
    let mut seen = [0; BLOCKS as usize];
    let mut random = number * 0x9e37_79b9 + 1;
    let now = || started.elapsed().as_nanos() as u64;
    let mut recorded = Vec::new();
    for count in 0..operations {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let block = random % BLOCKS;
        let own = 1 + count * CLIENTS + number;
        let begin = now();
        let seen = &mut seen[block as usize];
        let action = one(&mut lun, first + block, random >> 8, *seen, own)?;
        recorded.push((block, Operation { begin, end: now(), action }));
        *seen = match action {
            Action::Read(content) | Action::Write(content) | Action::Swap(_, content, true) => {
                content
            }
            Action::Swap(..) => *seen,
        };
    }
    Ok(recorded)
}

fn one(lun: &mut Lun, lba: u64, random: u64, seen: u64, own: u64) -> Result<Action> {
    match random % 4 {
        0 => {
            let read = lun.read_bytes(lba * 512, 512)?;
            Ok(Action::Read(content(&read)?))
        }
        1 => {
            lun.command(Kind::Write, cdb::write(lba, 1), Data::Out(block(own)), 512)?;
            Ok(Action::Write(own))
        }
        _ => {
            let data = Data::Out([block(seen), block(own)].concat());
            match lun.command(Kind::Ats, cdb::compare_and_write(lba, 1), data, 512) {
                Ok(_) => Ok(Action::Swap(seen, own, true)),
                Err(SessionError::Command { key: 0xe, .. }) => Ok(Action::Swap(seen, own, false)),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// A block full of a number.
fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(64)
}

/// The number that a block is full of.
fn content(block: &[u8]) -> Result<u64> {
    let number = u64::from_le_bytes(block[..8].try_into().expect("8 bytes"));
    let whole = block.chunks(8).all(|word| word == number.to_le_bytes());
    ensure!(whole, "WRONG CONTENTS: a block holds parts of several writes");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_block_is_noticed() {
        assert_eq!(content(&block(7)).expect("whole"), 7);
        let mut torn = block(7);
        torn[504] = 8;
        assert!(content(&torn).is_err());
    }
}
