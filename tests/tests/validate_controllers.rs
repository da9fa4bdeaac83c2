//! `gantry-host validate --case C1`: one of two controllers is killed while a machine works on its
//! datastore, and started again; on an array with two, and what is said where there is one.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::Value;
use harness::binaries::binary;
use harness::controllers::Pair;
use harness::hostkit::array;
use harness::program::run;

const PATIENCE: Duration = Duration::from_secs(240);

/// Two controllers with a LUN on which a datastore has room.
fn pair() -> Result<Pair> {
    let pair = Pair::start_with(|first| first.create_pool("p", "4G").map(drop))?;
    pair.first.gantry(&["volume", "resize", "p/v", "--size", "2G"])?;
    Ok(pair)
}

/// Does what the commands ask for: each writes its wish to a file, and waits until that is gone.
fn serve(wishes: &Path, pair: &mut Pair, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(20));
        let Ok(wish) = fs::read_to_string(wishes) else { continue };
        let Some((verb, portal)) = wish.trim().split_once(' ') else { continue };
        let both = [&mut pair.first, &mut pair.second];
        let array = both.into_iter().find(|array| array.portal().to_string() == portal);
        let array = array.with_context(|| wish.clone())?;
        match verb {
            "lose" => array.kill()?,
            _ => array.restart().map(drop)?,
        }
        fs::remove_file(wishes)?;
    }
    Ok(())
}

fn case(folder: &Path) -> Result<Value> {
    let result: Value = serde_json::from_str(&fs::read_to_string(folder.join("result.json"))?)?;
    let cases = result["cases"].as_array().context("cases")?;
    cases.iter().find(|case| case["id"] == "C1").cloned().context("no C1")
}

#[test]
fn a_machine_goes_on_when_the_controller_that_serves_it_is_killed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut pair = pair()?;
    let lun = u16::from(pair.lun);
    let urls = [pair.first.lun_url(lun)?, pair.second.lun_url(lun)?];
    let wishes = folder.path().join("wishes");
    let command = |verb: &str| {
        let path = wishes.display();
        format!("echo {verb} $PORTAL >{path}; while test -e {path}; do sleep 0.05; done")
    };
    let out = folder.path().join("out");
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| -> Result<_> {
        let served = scope.spawn(|| serve(&wishes, &mut pair, &is_over));
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
    // It had no path until the other controller served.
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
