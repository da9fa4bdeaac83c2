use super::*;

fn entry(path: &str) -> AuditEntry {
    AuditEntry {
        number: 0,
        time: 7,
        user: "ann".into(),
        via: "token".into(),
        source: "127.0.0.1".into(),
        method: "POST".into(),
        path: path.into(),
        status: 200,
    }
}

fn paths(audit: &Audit) -> Vec<String> {
    audit.latest().into_iter().map(|entry| entry.path).collect()
}

#[test]
fn entries_outlive_the_daemon_newest_first() {
    let place = tempfile::tempdir().unwrap();
    let audit = Audit::open(place.path()).unwrap();
    audit.note(entry("/a"));
    audit.note(entry("/b"));
    drop(audit);
    let audit = Audit::open(place.path()).unwrap();
    assert_eq!(paths(&audit), ["/b", "/a"]);
    audit.note(entry("/c"));
    drop(audit);
    let audit = Audit::open(place.path()).unwrap();
    assert_eq!(paths(&audit), ["/c", "/b", "/a"]);
    let numbers: Vec<u64> = audit.latest().into_iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [3, 2, 1]);
}

#[test]
fn what_is_shown_has_a_bound() {
    let place = tempfile::tempdir().unwrap();
    let audit = Audit::open(place.path()).unwrap();
    for number in 0..AUDIT_SHOWN_MAX + 5 {
        audit.note(entry(&format!("/{number}")));
    }
    assert_eq!(paths(&audit).len(), AUDIT_SHOWN_MAX);
    assert_eq!(paths(&audit)[0], format!("/{}", AUDIT_SHOWN_MAX + 4));
}
