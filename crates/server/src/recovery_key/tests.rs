use array::{Credential, Secret};

use super::*;

fn account(secret: &str) -> Chap {
    let secret = Secret::new(secret.to_owned()).unwrap();
    Chap { initiator: Credential { name: "esx".to_owned(), secret }, target: None }
}

fn host(name: &str) -> RecordKey {
    RecordKey::Host(name.to_owned())
}

#[test]
fn an_account_is_read_with_the_key_alone_and_for_its_own_host_alone() {
    let (key, other) = (RecoveryKey::new([7; 32]), RecoveryKey::new([8; 32]));
    let sealed = key.seal(&host("one"), &account("a secret of twelve")).unwrap();
    assert!(!sealed.contains("secret") && !sealed.contains("esx"), "{sealed}");
    assert_eq!(key.open(&host("one"), &sealed), Ok(account("a secret of twelve")));
    assert_eq!(key.open(&host("two"), &sealed), Err(Unopened::Damaged));
    assert_eq!(other.open(&host("one"), &sealed), Err(Unopened::OtherKey));
    // The same stays the same, so that no record is written for nothing; another one does not.
    assert_eq!(key.seal(&host("one"), &account("a secret of twelve")).unwrap(), sealed);
    let nonce = |sealed: &str| sealed.split(':').nth(2).unwrap()[..24].to_owned();
    for other in [
        key.seal(&host("two"), &account("a secret of twelve")).unwrap(),
        key.seal(&host("one"), &account("a secret of twelwe")).unwrap(),
    ] {
        assert_ne!(nonce(&other), nonce(&sealed));
    }
}

#[test]
fn what_was_changed_is_refused() {
    let key = RecoveryKey::new([7; 32]);
    let sealed = key.seal(&host("one"), &account("a secret of twelve")).unwrap();
    let body = sealed.rfind(':').unwrap() + 1;
    for at in body..sealed.len() {
        let mut changed = sealed.clone().into_bytes();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(key.open(&host("one"), &changed), Err(Unopened::Damaged), "{at}");
    }
    for nonsense in ["", ":", "1:", "1:x", "2:a:b", &sealed[..body], &sealed[..body + 10], "1::"] {
        assert!(key.open(&host("one"), nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn a_key_is_read_as_people_copy_it_and_a_mistake_is_noticed() {
    let key = RecoveryKey::new(std::array::from_fn(|at| at as u8 * 7));
    let text = key.text();
    assert_eq!(RecoveryKey::parse(&text), Ok(key.clone()));
    assert_eq!(RecoveryKey::parse(&format!("  {}\n", text.replace('-', "- "))), Ok(key.clone()));
    for at in PREFIX.len()..text.len() {
        let mut changed = text.clone().into_bytes();
        if changed[at] != b'-' {
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert!(RecoveryKey::parse(str::from_utf8(&changed).unwrap()).is_err(), "{at}");
        }
        assert!(RecoveryKey::parse(&text[..at]).is_err());
    }
    assert!(!format!("{key:?}").contains("07"));
    assert_ne!(key.id(), RecoveryKey::new([0; 32]).id());
}
