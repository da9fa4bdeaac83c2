//! ROD tokens (SPC-4 5.17.6): data at a point in time, named by something that cannot be guessed.
//!
//! The data rests, by reference, in a hidden volume of its pool that the owner provides: making a
//! token copies there, using it copies from there, and when it ends that part is unmapped.

mod emit;

use std::collections::BTreeMap;
use std::time::Duration;

use block::{BLOCK, ByteRange, VolumeId};

pub(crate) use emit::{MANAGEMENT_BYTES, TOKEN_BYTES, Verifier};

use crate::completion::Completion;
use crate::limits::{TOKENS_MAX, TOKENS_PER_HOST_MAX, ZERO_SLICE_BYTES};
use crate::sense::{self, Sense};

/// A volume that no host sees, where the data of tokens rests. It is all zeros at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RodTokenSpace {
    /// The volume, in the same pool as those whose data rests there.
    pub volume: VolumeId,
    /// Its size.
    pub size_bytes: u64,
}

/// COPY MANAGER ROD TOKEN IDENTIFIER.
pub(crate) type RodTokenNumber = u64;

/// What a command does with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RodTokenUse {
    /// It makes it.
    Populates(RodTokenNumber),
    /// It reads from it.
    Reads(RodTokenNumber),
    /// The same, and then ends it (DEL_TKN).
    Consumes(RodTokenNumber),
}

impl RodTokenUse {
    fn number(self) -> RodTokenNumber {
        match self {
            Self::Populates(number) | Self::Reads(number) | Self::Consumes(number) => number,
        }
    }
}

/// A token.
#[derive(Debug)]
pub(crate) struct RodToken {
    /// The host that made it.
    host: String,
    /// The volume that it was made from.
    creator: VolumeId,
    space: VolumeId,
    /// What it occupies there.
    region: ByteRange,
    /// Its data there, in order.
    parts: Vec<ByteRange>,
    timeout: Duration,
    last_used: Duration,
    /// Commands that make it or read from it.
    users: usize,
    state: State,
    /// All of it, as the initiator gets it.
    pub(crate) bytes: Box<[u8; TOKEN_BYTES]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its data is being copied.
    Populating,
    /// It can be used.
    Valid,
    /// It has ended; its data is unmapped up to this byte.
    Ended(u64),
}

/// What a token is made of.
pub(crate) struct RodTokenSpec {
    /// The host that makes it.
    pub(crate) host: String,
    pub(crate) creator: VolumeId,
    pub(crate) naa: [u8; 16],
    pub(crate) block_bytes: u32,
    pub(crate) timeout: Duration,
    /// Designation descriptor of the target device, up to 352 bytes.
    pub(crate) target_device: Vec<u8>,
}

/// Where the data of tokens of some volumes rests.
#[derive(Debug)]
struct Space {
    size_bytes: u64,
    /// What is occupied: first byte and length.
    used: BTreeMap<u64, u64>,
}

/// Every token.
#[derive(Debug, Default)]
pub(crate) struct RodTokens {
    verifier: Option<Verifier>,
    /// The space of each volume.
    space_of: BTreeMap<VolumeId, VolumeId>,
    spaces: BTreeMap<VolumeId, Space>,
    tokens: BTreeMap<RodTokenNumber, RodToken>,
    last: RodTokenNumber,
    now: Duration,
}

impl RodTokens {
    pub(crate) fn set_key(&mut self, key: [u8; 32]) {
        self.verifier = Some(Verifier::new(key));
    }

    pub(crate) fn set_space(&mut self, volume: VolumeId, space: RodTokenSpace) {
        self.space_of.insert(volume, space.volume);
        let empty = Space { size_bytes: space.size_bytes, used: BTreeMap::new() };
        self.spaces.entry(space.volume).or_insert(empty);
    }

    /// Ends the tokens of a volume that is removed, and forgets where they were.
    pub(crate) fn forget_volume(&mut self, volume: VolumeId) {
        self.end_all_of(volume);
        let Some(space) = self.space_of.remove(&volume) else { return };
        let is_used = self.space_of.values().any(|other| *other == space);
        if !is_used && self.tokens.values().all(|token| token.space != space) {
            self.spaces.remove(&space);
        }
    }

