use super::*;

const CHALLENGE: [u8; 16] = *b"a challenge of16";

fn credential(name: &str, secret: &str) -> ChapCredential {
    ChapCredential { name: name.to_owned(), secret: ChapSecret::new(secret) }
}

fn exchange() -> Exchange {
    let target = Some(credential("array", "the array's secret"));
    Exchange::new(ChapTerms {
        algorithms: ChapAlgorithm::ALL.to_vec(),
        identifier: 0x21,
        challenge: CHALLENGE.to_vec(),
        accounts: vec![
            ChapAccount { initiator: credential("other", "another's secret"), target: None },
            ChapAccount { initiator: credential("host", "the host's secret"), target },
        ],
    })
}

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).unwrap().replace('\0', " ")
}

/// An exchange in which an algorithm was chosen.
fn challenged(algorithm: ChapAlgorithm) -> Exchange {
    let mut exchange = exchange();
    let number = algorithm.number().to_string();
    exchange.take(&[("CHAP_A", &number)], &mut Vec::new()).unwrap();
    exchange
}

fn proof(algorithm: ChapAlgorithm, secret: &str) -> String {
    encode(&algorithm.response(0x21, &ChapSecret::new(secret), &CHALLENGE))
}

#[test]
fn the_challenge_follows_the_first_algorithm_that_both_have() {
    let mut reply = Vec::new();
    exchange().take(&[("CHAP_A", "9,7,5")], &mut reply).unwrap();
    let challenge = encode(&CHALLENGE);
    assert_eq!(text(reply), format!("CHAP_A=7 CHAP_I=33 CHAP_C={challenge} "));
    for offer in ["", "9", "MD5", "0x", "-5"] {
        assert!(exchange().take(&[("CHAP_A", offer)], &mut Vec::new()).is_err(), "{offer}");
    }
}

// The hash functions' lengths and one published value each: a wrong one would fit nobody.
#[test]
fn each_algorithm_is_the_one_that_its_number_means() {
    let empty = |algorithm: ChapAlgorithm| {
        encode(&match algorithm {
            ChapAlgorithm::Md5 => hash::<md5::Md5>([b"", b"", b""]),
            ChapAlgorithm::Sha1 => hash::<sha1::Sha1>([b"", b"", b""]),
            ChapAlgorithm::Sha256 => hash::<sha2::Sha256>([b"", b"", b""]),
            ChapAlgorithm::Sha3 => hash::<sha3::Sha3_256>([b"", b"", b""]),
        })
    };
    assert_eq!(empty(ChapAlgorithm::Md5), "0xd41d8cd98f00b204e9800998ecf8427e");
    assert!(empty(ChapAlgorithm::Sha1).starts_with("0xda39a3ee5e6b4b0d"));
    assert!(empty(ChapAlgorithm::Sha256).starts_with("0xe3b0c44298fc1c14"));
    assert!(empty(ChapAlgorithm::Sha3).starts_with("0xa7ffc6f8bf1ed766"));
    let numbers = ChapAlgorithm::ALL.map(ChapAlgorithm::number);
    assert_eq!(numbers, [8, 7, 6, 5]);
}

#[test]
fn the_right_secret_opens_with_every_algorithm() {
    for algorithm in ChapAlgorithm::ALL {
        let mut exchange = challenged(algorithm);
        let response = proof(algorithm, "the host's secret");
        let mut reply = Vec::new();
        exchange.take(&[("CHAP_N", "host"), ("CHAP_R", &response)], &mut reply).unwrap();
        assert!(exchange.is_done() && reply.is_empty());
    }
}

#[test]
fn a_response_in_base64_is_as_good() {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
    let algorithm = ChapAlgorithm::Sha256;
    let raw = algorithm.response(0x21, &ChapSecret::new("the host's secret"), &CHALLENGE);
    for response in [STANDARD.encode(&raw), STANDARD_NO_PAD.encode(&raw)] {
        let mut exchange = challenged(algorithm);
        let response = format!("0b{response}");
        exchange.take(&[("CHAP_N", "host"), ("CHAP_R", &response)], &mut Vec::new()).unwrap();
        assert!(exchange.is_done());
    }
}

