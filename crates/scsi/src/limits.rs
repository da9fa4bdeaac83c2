//! Limits of the device server, and what happens when they are reached.

use std::time::Duration;

/// Tasks of all nexuses together; one more is answered BUSY.
pub const TASKS_MAX: usize = 1 << 16;

/// Tasks of one logical unit; one more is answered TASK SET FULL.
pub const TASKS_PER_UNIT_MAX: usize = 1 << 12;

/// MAXIMUM TRANSFER LENGTH of VPD page B0h, in bytes; longer commands are refused.
pub const TRANSFER_BYTES_MAX: u64 = 32 << 20;

/// OPTIMAL TRANSFER LENGTH of VPD page B0h, in bytes.
pub const TRANSFER_BYTES_OPTIMAL: u64 = 1 << 20;

/// Most bytes that one request reads or writes; longer commands are cut into slices, aligned to
/// this.
pub const SLICE_BYTES: u64 = 1 << 20;

/// Most bytes that one copy request covers; longer segments are cut, aligned to the slice of the
/// destination.
pub const COPY_SLICE_BYTES: u64 = 4 << 20;

/// Most bytes that one request of a longer work zeroes or unmaps: of SANITIZE, copied zeros, tokens.
pub const ZERO_SLICE_BYTES: u64 = 16 << 20;

/// Notices for the operator that wait to be fetched; then the oldest goes.
pub const NOTICES_MAX: usize = 256;

/// COMPARE AND WRITE commands that were done and are remembered; the oldest one makes room, and a
/// retry of it is not known for one.
pub const APPLIED_MAX: usize = 4096;

/// How long they count: what comes later is no retry.
pub const APPLIED_TIME_MAX: Duration = Duration::from_secs(300);

/// How long before the end of a session an answer may have been given that was lost with it.
pub const LOST_ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Initiators whose nexuses are gone and whose names are remembered; the oldest one makes room.
pub const GONE_MAX: usize = 256;

/// MAXIMUM ATOMIC TRANSFER LENGTH of VPD page B0h, in bytes: what one request writes.
pub const ATOMIC_BYTES_MAX: u64 = SLICE_BYTES;

/// Most bytes per second that a SANITIZE overwrites, so that it leaves the devices to others.
pub const SANITIZE_BYTES_PER_SECOND: u64 = 192 << 20;

/// Requests of one command that the engine has at the same time; further ones wait for these.
pub const REQUESTS_PER_COMMAND_MAX: usize = 8;

/// MAXIMUM COMPARE AND WRITE LENGTH of VPD page B0h, in blocks: all that the CDB can say.
pub const COMPARE_AND_WRITE_BLOCKS_MAX: u8 = 255;

/// MAXIMUM WRITE SAME LENGTH of VPD page B0h, in bytes; longer ones are refused. With blocks of
/// 512 bytes it is 65,535 blocks, all that WRITE SAME (10) can say.
pub const WRITE_SAME_BYTES_MAX: u64 = (32 << 20) - 512;

/// MAXIMUM UNMAP LBA COUNT of VPD page B0h, in bytes, over all descriptors of a command; more is
/// refused.
pub const UNMAP_BYTES_MAX: u64 = 32 << 20;

/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT of VPD page B0h; more are refused.
pub const UNMAP_DESCRIPTORS_MAX: usize = 256;

/// LBA status descriptors in one answer; further ones need another GET LBA STATUS.
pub const LBA_STATUS_DESCRIPTORS_MAX: usize = 1024;

/// Bytes that one GET LBA STATUS looks at; what lies behind needs another one.
pub const LBA_STATUS_BYTES_MAX: u64 = 64 << 30;

/// MAXIMUM CSCD DESCRIPTOR COUNT of EXTENDED COPY; more are refused.
pub const CSCD_DESCRIPTORS_MAX: usize = 64;

/// MAXIMUM SEGMENT DESCRIPTOR COUNT of EXTENDED COPY; more are refused.
pub const SEGMENT_DESCRIPTORS_MAX: usize = 256;

