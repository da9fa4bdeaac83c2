use super::*;

#[test]
fn a_panic_becomes_an_error_with_what_it_said() {
    assert_eq!(guarded(|| 7), Ok(7));
    assert_eq!(guarded(|| -> u8 { panic!("in words") }), Err("in words".to_owned()));
    let number = 3;
    assert_eq!(guarded(|| -> u8 { panic!("with {number}") }), Err("with 3".to_owned()));
    let other = guarded(|| -> u8 { std::panic::panic_any(5) });
    assert_eq!(other, Err("no reason was given".to_owned()));
}

/// The process of this very test is started again as the one that panics.
#[test]
fn a_panic_while_something_critical_is_changed_ends_the_process_although_it_is_caught() {
    const MARK: &str = "GANTRY_TEST_PANICS";
    const NAME: &str = "guard::tests::a_panic_while_something_critical_is_changed_ends_the_process_although_it_is_caught";
    if std::env::var_os(MARK).is_some() {
        let mut value = 1;
        let caught = guarded(|| {
            let mut changing = Critical::new(&mut value, "a value");
            *changing += 1;
            panic!("half changed");
        });
        unreachable!("the process has ended, and nobody could catch {caught:?}");
    }
    let own = std::env::current_exe().unwrap();
    let child =
        std::process::Command::new(own).args([NAME, "--exact"]).env(MARK, "1").output().unwrap();
    assert_eq!(child.status.code(), Some(PANICKED), "{child:?}");
    let said = [child.stdout, child.stderr].concat();
    assert!(!String::from_utf8_lossy(&said).contains("nobody could catch"));
}
