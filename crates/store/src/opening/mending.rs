//! Makes the copies of a mirror alike where a power failure may have left them different: before a
//! pool that was recovered relies on what one member alone may have.
//!
//! Units of the journal that were not known to be stable may have their data on some members only,
//! and so may the newest superblock. They are written to all members and flushed before anything else:
//! the checkpoint that ends recovery writes where an older superblock still refers to.

use block::{BLOCK, Buffer, DeviceError, DeviceResult};

use super::{Opened, Opening, Step, Stepped};
use crate::address::DeviceNumber;
use crate::checksum::crc32c;
use crate::engine::Engine;
use crate::error::OpenError;
use crate::io::Waiter;
use crate::layout::{SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::mirror::Expected;

/// errno: input/output error.
const EIO: i32 = 5;

/// How far the copies are alike.
#[derive(Clone, Copy, Default)]
pub(super) enum Mending {
    /// What only some members have is to be written.
    #[default]
    Writing,
    /// It is to be flushed.
    Flushing,
    /// It is durable, or will be when nothing is under way any more.
    Flushed,
}

impl Opening {
    /// Waits until the lists of all mirrors say who is there.
    pub(super) fn listing_next(&mut self) -> Stepped {
        if !self.engine.pool.io.mirrors().is_settled() {
            return Stepped::Waits;
        }
        self.state.step = Step::Mending(Mending::default());
        Stepped::On
    }

    /// Writes to all members of mirrors what only some of them may have.
    pub(super) fn mending_next(&mut self) -> Stepped {
        let Step::Mending(stage) = &mut self.state.step else { return Stepped::On };
        match *stage {
            Mending::Writing => {
                *stage = Mending::Flushing;
                self.mend();
                return Stepped::On;
            }
            Mending::Flushing if self.engine.pool.io.mirrors().is_healing() => {
                return Stepped::Waits;
            }
            Mending::Flushing => {
                *stage = Mending::Flushed;
                self.flush_mirrors();
                return Stepped::On;
            }
            Mending::Flushed => {}
        }
        self.state.step = Step::SettingAside { first_writes: Vec::new() };
        self.state.outstanding = self.engine.pool.set_heads_aside();
        Stepped::On
    }

    fn flush_mirrors(&mut self) {
        let Self { engine: Engine { pool, .. }, state, .. } = self;
        for device in pool.space.devices() {
            if pool.io.mirror(device).is_some() {
                state.outstanding += 1;
                pool.io.flush(Waiter::Format, device);
            }
        }
    }

    /// Data of units that happened are on every copy, or on none: the one that alone had them was lost since the journal
    /// was read. Nobody was told of that write, and what was there before is still there: the next opening
    /// finds the journal's end before it.
    pub(super) fn tail_mended(&mut self, piece: usize, result: DeviceResult) -> Opened {
        self.state.outstanding -= 1;
        let (_, crcs) = &self.state.tail[piece];
        let blocks = |bytes: &Buffer| bytes.chunks(BLOCK as usize).map(crc32c).collect::<Vec<_>>();
        match result {
            _ if piece >= self.state.tail_happened => Opened::NotYet,
            Ok(Some(bytes)) if blocks(&bytes) == *crcs => Opened::NotYet,
            Ok(_) => Opened::Failed(OpenError::Device(DeviceError::Os(EIO))),
            Err(error) => Opened::Failed(OpenError::Device(error)),
        }
    }

    fn mend(&mut self) {
        let Self { engine: Engine { pool, .. }, state, .. } = self;
        for (piece, (run, crcs)) in state.tail.iter().enumerate() {
            let run = *run;
            pool.io.may_lack(run);
            if pool.io.mirror(run.start.device()).is_some() {
                state.outstanding += 1;
                pool.io.verify(Waiter::Tail { piece }, run, Expected::Blocks(crcs));
            }
        }
        let Some(superblock) = &state.superblock else { return };
        if pool.io.mirror(DeviceNumber::FIRST).is_none() {
            return;
        }
        let slot = superblock.generation as usize % 2;
        let bytes = superblock.emit().freeze();
        for block in [SUPERBLOCKS[slot], SUPERBLOCK_COPIES[slot]] {
            state.outstanding += 1;
            let address = block.on(DeviceNumber::FIRST);
            pool.io.write(Waiter::Format, address, bytes.clone().into());
        }
    }
}
