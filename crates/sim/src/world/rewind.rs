//! Check of read-only opening and rewind: a copy of the pool whose journal lost something serves,
//! read-only, what there was before the loss; rewinding it comes to the same, however often the
//! power fails on the way.

use block::{ByteRange, Request, Response};
use store::{Failure, JournalLoss, OpenError, OpenMode, Outcome, Tag};

use super::World;
use super::probes::{Copy, open_as, run};
use crate::disk::{Crash, SimDisk};
use crate::oracle::{Violation, violation};
use crate::trace::Event;

/// Bytes at the beginning of each volume that are compared.
const COMPARED_BYTES_MAX: u64 = 4 << 20;

/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Device operations of a rewind after which the power fails at the latest.
const CRASH_AFTER_MAX: u64 = 200;

/// What a pool holds: identifier, size and checksum of each volume.
type Content = Vec<(u64, u64, u32)>;

impl World {
    /// Opens a damaged copy in both ways. What must be found is what a pool holds whose journal
    /// simply ends before the damage, as after a power failure.
    pub(super) fn open_without_what_is_lost(
        &mut self,
        damaged: &mut Vec<SimDisk>,
        loss: &JournalLoss,
    ) -> Result<(), Violation> {
        let expected = self.content_before(loss.first_commit)?;
        self.trace.add(self.now, Event::Note("the copy is opened read-only, and rewound"));
        let disks = std::mem::take(damaged);
        let writes =
            |disks: &[SimDisk]| -> u64 { disks.iter().map(|disk| disk.statistics().writes).sum() };
        let before = writes(&disks);
        let mut copy = self.opened(disks, OpenMode::ReadOnly)?;
        if content(&mut copy)? != expected || writes(&copy.disks) != before {
            return violation("read-only a pool shows something else than what was before a loss");
        }
        let mut disks = copy.disks;
        if self.random.percent(80) {
            self.fail_while_rewinding(&mut disks);
            let again = open_as(&disks, &self.profile, OpenMode::ReadWrite);
            let mut copy = Copy::with(disks, again);
            match run(&mut copy.store, &mut copy.disks) {
                Some(Ok(_)) => return agrees(&mut copy, &expected),
                Some(Err(Failure::Open(OpenError::JournalLost(again)))) if *again == *loss => {}
                other => {
                    let result = other.map(|answer| answer.map(drop));
                    return violation(format!(
                        "the power failed while a pool was rewound, and opening was answered {result:?}"
                    ));
                }
            }
            disks = copy.disks;
        }
        let copy = self.opened(disks, OpenMode::Rewind)?;
        let mut disks = copy.disks;
        disks.iter_mut().for_each(|disk| disk.crash(Crash::LoseAll));
        agrees(&mut self.opened(disks, OpenMode::ReadWrite)?, &expected)
    }

    /// What a pool holds whose journal ends before a unit.
    fn content_before(&mut self, sequence: u64) -> Result<Content, Violation> {
        let mut disks = self.copy_of_disks();
        let Some(audit) = &self.audit else { return Ok(Content::new()) };
        for block in audit.units_from(&self.slots.view(&disks), sequence) {
            for slot in self.slots.of(0) {
                disks[slot].damage(block, vec![0; block::BLOCK as usize]);
            }
        }
        content(&mut self.opened(disks, OpenMode::ReadWrite)?)
    }

    fn opened(&self, disks: Vec<SimDisk>, mode: OpenMode) -> Result<Copy, Violation> {
        Copy::open_as(disks, &self.profile, mode).or_else(|answer| {
            violation(format!("a copy with a damaged journal, opened as {mode:?}: {answer}"))
        })
    }

    /// Begins to rewind, and has the power fail after some operations, or at the end.
    fn fail_while_rewinding(&mut self, disks: &mut [SimDisk]) {
        let mut store = open_as(disks, &self.profile, OpenMode::Rewind);
        let mut left = self.random.between(1, CRASH_AFTER_MAX);
        while left > 0
            && let Some(io) = store.next_io()
        {
            let disk = &mut disks[usize::from(io.device)];
            disk.submit(0, io.id.0, io.operation);
            let Some(completion) = disk.complete_next() else { break };
            store.completed(io.id, completion.result);
            // Reading the journal takes most of the operations; the writes are what matters.
            left -= u64::from(disk.statistics().writes > 0);
        }
        disks.iter_mut().for_each(|disk| disk.crash(Crash::Mixed));
    }
}

fn agrees(copy: &mut Copy, expected: &Content) -> Result<(), Violation> {
    if content(copy)? == *expected {
        Ok(())
    } else {
        violation("a rewound pool holds something else than what was before the loss")
    }
}

fn content(copy: &mut Copy) -> Result<Content, Violation> {
    let volumes: Vec<_> = copy.store.volumes().map(|v| (v.spec.id, v.spec.size_bytes)).collect();
    let mut content = Content::new();
    for (volume, size) in volumes {
        let mut crc = 0;
        for offset in (0..size.min(COMPARED_BYTES_MAX)).step_by(READ_BYTES as usize) {
            let range = ByteRange::new(offset, READ_BYTES.min(size - offset));
            copy.store.submit(Tag(1), volume, Request::Read { range });
            match run(&mut copy.store, &mut copy.disks) {
                Some(Ok(Outcome::Response(Response::Data(data)))) => {
                    for piece in data.pieces() {
                        crc = crc32c::crc32c_append(crc, piece);
                    }
                }
                other => {
                    let result = other.map(|answer| answer.map(drop));
                    return violation(format!("a read of a copy was answered {result:?}"));
                }
            }
        }
        content.push((volume.0, size, crc));
    }
    Ok(content)
}
