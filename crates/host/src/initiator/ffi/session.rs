//! A session with one LUN, through libiscsi.

mod discovery;
mod timers;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::initiator::cdb::{self, Cdb};
use crate::initiator::ffi;
use crate::initiator::ffi::raw::milliseconds;
use crate::initiator::times::times;

pub use discovery::{FoundTarget, send_targets};
pub use timers::TimerCounts;
use timers::Timers;

/// Bytes of a logical block; other lengths are refused when connecting.
pub const BLOCK_BYTES: u64 = 512;

/// Unit attentions that one command hears before it is given up.
const UNIT_ATTENTIONS_MAX: u32 = 100;

/// The sense key of commands that were completed all the same.
const RECOVERED_ERROR: c_int = 1;

/// Why a session or command failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// Not iscsi://HOST[:PORT]/TARGET/LUN.
    #[error("'{0}' is not an iSCSI URL: write iscsi://HOST:PORT/TARGET-NAME/LUN")]
    Url(String),
    /// No session could be made.
    #[error("cannot connect to {url}: {reason}")]
    Connect {
        /// Where to.
        url: String,
        /// libiscsi's words.
        reason: String,
    },
    /// The connection is gone.
    #[error("the connection was lost")]
    Lost,
    /// A command was not answered in time, and was aborted.
    #[error("operation code {opcode:02x}h was not answered")]
    NoAnswer {
        /// OPERATION CODE.
        opcode: u8,
    },
    /// No path was left for longer than commands wait.
    #[error("all paths are down (APD)")]
    AllPathsDown,
    /// The LUN says on all paths that it is gone for good.
    #[error("the device is permanently lost (PDL)")]
    PermanentlyLost,
    /// While no path was left, another host took this one for dead.
    #[error("the heartbeat was taken over while all paths were down")]
    TakenOver,
    /// A command ended with another status than GOOD.
    #[error(
        "operation code {opcode:02x}h ended with status {status:02x}h, sense {key:x}h/{ascq:04x}h"
    )]
    Command {
        /// OPERATION CODE.
        opcode: u8,
        /// SAM-5 status.
        status: i32,
        /// Sense key, if the status is CHECK CONDITION.
        key: i32,
        /// ASC and ASCQ, likewise.
        ascq: i32,
    },
    /// The LUN is of a kind that this program does not handle.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// Data of a command.
pub enum Data {
    /// None.
    None,
    /// To be sent.
    Out(Vec<u8>),
    /// To be filled.
    In(Vec<u8>),
}

impl Data {
    fn parts(&mut self) -> (c_int, &mut [u8]) {
        match self {
            Self::None => (ffi::XFER_NONE, &mut []),
            Self::Out(bytes) => (ffi::XFER_WRITE, bytes),
            Self::In(bytes) => (ffi::XFER_READ, bytes),
        }
    }
}

/// A command that came to its end.
pub struct Finished {
    serial: u64,
    /// The number it was submitted under.
    pub tag: u64,
    /// Whether it ended with GOOD.
    pub result: Result<(), SessionError>,
    /// Its data.
    pub data: Data,
    /// When it was submitted.
    pub submitted: Instant,
    /// ASC and ASCQ of RECOVERED ERROR: the command was carried out, and the LUN had something to
    /// tell.
    pub told: Option<i32>,
}

impl Finished {
    /// A unit attention: the LUN had something to tell and did nothing. To be submitted again.
    pub fn is_news(&self) -> bool {
        matches!(self.result, Err(SessionError::Command { key: 6, .. }))
    }
}

/// What libiscsi is lent until it calls back.
struct Lent {
    serial: u64,
    tag: u64,
    opcode: u8,
    data: Data,
    vector: ffi::IoVector,
    submitted: Instant,
    finished: *mut Vec<Finished>,
}

