//! The process beside a controller's daemon that tells the other controllers when the daemon has ended: killed or
//! stopped, never when it stands still; and what it does to whoever waits for it.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::Array;
use harness::controllers::{Pair, hears, listed, pair_up, signal};
use harness::waiting::wait_until;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than a notice takes on its way.
const LONG: Duration = Duration::from_secs(3);

/// The process beside a daemon, if it is there.
fn helper(array: &Array) -> Result<Option<Pid>> {
    let words = format!("--tell-end-of\0{}\0", array.process_id()?);
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // Others end meanwhile.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if id.is_some() && String::from_utf8_lossy(&line).ends_with(&words) {
            return Ok(id.and_then(Pid::from_raw));
        }
    }
    Ok(None)
}

fn wait_for_helper(array: &Array) -> Result<Pid> {
    let mut found = None;
    wait_until("the process beside the daemon", || {
        found = helper(array)?;
        Ok(found.is_some())
    })?;
    found.context("it is there")
}

fn is_gone(process: Pid) -> bool {
    !fs::exists(format!("/proc/{}", process.as_raw_nonzero())).unwrap_or(true)
}

fn has_ended(pair: &Pair) -> Result<bool> {
    Ok(listed(&pair.second, false)?["ended"] == true)
}

fn paired() -> Result<Pair> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    Ok(pair)
}

#[test]
fn a_process_that_stands_still_has_not_ended_and_one_that_was_killed_or_stopped_has() -> Result<()>
{
    let mut pair = paired()?;
    let beside = wait_for_helper(&pair.first)?;
    signal(&pair.first, Signal::STOP)?;
    // As a service manager does, and a terminal.
    for one in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(beside, one)?;
    }
    thread::sleep(LONG);
    let told = has_ended(&pair);
    signal(&pair.first, Signal::CONT)?;
    ensure!(!told?, "it lives");
    wait_until("it is heard again", || hears(&pair.second, 1))?;

    pair.first.kill()?;
    wait_until("its end is told", || has_ended(&pair))?;
    let line = pair.second.gantry(&["controller", "list"])?;
    ensure!(line.contains("its process has ended"), "{line}");
    ensure!(line.matches("active-optimized").count() <= 1, "it serves nothing any more: {line}");
    wait_until("the other process ends, too", || Ok(is_gone(beside)))?;

    pair.first.restart()?;
    wait_until("it is heard again", || hears(&pair.second, 1))?;
    ensure!(!has_ended(&pair)?, "another start of it");
    wait_for_helper(&pair.first)?;
    pair.first.stop()?;
    wait_until("its end is told", || has_ended(&pair))
}

#[test]
fn without_that_process_a_daemon_that_is_gone_is_only_silent() -> Result<()> {
    let mut pair = paired()?;
    let beside = wait_for_helper(&pair.first)?;
    kill_process(beside, Signal::KILL)?;
    pair.first.kill()?;
    wait_until("it is silent", || Ok(!hears(&pair.second, 1)?))?;
    thread::sleep(LONG);
    ensure!(!has_ended(&pair)?);
    // It waits for nobody who cannot be told.
    pair.first.restart()?;
    wait_until("it is heard again", || hears(&pair.second, 1))?;
    let beside = wait_for_helper(&pair.first)?;
    pair.second.kill()?;
    pair.first.kill()?;
    wait_until("it gives up", || Ok(is_gone(beside)))
}

/// As an out-of-memory killer that was mistaken: the daemon misses it, says so and starts another one later.
#[test]
fn a_daemon_says_that_its_end_would_not_be_told() -> Result<()> {
    let pair = paired()?;
    kill_process(wait_for_helper(&pair.first)?, Signal::KILL)?;
    wait_until("it is said", || {
        Ok(pair.first.log().contains("are not told at once if this daemon's process ends"))
    })?;
    ensure!(hears(&pair.second, 1)? && !has_ended(&pair)?);
    Ok(())
}
