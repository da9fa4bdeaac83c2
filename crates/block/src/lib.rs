//! Shared vocabulary of all rooms: addresses, buffers, requests, errors (the narrow waist between
//! front ends and the pool engine).
//!
//! A front end (SCSI over iSCSI, later NVMe/TCP) turns its commands into a [`Request`] on a
//! [`VolumeId`]; the pool engine answers each with a [`Response`] or a [`BlockError`], and asks
//! the devices below it for [`DeviceOperation`]s. Data travels as an aligned [`Buffer`] while it is
//! being filled and as [`bytes::Bytes`] or a [`Rope`] of them once it no longer changes.
//!
//! VMware's names for the offloads: ATS = [`Request::CompareAndWrite`], XCOPY = [`Request::Copy`],
//! Zero = [`Request::WriteSame`], Delete = [`Request::Unmap`].

mod address;
mod buffer;
mod device;
mod device_name;
mod error;
mod primitive;
mod request;
mod request_statistics;
mod rope;
mod switch;

pub use address::{BLOCK, BlockCount, ByteRange, Lba, LogicalBlockLength, SECTOR, VolumeId};
pub use buffer::{Arena, Buffer, install_arena, installed_arena};
pub use device::{DeviceError, DeviceOperation, DeviceResult};
pub use device_name::{DeviceKind, DeviceName, InvalidDeviceName, RbdImage, device_forms};
pub use error::BlockError;
pub use primitive::Primitive;
pub use request::{MAPPED_BYTES_PER_BYTE, MapExtent, MapState, Pattern, Request, Response};
pub use request_statistics::{RequestStatistics, Sample};
pub use rope::Rope;
pub use switch::{Switch, SwitchLevel, SwitchPlaces, SwitchesOff, TurnedOff};
