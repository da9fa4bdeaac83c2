//! Answers to administrators whose JSON is made by another thread than the reactor's: the reactor
//! gives plain values, and the thread that waits for the answer serializes them.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::guard::guarded;

#[cfg(test)]
mod tests;

/// An answer, as JSON or on its way to it.
#[derive(Clone, Debug)]
pub(crate) enum Described {
    /// A small answer that is written already.
    Written(Value),
    /// An answer that is written when it is first needed; all requests for the same share it.
    Unwritten(Arc<Unwritten>),
}

/// Something that is written once.
pub(crate) struct Unwritten {
    write: Mutex<Option<Box<dyn FnOnce() -> Value + Send>>>,
    /// `None` after a mistake of ours in writing it.
    written: OnceLock<Option<Value>>,
}

impl Described {
    /// An answer of what `describe` gives, when it is asked for.
    pub(crate) fn later<T: Serialize>(describe: impl FnOnce() -> T + Send + 'static) -> Self {
        // Descriptions are plain structures with text for keys, so this cannot fail.
        let write = move || serde_json::to_value(describe()).unwrap_or_default();
        Self::Unwritten(Arc::new(Unwritten {
            write: Mutex::new(Some(Box::new(write))),
            written: OnceLock::new(),
        }))
    }

    /// The JSON; `None` after a mistake of ours in writing it. May take long where there is much to
    /// write.
    pub(crate) fn into_value(self) -> Option<Value> {
        match self {
            Self::Written(value) => Some(value),
            Self::Unwritten(unwritten) => {
                unwritten.write();
                match Arc::try_unwrap(unwritten) {
                    Ok(last) => last.written.into_inner().flatten(),
                    Err(shared) => shared.written.get().cloned().flatten(),
                }
            }
        }
    }
}

impl Unwritten {
    /// Serializes the value, unless that was done; a second caller waits for the first.
    fn write(&self) {
        self.written.get_or_init(|| {
            let write = self.write.lock().unwrap_or_else(PoisonError::into_inner).take();
            write.and_then(|write| guarded(write).ok())
        });
    }
}

impl fmt::Debug for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwritten").field("written", &self.written).finish_non_exhaustive()
    }
}
