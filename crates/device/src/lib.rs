//! Storage back ends: files and block devices through io_uring or threads, and memory.
//!
//! A [`Device`] takes [`block::DeviceOperation`]s under the caller's identifiers and gives back their
//! results, never blocking. The one place in the daemon, beside aligned buffers, that needs
//! `unsafe`: the kernel reads and writes memory that we lend it.

mod backend;
mod backing;
mod device;
mod error;
mod fence;
mod file;
mod kinds;
pub mod limits;
mod notify;
mod presence;
mod reader;
mod ring;
mod threads;

pub use backing::Backing;
pub use device::{Completion, Counters, Device, Grown, Growth, Method};
pub use error::OpenError;
pub use fence::{
    Breaking, Fence, Holder, OWNER_BEAT_OFFSET, ReservationKey, reserve_block_devices,
    reserves_block_devices,
};
pub use presence::Presence;
pub use reader::Reader;

#[cfg(test)]
mod tests;
