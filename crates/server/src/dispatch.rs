//! Fair queueing of requests before the engines. A long command comes as requests of at most one
//! megabyte each; here the requests of all hosts take turns, pool by pool. Each costs what it moves
//! in every pool where it works, so a copy between pools pays in both. One turn of the reactor's
//! loop takes a bounded number of them to the engines.
//!
//! Requests that cost little pass at once; their commands have waited for a turn before.

use std::time::Instant;

use block::{BLOCK, MAPPED_BYTES_PER_BYTE, Request, VolumeId};

use crate::limits::{
    COMMAND_COST, LANE_BYTES_MAX, LANE_COMMANDS_MAX, SMALL_REQUEST_BYTES, TURN_BYTES, TURN_TIME,
};
use crate::scheduler::{Bounds, HostNumber, Scheduler, Turn};
use crate::work::{CommandId, RequestId, SessionId};

/// A request on its way to a pool.
pub(crate) type Asked = (RequestId, VolumeId, Request);

/// The requests that wait, and what this turn of the loop may still take.
pub(crate) struct Dispatch {
    queue: Scheduler<Asked>,
    bytes_left: u64,
    until: Option<Instant>,
}

impl Dispatch {
    pub(crate) fn new() -> Self {
        let bounds = Bounds { commands: LANE_COMMANDS_MAX, bytes: LANE_BYTES_MAX };
        Self { queue: Scheduler::new(bounds), bytes_left: TURN_BYTES, until: None }
    }

    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.bytes_left = TURN_BYTES;
        self.until = Some(now + TURN_TIME);
    }

    /// Whether a request need not wait.
    pub(crate) fn passes(request: &Request) -> bool {
        cost(request) < SMALL_REQUEST_BYTES
    }

    /// A host has so many shares from now on, also of what waits.
    pub(crate) fn set_share(&mut self, host: HostNumber, share: u8) {
        self.queue.set_share(host, share);
    }

    /// Queues a request of a host for a pool.
    pub(crate) fn push(
        &mut self,
        pool: usize,
        (host, session): (HostNumber, SessionId),
        asked: Asked,
    ) {
        let command = CommandId(asked.0.0);
        let bytes = cost(&asked.2);
        self.queue.push(Turn { lane: Some(pool), host, session, command, bytes }, asked);
    }

    /// The next request of this turn, with what it costs; `None` if the turn is over or nothing may
    /// go.
    pub(crate) fn next(&mut self) -> Option<Asked> {
        if self.bytes_left == 0 {
            return None;
        }
        let asked = self.queue.start_next()?;
        self.bytes_left = self.bytes_left.saturating_sub(cost(&asked.2).max(1));
        if self.until.is_some_and(|until| Instant::now() >= until) {
            self.bytes_left = 0;
        }
        Some(asked)
    }

    /// The engine answered a request; does nothing for one that passed.
    pub(crate) fn finished(&mut self, id: RequestId) {
        self.queue.finished(CommandId(id.0));
    }

    /// Takes out the requests that wait and that nobody waits for any more: their commands were
    /// aborted (SAM-5 7.2), or their sessions have ended. They cost nobody a turn.
    pub(crate) fn withdraw(&mut self, is_wanted: impl Fn(RequestId) -> bool) -> Vec<RequestId> {
        let withdrawn = self.queue.withdraw(|asked| !is_wanted(asked.0));
        withdrawn.into_iter().map(|asked| asked.0).collect()
    }

    /// Whether the next turn of the loop has something to do here.
    pub(crate) fn can_start(&self) -> bool {
        self.queue.can_start()
    }
}

/// Cost of a request, in bytes read or written.
pub(crate) fn cost(request: &Request) -> u64 {
    let map = |bytes: u64| bytes / MAPPED_BYTES_PER_BYTE;
    match request {
        Request::Read { range } => range.length,
        Request::Write { data, .. } => data.len() as u64,
        Request::CompareAndWrite { compare, write, .. } => (compare.len() + write.len()) as u64,
        Request::WriteSame { range, pattern: block::Pattern::Zero } => map(range.length),
        Request::WriteSame { range, pattern: block::Pattern::Block(_) } => range.length,
        Request::Unmap { ranges } => {
            let bytes = ranges.iter().map(|range| range.length).sum();
            map(bytes) + ranges.len() as u64 * COMMAND_COST as u64
        }
        Request::Copy { source_offset, destination, length, .. } => {
            // Blocks that lie alike are copied by reference, others by reading and writing.
            let lies_alike = source_offset % BLOCK == destination % BLOCK;
            if lies_alike { map(*length) } else { 2 * length }
        }
        Request::MapStatus { range, .. } => map(range.length) / 64,
        Request::Flush => 0,
    }
}

