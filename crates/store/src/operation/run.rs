//! State machine of one request: reads what it needs, composes what it writes, commits.

use block::BlockError;

use super::{OperationKey, Stage, Work};
use crate::change::Outcome;
use crate::error::Failure;
use crate::serving::Serving;

impl Serving {
    /// Takes an operation as far as it goes.
    pub(crate) fn run(&mut self, key: OperationKey) {
        if let Err(failure) = self.try_run(key) {
            self.finish(key, Err(failure));
        }
    }

    fn try_run(&mut self, key: OperationKey) -> Result<(), Failure> {
        if self.requests.table[key].stage == Stage::Labelled {
            return self.commit_device(key);
        }
        if self.requests.table[key].stage == Stage::Begun {
            if self.requests.table[key].changes() && !self.is_writable() {
                return Err(BlockError::ReadOnly.into());
            }
            if let Work::Change(change) = &self.requests.table[key].work {
                let change = change.clone();
                return self.run_change(key, &change);
            }
            self.check_still_there(key)?;
            if !self.start_reads(key)? {
                return Ok(());
            }
        }
        if self.requests.table[key].stage == Stage::Reading {
            if self.requests.table[key].reads_pending > 0 {
                return Ok(());
            }
            if let Some(response) = self.answer_of_reads(key) {
                self.finish(key, Ok(Outcome::Response(response)));
                return Ok(());
            }
            if self.requests.table[key].stage == Stage::Begun {
                return Ok(());
            }
            self.compose(key)?;
        }
        if self.requests.table[key].stage == Stage::Composed {
            self.join_commit_group(key)?;
        }
        Ok(())
    }

    /// While an operation waited, its volume may have been deleted or made smaller.
    fn check_still_there(&self, key: OperationKey) -> Result<(), BlockError> {
        let operation = &self.requests.table[key];
        operation.claims.iter().try_for_each(|claim| {
            let volume =
                self.engine.pool.volumes.get(claim.volume).ok_or(BlockError::NoSuchVolume)?;
            if claim.range.end().number() > volume.blocks() {
                Err(BlockError::OutOfRange)
            } else {
                Ok(())
            }
        })
    }
}