    /// Ends every token that was made from a volume, whose content must not be read any more.
    pub(crate) fn end_all_of(&mut self, volume: VolumeId) {
        let of_it = self.tokens.iter().filter(|(_, token)| token.creator == volume);
        let of_it: Vec<_> = of_it.map(|(number, _)| *number).collect();
        of_it.into_iter().for_each(|number| self.end(number));
    }

    /// Makes room for a token of these ranges; it is valid when they have been copied. Returns its
    /// number and, for each range, the first byte of its place.
    ///
    /// # Errors
    /// 0Bh/55h/0Ch if there are as many tokens as may be, of the host or of all, or no room.
    pub(crate) fn reserve(
        &mut self,
        spec: &RodTokenSpec,
        ranges: &[ByteRange],
    ) -> Result<(RodTokenNumber, VolumeId, Vec<u64>), Completion> {
        let refused = || Sense::from(sense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN);
        let verifier = self.verifier.as_ref().ok_or_else(refused)?;
        let space = *self.space_of.get(&spec.creator).ok_or_else(refused)?;
        let of_host = self.tokens.values().filter(|token| token.host == spec.host).count();
        if self.tokens.len() >= TOKENS_MAX || of_host >= TOKENS_PER_HOST_MAX {
            return Err(refused().into());
        }
        let length = ranges.iter().map(|range| footprint(*range)).sum();
        let found = self.spaces.get_mut(&space).and_then(|space| space.take(length));
        let start = found.ok_or_else(refused)?;
        let parts = place(start, ranges);
        let bytes = ranges.iter().map(|range| range.length).sum();
        self.last += 1;
        let token = RodToken {
            host: spec.host.clone(),
            creator: spec.creator,
            space,
            region: ByteRange::new(start, length),
            timeout: spec.timeout,
            last_used: self.now,
            users: 0,
            state: State::Populating,
            bytes: verifier.emit(self.last, spec, bytes),
            parts,
        };
        let places = token.parts.iter().map(|part| part.offset).collect();
        self.tokens.insert(self.last, token);
        Ok((self.last, space, places))
    }

    /// The data of a token has been copied.
    pub(crate) fn activate(&mut self, number: RodTokenNumber) {
        if let Some(token) = self.tokens.get_mut(&number)
            && token.state == State::Populating
        {
            token.state = State::Valid;
            token.last_used = self.now;
        }
    }

    /// A valid token, as an initiator presents it.
    ///
    /// # Errors
    /// 05h/23h with why it is none.
    pub(crate) fn find(&self, bytes: &[u8; TOKEN_BYTES]) -> Result<RodTokenNumber, Completion> {
        let verifier = self.verifier.as_ref();
        let unknown = || Sense::from(sense::INVALID_TOKEN_OPERATION_TOKEN_UNKNOWN);
        let number = verifier.ok_or_else(unknown)?.verify(bytes)?;
        let token = self.tokens.get(&number).filter(|token| token.is_valid(self.now));
        token.map(|_| number).ok_or_else(|| unknown().into())
    }

    /// The volume where the data of a token rests, and its parts there.
    pub(crate) fn data(&self, number: RodTokenNumber) -> Option<(VolumeId, &[ByteRange])> {
        self.tokens.get(&number).map(|token| (token.space, &token.parts[..]))
    }

    /// A token that can still be used.
    pub(crate) fn valid(&self, number: RodTokenNumber) -> Option<&RodToken> {
        self.tokens.get(&number).filter(|token| token.is_valid(self.now))
    }

    /// Every token of a host that can be used and was made from a volume that it sees.
    pub(crate) fn valid_of(
        &self,
        host: &str,
        sees: impl Fn(VolumeId) -> bool,
    ) -> impl Iterator<Item = &RodToken> {
        let valid = self.tokens.values().filter(|token| token.is_valid(self.now));
        valid.filter(move |token| token.host == host && sees(token.creator))
    }

    /// A command begins to use a token.
    pub(crate) fn begin(&mut self, use_of: RodTokenUse) {
        if let Some(token) = self.tokens.get_mut(&use_of.number()) {
            token.users += 1;
        }
    }