#[cfg(test)]
mod tests {
    use block::{ByteRange, Pattern};
    use bytes::Bytes;

    use super::*;

    fn read(bytes: u64) -> Request {
        Request::Read { range: ByteRange::new(0, bytes) }
    }

    fn push(dispatch: &mut Dispatch, number: u64, host: u64, request: Request) {
        let asked = (RequestId(number), VolumeId(1), request);
        dispatch.push(0, (HostNumber(host), SessionId(host)), asked);
    }

    #[test]
    fn one_turn_takes_a_bounded_part_and_hosts_take_turns() {
        let mut dispatch = Dispatch::new();
        for number in 0..100 {
            push(&mut dispatch, number, 1, read(1 << 20));
        }
        push(&mut dispatch, 1000, 2, read(256 << 10));
        let turn: Vec<u64> =
            std::iter::from_fn(|| dispatch.next()).map(|asked| asked.0.0).collect();
        assert!(turn.len() as u64 <= TURN_BYTES / (1 << 20) + 1, "{turn:?}");
        assert!(turn[..2].contains(&1000), "{turn:?}");
        assert!(dispatch.can_start());
        dispatch.begin_turn(Instant::now());
        assert!(dispatch.next().is_some());
    }

    #[test]
    fn what_nobody_waits_for_is_withdrawn_and_costs_no_turn() {
        let mut dispatch = Dispatch::new();
        for number in 0..100 {
            push(&mut dispatch, number, number % 2, read(1 << 20));
        }
        let begun = dispatch.next().unwrap().0;
        // One that the engine has is not the queue's any more.
        let withdrawn = dispatch.withdraw(|id| id.0.is_multiple_of(3));
        assert_eq!(withdrawn.len(), 66);
        assert!(!withdrawn.contains(&begun) && withdrawn.iter().all(|id| id.0 % 3 > 0));
        let mut left = 0;
        while dispatch.can_start() {
            dispatch.begin_turn(Instant::now());
            let asked = dispatch.next().unwrap();
            assert!(asked.0.0.is_multiple_of(3));
            dispatch.finished(asked.0);
            left += 1;
        }
        assert_eq!(left, 33);
        assert!(dispatch.withdraw(|_| false).is_empty());
    }

    // A turn that has lost the processor for long still goes on.
    #[test]
    fn a_turn_whose_time_is_up_takes_one_request() {
        let mut dispatch = Dispatch::new();
        for number in 0..3 {
            push(&mut dispatch, number, 1, read(1 << 20));
        }
        let long_ago = Instant::now().checked_sub(2 * TURN_TIME).unwrap();
        dispatch.begin_turn(long_ago);
        assert_eq!(std::iter::from_fn(|| dispatch.next()).count(), 1);
    }

    #[test]
    fn a_request_costs_what_it_does() {
        let range = ByteRange::new(0, 32 << 20);
        let block = Pattern::Block(Bytes::from_static(&[7; 512]));
        let copy = |source_offset| Request::Copy {
            source: VolumeId(1),
            source_offset,
            destination: 0,
            length: 4 << 20,
        };
        assert_eq!(cost(&Request::WriteSame { range, pattern: block }), 32 << 20);
        assert_eq!(cost(&Request::WriteSame { range, pattern: Pattern::Zero }), 512 << 10);
        assert_eq!(cost(&copy(512)), 8 << 20);
        assert_eq!(cost(&copy(4096)), 64 << 10);
        let unmap = Request::Unmap { ranges: vec![ByteRange::new(0, 4096); 256] };
        assert!(!Dispatch::passes(&unmap));
        assert!(Dispatch::passes(&read(4096)));
    }
}
