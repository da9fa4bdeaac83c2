//! The programs of the release before, replaced by today's while hosts write: nothing acknowledged is
//! lost, everything that hosts and administrators rely on is kept, and the way back is open where it
//! is promised and refused clearly elsewhere (docs/upgrades.md).
//!
//! `cargo xtask test --upgrade` builds the release from git's history, and names its folder in
//! GANTRY_RELEASE_DIR. What a release left on disk is archived, and tests/pool_upgrade.rs upgrades
//! that everywhere.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::load::{Place, Worker};
use harness::pdu::RawSession;
use harness::release::files_of;
use harness::upgraded::{
    KEY, SECRET, check_kept, configure, knows, log_in, reservation, reserve, seen,
};
use harness::waiting::wait_until;
use harness::{Array, Value, text};

const HOSTS: u32 = 4;

/// How long hosts write before and after the programs change.
const LOAD: Duration = Duration::from_secs(2);

/// How the daemon of the release ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// As its package stops it.
    Stopped,
    /// As in a power cut.
    Killed,
}

/// Folder of the release's `gantryd` and `gantry`.
fn release() -> Result<PathBuf> {
    let folder = std::env::var_os("GANTRY_RELEASE_DIR");
    let missing = "GANTRY_RELEASE_DIR is not set: run 'cargo xtask test --upgrade'";
    folder.map(PathBuf::from).context(missing)
}

/// An array of the release with something of everything.
fn released() -> Result<(Array, PathBuf)> {
    let mut array = Array::prepare()?.with_binaries(&release()?);
    array.restart()?;
    let device = array.create_pool("p", "2G")?;
    configure(&array)?;
    reserve(&mut log_in(&array)?)?;
    Ok((array, device))
}

/// The same array, with the programs under test.
fn of_today(array: Array) -> Result<Array> {
    let daemon = harness::binaries::binary("gantryd")?;
    Ok(array.with_binaries(daemon.parent().context("a folder")?))
}

/// A host that writes, and whenever the daemon went away logs in again, compares all that was
/// acknowledged, and goes on.
fn host(mut worker: Worker, place: Place, ends: Arc<AtomicBool>) -> JoinHandle<Result<Worker>> {
    thread::spawn(move || {
        loop {
            worker = worker.start(&place)?.join().expect("a worker returns its errors")?;
            if ends.load(Ordering::SeqCst) {
                return Ok(worker);
            }
            wait_until("a login", || {
                let name = "iqn.2026-01.org.example:waits";
                Ok(RawSession::log_in(place.portal, name, &place.target).is_ok())
            })?;
            worker.verify(&place)?;
        }
    })
}

/// Hosts have written more than that since the daemon started.
fn wait_for_writes(array: &Array, more_than: u64) -> Result<()> {
    wait_until("writes", || Ok(array.traffic()?.commands > more_than))
}

fn check_everything(array: &Array, before: &Value) -> Result<()> {
    check_kept("", before, &seen(array)?)?;
    ensure!(reservation(array)? == (KEY, 5));
    ensure!(knows(array, SECRET)? && !knows(array, "some-other-secret")?);
    Ok(())
}

/// Replaces the programs under load; what was acknowledged is compared by the hosts.
fn replaced(end: End) -> Result<()> {
    let (mut array, device) = released()?;
    let lun = u8::try_from(array.create_lun("p/load", "256M")?)?;
    let place = Place { portal: array.portal(), target: array.target_name()?, lun };
    let before = seen(&array)?;
    let ends = Arc::new(AtomicBool::new(false));
    let start = |number| host(Worker::new(number), place.clone(), ends.clone());
    let hosts: Vec<_> = (0..HOSTS).map(start).collect();
    thread::sleep(LOAD);
    wait_for_writes(&array, 100)?;
    match end {
        End::Stopped => ensure!(array.stop()?.success(), "{}", array.log()),
        End::Killed => array.kill()?,
    }
    let mut array = of_today(array)?;
    let took = array.restart()?;
    wait_for_writes(&array, 3000)?;
    thread::sleep(LOAD);
    check_everything(&array, &before)?;
    ensure!(array.gantry(&["events"])?.contains("it is upgraded"), "{}", array.log());
    ends.store(true, Ordering::SeqCst);
    array.kill()?;
    let joined = hosts.into_iter().map(|host| host.join().expect("a host returns its errors"));
    let mut workers = joined.collect::<Result<Vec<_>>>()?;
    array.restart()?;
    workers.iter_mut().try_for_each(|worker| worker.verify(&place))?;
    check_everything(&array, &before)?;
    ensure!(array.stop()?.success());
    array.gantry(&["pool", "verify", device.to_str().context("a printable path")?])?;
    let writes: u64 = workers.iter().map(Worker::writes).sum();
    println!("{end:?}: {writes} writes acknowledged, 0 lost; today's daemon served after {took:?}");
    Ok(())
}

