//! Fuzz target: any bytes at all, before and after login.
#![no_main]

mod initiator;
mod owner;

use initiator::{NAMES, feed, login, send_all};
use iscsi::{Connection, ConnectionConfig};
use libfuzzer_sys::fuzz_target;
use owner::answer_at_once;

fuzz_target!(|input: (u8, &[u8])| {
    let (mode, bytes) = input;
    let mut connection = Connection::new(ConnectionConfig::default());
    let keys: &[&str] = match mode & 3 {
        0 => &[],
        1 => &["InitialR2T=No\0"],
        2 => &["InitialR2T=No\0HeaderDigest=CRC32C\0"],
        _ => &["MaxRecvDataSegmentLength=512\0DataDigest=CRC32C\0"],
    };
    if !keys.is_empty() {
        let text = format!("{NAMES}{}", keys.concat());
        feed(&mut connection, &login(0x87, text.as_bytes()), usize::MAX, &mut answer_at_once);
    }
    feed(&mut connection, bytes, usize::from(mode >> 2) * 7, &mut answer_at_once);
    send_all(&mut connection, usize::from(mode) * 3);
});
