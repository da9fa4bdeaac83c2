use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::Relay;

/// A peer that sends back what it gets, and a relay to it.
fn echo() -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = Relay::to(listener.local_addr().unwrap()).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)).is_ok() {}
            });
        }
    });
    relay
}

fn is_echoed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    stream.write_all(&[7]).and_then(|()| stream.read_exact(&mut byte)).is_ok() && byte == [7]
}

#[test]
fn a_cut_breaks_old_and_new_connections_and_a_mended_relay_takes_new_ones() {
    let relay = echo();
    let mut first = TcpStream::connect(relay.address()).unwrap();
    assert!(is_echoed(&mut first));
    relay.cut();
    assert!(!is_echoed(&mut first));
    relay.cut();
    let refused = TcpStream::connect(relay.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    relay.mend().unwrap();
    let mut third = TcpStream::connect(relay.address()).unwrap();
    assert!(is_echoed(&mut third));
    assert!(!is_echoed(&mut first));
}

#[test]
fn a_relay_that_is_gone_listens_no_more() {
    let relay = echo();
    let address = relay.address();
    let mut stream = TcpStream::connect(address).unwrap();
    assert!(is_echoed(&mut stream));
    drop(relay);
    assert!(!is_echoed(&mut stream));
}