/// A session with one LUN.
pub struct Session {
    context: *mut ffi::Context,
    lun: c_int,
    /// Boxed, as callbacks hold its address while the session moves.
    #[allow(clippy::box_collection)]
    finished: Box<Vec<Finished>>,
    /// Commands under way, in the order in which they were begun.
    under_way: BTreeMap<u64, Begun>,
    serial: u64,
    timers: Timers,
    /// Bytes of the LUN.
    pub size_bytes: u64,
    /// NAA identifier of the LUN, if it has one.
    pub naa: Option<[u8; 16]>,
}

/// How task management names a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskName {
    /// INITIATOR TASK TAG.
    pub initiator_task_tag: u32,
    /// CmdSN.
    pub command_sequence_number: u32,
}

/// A command under way.
struct Begun {
    task: *mut ffi::Task,
    name: TaskName,
    /// When it is aborted if it was not answered.
    deadline: Instant,
    /// Whether task management is about it: its deadline is that function's then.
    aborting: bool,
}

/// Which digests a session asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderDigest {
    /// None.
    #[default]
    None,
    /// CRC32C.
    Crc32c,
}

/// Whether libiscsi sends TEST UNIT READY to the LUN as part of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitTest {
    First,
    Never,
}

impl Session {
    /// Logs in and looks at the LUN.
    pub fn connect(url: &str, initiator: &str, digest: HeaderDigest) -> Result<Self, SessionError> {
        let mut session = Self::new(url, initiator)?;
        session.log_in(url, digest, UnitTest::First)?;
        session.look()?;
        Ok(session)
    }

    /// One that is not connected yet.
    fn new(url: &str, initiator: &str) -> Result<Self, SessionError> {
        let name = CString::new(initiator).map_err(|_| SessionError::Url(url.to_owned()))?;
        // SAFETY: the name is a C string; a null result is checked.
        let context = unsafe { ffi::iscsi_create_context(name.as_ptr()) };
        if context.is_null() {
            return Err(SessionError::Url(url.to_owned()));
        }
        Ok(Self {
            context,
            lun: 0,
            finished: Box::new(Vec::new()),
            under_way: BTreeMap::new(),
            serial: 0,
            timers: Timers::default(),
            size_bytes: 0,
            naa: None,
        })
    }

    fn log_in(
        &mut self,
        url: &str,
        digest: HeaderDigest,
        test: UnitTest,
    ) -> Result<(), SessionError> {
        let text = CString::new(url).map_err(|_| SessionError::Url(url.to_owned()))?;
        let mut answer = None::<c_int>;
        // SAFETY: context and text are valid; a null result is checked, and the URL is freed once,
        // after its last use.
        let begun = unsafe {
            let parsed = ffi::iscsi_parse_full_url(self.context, text.as_ptr());
            if parsed.is_null() {
                return Err(SessionError::Url(url.to_owned()));
            }
            self.lun = (*parsed).lun;
            ffi::iscsi_set_session_type(self.context, ffi::SESSION_NORMAL);
            ffi::iscsi_set_header_digest(
                self.context,
                if digest == HeaderDigest::Crc32c { 3 } else { 0 },
            );
            ffi::iscsi_set_noautoreconnect(self.context, 1);
            ffi::iscsi_set_targetname(self.context, (*parsed).target.as_ptr());
            // libiscsi would look at its own only when something happens on the socket.
            ffi::iscsi_set_timeout(self.context, 0);
            self.set_chap(&*parsed);
            let (portal, answer) = ((*parsed).portal.as_ptr(), (&raw mut answer).cast());
            // libiscsi takes -1 for 'no LUN'.
            let lun = if test == UnitTest::First { self.lun } else { -1 };
            let begun = ffi::iscsi_full_connect_async(self.context, portal, lun, noted, answer);
            ffi::iscsi_destroy_url(parsed);
            begun
        };
        let deadline = Instant::now() + times().login;
        let ended = begun == 0 && self.serve_until(&raw const answer, deadline);
        let reason = match (ended, begun) {
            (true, _) if answer == Some(0) => return Ok(()),
            (false, 0) if Instant::now() >= deadline => "no answer to the login".to_owned(),
            _ => self.last_error(),
        };
        // The late answer to a login must not be written to this function's memory.
        self.destroy();
        Err(SessionError::Connect { url: url.to_owned(), reason })
    }

