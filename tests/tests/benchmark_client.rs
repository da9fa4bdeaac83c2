//! 'gantry-host lean', the client of benchmarks: it does what it says that it does, or says why not.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use harness::binaries::binary;
use harness::path::Path as SlowPath;
use harness::program::{Finished, Running, run};
use harness::{Array, Value};

const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

fn lean(words: &[&str]) -> Result<Finished> {
    let program = binary("gantry-host")?;
    run(Path::new(&program), &[&["lean"], words, &["--span", "16M", "--json"]].concat(), PATIENCE)
}

/// One queue of commands: no time to measure, each command once.
fn one_queue(words: &[&str]) -> Result<Value> {
    let printed = lean(&[words, &["--seconds", "0", "--queue-depth", "16"]].concat())?.success()?;
    Ok(serde_json::from_str(&printed)?)
}

#[test]
fn every_pattern_reaches_the_array_as_the_commands_it_names() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    // Larger than what is written: a threshold that is passed sends the command that hears of it twice.
    let data = array.lun_url(array.create_lun("p/data", "64M")?)?;
    let copy = array.lun_url(array.create_lun("p/copy", "64M")?)?;
    let before = array.traffic()?;
    for (pattern, digests) in [("write", false), ("read", true), ("write", true)] {
        let words = [&data, "--pattern", pattern, "--block", "1M", "--digests"];
        let words = &words[..words.len() - usize::from(!digests)];
        assert_eq!(one_queue(words)?["operations"], 16, "{pattern}");
    }
    let moved = array.traffic()?.since(before).bytes();
    assert!((48 * MIB..49 * MIB).contains(&moved), "{moved} bytes went over the wire");
    for pattern in ["randread", "randwrite", "mixed"] {
        let figures = one_queue(&[&data, "--pattern", pattern, "--sessions", "3"])?;
        assert_eq!(figures["operations"], 48, "{pattern}");
    }
    assert_eq!(one_queue(&[&copy, "--pattern", "caw"])?["operations"], 16);
    let used = array.gantry_json(&["volume", "show", "p/copy"])?;
    assert_eq!(
        used["mapped_bytes"],
        16 * MIB,
        "locks are measured on blocks that hold data: {used}"
    );
    for pattern in ["writesame", "unmap"] {
        assert_eq!(one_queue(&[&copy, "--pattern", pattern])?["operations"], 16, "{pattern}");
    }
    for sessions in ["1", "3"] {
        let words =
            [&copy, "--pattern", "unmap", "--once", "--seconds", "60", "--queue-depth", "2"];
        let printed = lean(&[&words[..], &["--sessions", sessions]].concat())?.success()?;
        let figures: Value = serde_json::from_str(&printed)?;
        assert_eq!(figures["operations"], 16, "the span once");
    }
    let words = [&data, "--url2", &copy, "--pattern", "xcopy", "--block", "1M"];
    assert_eq!(one_queue(&words)?["operations"], 16);
    let used = array.gantry_json(&["volume", "show", "p/copy"])?;
    assert_eq!(used["mapped_bytes"], 16 * MIB, "the copy is there: {used}");
    Ok(())
}

#[test]
fn what_goes_wrong_is_said() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let data = array.lun_url(array.create_lun("p/data", "16M")?)?;
    let read = |url: &str, more: &[&str]| lean(&[&[url, "--pattern", "read"], more].concat());
    let small = array.lun_url(array.create_lun("p/small", "8M")?)?;
    let said = read(&small, &["--seconds", "60"])?.failure()?;
    assert!(said.contains("88h") && said.contains("status 02h"), "{said}");
    for (url, more, word) in [
        ("iscsi://nowhere", &[][..], "iscsi://HOST:PORT"),
        ("iscsi://127.0.0.1:1/iqn.a:b/0", &[], "cannot connect"),
        (&data, &["--sessions", "0"], "sessions"),
        (&data, &["--block", "1000"], "whole blocks"),
        (&data, &["--block", "64M"], "at most"),
        (&data.replace("/iqn.", "/iqn.no."), &[], "refused"),
    ] {
        let said = read(url, more)?.failure()?;
        assert!(said.contains(word), "{url} {more:?}: {said}");
    }
    Ok(())
}

#[test]
fn a_silent_array_ends_a_run() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let path = SlowPath::start(array.portal())?;
    let url = array.lun_url(array.create_lun("p/data", "16M")?)?;
    let url = url.replace(&array.portal().to_string(), &path.address().to_string());
    for sessions in ["1", "3"] {
        let words = ["--divide-times", "100", "lean", &url, "--pattern", "randread"];
        let words = [&words[..], &["--span", "16M", "--sessions", sessions]].concat();
        path.speak();
        let client = Running::start(&binary("gantry-host")?, &words)?;
        thread::sleep(Duration::from_millis(700));
        path.silence_after(0);
        let said = client.wait(PATIENCE)?.failure()?;
        assert!(said.contains("does not answer"), "{sessions} sessions: {said}");
    }
    let printed = run(
        &binary("gantry-host")?,
        &["--divide-times", "100", "lean", &url, "--pattern", "randread"],
        PATIENCE,
    )?;
    let said = printed.failure()?;
    assert!(said.contains("does not answer the login"), "{said}");
    Ok(())
}
