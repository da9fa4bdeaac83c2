use super::*;

fn entry(number: u64) -> AuditEntry {
    AuditEntry {
        time: number,
        user: "ann".into(),
        via: "token".into(),
        source: "127.0.0.1".into(),
        method: "POST".into(),
        path: "/v1/volumes".into(),
        status: 200,
    }
}

#[test]
fn entries_are_there_after_a_restart_and_a_torn_line_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut audit = Audit::open(folder.path()).unwrap();
    (0..3).for_each(|number| audit.note(entry(number)));
    audit.file.write_all(b"{\"time\": 9, \"us").unwrap();
    let audit = Audit::open(folder.path()).unwrap();
    assert_eq!(audit.latest(2), [entry(2), entry(1)]);
}

#[test]
fn the_log_is_bounded_in_memory_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut audit = Audit::open(folder.path()).unwrap();
    audit.bytes = AUDIT_BYTES_MAX;
    (0..AUDIT_SHOWN_MAX as u64 + 10).for_each(|number| audit.note(entry(number)));
    assert_eq!(audit.latest(usize::MAX).len(), AUDIT_SHOWN_MAX);
    assert!(folder.path().join(OLD_NAME).exists());
}