    /// Lets libiscsi act until a callback has noted its status, or time is up. Returns whether it
    /// was noted.
    fn serve_until(&mut self, answer: *const Option<c_int>, deadline: Instant) -> bool {
        loop {
            // SAFETY: the caller's variable lives; libiscsi writes to it only while it acts, below.
            if unsafe { (*answer).is_some() } {
                return true;
            }
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            let (fd, events) = self.poll();
            let mut polled = libc::pollfd { fd, events, revents: 0 };
            let wait = times().tick().min(deadline - now);
            // SAFETY: one valid structure.
            unsafe { libc::poll(&raw mut polled, 1, milliseconds(wait)) };
            if polled.revents != 0 && !self.act(polled.revents) {
                // SAFETY: as above.
                return unsafe { (*answer).is_some() };
            }
        }
    }

    /// Ends the connection without a word; calls back for every command under way.
    fn destroy(&mut self) {
        if !self.context.is_null() {
            // SAFETY: the context is valid, and not used afterwards.
            unsafe { ffi::iscsi_destroy_context(self.context) };
            self.context = std::ptr::null_mut();
        }
    }

    /// CHAP as the URL says: `iscsi://USER%PASSWORD@HOST/...?target_user=U&target_password=P`.
    fn set_chap(&self, url: &ffi::Url) {
        // SAFETY: the context is valid; the fields are C strings that libiscsi copies.
        unsafe {
            if url.user[0] != 0 {
                let (user, password) = (url.user.as_ptr(), url.password.as_ptr());
                ffi::iscsi_set_initiator_username_pwd(self.context, user, password);
            }
            if url.target_user[0] != 0 {
                let (user, password) = (url.target_user.as_ptr(), url.target_password.as_ptr());
                ffi::iscsi_set_target_username_pwd(self.context, user, password);
            }
        }
    }

    /// Ends the session without a word to the target; returns the commands under way, so that
    /// another path can carry them out.
    pub fn abandon(mut self) -> Vec<Finished> {
        self.destroy();
        std::mem::take(&mut *self.finished)
    }

    fn look(&mut self) -> Result<(), SessionError> {
        match self.command(cdb::read_capacity(), Data::In(vec![0; 32])) {
            Ok(capacity) => self.take_capacity(&capacity)?,
            // Another controller's to tell.
            Err(SessionError::Command { key: 2, ascq: 0x040a..=0x040c, .. }) => {}
            Err(error) => return Err(error),
        }
        let page = self.command(cdb::inquiry_device_identification(), Data::In(vec![0; 255]))?;
        self.naa = cdb::find_naa(&page);
        Ok(())
    }

    fn take_capacity(&mut self, capacity: &[u8]) -> Result<(), SessionError> {
        let (last, block) = capacity.split_at(8);
        let last = u64::from_be_bytes(last.try_into().expect("8 bytes"));
        let block = u32::from_be_bytes(block[..4].try_into().expect("4 bytes"));
        if u64::from(block) != BLOCK_BYTES {
            return Err(SessionError::Unsupported(
                "only LUNs with blocks of 512 bytes are handled",
            ));
        }
        self.size_bytes = (last + 1) * BLOCK_BYTES;
        Ok(())
    }

    fn last_error(&self) -> String {
        // SAFETY: libiscsi returns a C string that lives as long as the context.
        let text = unsafe { CStr::from_ptr(ffi::iscsi_get_error(self.context)) };
        text.to_string_lossy().trim_end().to_owned()
    }

