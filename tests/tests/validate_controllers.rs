//! `gantry-host validate --case C1`: one of two controllers is killed while a machine works on its
//! datastore, and started again; on an array with two, and what is said where there is one.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::binaries::binary;
use harness::hostkit::array;
use harness::program::run;
use harness::waiting::wait_until;
use harness::{Array, Value};

const PATIENCE: Duration = Duration::from_secs(240);

fn controller(number: u16, folder: &Path, own: SocketAddr, other: SocketAddr) -> Result<Array> {
    let (number, peer) = (number.to_string(), format!("{}={other}", 3 - number));
    let words = ["--controller", number.as_str(), "--peer-portal", peer.as_str()];
    Ok(Array::at(&folder.join(&number), own)?.with_words(&[], &words))
}

/// Two daemons of one array over a pool on a file, with LUN 0.
fn pair(folder: &Path) -> Result<[Array; 2]> {
    let (one, two) = (free_address()?, free_address()?);
    let mut first = controller(1, folder, one, two)?;
    let mut second = controller(2, folder, two, one)?;
    first.restart()?;
    first.create_pool("p", "4G")?;
    first.create_lun("p/v", "2G")?;
    fs::create_dir_all(second.data())?;
    for entry in fs::read_dir(first.data())? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(".json")) {
            fs::copy(entry.path(), second.data().join(name))?;
        }
    }
    second.restart()?;
    wait_until("standby", || {
        let list = second.gantry_json(&["controller", "list"])?;
        let list = list.as_array().context("a list")?;
        let this = list.iter().find(|one| one["is_this"] == true);
        Ok(this.is_some_and(|one| one["pools"][0]["state"] == "standby"))
    })?;
    Ok([first, second])
}

/// Does what the commands ask for: each writes its wish to a file, and waits until that is gone.
fn serve(wishes: &Path, mut arrays: [Array; 2], is_over: &AtomicBool) -> Result<[Array; 2]> {
    while !is_over.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(20));
        let Ok(wish) = fs::read_to_string(wishes) else { continue };
        let Some((verb, portal)) = wish.trim().split_once(' ') else { continue };
        let array = arrays.iter_mut().find(|array| array.portal().to_string() == portal);
        let array = array.with_context(|| wish.clone())?;
        match verb {
            "lose" => array.kill()?,
            _ => array.restart().map(drop)?,
        }
        fs::remove_file(wishes)?;
    }
    Ok(arrays)
}

fn case(folder: &Path) -> Result<Value> {
    let result: Value = serde_json::from_str(&fs::read_to_string(folder.join("result.json"))?)?;
    let cases = result["cases"].as_array().context("cases")?;
    cases.iter().find(|case| case["id"] == "C1").cloned().context("no C1")
}

#[test]
fn a_machine_goes_on_when_the_controller_that_serves_it_is_killed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let arrays = pair(folder.path())?;
    let urls = [arrays[0].lun_url(0)?, arrays[1].lun_url(0)?];
    let wishes = folder.path().join("wishes");
    let command = |verb: &str| {
        let path = wishes.display();
        format!("echo {verb} $PORTAL >{path}; while test -e {path}; do sleep 0.05; done")
    };
    let out = folder.path().join("out");
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| -> Result<_> {
        let served = scope.spawn(|| serve(&wishes, arrays, &is_over));
        let (lose, back) = (command("lose"), command("return"));
        let out = out.to_str().context("a printable path")?;
        let words = ["validate", "--scale", "tiny", "--rounds", "1", "--out", out, "--strict"];
        // The standby's path is given first.
        let paths = [urls[1].as_str(), "--url2", &urls[0], "--case", "C1"];
        let commands = ["--lose-controller", &lose, "--return-controller", &back];
        let ended =
            run(&binary("gantry-host")?, &[&words[..], &paths, &commands].concat(), PATIENCE);
        is_over.store(true, Ordering::SeqCst);
        served.join().expect("it does not panic")?;
        ended
    })?;
    ended.success()?;
    let case = case(&out)?;
    let run = &case["variants"][0]["runs"][0];
    ensure!(run["verified"] == true && run["figures"]["lost writes"] == 0.0, "{case:#}");
    ensure!(run["figures"]["commands that failed"] == 0.0, "{case:#}");
    ensure!(run["figures"]["writes"].as_f64().is_some_and(|writes| writes > 20.0), "{case:#}");
    // It was without any path until the other controller served.
    ensure!(run["counters"]["outages"].as_u64().is_some_and(|outages| outages >= 1), "{case:#}");
    Ok(())
}

#[test]
fn what_is_missing_for_it_is_said() -> Result<()> {
    let array = array(&[("a", "1G")])?;
    let url = array.lun_url(0)?;
    let folder = tempfile::tempdir()?;
    let reasons =
        [(&[][..], "--lose-controller COMMAND"), (&["--lose-controller", "true"], "--url2")];
    for (words, reason) in reasons {
        let out = folder.path().join(words.len().to_string());
        let path = out.to_str().context("a printable path")?;
        let head = ["validate", "--scale", "tiny", "--out", path, &url, "--case", "C1"];
        run(&binary("gantry-host")?, &[&head[..], words].concat(), PATIENCE)?.success()?;
        let case = case(&out)?;
        ensure!(case["reason"].as_str().is_some_and(|said| said.contains(reason)), "{case:#}");
    }
    Ok(())
}
