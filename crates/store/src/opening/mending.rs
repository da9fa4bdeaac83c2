//! Makes the copies of a mirror alike where a power failure may have left them different: before a
//! pool that was recovered relies on what one member alone may have.
//!
//! Units of the journal that were not known to be stable may have their data on some members only,
//! and so may the newest superblock. They are written to all members and flushed before anything else:
//! the checkpoint that ends recovery writes where an older superblock still refers to.

use super::{Opening, Step, Stepped};
use crate::address::DeviceNumber;
use crate::engine::Engine;
use crate::io::Waiter;
use crate::layout::{SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::mirror::Expected;

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

    fn mend(&mut self) {
        let Self { engine: Engine { pool, .. }, state, .. } = self;
        for (run, crcs) in std::mem::take(&mut state.tail) {
            pool.io.may_lack(run);
            if pool.io.mirror(run.start.device()).is_some() {
                state.outstanding += 1;
                pool.io.verify(Waiter::Format, run, Expected::Blocks(&crcs));
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
