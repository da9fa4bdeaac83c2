//! The part of libiscsi 1.19 that is used: contexts, connecting, and commands with CDBs of our
//! own. Signatures and structures as in its headers iscsi.h and scsi-lowlevel.h.

pub mod raw;
pub mod session;

use std::ffi::{c_char, c_int, c_uchar, c_void};

/// Status of a callback when the command could not be carried out.
pub(crate) const STATUS_CHECK_CONDITION: c_int = 2;

/// Statuses of a callback from here on are libiscsi's own: the command has none.
pub(crate) const NO_STATUS: c_int = 0x0f00_0000;

pub(crate) const XFER_NONE: c_int = 0;
pub(crate) const XFER_READ: c_int = 1;
pub(crate) const XFER_WRITE: c_int = 2;

pub(crate) const SESSION_DISCOVERY: c_int = 1;
pub(crate) const SESSION_NORMAL: c_int = 2;

const STRING: usize = 256;

#[repr(C)]
pub(crate) struct Context {
    _opaque: [u8; 0],
}

/// `struct iscsi_url`, as far as it is read.
#[repr(C)]
pub(crate) struct Url {
    pub(crate) portal: [c_char; STRING],
    pub(crate) target: [c_char; STRING],
    pub(crate) user: [c_char; STRING],
    pub(crate) password: [c_char; STRING],
    pub(crate) target_user: [c_char; STRING],
    pub(crate) target_password: [c_char; STRING],
    pub(crate) lun: c_int,
}

/// `struct iscsi_target_portal`.
#[repr(C)]
pub(crate) struct TargetPortal {
    pub(crate) next: *mut TargetPortal,
    pub(crate) portal: *const c_char,
}

/// `struct iscsi_discovery_address`.
#[repr(C)]
pub(crate) struct DiscoveryAddress {
    pub(crate) next: *mut DiscoveryAddress,
    pub(crate) target_name: *const c_char,
    pub(crate) portals: *mut TargetPortal,
}

#[repr(C)]
pub(crate) struct Sense {
    pub(crate) error_type: c_uchar,
    pub(crate) key: c_int,
    pub(crate) ascq: c_int,
    _specific: u32,
    _bit_pointer: c_uchar,
    _field_pointer: u16,
}

/// `struct scsi_task`, up to what is read.
#[repr(C)]
pub(crate) struct Task {
    pub(crate) status: c_int,
    _cdb_size: c_int,
    _xfer_dir: c_int,
    _expxferlen: c_int,
    _cdb: [c_uchar; 16],
    _residual_status: c_int,
    _residual: usize,
    pub(crate) sense: Sense,
    _datain_size: c_int,
    _datain: *mut c_void,
    _memory: *mut c_void,
    _pointer: *mut c_void,
    pub(crate) initiator_task_tag: u32,
    pub(crate) command_sequence_number: u32,
    _rest: [u8; 0],
}

/// ABORT TASK, of `enum iscsi_task_mgmt_funcs`.
pub(crate) const ABORT_TASK: c_int = 1;

/// LOGICAL UNIT RESET, likewise.
pub(crate) const LUN_RESET: c_int = 5;

/// `struct scsi_iovec`.
#[repr(C)]
pub(crate) struct IoVector {
    pub(crate) base: *mut c_void,
    pub(crate) length: usize,
}

pub(crate) type Callback = extern "C" fn(*mut Context, c_int, *mut c_void, *mut c_void);

unsafe extern "C" {
    pub(crate) fn iscsi_create_context(initiator_name: *const c_char) -> *mut Context;
    pub(crate) fn iscsi_destroy_context(iscsi: *mut Context) -> c_int;
    pub(crate) fn iscsi_set_session_type(iscsi: *mut Context, session_type: c_int) -> c_int;
    pub(crate) fn iscsi_set_header_digest(iscsi: *mut Context, digest: c_int) -> c_int;
    pub(crate) fn iscsi_set_targetname(iscsi: *mut Context, name: *const c_char) -> c_int;
    pub(crate) fn iscsi_set_initiator_username_pwd(
        iscsi: *mut Context,
        user: *const c_char,
        password: *const c_char,
    ) -> c_int;
    pub(crate) fn iscsi_set_target_username_pwd(
        iscsi: *mut Context,
        user: *const c_char,
        password: *const c_char,
    ) -> c_int;
    pub(crate) fn iscsi_set_timeout(iscsi: *mut Context, seconds: c_int) -> c_int;
    pub(crate) fn iscsi_set_noautoreconnect(iscsi: *mut Context, state: c_int);
    pub(crate) fn iscsi_full_connect_async(
        iscsi: *mut Context,
        portal: *const c_char,
        lun: c_int,
        callback: Callback,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_connect_async(
        iscsi: *mut Context,
        portal: *const c_char,
        callback: Callback,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_login_async(
        iscsi: *mut Context,
        callback: Callback,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_discovery_async(
        iscsi: *mut Context,
        callback: Callback,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_logout_async(
        iscsi: *mut Context,
        callback: Callback,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_nop_out_async(
        iscsi: *mut Context,
        callback: Callback,
        data: *mut c_uchar,
        length: c_int,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_get_error(iscsi: *mut Context) -> *const c_char;
    pub(crate) fn iscsi_get_fd(iscsi: *mut Context) -> c_int;
    pub(crate) fn iscsi_which_events(iscsi: *mut Context) -> c_int;
    pub(crate) fn iscsi_service(iscsi: *mut Context, revents: c_int) -> c_int;
    pub(crate) fn iscsi_parse_full_url(iscsi: *mut Context, url: *const c_char) -> *mut Url;
    pub(crate) fn iscsi_destroy_url(url: *mut Url);
    pub(crate) fn scsi_create_task(
        cdb_size: c_int,
        cdb: *mut c_uchar,
        xfer_dir: c_int,
        expxferlen: c_int,
    ) -> *mut Task;
    pub(crate) fn scsi_free_scsi_task(task: *mut Task);
    pub(crate) fn scsi_task_set_iov_in(task: *mut Task, iov: *mut IoVector, count: c_int);
    pub(crate) fn scsi_task_set_iov_out(task: *mut Task, iov: *mut IoVector, count: c_int);
    pub(crate) fn iscsi_scsi_command_async(
        iscsi: *mut Context,
        lun: c_int,
        task: *mut Task,
        callback: Callback,
        data: *mut c_void,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_task_mgmt_async(
        iscsi: *mut Context,
        lun: c_int,
        function: c_int,
        referenced_task_tag: u32,
        referenced_command_sequence_number: u32,
        callback: Callback,
        private_data: *mut c_void,
    ) -> c_int;
    pub(crate) fn iscsi_scsi_cancel_task(iscsi: *mut Context, task: *mut Task) -> c_int;
}