#[test]
#[ignore = "needs the programs of a release: cargo xtask test --upgrade"]
fn a_release_is_replaced_under_load() -> Result<()> {
    replaced(End::Stopped)
}

#[test]
#[ignore = "needs the programs of a release: cargo xtask test --upgrade"]
fn a_release_that_was_killed_under_load_is_replaced() -> Result<()> {
    replaced(End::Killed)
}

/// The data directory as it is, which a careful administrator keeps before an upgrade.
struct Kept(Vec<(PathBuf, Vec<u8>)>);

impl Kept {
    fn take(array: &Array) -> Result<Self> {
        files_of(array.data()).map(Self)
    }

    fn put_back(&self, array: &Array) -> Result<()> {
        fs::remove_dir_all(array.data())?;
        for (path, bytes) in &self.0 {
            fs::create_dir_all(path.parent().context("a folder")?)?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }
}

/// The release does not start on a data directory that today's daemon used, and says why.
fn check_refused(array: &mut Array) -> Result<()> {
    let error = format!("{:#}", array.restart().err().context("the release starts")?);
    ensure!(error.contains("gantry.json is damaged or of another version"), "{error}");
    Ok(())
}

#[test]
#[ignore = "needs the programs of a release: cargo xtask test --upgrade"]
fn an_upgraded_pool_is_refused_by_the_release_and_stays_whole() -> Result<()> {
    let (mut array, _) = released()?;
    let before = seen(&array)?;
    ensure!(array.stop()?.success());
    let kept = Kept::take(&array)?;
    let mut array = of_today(array)?;
    array.restart()?;
    wait_until("the upgrade", || Ok(array.gantry(&["events"])?.contains("it is upgraded")))?;
    ensure!(array.stop()?.success());
    let after = Kept::take(&array)?;
    let mut array = array.with_binaries(&release()?);
    check_refused(&mut array)?;
    kept.put_back(&array)?;
    array.restart()?;
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    ensure!(text(&pool, "/state")? == "unavailable", "{pool:#}");
    ensure!(text(&pool, "/reason")?.contains("features"), "{pool:#}");
    println!("the release says of an upgraded pool: {}", text(&pool, "/reason")?);
    ensure!(array.stop()?.success());
    let mut array = of_today(array)?;
    after.put_back(&array)?;
    array.restart()?;
    check_everything(&array, &before)
}

#[test]
#[ignore = "needs the programs of a release: cargo xtask test --upgrade"]
fn without_the_upgrade_of_pools_the_release_takes_over_again() -> Result<()> {
    let (mut array, device) = released()?;
    let lun = u8::try_from(array.create_lun("p/load", "256M")?)?;
    let place = Place { portal: array.portal(), target: array.target_name()?, lun };
    let before = seen(&array)?;
    ensure!(array.stop()?.success());
    let kept = Kept::take(&array)?;
    let mut worker = Worker::new(0);
    let mut array = of_today(array)?.with_words(&[], &["--no-pool-upgrade"]);
    array.restart()?;
    let writing = worker.start(&place)?;
    wait_for_writes(&array, 300)?;
    check_everything(&array, &before)?;
    array.kill()?;
    worker = writing.join().expect("a worker returns its errors")?;
    let mut array = array.with_words(&[], &[]).with_binaries(&release()?);
    check_refused(&mut array)?;
    kept.put_back(&array)?;
    array.restart()?;
    worker.verify(&place)?;
    check_everything(&array, &before)?;
    ensure!(array.stop()?.success());
    array.gantry(&["pool", "verify", device.to_str().context("a printable path")?]).map(drop)
}

#[test]
#[ignore = "needs the programs of a release: cargo xtask test --upgrade"]
fn the_command_line_of_the_release_administers_today_s_daemon() -> Result<()> {
    let mut array = Array::prepare()?;
    array.restart()?;
    // Its words are for today's daemon, through the socket of the data directory.
    let array = array.with_binaries(&release()?);
    array.create_pool("p", "1G")?;
    configure(&array)?;
    array.gantry(&["volume", "clone", "p/v", "c", "--reserved"])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    let volume = array.gantry_json(&["volume", "show", "p/c"])?;
    ensure!(volume["reserved"] == true, "{volume:#}");
    let answers = seen(&array)?;
    ensure!(answers["volume list"].as_array().is_some_and(|all| all.len() == 4), "{answers:#}");
    let volume = &answers["volume list"];
    ensure!(volume.to_string().contains("\"reserved\":true"), "{volume:#}");
    let words: [&[&str]; 4] =
        [&["snapshot", "delete", "p/s"], &["events"], &["offload", "list"], &["reclaim"]];
    words.into_iter().try_for_each(|words| array.gantry(words).map(drop))?;
    Ok(())
}
