//! A stretch of network that a test can break: a TCP relay on the loopback interface.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

/// A relay to one address.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    destination: SocketAddr,
    line: Arc<Mutex<Line>>,
    /// Takes connections, unless the line is cut.
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Line {
    is_cut: bool,
    streams: Vec<TcpStream>,
}

impl Relay {
    /// A relay that works.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn to(destination: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let relay = Self { address, destination, line: Arc::default(), acceptor: Mutex::default() };
        relay.listen(listener);
        Ok(relay)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks every connection, and refuses new ones until it is mended.
    ///
    /// To accept and then close them would be no picture of a broken line, and leaves open-iscsi's
    /// iscsid 2.1 now and then in TRANSPORT WAIT for ever.
    pub fn cut(&self) {
        let Some(acceptor) = lock(&self.acceptor).take() else { return };
        let mut line = lock(&self.line);
        line.is_cut = true;
        line.close_all();
        drop(line);
        // The thread waits in accept(); this wakes it, and with it the listener goes.
        let _ = TcpStream::connect(self.address);
        // A thread that panicked has no listener either.
        let _ = acceptor.join();
    }

    /// Lets new connections through again.
    ///
    /// # Errors
    /// When another program took the port meanwhile.
    pub fn mend(&self) -> Result<()> {
        let listener = TcpListener::bind(self.address).context("the relay's port")?;
        lock(&self.line).is_cut = false;
        self.listen(listener);
        Ok(())
    }

    fn listen(&self, listener: TcpListener) {
        let (destination, line) = (self.destination, Arc::clone(&self.line));
        let acceptor = thread::spawn(move || accept(&listener, destination, &line));
        *lock(&self.acceptor) = Some(acceptor);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
    }
}

impl Line {
    fn close_all(&mut self) {
        for stream in self.streams.drain(..) {
            // Fails if the other end was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A thread that panicked left whole what it had locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, destination: SocketAddr, line: &Mutex<Line>) {
    while let Ok((near, _)) = listener.accept() {
        let mut line = lock(line);
        if line.is_cut {
            return;
        }
        // A connection that cannot be relayed is closed.
        let _ = connect(near, destination, &mut line);
    }
}

fn connect(near: TcpStream, destination: SocketAddr, line: &mut Line) -> io::Result<()> {
    let far = TcpStream::connect(destination)?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
        line.streams.push(stream.try_clone()?);
    }
    let (near_too, far_too) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || pump(near, far));
    thread::spawn(move || pump(far_too, near_too));
    Ok(())
}

/// Copies until one side ends, and ends the other.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests;
