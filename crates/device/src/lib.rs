//! Storage back ends: files and block devices through io_uring or threads, and memory.
//!
//! A [`Device`] takes [`block::DeviceOperation`]s under the caller's tokens and gives back their
//! results, never blocking. The one place in the daemon, beside aligned buffers, that needs
//! `unsafe`: the kernel reads and writes memory that we lend it.

mod backing;
mod device;
mod error;
mod file;
pub mod limits;
mod memory;
mod notify;
mod reader;
mod ring;
mod threads;

pub use backing::Backing;
pub use device::{Completion, Counters, Device, DeviceSpec, Grown, Growth, Method};
pub use error::OpenError;
pub use file::block_device_size;
pub use reader::Reader;

#[cfg(test)]
mod tests;
