//! The bare wire, as a yardstick: requests of 48 bytes, answered with 48 bytes and data.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::initiator::lean::Sends;
use crate::initiator::raw::BlockFigures;

const REQUEST: usize = 48;
const HEADER: usize = 48;

/// Bytes of answers that are written with one system call at most, or one answer.
const WRITE_BYTES: usize = 256 << 10;

/// The largest answer, bytes of data.
const DATA_MAX: usize = 1 << 22;
const LISTENER: Token = Token(usize::MAX);

struct Peer {
    socket: TcpStream,
    /// Bytes of the next request that have arrived.
    partial: usize,
    /// Bytes of answers that wait to be sent.
    owed: usize,
}

/// Answers until it is killed, each request with a header and so many bytes of data.
///
/// # Errors
/// When nobody can listen there.
pub fn serve(address: SocketAddr, bytes: usize) -> Result<()> {
    ensure!(bytes <= DATA_MAX, "answers of {DATA_MAX} bytes at most");
    let answer = HEADER + bytes;
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(address)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(256);
    let mut peers: Vec<Option<Peer>> = Vec::new();
    let answers = vec![0x77; WRITE_BYTES.max(answer)];
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
                && peer.serve(&mut request, answer, &answers).is_err()
            {
                *slot = None;
            }
        }
    }
}

impl Peer {
    fn serve(&mut self, request: &mut [u8], answer: usize, answers: &[u8]) -> io::Result<()> {
        loop {
            let count = match self.socket.read(request) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.partial += count;
            self.owed += self.partial / REQUEST * answer;
            self.partial %= REQUEST;
            while self.owed > 0 {
                match self.socket.write(&answers[..self.owed.min(answers.len())]) {
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

/// A load on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Where the server is.
    pub address: SocketAddr,
    /// Connections, at least 1.
    pub connections: usize,
    /// Requests outstanding over all connections.
    pub depth: usize,
    /// Bytes of data of each answer; as the server was told.
    pub bytes: usize,
    /// How long.
    pub duration: Duration,
    /// How requests are sent.
    pub sends: Sends,
}

/// Sends requests and counts answers.
///
/// # Errors
/// When there is no server, or it ends a connection.
pub fn run(load: &Load) -> Result<BlockFigures> {
    ensure!(load.connections > 0, "at least one connection");
    let mut sockets = Vec::new();
    for _ in 0..load.connections {
        let socket = std::net::TcpStream::connect(load.address)?;
        socket.set_nodelay(true)?;
        sockets.push(socket);
    }
    let answer = HEADER + load.bytes;
    let per_connection = (load.depth / load.connections).max(1);
    let started = Instant::now();
    let mut received = vec![0; 256 << 10];
    let mut partial = vec![0; load.connections];
    let mut operations = 0;
    for socket in &mut sockets {
        request(socket, per_connection, load.sends)?;
    }
    while started.elapsed() < load.duration {
        for (socket, partial) in sockets.iter_mut().zip(&mut partial) {
            let count = socket.read(&mut received)?;
            ensure!(count > 0, "the server closed the connection");
            *partial += count;
            let answers = *partial / answer;
            *partial %= answer;
            operations += answers as u64;
            request(socket, answers, load.sends)?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(BlockFigures { operations, seconds, per_second: operations as f64 / seconds })
}

fn request(socket: &mut std::net::TcpStream, count: usize, sends: Sends) -> io::Result<()> {
    match sends {
        Sends::Each => (0..count).try_for_each(|_| socket.write_all(&[0; REQUEST])),
        Sends::Together => socket.write_all(&vec![0; count * REQUEST]),
    }
}
