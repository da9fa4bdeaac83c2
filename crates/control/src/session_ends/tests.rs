use array::{Credential, Secret};

use super::*;

type State = (Configuration, Secrets);

fn host(state: &mut State, name: &str, initiators: &[&str], secret: Option<&str>) {
    let initiators = initiators.iter().map(|&name| name.to_owned()).collect();
    let chap_name = secret.map(|_| "user".to_owned());
    state.0.hosts.insert(name.to_owned(), Host { initiators, chap_name, ..Host::default() });
    state.1.hosts.remove(name);
    let chap = secret.map(|secret| {
        let secret = Secret::new(secret.to_owned()).unwrap();
        Chap { initiator: Credential { name: "user".to_owned(), secret }, target: None }
    });
    state.1.hosts.extend(chap.map(|chap| (name.to_owned(), chap)));
}

fn empty() -> State {
    (Configuration::new("iqn.2026-01.org.example:array".to_owned()), Secrets::default())
}

fn names(before: &State, after: &State) -> Vec<String> {
    ended_by((&before.0, &before.1), (&after.0, &after.1)).initiators.into_iter().collect()
}

#[test]
fn who_proved_less_than_is_wanted_now_logs_in_again() {
    let one = Some("a secret of 14");
    let other = Some("another secret");
    type Side<'a> = Option<(&'a [&'a str], Option<&'a str>)>;
    let table: [(Side<'_>, Side<'_>, &[&str]); 9] = [
        (None, Some((&["a"], None)), &[]),
        (None, Some((&["a"], one)), &["a"]),
        (Some((&["a"], None)), Some((&["a"], None)), &[]),
        (Some((&["a"], None)), Some((&["a"], one)), &["a"]),
        (Some((&["a"], one)), Some((&["a"], other)), &["a"]),
        (Some((&["a"], one)), Some((&["a"], None)), &[]),
        (Some((&["a"], one)), Some((&["a", "b"], one)), &["b"]),
        (Some((&["a", "b"], None)), Some((&["b"], None)), &["a"]),
        (Some((&["a", "b"], None)), None, &["a", "b"]),
    ];
    for (before, after, expected) in table {
        let [old, new] = [before, after].map(|side| {
            let mut state = empty();
            host(&mut state, "unchanged", &["z"], one);
            if let Some((initiators, secret)) = side {
                host(&mut state, "h", initiators, secret);
            }
            state
        });
        assert_eq!(names(&old, &new), expected, "{before:?} {after:?}");
    }
}

#[test]
fn discovery_sessions_end_when_another_proof_is_wanted_of_them_and_not_when_none_is() {
    let with = |secret: &str| {
        let mut state = empty();
        let secret = Secret::new(secret.to_owned()).unwrap();
        let initiator = Credential { name: "user".to_owned(), secret };
        state.0.discovery_chap_name = Some("user".to_owned());
        state.1.discovery = Some(Chap { initiator, target: None });
        state
    };
    let (none, one, other) = (empty(), with("a secret of 14"), with("another secret"));
    let ends = |before: &State, after: &State| {
        ended_by((&before.0, &before.1), (&after.0, &after.1)).discovery
    };
    assert!(ends(&none, &one) && ends(&one, &other));
    assert!(!ends(&one, &one) && !ends(&one, &none) && !ends(&none, &none));
}
