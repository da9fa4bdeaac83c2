//! Scripted iSCSI target with one LUN, for tests: it answers each command as a test's script says, or does not.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const BHS: usize = 48;

/// What becomes of a command.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// GOOD, with data.
    Good(Vec<u8>),
    /// Another status, with sense key, ASC and ASCQ if it is CHECK CONDITION.
    Status(u8, [u8; 3]),
    /// No answer.
    Silence,
    /// The connection ends.
    Close,
}

/// Decides what becomes of a command, by its CDB and its data; `None`: what a healthy LUN says.
type Script = Box<dyn FnMut(&[u8], &[u8]) -> Option<Reply> + Send>;

/// Bytes of a burst, as they are negotiated.
const BURST: usize = 262_144;

/// What the target was asked beside commands, and how it answers that.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Functions of task management.
    pub(super) functions: Vec<u8>,
    /// RESPONSE to the next functions; 0 when there is none left.
    pub(super) responses: Vec<u8>,
    /// Whether NOP-Outs are answered.
    pub(super) mute: bool,
    /// Logins.
    pub(super) logins: u32,
}

/// A target with one LUN.
pub(crate) struct Fake {
    pub(crate) url: String,
    pub(super) seen: Arc<Mutex<Seen>>,
}

impl Fake {
    /// Serves until the process ends.
    pub(super) fn start(mut script: impl FnMut(&[u8]) -> Option<Reply> + Send + 'static) -> Self {
        Self::with_data(move |cdb, _| script(cdb))
    }

    /// As [`Fake::start`], for a script that looks at what is written.
    pub(crate) fn with_data(
        script: impl FnMut(&[u8], &[u8]) -> Option<Reply> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("iscsi://{}/iqn.a:b/0", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (seen, script) = (Arc::clone(&shared), Arc::clone(&script));
                thread::spawn(move || serve(client, &seen, &script));
            }
        });
        Self { url, seen }
    }
}

struct Pdu {
    header: [u8; BHS],
    data: Vec<u8>,
}

fn receive(socket: &mut TcpStream) -> Option<Pdu> {
    let mut header = [0; BHS];
    socket.read_exact(&mut header).ok()?;
    let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
    let mut data = vec![0; usize::from(header[4]) * 4 + length.next_multiple_of(4)];
    socket.read_exact(&mut data).ok()?;
    data.truncate(length);
    Some(Pdu { header, data })
}

/// A session's numbers, and what came while the data of a command was waited for.
struct Numbers {
    status: u32,
    expected_command: u32,
    waiting: VecDeque<Pdu>,
}

impl Numbers {
    fn next(&mut self, socket: &mut TcpStream) -> Option<Pdu> {
        self.waiting.pop_front().or_else(|| receive(socket))
    }

    /// The next Data-Out of a command.
    fn data_out(&mut self, socket: &mut TcpStream, tag: &[u8]) -> Option<Pdu> {
        let is_it = |pdu: &Pdu| pdu.header[0] & 0x3f == 5 && pdu.header[16..20] == *tag;
        if let Some(at) = self.waiting.iter().position(is_it) {
            return self.waiting.remove(at);
        }
        loop {
            let pdu = receive(socket)?;
            if is_it(&pdu) {
                return Some(pdu);
            }
            self.waiting.push_back(pdu);
        }
    }

    /// All data of a command: what came with it, unsolicited, and by R2T.
    fn gather(&mut self, socket: &mut TcpStream, command: &Pdu) -> Option<Vec<u8>> {
        let [is_last, is_write] = [0x80, 0x20].map(|bit| command.header[1] & bit != 0);
        let tag = &command.header[16..20];
        let expected = u32::from_be_bytes(command.header[20..24].try_into().expect("4 bytes"));
        let mut data = command.data.clone();
        let (mut is_asked_for, mut asked) = (!is_last, 0_u32);
        while is_write && data.len() < expected as usize {
            if !is_asked_for {
                let length = (expected as usize - data.len()).min(BURST) as u32;
                let mut header = answer_to(command, 0x31);
                header[20..24].copy_from_slice(&1_u32.to_be_bytes());
                for (at, number) in [(36, asked), (40, data.len() as u32), (44, length)] {
                    header[at..at + 4].copy_from_slice(&number.to_be_bytes());
                }
                asked += 1;
                self.send(socket, header, &[]);
                // It has no status.
                self.status -= 1;
            }
            let part = self.data_out(socket, tag)?;
            is_asked_for = part.header[1] & 0x80 == 0;
            data.extend(part.data);
        }
        Some(data)
    }

    fn send(&mut self, socket: &mut TcpStream, mut header: [u8; BHS], data: &[u8]) {
        header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        header[24..28].copy_from_slice(&self.status.to_be_bytes());
        header[28..32].copy_from_slice(&self.expected_command.to_be_bytes());
        header[32..36].copy_from_slice(&(self.expected_command + 63).to_be_bytes());
        self.status += 1;
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        // The initiator may be gone.
        let _ = socket.write_all(&bytes);
    }
}

fn answer_to(request: &Pdu, opcode: u8) -> [u8; BHS] {
    let mut header = [0; BHS];
    (header[0], header[1]) = (opcode, 0x80);
    header[16..20].copy_from_slice(&request.header[16..20]);
    header
}

