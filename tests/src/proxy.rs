//! Fault-injecting TCP proxy: stands between an initiator and the target and does to the bytes what
//! networks do, and worse.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::pdu::HEADER_BYTES;

/// What happens once to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// All bytes come in pieces of so many.
    Split(usize),
    /// All bytes come late, in pieces.
    Delay(Duration),
    /// So many bytes from an offset on are lost.
    Drop(u64, usize),
    /// So many bytes from an offset on come twice.
    Duplicate(u64, usize),
    /// One byte is another.
    Corrupt(u64),
    /// The connection ends after so many bytes.
    Cut(u64),
    /// The connection ends in the first PDU with this opcode, after so many bytes of it. For
    /// connections without digests.
    CutInPdu(u8, usize),
    /// Something happens to the first PDU with this opcode. For connections with both digests.
    InPdu(u8, PduFault),
}

/// What happens to one PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduFault {
    /// It does not come.
    Lost,
    /// It comes twice.
    Repeated,
    /// A byte of its data is another.
    Damaged,
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToTarget,
    /// Responses.
    ToInitiator,
}

/// The network.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    plan: Arc<Mutex<(Direction, Fault)>>,
    stopped: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens on a free port and leads to the portal, without faults at first.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn start(portal: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let plan = Arc::new(Mutex::new((Direction::ToTarget, Fault::None)));
        let stopped = Arc::new(AtomicBool::new(false));
        let (shared, stop) = (plan.clone(), stopped.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // The portal may be gone; then so is the connection.
                let _ = connect(client, portal, &shared);
            }
        });
        Ok(Self { address, plan, stopped })
    }

    /// Where the initiator is to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection meets this fault; those after it none.
    pub fn plan(&self, direction: Direction, fault: Fault) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = (direction, fault);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the listener up; it may be gone already.
        let _ = TcpStream::connect(self.address);
    }
}

fn connect(client: TcpStream, portal: SocketAddr, plan: &Mutex<(Direction, Fault)>) -> Result<()> {
    let server = TcpStream::connect(portal)?;
    let nothing = (Direction::ToTarget, Fault::None);
    let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
    let (direction, fault) = std::mem::replace(&mut *plan, nothing);
    for (way, from, to) in
        [(Direction::ToTarget, &client, &server), (Direction::ToInitiator, &server, &client)]
    {
        let fault = if way == direction { fault } else { Fault::None };
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        to.set_nodelay(true)?;
        let (pdus, whole) = (Pdus::default(), WholePdus::default());
        thread::spawn(move || Pipe { from, to, fault, passed: 0, pdus, whole }.run());
    }
    Ok(())
}

/// One direction of one connection.
struct Pipe {
    from: TcpStream,
    to: TcpStream,
    fault: Fault,
    passed: u64,
    pdus: Pdus,
    whole: WholePdus,
}

impl Pipe {
    fn run(mut self) {
        let mut bytes = [0; 16 << 10];
        loop {
            match self.from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) if self.pass(&bytes[..count]).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        // Either end may be closed already.
        let _ = self.from.shutdown(Shutdown::Both);
        let _ = self.to.shutdown(Shutdown::Both);
    }

