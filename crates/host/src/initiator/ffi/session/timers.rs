//! Time-outs of a session: keepalive by NOP-Out, ABORT TASK for commands that are not answered,
//! LUN RESET where that is refused. libiscsi has time-outs of its own, but looks at them only when
//! something happens on the socket; a silent target would be waited for without end.

use std::ffi::{c_int, c_void};
use std::time::Instant;

use super::{Finished, Session, SessionError, TaskName};
use crate::initiator::ffi;
use crate::initiator::times::times;

/// RESPONSE of RFC 7143 11.6.1.
const FUNCTION_COMPLETE: u32 = 0;
const TASK_DOES_NOT_EXIST: u32 = 1;

/// Functions that a session sends in its life at most; then it is ended. Each keeps a place for
/// its answer until then.
const FUNCTIONS_MAX: usize = 100_000;

/// What a session waits for besides its commands.
#[derive(Default)]
pub(super) struct Timers {
    /// The command that was begun last.
    pub(super) last: Option<TaskName>,
    /// When something was received, or the first of the commands under way was sent.
    heard: Option<Instant>,
    /// When a NOP-Out was sent that nothing has followed yet.
    probed: Option<Instant>,
    /// Places for answers to task management, from `Box::into_raw`: libiscsi holds their addresses
    /// until the context is destroyed.
    answers: Vec<*mut Option<u32>>,
    /// Commands about which there is a function under way: serial number, function.
    aborts: Vec<(u64, usize)>,
    /// A LUN RESET under way, when it is given up, and the last command that was begun before it:
    /// those after it are carried out and answered.
    reset: Option<(usize, Instant, u64)>,
    /// What was done.
    pub(super) counts: TimerCounts,
}

/// Aborts and resets that a session sent because it was not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCounts {
    /// ABORT TASKs.
    pub aborts: u64,
    /// LUN RESETs.
    pub resets: u64,
}

impl Timers {
    /// Something was received, or there is something new to wait for.
    pub(super) fn heard(&mut self, now: Instant) {
        (self.heard, self.probed) = (Some(now), None);
    }

    /// RESPONSE to a task management function, once it is there.
    pub(super) fn answer(&self, function: usize) -> Option<u32> {
        let place = *self.answers.get(function)?;
        // SAFETY: the place lives as long as this; libiscsi writes to it only while it acts.
        unsafe { *place }
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        for place in self.answers.drain(..) {
            // SAFETY: made by Box::into_raw, and freed once. A session destroys its context, and
            // with that the address that was lent, before its fields are dropped.
            drop(unsafe { Box::from_raw(place) });
        }
    }
}

impl Session {
    /// Aborts and resets so far.
    pub fn timer_counts(&self) -> TimerCounts {
        self.timers.counts
    }

    /// Sends a task management function; returns its number. `None` if the session takes none.
    pub(super) fn manage(&mut self, function: c_int, name: TaskName) -> Option<usize> {
        if self.timers.answers.len() >= FUNCTIONS_MAX {
            return None;
        }
        let place = Box::into_raw(Box::new(None::<u32>));
        self.timers.answers.push(place);
        let (tag, number) = (name.initiator_task_tag, name.command_sequence_number);
        // SAFETY: context and callback are valid; the place lives until the context is destroyed.
        let accepted = unsafe {
            let (context, lun) = (self.context, self.lun);
            ffi::iscsi_task_mgmt_async(context, lun, function, tag, number, managed, place.cast())
        };
        (accepted == 0).then(|| self.timers.answers.len() - 1)
    }

    /// Does what is due: NOP-Out, ABORT TASK, LUN RESET. Returns the commands that ended by that.
    ///
    /// # Errors
    /// [`SessionError::Lost`] when the target is silent: the session is of no use any more.
    pub fn tick(&mut self, now: Instant) -> Result<Vec<Finished>, SessionError> {
        if self.under_way.is_empty() {
            self.timers.probed = None;
            return Ok(Vec::new());
        }
        self.keep_alive(now)?;
        self.abort_overdue(now)?;
        self.look_at_aborts(now)?;
        self.look_at_reset(now)?;
        Ok(self.drain())
    }