fn serve(mut socket: TcpStream, seen: &Mutex<Seen>, script: &Mutex<Script>) {
    let mut numbers = Numbers { status: 1, expected_command: 1, waiting: VecDeque::new() };
    while let Some(pdu) = numbers.next(&mut socket) {
        let number = u32::from_be_bytes(pdu.header[24..28].try_into().expect("4 bytes"));
        let is_immediate = pdu.header[0] & 0x40 != 0;
        if !is_immediate || pdu.header[0] & 0x3f == 3 {
            numbers.expected_command = number + u32::from(!is_immediate);
        }
        match pdu.header[0] & 0x3f {
            0x03 => log_in(&mut socket, &pdu, &mut numbers, seen),
            0x00 if seen.lock().expect("no panic").mute => {}
            0x00 if pdu.header[16..20] != [0xff; 4] => {
                let mut header = answer_to(&pdu, 0x20);
                header[20..24].fill(0xff);
                numbers.send(&mut socket, header, &[]);
            }
            0x02 => {
                let mut seen = seen.lock().expect("no panic");
                seen.functions.push(pdu.header[1] & 0x7f);
                let mut header = answer_to(&pdu, 0x22);
                header[2] = if seen.responses.is_empty() { 0 } else { seen.responses.remove(0) };
                numbers.send(&mut socket, header, &[]);
            }
            0x06 => {
                numbers.send(&mut socket, answer_to(&pdu, 0x26), &[]);
                return;
            }
            0x01 => {
                let Some(data) = numbers.gather(&mut socket, &pdu) else { return };
                let scripted = script.lock().expect("no panic")(&pdu.header[32..48], &data);
                match scripted.unwrap_or_else(|| healthy(&pdu.header[32..48])) {
                    Reply::Good(data) => good(&mut socket, &pdu, &mut numbers, &data),
                    Reply::Status(status, sense) => {
                        let mut header = answer_to(&pdu, 0x21);
                        header[3] = status;
                        let data = if status == 2 { fixed(sense) } else { Vec::new() };
                        numbers.send(&mut socket, header, &data);
                    }
                    Reply::Silence => {}
                    Reply::Close => {
                        let _ = socket.shutdown(Shutdown::Both);
                        return;
                    }
                }
            }
            _ => {}
        }
    }
}

fn log_in(socket: &mut TcpStream, pdu: &Pdu, numbers: &mut Numbers, seen: &Mutex<Seen>) {
    let mut header = answer_to(pdu, 0x23);
    header[1] = pdu.header[1];
    header[8..14].copy_from_slice(&pdu.header[8..14]);
    (header[14], header[15]) = (0, 1);
    let is_last = pdu.header[1] & 3 == 3;
    let keys: &[u8] = match pdu.header[1] >> 2 & 3 {
        0 => b"AuthMethod=None\0TargetPortalGroupTag=1\0",
        _ => b"HeaderDigest=None\0DataDigest=None\0InitialR2T=No\0ImmediateData=Yes\0MaxBurstLength=262144\0FirstBurstLength=262144\0MaxConnections=1\0ErrorRecoveryLevel=0\0MaxOutstandingR2T=1\0DefaultTime2Wait=2\0DefaultTime2Retain=0\0MaxRecvDataSegmentLength=262144\0TargetPortalGroupTag=1\0",
    };
    debug_assert!(!pdu.data.is_empty());
    seen.lock().expect("no panic").logins += u32::from(is_last);
    numbers.send(socket, header, keys);
}

fn good(socket: &mut TcpStream, pdu: &Pdu, numbers: &mut Numbers, data: &[u8]) {
    let wanted = u32::from_be_bytes(pdu.header[20..24].try_into().expect("4 bytes")) as usize;
    if data.is_empty() || pdu.header[1] & 0x40 == 0 {
        return numbers.send(socket, answer_to(pdu, 0x21), &[]);
    }
    // Data-In in bursts, the last one with status, and an underflow if there is less than was asked for.
    let sent = &data[..data.len().min(wanted)];
    let parts = sent.len().div_ceil(BURST);
    for (number, part) in sent.chunks(BURST).enumerate() {
        let mut header = answer_to(pdu, 0x25);
        header[20..24].fill(0xff);
        header[36..40].copy_from_slice(&(number as u32).to_be_bytes());
        header[40..44].copy_from_slice(&((number * BURST) as u32).to_be_bytes());
        let is_last = number + 1 == parts;
        if is_last {
            header[1] = if sent.len() < wanted { 0x83 } else { 0x81 };
            header[44..48].copy_from_slice(&((wanted - sent.len()) as u32).to_be_bytes());
        } else {
            header[1] = 0;
        }
        numbers.send(socket, header, part);
        // Only a status has a number.
        numbers.status -= u32::from(!is_last);
    }
}

/// Sense data of fixed format, with its length before it.
fn fixed([key, asc, ascq]: [u8; 3]) -> Vec<u8> {
    let mut data = vec![0; 20];
    data[1] = 18;
    (data[2], data[4], data[9]) = (0x70, key, 10);
    (data[14], data[15]) = (asc, ascq);
    data
}

/// A LUN of 1 GiB of zeros, with the same name whoever asks.
fn healthy(cdb: &[u8]) -> Reply {
    match (cdb[0], cdb[1], cdb[2]) {
        (0x9e, 0x10, _) => {
            let mut data = vec![0; 32];
            data[..8].copy_from_slice(&((1_u64 << 21) - 1).to_be_bytes());
            data[8..12].copy_from_slice(&512_u32.to_be_bytes());
            Reply::Good(data)
        }
        (0x12, 1, 0x83) => {
            let name = [0x60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
            Reply::Good([&[0, 0x83, 0, 20, 1, 3, 0, 16][..], &name].concat())
        }
        (0x12, 0, _) => Reply::Good([&[0, 0, 6, 2, 91][..], &[b' '; 91]].concat()),
        (0x12, ..) => Reply::Good(vec![0, 0, 0, 0]),
        (0x88, ..) => Reply::Good(vec![0; usize::from(cdb[13]) * 512]),
        (0x84, ..) => Reply::Status(2, [5, 0x20, 0]),
        _ => Reply::Good(Vec::new()),
    }
}
