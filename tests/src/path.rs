//! Network path to an array (a TCP relay) that a test can cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::Result;

/// Forwards connections; when it is cut, they end, and new ones are refused.
#[derive(Debug)]
pub struct Path {
    address: SocketAddr,
    streams: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Path {
    /// Listens on a free port.
    ///
    /// # Errors
    /// When there is none.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let streams = Arc::new(Mutex::new(Some(Vec::new())));
        let shared = Arc::clone(&streams);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut open = shared.lock().expect("nobody panics");
                let Some(open) = open.as_mut() else { return };
                let Ok(server) = TcpStream::connect(target) else { return };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
                        thread::spawn(move || forward(from, to));
                    }
                }
                open.extend([client, server]);
            }
        });
        Ok(Self { address, streams })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every connection, for good.
    pub fn cut(&self) {
        let streams = self.streams.lock().expect("nobody panics").take();
        for stream in streams.into_iter().flatten() {
            // One that has ended already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then goes.
        let _ = TcpStream::connect(self.address);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
