//! Panic containment: a panic ends the administrator's request that caused it, and ends the daemon
//! only if a pool or the device server was being changed (docs/decisions/0076).

#[cfg(test)]
mod tests;

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::logs;

/// The status of a process that a panic ended, as the standard library has it.
const PANICKED: i32 = 101;

/// Does work that may panic; what it said when it did is the error. The caller answers for what the
/// work may have left half done.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| what_it_said(&*panic))
}

fn what_it_said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no reason was given".to_owned())
}

/// Ends the process: what was being changed must not be used any more. systemd starts the daemon
/// again, and the pools replay their journals.
pub(crate) fn end_process(what: &str) -> ! {
    tracing::error!("the engine of {what} panicked while it was being changed: the process ends");
    logs::flush();
    std::process::exit(PANICKED)
}

/// Something that must not be used any more if a panic came while it was being changed.
pub(crate) struct Critical<'a, T> {
    changed: &'a mut T,
    what: &'static str,
}

impl<'a, T> Critical<'a, T> {
    pub(crate) fn new(changed: &'a mut T, what: &'static str) -> Self {
        Self { changed, what }
    }
}

impl<T> Deref for Critical<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.changed
    }
}

impl<T> DerefMut for Critical<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.changed
    }
}

impl<T> Drop for Critical<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            end_process(self.what);
        }
    }
}