#[test]
fn the_target_proves_who_it_is_when_asked() {
    let algorithm = ChapAlgorithm::Md5;
    let mut exchange = challenged(algorithm);
    let response = proof(algorithm, "the host's secret");
    let keys =
        [("CHAP_N", "host"), ("CHAP_R", &*response), ("CHAP_I", "7"), ("CHAP_C", "0x0102030")];
    let mut reply = Vec::new();
    exchange.take(&keys, &mut reply).unwrap();
    let secret = ChapSecret::new("the array's secret");
    let expected = encode(&algorithm.response(7, &secret, &[0, 0x10, 0x20, 0x30]));
    assert_eq!(text(reply), format!("CHAP_N=array CHAP_R={expected} "));
}

#[test]
fn our_own_challenge_is_not_answered() {
    let mut exchange = challenged(ChapAlgorithm::Sha1);
    let response = proof(ChapAlgorithm::Sha1, "the host's secret");
    let mirrored = encode(&CHALLENGE);
    let keys =
        [("CHAP_N", "host"), ("CHAP_R", &*response), ("CHAP_I", "7"), ("CHAP_C", &*mirrored)];
    let mut reply = Vec::new();
    assert!(exchange.take(&keys, &mut reply).is_err());
    assert!(reply.is_empty() && !exchange.is_done());
}

// A response that was right for one challenge is worth nothing for the next.
#[test]
fn a_replayed_response_is_refused() {
    let response = proof(ChapAlgorithm::Sha256, "the host's secret");
    let mut next = exchange();
    next.terms.challenge[0] ^= 1;
    next.take(&[("CHAP_A", "7")], &mut Vec::new()).unwrap();
    let keys = [("CHAP_N", "host"), ("CHAP_R", &*response)];
    assert!(next.take(&keys, &mut Vec::new()).is_err());
}

#[test]
fn wrong_answers_are_refused() {
    let algorithm = ChapAlgorithm::Sha256;
    let right = proof(algorithm, "the host's secret");
    let wrong = proof(algorithm, "the Host's secret");
    let other = proof(algorithm, "another's secret");
    let short = right[..right.len() - 2].to_owned();
    let long_challenge = encode(&[1; 1025]);
    let table: [&[(&str, &str)]; 16] = [
        &[("CHAP_N", "host"), ("CHAP_R", &wrong)],
        &[("CHAP_N", "host"), ("CHAP_R", &short)],
        &[("CHAP_N", "host"), ("CHAP_R", "")],
        &[("CHAP_N", "host"), ("CHAP_R", "0x")],
        &[("CHAP_N", "host"), ("CHAP_R", "0xzz")],
        &[("CHAP_N", "host"), ("CHAP_R", "0b?")],
        &[("CHAP_N", "Host"), ("CHAP_R", &right)],
        &[("CHAP_N", ""), ("CHAP_R", &right)],
        &[("CHAP_N", "host"), ("CHAP_R", &other)],
        &[("CHAP_R", &right)],
        &[("CHAP_N", "host")],
        &[("CHAP_A", "5")],
        &[("CHAP_N", "host"), ("CHAP_R", &right), ("CHAP_I", "7")],
        &[("CHAP_N", "host"), ("CHAP_R", &right), ("CHAP_I", "256"), ("CHAP_C", "0x01")],
        &[("CHAP_N", "host"), ("CHAP_R", &right), ("CHAP_I", "7"), ("CHAP_C", &long_challenge)],
        &[("CHAP_N", "host"), ("CHAP_R", &right), ("CHAP_R", &wrong)],
    ];
    for keys in table {
        let mut exchange = challenged(algorithm);
        assert!(exchange.take(keys, &mut Vec::new()).is_err(), "{keys:?}");
        assert!(!exchange.is_done(), "{keys:?}");
    }
}

#[test]
fn a_target_without_a_secret_of_its_own_cannot_be_asked_for_one() {
    let algorithm = ChapAlgorithm::Sha256;
    let response = proof(algorithm, "another's secret");
    let asked = [("CHAP_N", "other"), ("CHAP_R", &*response), ("CHAP_I", "7"), ("CHAP_C", "0x01")];
    assert!(challenged(algorithm).take(&asked, &mut Vec::new()).is_err());
    assert!(challenged(algorithm).take(&asked[..2], &mut Vec::new()).is_ok());
}

#[test]
fn a_secret_is_never_printed() {
    let shown = format!("{:?}", exchange());
    assert!(!shown.contains("secret\"") && !shown.contains("the host's"), "{shown}");
}
