//! Writes, flushes and reservations: to every member that counts, and done when each of them has it
//! or is left out of the durable membership list.

use block::{DeviceError, DeviceOperation, Rope};

use super::extent::Extent;
use super::member::{MemberNumber, MemberSet};
use super::port::{Port, Purpose, Token};
use super::{EIO, Mirror};

/// errno values by which a file system says that it has no space, or cannot set any aside: the
/// member is as good as before.
const NO_SPACE: [i32; 5] = [28, 122, 27, 95, 38];

/// An I/O of the logical device that all members take part in.
pub(super) struct Fan {
    token: Token,
    what: What,
    /// Members that it was submitted to.
    asked: MemberSet,
    /// Members that have not answered.
    waiting: MemberSet,
    /// Members that have it.
    done: MemberSet,
    /// Members that the list counts and that do not have it, or may not.
    missed: MemberSet,
    /// Those of them that are left out, or are resilvered anew, by the list on its way.
    covered: MemberSet,
    error: Option<DeviceError>,
}

enum What {
    /// Blocks are written.
    Write { extent: Extent },
    /// The same, and it waits for a copy of them that is being mended.
    Deferred { extent: Extent, data: Rope },
    /// A flush that waits for bits of the bitmap to be written first.
    Held,
    /// A flush; its number among those of the mirror.
    Flush { number: u64 },
    /// Space is set aside.
    Reserve { extent: Extent },
}

impl Mirror {
    /// Writes blocks.
    pub(super) fn write(&mut self, port: &mut Port, token: Token, extent: Extent, data: Rope) {
        self.note_overlap(extent);
        if self.is_healing(extent) {
            self.fans.insert(Fan::new(token, What::Deferred { extent, data }));
            return;
        }
        let fan = self.fans.insert(Fan::new(token, What::Write { extent }));
        self.send_write(port, fan, extent, &data);
    }

    fn send_write(&mut self, port: &mut Port, fan: usize, extent: Extent, data: &Rope) {
        self.write_begins(extent);
        let offset = extent.first.offset();
        self.send(port, fan, || DeviceOperation::Write { offset, data: data.clone() });
    }

    /// Makes everything stable that was written.
    pub(super) fn flush(&mut self, port: &mut Port, token: Token) {
        self.fans.insert(Fan::new(token, What::Held));
        self.release_flushes(port);
    }

    /// Sends the flushes that waited for bits of the bitmap, if those are written now.
    pub(super) fn release_flushes(&mut self, port: &mut Port) {
        let held = self.fans.iter().filter(|(_, fan)| matches!(fan.what, What::Held));
        let held: Vec<usize> = held.map(|(fan, _)| fan).collect();
        if held.is_empty() {
            return;
        }
        if let Some(error) = self.broken.clone() {
            for fan in held {
                let Fan { token, .. } = self.fans.remove(fan);
                port.end(token, Err(error.clone()));
            }
            return;
        }
        self.write_urgent_regions(port);
        if !self.dirty.is_written() {
            return;
        }
        for fan in held {
            if let Some(part) = self.fans.get_mut(fan).filter(|fan| matches!(fan.what, What::Held))
            {
                part.what = What::Flush { number: self.dirty.unflushed.flush_began() };
                self.send_flush(port, fan);
            }
        }
    }

    fn send_flush(&mut self, port: &mut Port, fan: usize) {
        self.send(port, fan, || DeviceOperation::Flush);
    }

    /// Sets space aside.
    pub(super) fn reserve(&mut self, port: &mut Port, token: Token, extent: Extent) {
        let fan = self.fans.insert(Fan::new(token, What::Reserve { extent }));
        self.send_reservation(port, fan, extent);
    }

    fn send_reservation(&mut self, port: &mut Port, fan: usize, extent: Extent) {
        self.reservation_begins(extent);
        let (offset, length) = (extent.first.offset(), extent.bytes());
        self.send(port, fan, || DeviceOperation::Reserve { offset, length });
    }

