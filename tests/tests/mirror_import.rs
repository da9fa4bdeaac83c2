//! Import of pools with mirrors of which not every member is there or current: what the membership
//! lists on the devices say decides, a stale copy alone is refused, and nothing is guessed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::pdu::RawSession;
use harness::{Array, Value, text};

const PATIENCE: Duration = Duration::from_secs(60);
const BLOCK: usize = 4096;

fn log_in(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), "iqn.2026-01.org.example:a", &array.target_name()?)
}

fn write(array: &Array, byte: u8) -> Result<()> {
    let cdb = [0x2a, 0x08, 0, 0, 0, 0, 0, 0, 8, 0];
    let code = log_in(array)?.write(0, &cdb, &[byte; BLOCK])?.code();
    ensure!(code.is_none(), "a write ended with {code:?}");
    Ok(())
}

fn read(array: &Array) -> Result<u8> {
    let cdb = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
    let mut session = log_in(array)?;
    session.read(0, &[0; 6], 0)?;
    let data = session.read(0, &cdb, BLOCK as u32)?.good()?;
    ensure!(data.iter().all(|&byte| byte == data[0]), "a mixture");
    Ok(data[0])
}

fn file(path: &Path) -> String {
    format!("file:{}", path.display())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(begun.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// A mirror whose second member lacks the last write: the first holds 2, the second 1. The array is
/// stopped.
struct Apart {
    array: Array,
    current: PathBuf,
    stale: PathBuf,
}

fn apart() -> Result<Apart> {
    let mut array = Array::start()?;
    let (current, stale) = (array.beside("a.img"), array.beside("b.img"));
    let [a, b] = [file(&current), file(&stale)];
    array.gantry(&["pool", "create", "p", "--mirror", "2", &a, &b, "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    write(&array, 1)?;
    ensure!(array.stop()?.success(), "it stops");
    let away = stale.with_extension("away");
    fs::rename(&stale, &away)?;
    array.restart()?;
    wait_until("the pool opens", || {
        Ok(text(&array.gantry_json(&["pool", "show", "p"])?, "/state")? == "ready")
    })?;
    write(&array, 2)?;
    ensure!(array.stop()?.success(), "it stops");
    fs::rename(&away, &stale)?;
    Ok(Apart { array, current, stale })
}

/// Copies a device with its holes.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").arg("--sparse=always").arg(from).arg(to).status()?;
    ensure!(copied.success(), "{} is not copied", from.display());
    Ok(())
}

/// Another array, with copies of some devices in a folder beside it.
fn elsewhere(devices: &[&Path]) -> Result<(Array, PathBuf)> {
    let array = Array::start()?;
    let folder = array.beside("found");
    fs::create_dir(&folder)?;
    for device in devices {
        copy(device, &folder.join(device.file_name().context("a name")?))?;
    }
    Ok((array, folder))
}

/// Imports whatever is in a folder. This machine may have no name that lasts.
fn import(array: &Array, folder: &Path, words: &[&str]) -> Result<Value> {
    let folder = folder.to_str().context("a printable path")?;
    array.gantry_json(&[&["pool", "import", "--scan", folder, "--force"][..], words].concat())
}

fn refuse(array: &Array, folder: &Path, words: &[&str]) -> Result<String> {
    let folder = folder.to_str().context("a printable path")?;
    let scan = ["pool", "import", "--scan", folder, "--force"];
    array.try_gantry(&[&scan[..], words].concat())?.failure()
}

/// The member of an import's mirror that lies in a file of that name, or the missing one.
fn member<'a>(import: &'a Value, name: Option<&str>) -> Result<&'a Value> {
    let members = import["mirrors"][0]["members"].as_array().context("members")?;
    let is_it = |member: &&Value| match (member["device"].as_str(), name) {
        (Some(device), Some(name)) => device.ends_with(name),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    members.iter().find(is_it).with_context(|| format!("no {name:?} in {members:#?}"))
}

#[test]
fn a_pool_comes_without_a_member_that_its_mirror_had_left_out() -> Result<()> {
    let apart = apart()?;
    let (array, folder) = elsewhere(&[&apart.current])?;
    let dry = import(&array, &folder, &["--dry-run"])?;
    assert_eq!(dry["mirrors"][0]["degraded"], true, "{dry:#}");
    assert_eq!(text(member(&dry, Some("a.img"))?, "/state")?, "current");
    assert_eq!(text(member(&dry, None)?, "/state")?, "absent");
    let last = text(member(&dry, None)?, "/last_device")?;
    assert!(last.starts_with("file:/") && last.ends_with("b.img"), "{dry:#}");
    assert_eq!(dry["collisions"].as_array().context("a list")?.len(), 0, "{dry:#}");
    assert!(dry["missing"].to_string().contains("the mirror is degraded until"), "{dry:#}");
    assert_eq!(array.gantry_json(&["pool", "list"])?.as_array().context("a list")?.len(), 0);
    import(&array, &folder, &[])?;
    assert_eq!(read(&array)?, 2);
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    assert_eq!((text(&pool, "/state")?, &pool["mirrors"][0]["degraded"]), ("ready", &true.into()));
    // The old copy joins as a new device, and the one that is missing is given up.
    let missing = member(&dry, None)?["uuid"].as_str().context("a name")?;
    array.gantry(&["pool", "attach", "p", &file(&array.beside("c.img"))])?;
    wait_until("the mirror has two current members", || {
        let pool = array.gantry_json(&["pool", "show", "p"])?;
        let members = pool["mirrors"][0]["members"].as_array().context("members")?.clone();
        Ok(members.iter().filter(|one| one["state"] == "current").count() == 2)
    })?;
    array.gantry(&["pool", "detach", "p", missing])?;
    assert_eq!(array.gantry_json(&["pool", "show", "p"])?["mirrors"][0]["degraded"], false);
    Ok(())
}

#[test]
fn a_stale_copy_alone_is_refused_unless_what_it_lacks_is_given_up() -> Result<()> {
    let apart = apart()?;
    let (array, folder) = elsewhere(&[&apart.stale])?;
    let dry = import(&array, &folder, &["--dry-run"])?;
    let collisions = dry["collisions"].to_string();
    assert!(collisions.contains("it may have newer data"), "{dry:#}");
    assert!(collisions.contains("--degraded"), "{dry:#}");
    let missing = member(&dry, None)?["uuid"].as_str().context("a name")?.to_owned();
    assert!(collisions.contains(&missing), "{dry:#}");
    let refused = refuse(&array, &folder, &[])?;
    assert!(refused.contains("nothing was changed") && refused.contains(&missing), "{refused}");
    assert_eq!(array.gantry_json(&["pool", "list"])?.as_array().context("a list")?.len(), 0);
    let shown = array.gantry(
        &[
            &["pool", "import", "--force", "--dry-run", "--scan"][..],
            &[folder.to_str().context("a printable path")?],
        ]
        .concat(),
    )?;
    assert!(shown.contains("mirror 0: degraded") && shown.contains("missing: member"), "{shown}");
    assert!(shown.contains("last at file:/"), "the pool says where it was: {shown}");
    let imported = import(&array, &folder, &["--degraded"])?;
    assert!(imported["missing"].to_string().contains("is given up"), "{imported:#}");
    assert_eq!(read(&array)?, 1);
    Ok(())
}

#[test]
fn a_stale_member_that_is_there_is_filled_and_never_read() -> Result<()> {
    let apart = apart()?;
    let (array, folder) = elsewhere(&[&apart.current, &apart.stale])?;
    // A copy of a device is no other device.
    copy(&apart.stale, &folder.join("z-copy.img"))?;
    let refused = refuse(&array, &folder, &["--dry-run"])?;
    assert!(refused.contains("one is a copy of the other"), "{refused}");
    fs::remove_file(folder.join("z-copy.img"))?;
    // One device by two names is one device.
    std::os::unix::fs::symlink(folder.join("a.img"), folder.join("link.img"))?;
    let dry = import(&array, &folder, &["--dry-run"])?;
    let (a, b) = (member(&dry, Some("a.img"))?, member(&dry, Some("b.img"))?);
    assert_eq!((text(a, "/state")?, text(b, "/state")?), ("current", "absent"), "{dry:#}");
    assert!(a["generation"].as_u64() > b["generation"].as_u64(), "{dry:#}");
    assert!(dry["changes"].to_string().contains("b.img of mirror 0 is stale"), "{dry:#}");
    import(&array, &folder, &[])?;
    assert_eq!(read(&array)?, 2);
    wait_until("the mirror is whole", || {
        Ok(array.gantry_json(&["pool", "show", "p"])?["mirrors"][0]["degraded"] == false)
    })?;
    Ok(())
}

#[test]
fn an_array_that_knows_that_a_copy_is_stale_never_takes_it() -> Result<()> {
    let Apart { mut array, current, stale } = apart()?;
    // The array has lost its configuration, but not what it knows of the copies.
    for entry in fs::read_dir(array.data())? {
        let path = entry?.path();
        let is_kept = path.file_name().is_some_and(|name| name == "mirrors.json");
        if path.is_file() && !is_kept {
            fs::remove_file(path)?;
        }
    }
    array.restart()?;
    fs::rename(&current, current.with_extension("away"))?;
    for words in [&[][..], &["--degraded"]] {
        let refused = array
            .try_gantry(&[&["pool", "import", &file(&stale), "--force"][..], words].concat())?
            .failure()?;
        assert!(refused.contains("is stale: newer data is on"), "{refused}");
    }
    assert_eq!(array.gantry_json(&["pool", "list"])?.as_array().context("a list")?.len(), 0);
    fs::rename(current.with_extension("away"), &current)?;
    array.gantry(&["pool", "import", &file(&current), &file(&stale), "--force"])?;
    assert_eq!(read(&array)?, 2);
    Ok(())
}
