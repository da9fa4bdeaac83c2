//! Device kind `rbd:POOL/IMAGE`: an image of a Ceph cluster, through librbd's asynchronous calls.
//!
//! The image is there before the pool is made. Whoever uses it has its exclusive lock, so that no
//! other daemon can write to it. A write is with all replicas when it is answered (no cache), and a
//! flush asks nothing more of the cluster.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use block::{DeviceError, DeviceOperation};

use super::{Kind, nothing_to_remove};
use crate::backend::{Backend, Grow};
use crate::device::Completion;
use crate::error::OpenError;
use crate::fence::{Breaking, Fence};
use crate::notify::Notify;
use crate::presence::Presence;

mod call;
mod image;
mod library;
mod lock;

use call::Call;
pub(crate) use image::Image;

pub(super) const KIND: Kind = Kind {
    open: |path, _, _, breaking| open(path, 0, breaking),
    create: |path, wanted, _| open(path, wanted, &Breaking::NONE),
    size_bytes: |path| {
        let image = Image::open(path, &Breaking::NONE)?;
        image.size_bytes().map(Some).map_err(os(path, "find out its size"))
    },
    remove: nothing_to_remove,
};

/// An open image.
struct Rbd {
    image: Arc<Image>,
    shared: Arc<Shared>,
}

/// What the library's threads tell.
struct Shared {
    state: Mutex<State>,
    notify: Notify,
    /// Nothing is under way any more.
    idle: Condvar,
}

#[derive(Default)]
struct State {
    done: Vec<Completion>,
    /// Operations that the library has.
    under_way: usize,
    size_bytes: u64,
    presence: Presence,
    /// A thread looks at the image.
    is_looked_at: bool,
}

fn os(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Os { path, what, source }
}

fn open(path: &Path, wanted: u64, breaking: &Breaking) -> Result<Box<dyn Backend>, OpenError> {
    let image = Image::open(path, breaking)?;
    let size_bytes = image.size_bytes().map_err(os(path, "find out its size"))?;
    if size_bytes < wanted {
        return Err(OpenError::TooSmall { path: path.to_owned(), actual: size_bytes, wanted });
    }
    let notify = Notify::new().map_err(os(path, "wait for it"))?;
    let state = Mutex::new(State { size_bytes, ..State::default() });
    let shared = Shared { state, notify, idle: Condvar::new() };
    Ok(Box::new(Rbd { image: Arc::new(image), shared: Arc::new(shared) }))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements that hold the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begun(&self) {
        self.lock().under_way += 1;
    }

    /// An operation that the library had has ended.
    fn ended(&self, completion: Completion) {
        let mut state = self.lock();
        state.under_way -= 1;
        if state.under_way == 0 {
            self.idle.notify_all();
        }
        drop(state);
        self.answer(completion);
    }

    fn answer(&self, completion: Completion) {
        self.lock().done.push(completion);
        self.notify.ring();
    }

    fn wait_until_idle(&self) {
        let mut state = self.lock();
        while state.under_way > 0 {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Backend for Rbd {
    fn size_bytes(&self) -> u64 {
        self.shared.lock().size_bytes
    }

    /// Space of an image cannot be set aside in a cluster; writes to one that is full fail.
    fn submit(&mut self, id: u64, operation: DeviceOperation) {
        let end = match &operation {
            DeviceOperation::Read { offset, buffer } => offset + buffer.len() as u64,
            DeviceOperation::Write { offset, data } => offset + data.len() as u64,
            DeviceOperation::Reserve { offset, length } => offset + length,
            DeviceOperation::Flush => 0,
        };
        // An image answers a write across its end as one that was done.
        if end > self.size_bytes() {
            return self.shared.answer((id, Err(DeviceError::BeyondEnd { end })));
        }
        if matches!(operation, DeviceOperation::Reserve { .. }) {
            return self.shared.answer((id, Ok(None)));
        }
        Call::begin(id, operation, &self.image, &self.shared);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.shared.lock().done);
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.shared.notify.as_fd()
    }

    fn growth(&self) -> io::Result<Grow> {
        let image = Arc::clone(&self.image);
        Ok(Box::new(move |size_bytes| image.grow(size_bytes)))
    }

    fn take_growth(&mut self, size_bytes: u64) {
        self.shared.lock().size_bytes = size_bytes;
    }

    /// A thread looks, one at a time: the cluster may take long.
    fn look_at_backing(&self) {
        if std::mem::replace(&mut self.shared.lock().is_looked_at, true) {
            return;
        }
        let (image, shared) = (Arc::clone(&self.image), Arc::clone(&self.shared));
        let thread = std::thread::Builder::new().name("rbd-look".to_owned());
        let begun = thread.spawn(move || {
            let (now, is_lost) = (image.size_bytes(), image.is_lost());
            let mut state = shared.lock();
            state.is_looked_at = false;
            state.presence = match now {
                _ if is_lost => Presence::Fenced,
                Ok(now) if now < state.size_bytes => Presence::CutShort,
                Ok(_) | Err(_) => Presence::There,
            };
        });
        if begun.is_err() {
            self.shared.lock().is_looked_at = false;
        }
    }

    fn presence(&self) -> Presence {
        self.shared.lock().presence
    }

    fn fence(&self) -> Fence {
        Fence::Cluster
    }

    fn identity(&self) -> Option<String> {
        Some(self.image.owner.clone()).filter(|owner| !owner.is_empty())
    }
}

/// What is under way may still reach the cluster, so it is waited for; then the image is closed, and its
/// lock is free.
impl Drop for Rbd {
    fn drop(&mut self) {
        self.shared.wait_until_idle();
    }
}

#[cfg(test)]
mod tests;
