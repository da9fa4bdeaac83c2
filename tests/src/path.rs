//! Network path to an array (a TCP relay) that a test can cut, or make silent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// How long the array may take to accept a connection.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);

/// Forwards connections; when it is cut, they end, and new ones are refused. While it is severed, they end, too,
/// and new ones end at once. When it is silent, they stay, and nothing comes through in either direction.
#[derive(Debug)]
pub struct Path {
    address: SocketAddr,
    streams: Arc<Mutex<Option<Vec<TcpStream>>>>,
    is_severed: Arc<AtomicBool>,
    /// Bytes that come through until it is silent.
    budget: Arc<AtomicI64>,
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
        let budget = Arc::new(AtomicI64::new(i64::MAX));
        let is_severed = Arc::<AtomicBool>::default();
        let (shared, left) = (Arc::clone(&streams), Arc::clone(&budget));
        let refuses = Arc::clone(&is_severed);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.lock().expect("nobody panics").is_none() {
                    return;
                }
                if refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let (shared, left) = (Arc::clone(&shared), Arc::clone(&left));
                let refuses = Arc::clone(&refuses);
                // One that reaches nobody holds up no other.
                thread::spawn(move || {
                    let Ok(server) = TcpStream::connect_timeout(&target, CONNECTED_WITHIN) else {
                        return;
                    };
                    let mut open = shared.lock().expect("nobody panics");
                    let Some(open) = open.as_mut().filter(|_| !refuses.load(Ordering::SeqCst))
                    else {
                        return;
                    };
                    for (from, to) in [(&client, &server), (&server, &client)] {
                        if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
                            let left = Arc::clone(&left);
                            thread::spawn(move || forward(from, to, &left));
                        }
                    }
                    open.extend([client, server]);
                });
            }
        });
        Ok(Self { address, streams, is_severed, budget })
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

    /// Ends every connection, and new ones at once, until it is mended.
    pub fn sever(&self) {
        let mut streams = self.streams.lock().expect("nobody panics");
        self.is_severed.store(true, Ordering::SeqCst);
        for stream in streams.iter_mut().flat_map(|streams| streams.drain(..)) {
            // One that has ended already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.is_severed.store(false, Ordering::SeqCst);
    }

    /// Lets so many bytes through, both ways together, and then nothing.
    pub fn silence_after(&self, bytes: u32) {
        self.budget.store(bytes.into(), Ordering::SeqCst);
    }

    /// Lets everything through again, what was held back first.
    pub fn speak(&self) {
        self.budget.store(i64::MAX, Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, budget: &AtomicI64) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let cost = i64::try_from(length).unwrap_or(i64::MAX);
        loop {
            let left = budget.load(Ordering::SeqCst);
            if left >= cost {
                break;
            }
            // What is smaller does not get through either, unless somebody spoke meanwhile.
            let _ = budget.compare_exchange(left, 0, Ordering::SeqCst, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
        }
        budget.fetch_sub(cost, Ordering::SeqCst);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