    fn keep_alive(&mut self, now: Instant) -> Result<(), SessionError> {
        if let Some(probed) = self.timers.probed {
            let silent = now.saturating_duration_since(probed) >= times().noop_timeout;
            return if silent { Err(SessionError::Lost) } else { Ok(()) };
        }
        let heard = *self.timers.heard.get_or_insert(now);
        if now.saturating_duration_since(heard) < times().noop_interval {
            return Ok(());
        }
        self.timers.probed = Some(now);
        let (no_data, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the context is valid; there is no data, and the callback looks at nothing: what
        // is received counts, whatever it is.
        let sent = unsafe { ffi::iscsi_nop_out_async(self.context, ignored, no_data, 0, nothing) };
        if sent == 0 { Ok(()) } else { Err(SessionError::Lost) }
    }

    fn abort_overdue(&mut self, now: Instant) -> Result<(), SessionError> {
        let overdue = self.under_way.iter().filter(|(_, begun)| now >= begun.deadline);
        let overdue: Vec<(u64, TaskName, bool)> =
            overdue.map(|(serial, begun)| (*serial, begun.name, begun.aborting)).collect();
        for (serial, name, aborting) in overdue {
            if aborting {
                // Neither the command nor its abort is answered.
                return Err(SessionError::Lost);
            }
            let function = self.manage(ffi::ABORT_TASK, name).ok_or(SessionError::Lost)?;
            self.timers.counts.aborts += 1;
            self.timers.aborts.push((serial, function));
            if let Some(begun) = self.under_way.get_mut(&serial) {
                (begun.aborting, begun.deadline) = (true, now + times().management);
            }
        }
        Ok(())
    }

    fn look_at_aborts(&mut self, now: Instant) -> Result<(), SessionError> {
        for (serial, function) in std::mem::take(&mut self.timers.aborts) {
            match self.timers.answer(function) {
                _ if !self.under_way.contains_key(&serial) => {}
                None => self.timers.aborts.push((serial, function)),
                Some(FUNCTION_COMPLETE | TASK_DOES_NOT_EXIST) => self.cancel(serial),
                Some(_) => self.reset(now)?,
            }
        }
        Ok(())
    }

    /// Sends LOGICAL UNIT RESET: what cannot be aborted goes with all other commands on the LUN.
    /// Those of this session end without an answer.
    ///
    /// # Errors
    /// [`SessionError::Lost`] when the session takes no more functions.
    pub fn reset(&mut self, now: Instant) -> Result<(), SessionError> {
        if self.timers.reset.is_some() {
            return Ok(());
        }
        let nothing = TaskName { initiator_task_tag: u32::MAX, command_sequence_number: 0 };
        let function = self.manage(ffi::LUN_RESET, nothing).ok_or(SessionError::Lost)?;
        self.timers.counts.resets += 1;
        let deadline = now + times().management;
        self.timers.reset = Some((function, deadline, self.serial));
        for begun in self.under_way.values_mut() {
            begun.deadline = begun.deadline.max(deadline);
        }
        Ok(())
    }

    fn look_at_reset(&mut self, now: Instant) -> Result<(), SessionError> {
        let Some((function, deadline, last)) = self.timers.reset else { return Ok(()) };
        match self.timers.answer(function) {
            Some(FUNCTION_COMPLETE) => {
                self.timers.reset = None;
                let serials: Vec<u64> =
                    self.under_way.range(..=last).map(|(serial, _)| *serial).collect();
                serials.into_iter().for_each(|serial| self.cancel(serial));
                Ok(())
            }
            None if now < deadline => Ok(()),
            None | Some(_) => Err(SessionError::Lost),
        }
    }
}

/// A task management function was answered.
extern "C" fn managed(
    _: *mut ffi::Context,
    status: c_int,
    response: *mut c_void,
    answer: *mut c_void,
) {
    // SAFETY: `answer` is a place of the session's timers, which lives until the context is
    // destroyed; the response is a number of 32 bits while libiscsi calls back with status 0.
    unsafe {
        let known = status == 0 && !response.is_null();
        let response = if known { *response.cast::<u32>() } else { u32::MAX };
        *answer.cast::<Option<u32>>() = Some(response);
    }
}

/// A NOP-Out was answered.
extern "C" fn ignored(_: *mut ffi::Context, _: c_int, _: *mut c_void, _: *mut c_void) {}