    /// Begins a command; its end comes from [`Session::service`].
    ///
    /// # Errors
    /// [`SessionError::Lost`] when the session takes no more commands.
    pub fn submit(&mut self, tag: u64, cdb: Cdb, data: Data) -> Result<(), SessionError> {
        self.submit_within(times().command, tag, cdb, data).map_err(|_| SessionError::Lost)
    }

    /// As [`Session::submit`]; the command is aborted when it is not answered in so long. Gives
    /// the data back when the session takes no more commands.
    pub(crate) fn submit_within(
        &mut self,
        limit: Duration,
        tag: u64,
        mut cdb: Cdb,
        data: Data,
    ) -> Result<(), Data> {
        let now = Instant::now();
        self.serial += 1;
        let mut lent = Box::new(Lent {
            serial: self.serial,
            tag,
            opcode: cdb[0],
            data,
            vector: ffi::IoVector { base: std::ptr::null_mut(), length: 0 },
            submitted: now,
            finished: &raw mut *self.finished,
        });
        let (direction, bytes) = lent.data.parts();
        let (base, length) = (bytes.as_mut_ptr(), bytes.len());
        lent.vector = ffi::IoVector { base: base.cast(), length };
        let size = cdb_length(cdb[0]);
        let lent = Box::into_raw(lent);
        // SAFETY: CDB and vector outlive the calls that read them; `lent`, with the vector and the
        // bytes it names, stays until the callback, which libiscsi makes exactly once if the
        // command was accepted; it is taken back if not.
        let begun = unsafe {
            let task = ffi::scsi_create_task(size, cdb.as_mut_ptr(), direction, length as c_int);
            if task.is_null() {
                return Err(Box::from_raw(lent).data);
            }
            match direction {
                ffi::XFER_READ => ffi::scsi_task_set_iov_in(task, &raw mut (*lent).vector, 1),
                ffi::XFER_WRITE => ffi::scsi_task_set_iov_out(task, &raw mut (*lent).vector, 1),
                _ => {}
            }
            let none = std::ptr::null_mut();
            let context = self.context;
            let accepted =
                ffi::iscsi_scsi_command_async(context, self.lun, task, ended, none, lent.cast());
            if accepted != 0 {
                return Err(Box::from_raw(lent).data);
            }
            let name = TaskName {
                initiator_task_tag: (*task).initiator_task_tag,
                command_sequence_number: (*task).command_sequence_number,
            };
            Begun { task, name, deadline: now + limit, aborting: false }
        };
        if self.under_way.is_empty() {
            self.timers.heard(now);
        }
        self.timers.last = Some(begun.name);
        self.under_way.insert(self.serial, begun);
        Ok(())
    }

    /// The name of the command that was begun last.
    pub fn last_task(&self) -> Option<TaskName> {
        self.timers.last
    }

    /// Sends ABORT TASK and waits for the answer: RESPONSE of RFC 7143 11.6.1 (0 is 'function
    /// complete', 1 'task does not exist'), and the commands that ended meanwhile.
    ///
    /// # Errors
    /// [`SessionError::Lost`] when the connection goes, or nothing is answered in time.
    pub fn abort_task(&mut self, name: TaskName) -> Result<(u32, Vec<Finished>), SessionError> {
        let function = self.manage(ffi::ABORT_TASK, name).ok_or(SessionError::Lost)?;
        let deadline = Instant::now() + times().management;
        let mut finished = Vec::new();
        while Instant::now() < deadline {
            finished.extend(self.wait()?);
            if let Some(response) = self.timers.answer(function) {
                return Ok((response, finished));
            }
        }
        Err(SessionError::Lost)
    }

    /// Gives up waiting for the command that was begun last and was aborted: the target answers
    /// it no more. Does nothing if it has ended.
    pub fn forget_last(&mut self) -> Vec<Finished> {
        if let Some((serial, _)) = self.under_way.last_key_value() {
            self.cancel(*serial);
        }
        self.drain()
    }

