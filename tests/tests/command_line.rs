//! Output of the programs and their behaviour in a shell: pipes, terminals, sizes, dates.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Array, binaries, initiator};

/// Runs a program whose reader goes away before it has written anything.
fn without_a_reader(program: &str, arguments: &[&str]) -> Result<Output> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = Command::new(binaries::binary(program)?);
    command.args(arguments).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    command.output().with_context(|| format!("running {program}"))
}

#[test]
fn a_reader_that_has_enough_ends_a_program_quietly() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let lun = array.lun_url(array.create_lun("p/v", "16M")?)?;
    let data = array.data().display().to_string();
    let runs = [
        ("gantry", vec!["--help"]),
        ("gantry", vec!["completions", "bash"]),
        ("gantry", vec!["--data", &data, "pool", "list"]),
        ("gantry", vec!["--data", &data, "--json", "volume", "list"]),
        ("gantry", vec!["--data", &data, "configuration", "export"]),
        ("gantry-host", vec!["--help"]),
        ("gantry-host", vec!["print-reference"]),
        ("gantry-host", vec!["doctor", &lun]),
        ("gantry-host", vec!["fill", &lun, "--length", "1M"]),
    ];
    for (program, arguments) in runs {
        let output = without_a_reader(program, &arguments)?;
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(told, "", "{program} {arguments:?}");
        assert!(output.status.signal().is_none(), "{program} {arguments:?}: {}", output.status);
        assert!(output.status.success(), "{program} {arguments:?}: {}", output.status);
    }
    Ok(())
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_and_not_a_panic() -> Result<()> {
    let array = Array::start()?;
    let full = File::options().write(true).open("/dev/full")?;
    let mut command = Command::new(binaries::binary("gantry")?);
    command.args(["target", "show", "--data"]).arg(array.data()).stdin(Stdio::null());
    let output = command.stdout(full).output()?;
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.starts_with("the standard output cannot be written: "), "{told}");
    Ok(())
}

#[test]
fn a_session_is_one_line_and_its_keys_are_a_line_each() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    for name in ["a", "b", "c"] {
        array.create_lun(&format!("p/{name}"), "16M")?;
    }
    let load = initiator::start_verified_io(&array.lun_url(0)?, 30)?;
    let mut list = String::new();
    for _ in 0..200 {
        list = array.gantry(&["session", "list"])?;
        if list.lines().count() > 1 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(lines[1].contains("0-2"), "LUNs that follow each other are a range: {list}");
    let keys = array.gantry(&["session", "list", "--keys"])?;
    assert!(keys.lines().any(|line| line.contains("AuthMethod")), "{keys}");
    drop(load);
    Ok(())
}

#[test]
fn words_that_one_tries_first_work() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    for (option, name) in [(Some("--device"), "a.img"), (None, "b.img")] {
        let device = format!("file:{}", array.beside(name).display());
        let mut words = vec!["pool", "add-device", "p"];
        words.extend(option);
        words.extend([device.as_str(), "--size", "1G"]);
        array.gantry(&words)?;
    }
    let exported = array.gantry(&["configuration", "export", "-"])?;
    assert!(exported.trim_start().starts_with('{'), "{exported}");
    array.gantry(&["volume", "create", "p/v", "--size", "16M"])?;
    array.gantry(&["snapshot", "create", "p/v", "s", "--lock-until", "2100-01-01"])?;
    let again = array.try_gantry(&["snapshot", "create", "p/v", "s"])?;
    assert!(again.stderr.contains("volume or snapshot named 's'"), "{}", again.stderr);
    let locked = array.try_gantry(&["snapshot", "delete", "p/s", "--yes"])?;
    assert!(locked.stderr.contains("2100-01-01 00:00:00Z"), "a date: {}", locked.stderr);
    array.gantry(&["pool", "extend", "p", "--device", "1", "--size", "2G"])?;
    let events = array.gantry(&["events"])?;
    assert!(events.contains("device 1 has 2 GiB now"), "a size: {events}");
    Ok(())
}

/// A terminal of the test's own stands between the program and the test.
#[test]
fn on_a_terminal_what_is_lost_for_good_is_asked_for_first() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    array.gantry(&["volume", "create", "p/v", "--size", "16M"])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    let asked = |answer: &str, words: &str| -> Result<String> {
        let gantry = binaries::binary("gantry")?;
        let line = format!("{} --data {} {words}", gantry.display(), array.data().display());
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        std::io::Write::write_all(
            &mut script.stdin.take().context("a terminal")?,
            answer.as_bytes(),
        )?;
        Ok(String::from_utf8_lossy(&script.wait_with_output()?.stdout).into_owned())
    };
    let told = asked("n\n", "snapshot delete p/s")?;
    assert!(told.contains("Delete snapshot p/s") && told.contains("nothing was changed"), "{told}");
    assert_eq!(array.gantry_json(&["snapshot", "list"])?.as_array().map(Vec::len), Some(1));
    let told = asked("y\n", "snapshot delete p/s")?;
    assert!(told.contains("Deleted snapshot p/s"), "{told}");
    let told = asked("", "volume delete p/v --yes")?;
    assert!(told.contains("Deleted volume p/v") && !told.contains("[y/N]"), "{told}");
    Ok(())
}
