//! The bare wire, as a yardstick: requests of 48 bytes, answered with 48 + 4,096.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::initiator::raw::BlockFigures;

const REQUEST: usize = 48;
const ANSWER: usize = 48 + 4096;
const LISTENER: Token = Token(usize::MAX);

struct Peer {
    socket: TcpStream,
    /// Bytes of the next request that have arrived.
    partial: usize,
    /// Bytes of answers that wait to be sent.
    owed: usize,
}

/// Answers until it is killed.
pub fn serve(address: SocketAddr) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(address)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(256);
    let mut peers: Vec<Option<Peer>> = Vec::new();
    let answer = vec![0x77; 64 * ANSWER];
    let mut request = vec![0; 64 << 10];
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut socket, _)) = listener.accept() {
                    socket.set_nodelay(true)?;
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut socket, Token(peers.len()), interest)?;
                    peers.push(Some(Peer { socket, partial: 0, owed: 0 }));
                }
            } else if let Some(slot) = peers.get_mut(event.token().0)
                && let Some(peer) = slot
                && peer.serve(&mut request, &answer).is_err()
            {
                *slot = None;
            }
        }
    }
}

impl Peer {
    fn serve(&mut self, request: &mut [u8], answer: &[u8]) -> io::Result<()> {
        loop {
            let count = match self.socket.read(request) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.partial += count;
            self.owed += self.partial / REQUEST * ANSWER;
            self.partial %= REQUEST;
            while self.owed > 0 {
                match self.socket.write(&answer[..self.owed.min(answer.len())]) {
                    Ok(sent) => self.owed -= sent,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            if count < request.len() {
                return Ok(());
            }
        }
    }
}

/// Sends requests, `depth` outstanding over `connections`, and counts answers.
pub fn run(
    address: SocketAddr,
    connections: usize,
    depth: usize,
    duration: Duration,
) -> Result<BlockFigures> {
    let mut sockets = Vec::new();
    for _ in 0..connections {
        let socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        sockets.push(socket);
    }
    let per_connection = (depth / connections).max(1);
    let started = Instant::now();
    let mut received = vec![0; 256 << 10];
    let mut partial = vec![0; connections];
    let mut operations = 0;
    for socket in &mut sockets {
        socket.write_all(&vec![0; per_connection * REQUEST])?;
    }
    while started.elapsed() < duration {
        for (socket, partial) in sockets.iter_mut().zip(&mut partial) {
            *partial += socket.read(&mut received)?;
            let answers = *partial / ANSWER;
            *partial %= ANSWER;
            operations += answers as u64;
            socket.write_all(&vec![0; answers * REQUEST])?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(BlockFigures { operations, seconds, per_second: operations as f64 / seconds })
}