    /// Lets libiscsi forget a command under way, which calls back.
    fn cancel(&mut self, serial: u64) {
        if let Some(begun) = self.under_way.get(&serial) {
            // SAFETY: the command is under way: its end would have removed it. So its task lives.
            unsafe { ffi::iscsi_scsi_cancel_task(self.context, begun.task) };
        }
    }

    /// The commands that ended.
    fn drain(&mut self) -> Vec<Finished> {
        let finished = std::mem::take(&mut *self.finished);
        for one in &finished {
            self.under_way.remove(&one.serial);
        }
        finished
    }

    /// Commands under way.
    pub fn in_flight(&self) -> usize {
        self.under_way.len()
    }

    /// The socket, and the events of poll(2) that libiscsi waits for.
    pub fn poll(&self) -> (c_int, i16) {
        // SAFETY: the context is valid.
        unsafe { (ffi::iscsi_get_fd(self.context), ffi::iscsi_which_events(self.context) as i16) }
    }

    /// Lets libiscsi act on events; returns the commands that ended.
    pub fn service(&mut self, events: i16) -> Result<Vec<Finished>, SessionError> {
        let sends = events & libc::POLLOUT != 0;
        let rest = events & !libc::POLLOUT;
        let alive = (!sends || self.send()) && (sends && rest == 0 || self.act(rest));
        if events & libc::POLLIN != 0 {
            self.timers.heard(Instant::now());
        }
        // What ended before a connection was lost comes with what had not: see `abandon`.
        if alive { Ok(self.drain()) } else { Err(SessionError::Lost) }
    }

    /// Sends what waits. libiscsi sends header by header and data by data; held back until all is
    /// there, they fill segments and wake the target once.
    fn send(&mut self) -> bool {
        if self.under_way.len() <= 1 {
            return self.act(libc::POLLOUT);
        }
        self.hold_back(true);
        let alive = self.act(libc::POLLOUT);
        self.hold_back(false);
        alive
    }

    fn act(&mut self, events: i16) -> bool {
        // SAFETY: the context is valid; callbacks write to `finished`, which nobody borrows now.
        unsafe { ffi::iscsi_service(self.context, c_int::from(events)) == 0 }
    }

    /// TCP_CORK of tcp(7). If the kernel does not heed it, more segments are sent, that is all.
    fn hold_back(&self, held: bool) {
        let (fd, _) = self.poll();
        let held = c_int::from(held);
        let (level, option, size) = (libc::IPPROTO_TCP, libc::TCP_CORK, size_of::<c_int>());
        // SAFETY: pointer and size belong to one number.
        unsafe {
            libc::setsockopt(fd, level, option, (&raw const held).cast(), size as libc::socklen_t)
        };
    }

    /// Carries out one command, and returns its data. No other may be under way. Unit attentions
    /// are heard, and the command sent again (SAM-5 5.14: each is reported once).
    pub fn command(&mut self, cdb: Cdb, data: Data) -> Result<Vec<u8>, SessionError> {
        let mut finished = self.command_once(cdb, data)?;
        for _ in 0..UNIT_ATTENTIONS_MAX {
            if !finished.is_news() {
                break;
            }
            finished = self.command_once(cdb, finished.data)?;
        }
        finished.result?;
        Ok(match finished.data {
            Data::None => Vec::new(),
            Data::In(bytes) | Data::Out(bytes) => bytes,
        })
    }

    fn command_once(&mut self, cdb: Cdb, data: Data) -> Result<Finished, SessionError> {
        self.submit(0, cdb, data)?;
        loop {
            if let Some(finished) = self.wait()?.pop() {
                return Ok(finished);
            }
        }
    }

