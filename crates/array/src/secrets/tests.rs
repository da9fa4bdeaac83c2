use super::*;

fn credential(name: &str, secret: &str) -> Credential {
    Credential { name: name.to_owned(), secret: Secret::new(secret.to_owned()).unwrap() }
}

#[test]
fn a_secret_has_12_to_255_bytes_and_the_refusal_does_not_repeat_it() {
    for length in [12, 255] {
        assert!(Secret::new("x".repeat(length)).is_ok());
    }
    for length in [0, 11, 256] {
        let error = Secret::new("q".repeat(length)).unwrap_err().to_string();
        assert!(error.contains(&length.to_string()) && !error.contains("qq"), "{error}");
    }
}

#[test]
fn the_two_directions_need_two_secrets_and_names() {
    let chap = |name: &str, secret: &str| Chap {
        initiator: credential("host", "twelve bytes"),
        target: Some(credential(name, secret)),
    };
    assert_eq!(chap("array", "other twelve").check(), Ok(()));
    assert_eq!(chap("array", "twelve bytes").check(), Err(ArrayError::SecretShared));
    assert_eq!(chap("", "other twelve").check(), Err(ArrayError::InvalidChapName));
    assert_eq!(chap(&"n".repeat(256), "other twelve").check(), Err(ArrayError::InvalidChapName));
}

#[test]
fn secrets_are_not_printed_but_read_back_as_saved() {
    let chap = Chap { initiator: credential("host", "twelve bytes"), target: None };
    let secrets = Secrets {
        hosts: [("h".to_owned(), chap)].into_iter().collect(),
        discovery: None,
        ..Secrets::default()
    };
    assert!(!format!("{secrets:?}").contains("twelve"));
    let text = serde_json::to_string(&secrets).unwrap();
    assert_eq!(serde_json::from_str::<Secrets>(&text).unwrap(), secrets);
}
