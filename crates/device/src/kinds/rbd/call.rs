//! Asynchronous call of librbd: owns the operation's memory until the library's thread has answered.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use block::{Buffer, DeviceError, DeviceOperation, DeviceResult, Rope};

use super::Shared;
use super::image::{BLOCKLISTED, Image};
use super::library::Handle;
use crate::limits::PIECES_MAX;

/// An operation under way.
pub(super) struct Call {
    id: u64,
    work: Work,
    image: Arc<Image>,
    shared: Arc<Shared>,
}

/// What it does, with memory that the library reads or fills.
enum Work {
    Read { offset: u64, buffer: Buffer },
    Write { offset: u64, data: Rope, pieces: Vec<libc::iovec> },
    Flush,
}

impl Work {
    fn of(operation: DeviceOperation) -> Self {
        match operation {
            DeviceOperation::Read { offset, buffer } => Self::Read { offset, buffer },
            DeviceOperation::Write { offset, data } => {
                let data = in_few_pieces(data);
                let vector = |piece: &bytes::Bytes| libc::iovec {
                    iov_base: piece.as_ptr().cast_mut().cast(),
                    iov_len: piece.len(),
                };
                let pieces = data.pieces().iter().map(vector).collect();
                Self::Write { offset, data, pieces }
            }
            // Nothing can be set aside in a cluster.
            DeviceOperation::Flush | DeviceOperation::Reserve { .. } => Self::Flush,
        }
    }
}

impl Call {
    /// Hands an operation to the library; its result comes to `shared`.
    pub(super) fn begin(
        id: u64,
        operation: DeviceOperation,
        image: &Arc<Image>,
        shared: &Arc<Shared>,
    ) {
        let work = Work::of(operation);
        shared.begun();
        let call = Self { id, work, image: Arc::clone(image), shared: Arc::clone(shared) };
        let (rbd, call) = (&call.image.ceph.rbd, Box::into_raw(Box::new(call)));
        let mut completion: Handle = std::ptr::null_mut();
        // SAFETY: the library writes one handle, and keeps the pointer for `ended`.
        let made = unsafe {
            (rbd.rbd_aio_create_completion)(call.cast(), Self::ended, &raw mut completion)
        };
        if made < 0 {
            // SAFETY: the library has not taken the pointer.
            return unsafe { *Box::from_raw(call) }.finish(made as isize);
        }
        // SAFETY: the call lives on the heap until `ended`, and with it all memory that is named here.
        let begun = unsafe { (*call).submit(completion) };
        if begun < 0 {
            // SAFETY: what was not begun does not end: the library calls nobody.
            unsafe {
                (rbd.rbd_aio_release)(completion);
                (*Box::from_raw(call)).finish(begun as isize);
            }
        }
    }

    /// # Safety
    /// The call must stay where it is until the completion was called.
    unsafe fn submit(&mut self, completion: Handle) -> c_int {
        let (rbd, image) = (&self.image.ceph.rbd, self.image.handle);
        // SAFETY: the image is open, since the call holds it; the memory is the call's own.
        unsafe {
            match &mut self.work {
                Work::Read { offset, buffer } => {
                    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
                    (rbd.rbd_aio_read)(image, *offset, length, start, completion)
                }
                Work::Write { offset, pieces, .. } => {
                    let count = c_int::try_from(pieces.len()).unwrap_or(c_int::MAX);
                    (rbd.rbd_aio_writev)(image, pieces.as_ptr(), count, *offset, completion)
                }
                Work::Flush => (rbd.rbd_aio_flush)(image, completion),
            }
        }
    }

    /// Called by the library's thread.
    unsafe extern "C" fn ended(completion: Handle, argument: *mut c_void) {
        // SAFETY: the argument is the call that `begin` gave away, and comes back once.
        let call = unsafe { *Box::from_raw(argument.cast::<Self>()) };
        let rbd = &call.image.ceph.rbd;
        // SAFETY: the completion has ended, and is released once.
        let value = unsafe {
            let value = (rbd.rbd_aio_get_return_value)(completion);
            (rbd.rbd_aio_release)(completion);
            value
        };
        call.finish(value);
    }

    /// Passes the result on. The call lets go of the image first: the library's own threads must not be
    /// the ones that close it.
    fn finish(self, value: isize) {
        let Self { id, work, image, shared } = self;
        drop(image);
        shared.ended((id, result_of(work, value)));
    }
}

/// The data in no more pieces than one call takes.
fn in_few_pieces(data: Rope) -> Rope {
    if data.pieces().len() <= PIECES_MAX {
        return data;
    }
    let mut whole = Buffer::for_overwrite(data.len());
    let mut rest = &mut whole[..];
    for piece in data.pieces() {
        let (part, after) = rest.split_at_mut(piece.len());
        part.copy_from_slice(piece);
        rest = after;
    }
    whole.freeze().into()
}

fn result_of(work: Work, value: isize) -> DeviceResult {
    let Ok(length) = usize::try_from(value) else {
        return Err(match i32::try_from(-value).unwrap_or(libc::EIO) {
            BLOCKLISTED => DeviceError::Fenced,
            errno => DeviceError::Os(errno),
        });
    };
    match work {
        Work::Read { offset, buffer } if length < buffer.len() => {
            Err(DeviceError::BeyondEnd { end: offset + buffer.len() as u64 })
        }
        Work::Read { buffer, .. } => Ok(Some(buffer)),
        Work::Write { data, .. } => {
            drop(data);
            Ok(None)
        }
        Work::Flush => Ok(None),
    }
}