    /// Passes bytes on as the fault wants it; an error ends the connection.
    fn pass(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let start = self.passed;
        self.passed += bytes.len() as u64;
        // Where the offset lies in these bytes.
        let here =
            |at: u64| usize::try_from(at.checked_sub(start)?).ok().filter(|&at| at < bytes.len());
        match self.fault {
            Fault::None => self.to.write_all(bytes),
            Fault::Split(size) => bytes.chunks(size).try_for_each(|piece| self.to.write_all(piece)),
            Fault::Delay(time) => bytes.chunks(2000).try_for_each(|piece| {
                thread::sleep(time);
                self.to.write_all(piece)
            }),
            Fault::Drop(at, count) => match here(at) {
                Some(at) => {
                    self.to.write_all(&bytes[..at])?;
                    self.to.write_all(&bytes[bytes.len().min(at + count)..])
                }
                None => self.to.write_all(bytes),
            },
            Fault::Duplicate(at, count) => match here(at) {
                Some(at) => {
                    let end = bytes.len().min(at + count);
                    self.to.write_all(&bytes[..end])?;
                    self.to.write_all(&bytes[at..])
                }
                None => self.to.write_all(bytes),
            },
            Fault::Corrupt(at) => {
                let mut bytes = bytes.to_vec();
                if let Some(at) = here(at) {
                    bytes[at] ^= 0x20;
                }
                self.to.write_all(&bytes)
            }
            Fault::Cut(at) => self.cut(bytes, here(at)),
            Fault::CutInPdu(opcode, after) => {
                let at = self.pdus.find(bytes, opcode).map(|begin| begin + after as u64);
                if let Some(at) = at {
                    self.fault = Fault::Cut(at);
                    let here = usize::try_from(at - start).ok().filter(|&at| at < bytes.len());
                    return self.cut(bytes, here);
                }
                self.to.write_all(bytes)
            }
            Fault::InPdu(opcode, fault) => {
                self.whole.bytes.extend(bytes);
                while let Some(pdu) = self.whole.next() {
                    if pdu[0] & 0x3f == opcode {
                        self.fault = Fault::None;
                        self.pass_faulty(pdu, fault)?;
                        let rest = std::mem::take(&mut self.whole.bytes);
                        return self.to.write_all(&rest);
                    }
                    self.to.write_all(&pdu)?;
                }
                Ok(())
            }
        }
    }

    fn pass_faulty(&mut self, mut pdu: Vec<u8>, fault: PduFault) -> std::io::Result<()> {
        match fault {
            PduFault::Lost => Ok(()),
            PduFault::Repeated => self.to.write_all(&[&pdu[..], &pdu].concat()),
            PduFault::Damaged => {
                // Behind the header and its digest, if there is data.
                if let Some(byte) = pdu.get_mut(HEADER_BYTES + 4) {
                    *byte ^= 0x20;
                }
                self.to.write_all(&pdu)
            }
        }
    }

    fn cut(&mut self, bytes: &[u8], at: Option<usize>) -> std::io::Result<()> {
        match at {
            Some(at) => {
                self.to.write_all(&bytes[..at])?;
                Err(ErrorKind::ConnectionAborted.into())
            }
            None => self.to.write_all(bytes),
        }
    }
}

/// The PDUs of a stream that has digests but in login.
#[derive(Debug, Default)]
struct WholePdus {
    bytes: Vec<u8>,
}

impl WholePdus {
    /// The next PDU, once it is whole.
    fn next(&mut self) -> Option<Vec<u8>> {
        let header = self.bytes.get(..HEADER_BYTES)?;
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let is_login = matches!(header[0] & 0x3f, 0x03 | 0x23);
        let digests = match (is_login, length) {
            (true, _) => 0,
            (false, 0) => 4,
            (false, _) => 8,
        };
        let whole =
            HEADER_BYTES + usize::from(header[4]) * 4 + length.next_multiple_of(4) + digests;
        (self.bytes.len() >= whole).then(|| self.bytes.drain(..whole).collect())
    }
}

/// Where PDUs begin in a stream without digests.
#[derive(Debug, Default)]
struct Pdus {
    /// Bytes seen of the header under way.
    header: Vec<u8>,
    /// Bytes of the PDU still to come after its header.
    rest: usize,
    seen: u64,
}

impl Pdus {
    /// The offset in the stream of the first PDU with the opcode, if its header ends here.
    fn find(&mut self, bytes: &[u8], opcode: u8) -> Option<u64> {
        let mut found = None;
        for &byte in bytes {
            self.seen += 1;
            if self.rest > 0 {
                self.rest -= 1;
                continue;
            }
            self.header.push(byte);
            if self.header.len() < HEADER_BYTES {
                continue;
            }
            let header = std::mem::take(&mut self.header);
            if header[0] & 0x3f == opcode && found.is_none() {
                found = Some(self.seen - HEADER_BYTES as u64);
            }
            let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
            self.rest = usize::from(header[4]) * 4 + length.next_multiple_of(4);
        }
        found
    }
}
