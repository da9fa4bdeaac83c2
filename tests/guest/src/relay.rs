//! A stretch of network that a test can break: a TCP relay on the loopback interface.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;

/// A relay to one address.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    line: Arc<Mutex<Line>>,
}

#[derive(Debug, Default)]
struct Line {
    is_cut: bool,
    is_over: bool,
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
        let line = Arc::new(Mutex::new(Line::default()));
        let shared = Arc::clone(&line);
        thread::spawn(move || accept(&listener, destination, &shared));
        Ok(Self { address, line })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks every connection, and each new one.
    pub fn cut(&self) {
        let mut line = lock(&self.line);
        line.is_cut = true;
        line.close_all();
    }

    /// Lets new connections through again.
    pub fn mend(&self) {
        lock(&self.line).is_cut = false;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut line = lock(&self.line);
        line.is_over = true;
        line.close_all();
        drop(line);
        // The listener waits in accept(); this wakes it.
        let _ = TcpStream::connect(self.address);
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

/// A thread that panicked left the list of streams whole.
fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, destination: SocketAddr, line: &Mutex<Line>) {
    while let Ok((near, _)) = listener.accept() {
        let mut line = lock(line);
        if line.is_over {
            return;
        }
        if !line.is_cut {
            // A connection that cannot be relayed is closed, as on a broken line.
            let _ = connect(near, destination, &mut line);
        }
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
