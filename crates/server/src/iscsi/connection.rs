//! One TCP connection: its socket, and the iSCSI state machine that consumes and produces its
//! bytes.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use hashbrown::HashMap;
use mio::net::TcpStream;
use scsi::NexusId;

use super::refusals::Reason;
use crate::limits::{
    RATE_INTERVAL, RECEIVE_BUDGET, SEND_BUDGET, SEND_QUEUE_BYTES_MAX, UNSENT_BYTES_MAX,
};
use crate::scheduler::HostNumber;

/// Pieces handed to the kernel in one system call; the kernel's own limit is 1,024.
const SEND_PIECES_MAX: usize = 256;

/// A connection and what the reactor knows of it.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) address: SocketAddr,
    /// The portal that it came to.
    pub(crate) portal: SocketAddr,
    /// Distinguishes this connection from an earlier one in the same slot.
    pub(crate) serial: u32,
    pub(crate) iscsi: iscsi::Connection,
    /// Set from login to full-feature phase on.
    pub(crate) nexus: Option<NexusId>,
    /// Whose share of the pools its commands are taken from.
    pub(crate) host: HostNumber,
    /// Write commands whose data is still arriving, by initiator task tag.
    pub(crate) collecting: HashMap<u32, scsi::Command>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Commands answered.
    pub(crate) commands: u64,
    /// How fast it went during the last [`RATE_INTERVAL`].
    pub(crate) rates: api::Rates,
    /// When that began, and the counters at that time: commands, received, sent.
    measured: (Duration, [u64; 3]),
    /// Whether its session has, or had, other connections.
    pub(crate) shares_session: bool,
    /// Scope of its end: what else ends when it has closed.
    pub(crate) ending: Ending,
    /// Why its login was refused, where the status that was sent says less.
    pub(crate) refusal: Option<Reason>,
    /// The socket may hold bytes that were not read.
    readable: bool,
    /// The peer sends no more: behind its last bytes the end waits to be read, and no event will tell
    /// of it again.
    at_end: bool,
    /// The socket took all bytes that it was given.
    writable: bool,
}

/// Scope of a connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By the error recovery level.
    Failure,
    /// Nothing else: it was logged out.
    Connection,
    /// Its session was logged out.
    Session,
}

/// Why reading or writing came to an end for now.
pub(crate) enum Pause {
    /// The socket has no more, or takes no more; an event will tell.
    WouldBlock,
    /// The connection is of no more use.
    Closed(io::Error),
}

impl Connection {
    pub(crate) fn new(
        socket: TcpStream,
        address: SocketAddr,
        portal: SocketAddr,
        serial: u32,
        iscsi: iscsi::Connection,
    ) -> Self {
        Self {
            socket,
            address,
            portal,
            serial,
            iscsi,
            nexus: None,
            host: HostNumber(0),
            collecting: HashMap::new(),
            received: 0,
            sent: 0,
            commands: 0,
            rates: api::Rates::default(),
            measured: (Duration::ZERO, [0; 3]),
            shares_session: false,
            ending: Ending::Failure,
            refusal: None,
            readable: true,
            at_end: false,
            writable: true,
        }
    }

    /// Reads once into the place that the state machine names.
    pub(crate) fn receive(&mut self) -> Result<usize, Pause> {
        let target = self.iscsi.receive_target();
        let room = target.len();
        let received = match self.socket.read(target) {
            Ok(0) => return Err(Pause::Closed(io::ErrorKind::UnexpectedEof.into())),
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Err(Pause::WouldBlock);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(Pause::Closed(error)),
        };
        // epoll(7): on a stream socket, a short read means that nothing is left; the next bytes
        // raise a new event. Not so of the end of the stream, if the last event told of both.
        self.readable = received == room || self.at_end;
        self.received += received as u64;
        self.iscsi.received(received);
        Ok(received)
    }

    /// Works out the rates, once in a while.
    pub(crate) fn measure(&mut self, now: Duration) {
        let (since, before) = self.measured;
        let elapsed = now.saturating_sub(since);
        if elapsed < RATE_INTERVAL {
            return;
        }
        let counters = [self.commands, self.received, self.sent];
        let rate = |index: usize| {
            ((counters[index] - before[index]) as f64 / elapsed.as_secs_f64()).round() as u64
        };
        self.rates = api::Rates { commands: rate(0), bytes_received: rate(1), bytes_sent: rate(2) };
        self.measured = (now, counters);
    }

    /// Whether more may be read now: there is something, and answers do not pile up, nor does what
    /// the host holds.
    pub(crate) fn may_receive(&self, read_this_turn: usize) -> bool {
        self.readable
            && read_this_turn < RECEIVE_BUDGET
            && self.iscsi.send_queue_bytes() < SEND_QUEUE_BYTES_MAX
            && !self.iscsi.should_rest()
    }

    /// An event told of bytes, or of the end of the stream behind them.
    pub(crate) fn became_readable(&mut self, at_end: bool) {
        self.readable = true;
        self.at_end |= at_end;
    }

    pub(crate) fn became_writable(&mut self) {
        self.writable = true;
    }

    /// Whether the socket takes more of what waits to be sent.
    pub(crate) fn may_send(&self) -> bool {
        self.writable && self.iscsi.wants_to_send()
    }

    /// Writes what waits to be sent, as far as the socket takes it, [`SEND_BUDGET`] at most.
    pub(crate) fn send(&mut self) -> Result<(), Pause> {
        let mut left = SEND_BUDGET;
        while left > 0 && self.may_send() {
            let mut pieces: smallvec::SmallVec<[IoSlice<'_>; SEND_PIECES_MAX]> =
                smallvec::SmallVec::new();
            self.iscsi.next_send(&mut pieces, SEND_PIECES_MAX);
            let offered = cut(&mut pieces, left);
            match self.socket.write_vectored(&pieces) {
                Ok(sent) => {
                    drop(pieces);
                    self.writable = sent == offered;
                    self.sent += sent as u64;
                    self.iscsi.sent(sent);
                    left = left.saturating_sub(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Pause::Closed(error)),
            }
        }
        Ok(())
    }
}

/// Bounds what the kernel keeps for a peer that does not read, and for how long.
pub(crate) fn bound_sending(socket: &TcpStream, patience: Duration) -> io::Result<()> {
    let socket = socket2::SockRef::from(socket);
    // Bytes that the kernel has not sent stay with us, where their size and progress are known.
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    // tcp(7): a peer that acknowledges nothing, or has no room, for so long is gone.
    socket.set_tcp_user_timeout(Some(patience))
}

/// Leaves the first pieces, as many as have `bytes_max` bytes together, and that which goes beyond;
/// returns how many bytes they have.
fn cut(pieces: &mut smallvec::SmallVec<[IoSlice<'_>; SEND_PIECES_MAX]>, bytes_max: usize) -> usize {
    let mut offered = 0;
    let mut count = 0;
    while offered < bytes_max
        && let Some(piece) = pieces.get(count)
    {
        offered += piece.len();
        count += 1;
    }
    pieces.truncate(count);
    offered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_at_once_is_bounded() {
        let bytes = [7; 100];
        for (bytes_max, offered) in [(1, 100), (100, 100), (101, 200), (1000, 300)] {
            let pieces = [IoSlice::new(&bytes), IoSlice::new(&bytes), IoSlice::new(&bytes)];
            let mut pieces = pieces.into_iter().collect();
            assert_eq!(cut(&mut pieces, bytes_max), offered);
            assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), offered);
        }
    }
}
