//! Page-aligned I/O buffers: devices read into them, and the network fills them.
//!
//! Buffers of up to 1 MiB come from one [`Arena`] when the daemon has installed it, so that io_uring
//! can know their memory beforehand (registered buffers); others come from the heap, or, if they are
//! long, from the system (mmap), so that they are zeros without being written and that nothing of
//! them stays when they are dropped. All are aligned to 4 KiB, as O_DIRECT asks, and return to
//! where they came from.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Alignment of every buffer, in bytes.
const ALIGNMENT: usize = 4096;

/// Capacities that the arena hands out, in bytes.
const CLASSES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Buffers of so many bytes and more that are not in the arena are mapped by themselves.
const MAPPED_BYTES_MIN: usize = 128 << 10;

/// Bytes of a transparent huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

static ARENA: OnceLock<Arena> = OnceLock::new();

/// Reserves `bytes` of memory for buffers. Takes effect once, for the whole process; later calls
/// return the arena that is already there.
pub fn install_arena(bytes: usize) -> &'static Arena {
    ARENA.get_or_init(|| Arena::new(bytes))
}

/// Address and length of the arena's region, if one was installed.
pub fn installed_arena() -> Option<(*const u8, usize)> {
    ARENA.get().map(Arena::region)
}

/// One contiguous region of memory that buffers are cut from.
pub struct Arena {
    base: NonNull<u8>,
    length: usize,
    free: Mutex<FreeLists>,
}

// SAFETY: the region is only reached through buffers, each of which owns a disjoint part of it;
// the lists of free parts are behind a mutex.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

struct FreeLists {
    /// Bytes of the region that have never been handed out start here.
    untouched: usize,
    /// Offsets of returned parts, per class.
    returned: [Vec<usize>; CLASSES.len()],
}

impl Arena {
    fn new(bytes: usize) -> Self {
        let length = bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        Self {
            base: map(length).unwrap_or_else(|| allocate(length)),
            length,
            free: Mutex::new(FreeLists { untouched: 0, returned: Default::default() }),
        }
    }

    /// Address and length of the region, for registering it with the kernel. It lives as long as
    /// the process.
    pub fn region(&self) -> (*const u8, usize) {
        (self.base.as_ptr(), self.length)
    }

    fn take(&self, class: usize) -> Option<NonNull<u8>> {
        let mut free = self.free.lock();
        let offset = match free.returned[class].pop() {
            Some(offset) => offset,
            None => {
                let offset = free.untouched;
                if offset + CLASSES[class] > self.length {
                    return None;
                }
                free.untouched += CLASSES[class];
                offset
            }
        };
        // SAFETY: offset + class size <= length, so the address stays inside the region.
        Some(unsafe { self.base.add(offset) })
    }

    fn put_back(&self, class: usize, part: NonNull<u8>) {
        let offset = part.as_ptr().addr() - self.base.as_ptr().addr();
        self.free.lock().returned[class].push(offset);
    }
}

/// Where a buffer's memory came from.
#[derive(Clone, Copy)]
enum Origin {
    Arena { class: usize },
    Heap { capacity: usize },
    Mapped { capacity: usize },
}

/// Exclusive, 4 KiB aligned memory. [`Buffer::freeze`] makes it shareable and immutable.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
    origin: Origin,
}

// SAFETY: a buffer owns its memory exclusively.
unsafe impl Send for Buffer {}
// SAFETY: shared access to a buffer only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer whose content is unspecified (initialised, but perhaps from an earlier use): for
    /// callers that overwrite all of it before anyone reads it.
    pub fn for_overwrite(length: usize) -> Self {
        let class = CLASSES.iter().position(|&capacity| length <= capacity);
        if let (Some(class), Some(arena)) = (class, ARENA.get())
            && let Some(start) = arena.take(class)
        {
            return Self { start, length, origin: Origin::Arena { class } };
        }
        Self::fresh(length)
    }

    /// A buffer of zeros that is never from the arena: if it has 128 KiB or more, memory comes to it
    /// when it is touched.
    pub fn fresh(length: usize) -> Self {
        let capacity = length.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        if capacity >= MAPPED_BYTES_MIN
            && let Some(start) = map(capacity)
        {
            return Self { start, length, origin: Origin::Mapped { capacity } };
        }
        Self { start: allocate(capacity), length, origin: Origin::Heap { capacity } }
    }

    /// A buffer of zeros.
    pub fn zeroed(length: usize) -> Self {
        let mut buffer = Self::for_overwrite(length);
        buffer.fill(0);
        buffer
    }

    /// A buffer holding a copy of `data`.
    pub fn copy_of(data: &[u8]) -> Self {
        let mut buffer = Self::for_overwrite(data.len());
        buffer.copy_from_slice(data);
        buffer
    }

    /// Forgets the bytes from `length` on; does nothing if the buffer is not longer.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Gives up the right to write; the memory is returned when the last clone is dropped.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points at at least `length` initialised bytes that this buffer owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.origin {
            Origin::Arena { class } => {
                if let Some(arena) = ARENA.get() {
                    arena.put_back(class, self.start);
                }
            }
            Origin::Mapped { capacity } => {
                // SAFETY: `start` came from `map(capacity)`, nobody refers to it any more, and it is
                // released once.
                let unmapped = unsafe { munmap(self.start.as_ptr().cast(), capacity) };
                debug_assert!(unmapped.is_ok(), "{unmapped:?}");
            }
            // SAFETY: `start` came from `allocate(capacity)` and is released once.
            Origin::Heap { capacity } => unsafe { dealloc(self.start.as_ptr(), layout(capacity)) },
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("capacity is below isize::MAX")
}

/// Fresh pages of the system, all zeros, which take memory when they are first written; `None` if it
/// gives no more. Transparent huge pages are asked for where they fit: a fault then brings 2 MiB, and
/// random places need few entries of the TLB.
fn map(capacity: usize) -> Option<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses a place where nothing is.
    let start = unsafe { mmap_anonymous(null_mut(), capacity, access, MapFlags::PRIVATE) }.ok()?;
    if capacity >= HUGE_PAGE_BYTES {
        // A system without them serves with small pages.
        // SAFETY: the region was mapped just now, and its content stays what it is.
        let _ = unsafe { madvise(start, capacity, Advice::LinuxHugepage) };
    }
    NonNull::new(start.cast())
}

fn allocate(capacity: usize) -> NonNull<u8> {
    let layout = layout(capacity);
    // SAFETY: the capacity is at least one alignment unit, so never zero.
    let start = unsafe { alloc_zeroed(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_is_aligned_and_writable() {
        for length in [0, 1, 511, 4096, 5000, 1 << 20, (1 << 20) + 1] {
            let mut buffer = Buffer::zeroed(length);
            assert_eq!(buffer.as_ptr().addr() % ALIGNMENT, 0);
            buffer.fill(7);
            assert!(buffer.freeze().iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn the_arena_hands_out_disjoint_parts_and_takes_them_back() {
        let arena = Arena::new(3 * CLASSES[0]);
        let parts: Vec<_> = std::iter::from_fn(|| arena.take(0)).collect();
        assert_eq!(parts.len(), 3);
        assert_ne!(parts[0], parts[1]);
        arena.put_back(0, parts[1]);
        assert_eq!(arena.take(0), Some(parts[1]));
        assert_eq!(arena.take(1), None);
    }
}