    /// Waits until something happens, for a moment at most; aborts what was not answered in time.
    ///
    /// # Errors
    /// [`SessionError::Lost`] when the connection is gone, or the target silent.
    pub fn wait(&mut self) -> Result<Vec<Finished>, SessionError> {
        let (fd, events) = self.poll();
        let mut polled = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: one valid structure.
        unsafe { libc::poll(&raw mut polled, 1, milliseconds(times().tick())) };
        let mut finished = match polled.revents {
            0 => Vec::new(),
            events => self.service(events)?,
        };
        finished.append(&mut self.tick(Instant::now())?);
        Ok(finished)
    }

    /// Bytes sent and received on the socket, as the kernel counts them.
    pub fn wire_bytes(&self) -> (u64, u64) {
        let (fd, _) = self.poll();
        // SAFETY: an all-zero structure is valid, and the kernel writes at most its length.
        unsafe {
            let mut info: libc::tcp_info = std::mem::zeroed();
            let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
            let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
            libc::getsockopt(fd, level, option, (&raw mut info).cast(), &raw mut length);
            // tcpi_bytes_acked and tcpi_bytes_received follow at bytes 120 and 128 (linux/tcp.h).
            let mut raw = [0_u8; 136];
            let mut length = raw.len() as libc::socklen_t;
            libc::getsockopt(fd, level, option, raw.as_mut_ptr().cast(), &raw mut length);
            let at = |offset: usize| {
                u64::from_ne_bytes(raw[offset..offset + 8].try_into().expect("8 bytes"))
            };
            (at(120), at(128))
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.context.is_null() {
            return;
        }
        let mut answer = None::<c_int>;
        if self.under_way.is_empty() {
            // SAFETY: the context is valid; the answer lives until the context is destroyed.
            let begun =
                unsafe { ffi::iscsi_logout_async(self.context, noted, (&raw mut answer).cast()) };
            if begun == 0 {
                self.serve_until(&raw const answer, Instant::now() + times().logout);
            }
        }
        // Calls back, while `answer` and `finished` are still there.
        self.destroy();
    }
}

/// A login or logout came to its end.
extern "C" fn noted(_: *mut ffi::Context, status: c_int, _: *mut c_void, answer: *mut c_void) {
    // SAFETY: `answer` is what was lent, and lives until the context is destroyed.
    unsafe { *answer.cast::<Option<c_int>>() = Some(status) };
}

/// SPC-4 4.2.5.1: the length follows from the operation code's group.
fn cdb_length(opcode: u8) -> c_int {
    match opcode >> 5 {
        0 => 6,
        1 | 2 => 10,
        5 => 12,
        _ => 16,
    }
}

/// A command came to its end.
extern "C" fn ended(
    _: *mut ffi::Context,
    status: c_int,
    task: *mut c_void,
    private_data: *mut c_void,
) {
    // SAFETY: `private_data` is what `submit` lent, given back once; the task is valid until it is
    // freed here, and null if there is none.
    unsafe {
        let lent = Box::from_raw(private_data.cast::<Lent>());
        let task = task.cast::<ffi::Task>();
        let mut sense = (0, 0);
        if !task.is_null() {
            if status == ffi::STATUS_CHECK_CONDITION {
                sense = ((*task).sense.key, (*task).sense.ascq);
            }
            ffi::scsi_free_scsi_task(task);
        }
        let (opcode, (key, ascq)) = (lent.opcode, sense);
        let result = match status {
            0 => Ok(()),
            // SPC-4 4.5.6: RECOVERED ERROR says that the command was completed.
            ffi::STATUS_CHECK_CONDITION if key == RECOVERED_ERROR => Ok(()),
            status if status >= ffi::NO_STATUS => Err(SessionError::NoAnswer { opcode }),
            status => Err(SessionError::Command { opcode, status, key, ascq }),
        };
        let told = (key == RECOVERED_ERROR).then_some(ascq);
        let (serial, tag, data, submitted) = (lent.serial, lent.tag, lent.data, lent.submitted);
        (*lent.finished).push(Finished { serial, tag, result, data, submitted, told });
    }
}