    /// A command has ended that used a token.
    pub(crate) fn finish(&mut self, use_of: RodTokenUse, succeeded: bool) {
        if let Some(token) = self.tokens.get_mut(&use_of.number()) {
            token.users -= 1;
            token.last_used = self.now;
        }
        match use_of {
            RodTokenUse::Populates(number) if succeeded => self.activate(number),
            RodTokenUse::Populates(number) | RodTokenUse::Consumes(number) => self.end(number),
            RodTokenUse::Reads(_) => {}
        }
    }

    fn end(&mut self, number: RodTokenNumber) {
        if let Some(token) = self.tokens.get_mut(&number)
            && !matches!(token.state, State::Ended(_))
        {
            token.state = State::Ended(token.region.offset);
        }
    }

    /// Ends tokens that nobody used for as long as they last. Returns what is to be unmapped now:
    /// the next part of each token that has ended and whose turn it is.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<(RodTokenNumber, VolumeId, ByteRange)> {
        self.now = now;
        let old = self.tokens.iter().filter(|(_, t)| t.state == State::Valid && !t.is_valid(now));
        let old: Vec<_> = old.map(|(number, _)| *number).collect();
        old.into_iter().for_each(|number| self.end(number));
        let ended = self.tokens.iter().filter(|(_, token)| token.may_begin_to_go());
        let begun: Vec<_> = ended.map(|(number, _)| *number).collect();
        begun.into_iter().filter_map(|number| self.next_part(number)).collect()
    }

    /// The next part of an ended token that is to be unmapped; if there is none, it is gone.
    pub(crate) fn next_part(
        &mut self,
        number: RodTokenNumber,
    ) -> Option<(RodTokenNumber, VolumeId, ByteRange)> {
        let token = self.tokens.get_mut(&number)?;
        let State::Ended(reached) = &mut token.state else { return None };
        let start = *reached;
        let length = ZERO_SLICE_BYTES.min(token.region.end() - start);
        if length == 0 {
            self.remove(number);
            return None;
        }
        *reached = start + length;
        Some((number, token.space, ByteRange::new(start, length)))
    }

    fn remove(&mut self, number: RodTokenNumber) {
        let token = self.tokens.remove(&number).expect("it has just been found");
        if let Some(space) = self.spaces.get_mut(&token.space) {
            space.used.remove(&token.region.offset);
        }
    }

    /// A part could not be unmapped, since the pool is gone or fails: its place is not used again.
    pub(crate) fn abandon(&mut self, number: RodTokenNumber) {
        self.tokens.remove(&number);
    }
}

impl RodToken {
    /// The volume that it was made from, whose identifier it tells.
    pub(crate) const fn creator(&self) -> VolumeId {
        self.creator
    }

    fn is_valid(&self, now: Duration) -> bool {
        let is_used = self.users > 0;
        self.state == State::Valid
            && (is_used || now.saturating_sub(self.last_used) <= self.timeout)
    }

    /// Whether it has ended, nobody uses it any more, and nothing of it was unmapped yet.
    fn may_begin_to_go(&self) -> bool {
        self.users == 0 && self.state == State::Ended(self.region.offset)
    }
}

impl Space {
    /// Takes a free part, the first that is long enough.
    fn take(&mut self, length: u64) -> Option<u64> {
        let mut start = 0;
        for (&used, &used_length) in &self.used {
            if used - start >= length {
                break;
            }
            start = used + used_length;
        }
        if length > self.size_bytes - start {
            return None;
        }
        if length > 0 {
            self.used.insert(start, length);
        }
        Some(start)
    }
}

/// Bytes that a range occupies, at the same place within a pool block as where it comes from: then
/// it is copied by reference.
fn footprint(range: ByteRange) -> u64 {
    (range.offset % BLOCK + range.length).next_multiple_of(BLOCK)
}

fn place(mut start: u64, ranges: &[ByteRange]) -> Vec<ByteRange> {
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        parts.push(ByteRange::new(start + range.offset % BLOCK, range.length));
        start += footprint(*range);
    }
    parts
}

#[cfg(test)]
mod tests;