/// MAXIMUM DESCRIPTOR LIST LENGTH of EXTENDED COPY, in bytes: as many descriptors as may be, of the
/// longest kinds. Longer lists are refused.
pub const DESCRIPTOR_LIST_BYTES_MAX: usize = 32 * (CSCD_DESCRIPTORS_MAX + SEGMENT_DESCRIPTORS_MAX);

/// MAXIMUM SEGMENT LENGTH of EXTENDED COPY, in bytes: 65,535 blocks of 4,096 bytes. A segment that
/// names more bytes is refused.
pub const SEGMENT_BYTES_MAX: u64 = 65_535 * 4096;

/// TOTAL CONCURRENT COPIES: EXTENDED COPY commands of all nexuses; one more is refused.
pub const CONCURRENT_COPIES_MAX: u16 = 256;

/// MAXIMUM CONCURRENT COPIES: those among them that have a list identifier; one more is refused.
pub const IDENTIFIED_COPIES_MAX: usize = 255;

/// Outcomes of third-party copies held per nexus for RECEIVE COPY STATUS; the oldest goes.
pub const COPY_RESULTS_HELD_MAX: usize = 16;

/// How long the outcome of a third-party copy is held; then it is forgotten.
pub const COPY_RESULT_HELD_FOR: Duration = Duration::from_secs(60);

/// ROD tokens, those too whose data is still being unmapped; one more is refused.
pub const TOKENS_MAX: usize = 1024;

/// Those of one host; one more is refused, whatever the others have.
pub const TOKENS_PER_HOST_MAX: usize = 64;

/// MAXIMUM RANGE DESCRIPTORS of POPULATE TOKEN and WRITE USING TOKEN; more are refused.
pub const TOKEN_RANGES_MAX: usize = 64;

/// MAXIMUM TOKEN TRANSFER SIZE, in bytes: what a token may represent; more is refused.
pub const TOKEN_BYTES_REPRESENTED_MAX: u64 = 16 << 30;

/// DEFAULT INACTIVITY TIMEOUT: a token that nobody used for so long ends.
pub const TOKEN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// MAXIMUM INACTIVITY TIMEOUT; longer ones are refused.
pub const TOKEN_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Parameter lists of any command, in bytes; longer ones are refused.
pub const PARAMETER_LIST_BYTES_MAX: u64 = 64 << 10;

/// Registrations of one logical unit; one more is refused (05h/55h/04h).
pub use reservations::limits::REGISTRATIONS_MAX as REGISTRATIONS_PER_UNIT_MAX;

/// Attempts of ORWRITE to find the medium unchanged between its read and its write; then BUSY.
pub const ORWRITE_ATTEMPTS_MAX: u32 = 64;

/// Unit attention conditions that wait for one nexus on one logical unit: more than there are kinds
/// of them; a further one would be dropped.
pub const ATTENTIONS_MAX: usize = 32;

/// NOMINAL COMMAND PROCESSING TIMEOUT that REPORT SUPPORTED OPERATION CODES tells.
pub const COMMAND_TIMEOUT_NOMINAL: Duration = Duration::from_secs(1);

/// RECOMMENDED COMMAND TIMEOUT that REPORT SUPPORTED OPERATION CODES tells.
pub const COMMAND_TIMEOUT_RECOMMENDED: Duration = Duration::from_secs(30);

/// Slices of a copy between pools that are read and written at the same time.
pub const FAR_COPY_SLICES_MAX: usize = 2;

/// Attempts of a copy of bytes to find the sectors around its destination unchanged between its
/// read and its write; then BUSY.
pub const BYTE_COPY_ATTEMPTS_MAX: u32 = 64;

/// Initiator ports without a session of which it is kept that they take a LUN for another volume;
/// one more is not kept, and its next session is let through as one that never saw the other volume.
pub const MISTAKEN_PORTS_MAX: usize = 1024;

/// Parameter data of any command that a target of ours answers with, in bytes; an initiator that is
/// ready for more is not given more.
pub const PARAMETER_DATA_BYTES_MAX: u64 = 1 << 20;
