//! PERSISTENT RESERVE IN through SG_IO, or the kernel's ioctls that read reservations: who is registered
//! at a block device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::raw::{c_int, c_uchar, c_uint, c_ushort, c_void};

use super::status::{self, Registrant};

/// Registrations of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) registrants: Vec<Registrant>,
}

const SG_IO: u64 = 0x2285;
const SG_DXFER_FROM_DEV: c_int = -3;
const PERSISTENT_RESERVE_IN: u8 = 0x5e;
const READ_KEYS: u8 = 0;
const READ_RESERVATION: u8 = 1;
const READ_FULL_STATUS: u8 = 3;

const CHECK_CONDITION: c_uchar = 0x02;
const UNIT_ATTENTION: u8 = 6;

/// Milliseconds that one command may take.
const TIMEOUT_MS: c_uint = 10_000;

/// Bytes that are asked for first, and at most: the field has two bytes.
const ANSWER: usize = 4096;
const ANSWER_MAX: usize = 65_528;

/// Times that a command is sent while unit attentions are told.
const TRIES: usize = 8;

/// Most keys that the kernel is asked for.
const KEYS_MAX: usize = 512;

const IOC_PR_READ_KEYS: u64 = 0xc010_70ce;
const IOC_PR_READ_RESERVATION: u64 = 0x8010_70cf;

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
struct SgHeader {
    interface_id: c_int,
    direction: c_int,
    cdb_length: c_uchar,
    sense_length_max: c_uchar,
    pieces: c_ushort,
    data_length: c_uint,
    data: *mut c_void,
    cdb: *mut c_uchar,
    sense: *mut c_uchar,
    timeout_ms: c_uint,
    flags: c_uint,
    pack_id: c_int,
    user: *mut c_void,
    status: c_uchar,
    masked_status: c_uchar,
    message_status: c_uchar,
    sense_length: c_uchar,
    host_status: c_ushort,
    driver_status: c_ushort,
    residual: c_int,
    duration: c_uint,
    info: c_uint,
}

/// `struct pr_read_keys`.
#[repr(C)]
struct ReadKeys {
    generation: u32,
    count: u32,
    keys: u64,
}

/// `struct pr_read_reservation`.
#[repr(C)]
#[derive(Default)]
struct ReadReservation {
    key: u64,
    generation: u32,
    kind: u32,
}

/// Reads who is registered. Nobody, if the device does not tell: then a registration says whether it
/// knows reservations at all.
pub(crate) fn look(file: &File) -> io::Result<State> {
    match read(file, READ_FULL_STATUS)? {
        Some(data) => parsed(status::full_status(&data)).map(|registrants| State { registrants }),
        None => match (read(file, READ_KEYS)?, read(file, READ_RESERVATION)?) {
            (Some(keys), Some(holder)) => {
                Ok(of_keys(&parsed(status::keys(&keys))?, parsed(status::reservation(&holder))?))
            }
            _ => Ok(by_kernel(file)),
        },
    }
}

fn parsed<T>(result: Result<T, status::Cut>) -> io::Result<T> {
    let cut = |status::Cut| io::Error::other("the device's answer is shorter than it says");
    result.map_err(cut)
}

fn of_keys(keys: &[u64], holder: Option<u64>) -> State {
    let registrant = |&key: &u64| Registrant { key, is_holder: holder == Some(key), port: None };
    State { registrants: keys.iter().map(registrant).collect() }
}

/// All of an answer; `None` if the device, or its driver, does not take the command.
fn read(file: &File, service_action: u8) -> io::Result<Option<Vec<u8>>> {
    let Some(mut data) = command(file, service_action, ANSWER)? else { return Ok(None) };
    let wanted = parsed(status::length(&data))?;
    if wanted > data.len() {
        // What does not fit into the largest answer is found to be cut by whoever reads it.
        let Some(more) = command(file, service_action, wanted.min(ANSWER_MAX))? else {
            return Ok(None);
        };
        data = more;
    }
    Ok(Some(data))
}

fn command(file: &File, service_action: u8, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut data = vec![0_u8; length];
    let mut sense = [0_u8; 32];
    let [.., high, low] = (length as u32).to_be_bytes();
    let mut cdb = [PERSISTENT_RESERVE_IN, service_action, 0, 0, 0, 0, 0, high, low, 0];
    for _ in 0..TRIES {
        let mut header = SgHeader {
            interface_id: c_int::from(b'S'),
            direction: SG_DXFER_FROM_DEV,
            cdb_length: cdb.len() as c_uchar,
            sense_length_max: sense.len() as c_uchar,
            pieces: 0,
            data_length: length as c_uint,
            data: data.as_mut_ptr().cast(),
            cdb: cdb.as_mut_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: TIMEOUT_MS,
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_length: 0,
            host_status: 0,
            driver_status: 0,
            residual: 0,
            duration: 0,
            info: 0,
        };
        // SAFETY: the header names memory of this function, as long as it says; the kernel is done with
        // it when the call returns.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), SG_IO as _, &raw mut header) };
        if result < 0 {
            return unsupported(io::Error::last_os_error());
        }
        match header.status {
            0 if header.host_status == 0 => return Ok(Some(data)),
            CHECK_CONDITION if sense_key(&sense) == UNIT_ATTENTION => {}
            CHECK_CONDITION => return Ok(None),
            status => {
                let host = header.host_status;
                let text = format!("status {status:#04x}, host status {host:#06x}");
                return Err(io::Error::other(text));
            }
        }
    }
    Ok(None)
}

/// The sense key, of either format.
fn sense_key(sense: &[u8]) -> u8 {
    match sense[0] & 0x7f {
        0x72 | 0x73 => sense[1] & 0x0f,
        _ => sense[2] & 0x0f,
    }
}

fn unsupported(error: io::Error) -> io::Result<Option<Vec<u8>>> {
    match error.raw_os_error() {
        Some(libc::ENOTTY | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(None),
        _ => Err(error),
    }
}

/// What the kernel reads itself; nobody where it cannot.
fn by_kernel(file: &File) -> State {
    let mut keys = vec![0_u64; KEYS_MAX];
    let pointer = keys.as_mut_ptr().addr() as u64;
    let mut all = ReadKeys { generation: 0, count: KEYS_MAX as u32, keys: pointer };
    let mut holder = ReadReservation::default();
    // SAFETY: the structure says how many keys the memory beside it takes.
    let read = unsafe { libc::ioctl(file.as_raw_fd(), IOC_PR_READ_KEYS as _, &raw mut all) };
    // SAFETY: the kernel writes one structure.
    let reserved =
        unsafe { libc::ioctl(file.as_raw_fd(), IOC_PR_READ_RESERVATION as _, &raw mut holder) };
    if read != 0 {
        return State::default();
    }
    keys.truncate(all.count as usize);
    of_keys(&keys, (reserved == 0 && holder.kind != 0).then_some(holder.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sense_key_is_read_from_both_formats() {
        assert_eq!(sense_key(&[0x70, 0, 0x06]), UNIT_ATTENTION);
        assert_eq!(sense_key(&[0x72, 0x06, 0x29]), UNIT_ATTENTION);
        assert_eq!(sense_key(&[0xf0, 0, 0x25]), 5);
    }

    #[test]
    fn of_a_device_that_does_not_tell_nobody_is_known() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(look(&file).unwrap(), State::default());
    }

    #[test]
    fn the_header_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<SgHeader>(), if size_of::<usize>() == 8 { 88 } else { 64 });
    }
}
