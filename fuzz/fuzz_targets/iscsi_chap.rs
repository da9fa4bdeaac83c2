//! CHAP with right and wrong keys in any order: nobody gets in without the proof.
#![no_main]

mod initiator;

use arbitrary::Arbitrary;
use initiator::{NAMES, feed, login, send_all};
use iscsi::{
    ChapAccount, ChapAlgorithm, ChapCredential, ChapSecret, ChapTerms, Connection,
    ConnectionConfig, Event, LoginTerms, Requirement,
};
use libfuzzer_sys::fuzz_target;
use md5::Digest;

const SECRET: &[u8] = b"a secret of sixteen";
const CHALLENGE: [u8; 16] = [7; 16];
const IDENTIFIER: u8 = 9;

#[derive(Debug, Arbitrary)]
enum Key {
    AuthMethod(u8),
    Algorithm(u8),
    Name(bool),
    RightResponse,
    WrongResponse(Vec<u8>),
    Identifier(u16),
    Challenge(Vec<u8>),
    OwnChallenge,
    Raw(Vec<u8>),
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn right_response() -> String {
    hexadecimal(&md5::Md5::digest([&[IDENTIFIER], SECRET, &CHALLENGE].concat()))
}

impl Key {
    fn text(&self) -> Vec<u8> {
        let text = match self {
            Self::AuthMethod(0) => "AuthMethod=None".to_owned(),
            Self::AuthMethod(1) => "AuthMethod=None,CHAP".to_owned(),
            Self::AuthMethod(_) => "AuthMethod=CHAP".to_owned(),
            Self::Algorithm(number) => format!("CHAP_A={}", number % 10),
            Self::Name(true) => "CHAP_N=host".to_owned(),
            Self::Name(false) => "CHAP_N=".to_owned(),
            Self::RightResponse => format!("CHAP_R={}", right_response()),
            Self::WrongResponse(bytes) => format!("CHAP_R={}", hexadecimal(bytes)),
            Self::Identifier(number) => format!("CHAP_I={number}"),
            Self::Challenge(bytes) => format!("CHAP_C={}", hexadecimal(bytes)),
            Self::OwnChallenge => format!("CHAP_C={}", hexadecimal(&CHALLENGE)),
            Self::Raw(bytes) => return bytes.clone(),
        };
        [text.as_bytes(), &[0]].concat()
    }
}

fn terms() -> LoginTerms {
    let credential = |name: &str, secret: &[u8]| ChapCredential {
        name: name.to_owned(),
        secret: ChapSecret::new(secret),
    };
    let chap = ChapTerms {
        algorithms: ChapAlgorithm::ALL.to_vec(),
        identifier: IDENTIFIER,
        challenge: CHALLENGE.to_vec(),
        accounts: vec![ChapAccount {
            initiator: credential("host", SECRET),
            target: Some(credential("array", b"another secret")),
        }],
    };
    let authentication = Requirement { none_allowed: false, chap: Some(chap) };
    LoginTerms { authentication, ..LoginTerms::open(1) }
}

fuzz_target!(|requests: Vec<(u8, Vec<Key>)>| {
    let mut connection = Connection::new(ConnectionConfig::default());
    let mut proved = false;
    for (index, (flags, keys)) in requests.iter().enumerate() {
        let names = if index == 0 { NAMES.as_bytes() } else { &[] };
        let texts: Vec<u8> = keys.iter().flat_map(Key::text).collect();
        proved |= String::from_utf8_lossy(&texts).contains(&right_response()[2..]);
        let text = [names, &texts].concat();
        feed(&mut connection, &login(*flags, &text), usize::MAX, &mut |connection, event| {
            match event {
                Event::Login(_) => connection.login_admit(terms()),
                Event::Authenticated(_) => {
                    assert!(proved, "let in without a proof");
                    connection.login_accept(1);
                }
                _ => {}
            }
        });
        send_all(&mut connection, usize::MAX);
    }
});