    /// Submits an I/O to all members that are there. Those that the durable list counts and that are
    /// not there lack it.
    fn send(&mut self, port: &mut Port, fan: usize, operation: impl Fn() -> DeviceOperation) {
        let members = self.written_to();
        let lacking = self.counted().without(members);
        let part = &mut self.fans[fan];
        (part.asked, part.waiting, part.error) = (members, members, None);
        (part.missed, part.covered) = (lacking, MemberSet::default());
        for member in members.iter() {
            self.submit(port, member, Purpose::Fan(fan), operation());
        }
        self.settle_fan(port, fan);
    }

    /// A member has done its part, or failed.
    pub(super) fn fan_part_ended(
        &mut self,
        port: &mut Port,
        fan: usize,
        member: MemberNumber,
        result: Result<(), DeviceError>,
    ) {
        let part = &mut self.fans[fan];
        part.waiting.remove(member);
        let is_current = self.members[member].is_readable();
        match result {
            Ok(()) => part.done.insert(member),
            Err(error) if part.is_reservation() && is_refusal(&error) && is_current => {
                part.error = Some(error);
            }
            // A copy that is not finished is given up rather than that hosts find no space for it.
            Err(error) if part.is_reservation() && is_refusal(&error) => {
                part.missed.insert(member);
                if has_no_room(&error) {
                    self.members[member].errors += 1;
                    self.give_up(port, member);
                }
            }
            Err(error) => {
                part.missed.insert(member);
                part.error.get_or_insert(error);
                self.members[member].errors += 1;
                self.give_up(port, member);
            }
        }
        self.settle_fan(port, fan);
    }

    /// A member that was given up will not do its part.
    pub(super) fn fan_part_lost(&mut self, fan: usize, member: MemberNumber) {
        let part = &mut self.fans[fan];
        part.waiting.remove(member);
        part.missed.insert(member);
    }

    /// Ends an I/O that needs nothing more.
    pub(super) fn settle_fan(&mut self, port: &mut Port, fan: usize) {
        let Some(part) = self.fans.get(fan) else { return };
        let is_held = matches!(part.what, What::Deferred { .. } | What::Held);
        if is_held || !part.waiting.is_empty() {
            return;
        }
        if self.is_for_those_that_joined(part) {
            return self.ask_again(port, fan);
        }
        let result = if part.done.and(self.readable()).is_empty() {
            Err(part.error.clone().unwrap_or(DeviceError::Os(EIO)))
        } else if part.is_reservation() {
            // It changes no content: a member that failed is left out, and nobody waits for that.
            part.error.clone().filter(is_refusal).map_or(Ok(()), Err)
        } else if part.missed.and(self.counted()).is_empty() {
            Ok(())
        } else if let Some(error) = &self.broken {
            Err(error.clone())
        } else {
            return;
        };
        let part = self.fans.remove(fan);
        match part.what {
            What::Write { extent } => self.write_ends(extent),
            What::Flush { number } if result.is_ok() => self.dirty.unflushed.flushed(number),
            What::Reserve { extent } => self.reservation_ends(extent),
            What::Flush { .. } | What::Deferred { .. } | What::Held => {}
        }
        port.end(part.token, result.map(|()| None));
    }

    /// Whether members take part that joined after it was submitted: in a flush if none is left of those
    /// that were asked. What was written before lies on the one that is current now, because the
    /// resilver copies nothing that is being written, and ends no earlier.
    fn is_for_those_that_joined(&self, part: &Fan) -> bool {
        let (current, counting) = (self.readable(), self.written_to());
        match part.what {
            What::Flush { .. } => {
                part.done.and(current).is_empty() && !current.without(part.asked).is_empty()
            }
            What::Reserve { .. } => {
                let is_refused = part.error.as_ref().is_some_and(is_refusal);
                !is_refused && !counting.without(part.asked).is_empty()
            }
            What::Write { .. } | What::Deferred { .. } | What::Held => false,
        }
    }

    /// Submits an I/O once more, to all members that are there now.
    fn ask_again(&mut self, port: &mut Port, fan: usize) {
        match self.fans[fan].what {
            What::Flush { .. } => self.send_flush(port, fan),
            What::Reserve { extent } => self.send_reservation(port, fan, extent),
            What::Write { .. } | What::Deferred { .. } | What::Held => {}
        }
    }

    /// A list is proposed. What members lack of I/O until now is no matter once it is durable: it leaves
    /// them out, or they joined again since and the bitmap before the list says what they lack.
    pub(super) fn cover_fans(&mut self) {
        self.fans.iter_mut().for_each(|(_, fan)| fan.covered = fan.missed);
    }

    /// The list that was proposed is durable. Says whether a member has failed and joined again
    /// meanwhile: then only the next list covers what it lacks.
    pub(super) fn excuse_fans(&mut self) -> bool {
        let (listed, counting) = (self.listed, self.written_to());
        let mut is_behind = false;
        for (_, fan) in &mut self.fans {
            fan.missed = fan.missed.without(fan.covered).and(listed);
            is_behind |= !fan.missed.and(counting).is_empty();
        }
        is_behind
    }

    /// Ends all I/O that needs nothing more.
    pub(super) fn settle_fans(&mut self, port: &mut Port) {
        let all: Vec<usize> = self.fans.iter().map(|(fan, _)| fan).collect();
        all.into_iter().for_each(|fan| self.settle_fan(port, fan));
    }

    /// Whether blocks are being written, or wait to be.
    pub(super) fn is_writing(&self, extent: Extent) -> bool {
        self.fans.iter().any(|(_, fan)| match &fan.what {
            What::Write { extent: other } | What::Deferred { extent: other, .. } => {
                other.overlaps(extent)
            }
            What::Flush { .. } | What::Held | What::Reserve { .. } => false,
        })
    }

    /// A copy was mended: writes that waited for that may go on.
    pub(super) fn resume_writes(&mut self, port: &mut Port) {
        let deferred = self.fans.iter().filter_map(|(fan, part)| match part.what {
            What::Deferred { extent, .. } if !self.is_healing(extent) => Some(fan),
            _ => None,
        });
        for fan in deferred.collect::<Vec<_>>() {
            let part = &mut self.fans[fan];
            let What::Deferred { extent, .. } = part.what else { continue };
            let what = std::mem::replace(&mut part.what, What::Write { extent });
            if let What::Deferred { data, .. } = what {
                self.send_write(port, fan, extent, &data);
            }
        }
    }
}

impl Fan {
    fn new(token: Token, what: What) -> Self {
        let none = MemberSet::default();
        Self {
            token,
            what,
            asked: none,
            waiting: none,
            done: none,
            missed: none,
            covered: none,
            error: None,
        }
    }

    /// The blocks of a write that is under way.
    pub(super) fn written(&self) -> Option<Extent> {
        match self.what {
            What::Write { extent } => Some(extent),
            What::Deferred { .. } | What::Held | What::Flush { .. } | What::Reserve { .. } => None,
        }
    }

    /// The first block of space that is being set aside.
    pub(super) fn reserved(&self) -> Option<Extent> {
        match self.what {
            What::Reserve { extent } => Some(extent.split(1).0),
            What::Write { .. } | What::Deferred { .. } | What::Held | What::Flush { .. } => None,
        }
    }

    fn is_reservation(&self) -> bool {
        matches!(self.what, What::Reserve { .. })
    }
}

/// Whether a member has less space than the others.
/// Errors: no space left, beyond a quota, file too large; the device is shorter.
fn has_no_room(error: &DeviceError) -> bool {
    match error {
        DeviceError::Os(errno) => [28, 122, 27].contains(errno),
        DeviceError::BeyondEnd { .. } => true,
        DeviceError::Fenced => false,
    }
}

/// Whether a member refused a reservation that it understood.
fn is_refusal(error: &DeviceError) -> bool {
    match error {
        DeviceError::Os(errno) => NO_SPACE.contains(errno),
        DeviceError::BeyondEnd { .. } => true,
        DeviceError::Fenced => false,
    }
}
