//! Pools that describe themselves: import after the data directory is lost, from another array, and by
//! an array that has things of the same names; export; upgrade; the recovery key.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::pdu::{RawSession, cdb10};
use harness::program::run;
use harness::{Array, Value, text};

const GUARDED: &str = "iqn.2026-01.org.example:guarded";
const PLAIN: &str = "iqn.2026-01.org.example:plain";
const OTHER: &str = "iqn.2026-01.org.example:other";
const SECRET: &str = "correct-horse-7";
const CONFLICT: u8 = 0x18;
const BLOCK: [u8; 512] = [0x5a; 512];
const TIMEOUT: Duration = Duration::from_secs(30);

fn beside(array: &Array, name: &str, content: &str) -> Result<String> {
    let path = array.beside(name);
    fs::write(&path, content)?;
    Ok(path.to_str().context("a printable path")?.to_owned())
}

/// An array with one of everything that hosts rely on, and its pool's file.
fn array_with_everything() -> Result<(Array, PathBuf)> {
    let array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    let secret = beside(&array, "secret", &format!("{SECRET}\n"))?;
    let chap = ["--chap-user", "esx", "--chap-secret-file", &secret];
    array.gantry(&[&["host", "create", "guarded", "--iqn", GUARDED][..], &chap].concat())?;
    array.gantry(&["host", "create", "plain", "--iqn", PLAIN])?;
    array.gantry(&["group", "set", "all", "--host", "guarded", "--host", "plain"])?;
    for volume in ["p/v", "p/w"] {
        array.gantry(&["volume", "create", volume, "--size", "64M", "--block-size", "512e"])?;
    }
    array.gantry(&["volume", "map", "p/v", "--host", "guarded", "--lun", "7"])?;
    array.gantry(&["volume", "map", "p/w", "--host", "all", "--lun", "3"])?;
    array.gantry(&["volume", "set", "p/v", "--soft", "11", "--hard", "22"])?;
    array.gantry(&["volume", "tag", "p/v", "env=test"])?;
    array.gantry(&["pool", "set", "p", "--soft", "33", "--hard", "44"])?;
    array.gantry(&["snapshot", "create", "p/v", "monday", "--lock-for", "1h"])?;
    let schedule = ["schedule", "create", "often", "--volume", "p/v", "--every", "1h"];
    array.gantry(&[&schedule[..], &["--keep", "2"]].concat())?;
    array.gantry(&["target", "identification", "--vendor", "ACME", "--product", "Box"])?;
    Ok((array, file))
}

fn reserve(array: &Array, initiator: &str) -> Result<()> {
    let mut host = RawSession::log_in(array.portal(), initiator, &array.target_name()?)?;
    host.read(3, &[0; 6], 0)?.good()?;
    // REGISTER with APTPL, then RESERVE for Write Exclusive.
    for (action, kind, keys) in [(0, 0, (0_u64, 9_u64)), (1, 1, (9, 0))] {
        host.reserve_out(3, [action, kind, u8::from(action == 0)], keys)?.good()?;
    }
    host.write(3, &cdb10(0x2a, 0, 0, 1), &BLOCK)?.good()?;
    Ok(())
}

/// Whether somebody may write to LUN 3, and what is there.
fn write(array: &Array, initiator: &str) -> Result<u8> {
    let mut host = RawSession::log_in(array.portal(), initiator, &array.target_name()?)?;
    host.read(3, &[0; 6], 0)?;
    assert_eq!(host.read(3, &cdb10(0x28, 0, 0, 1), 512)?.good()?, BLOCK);
    Ok(host.write(3, &cdb10(0x2a, 0, 8, 1), &BLOCK)?.status)
}

/// Whether the guarded host gets in and finds LUN 7.
fn inquiry(array: &Array, account: &str) -> Result<bool> {
    let url = format!("iscsi://{account}{}/{}/7", array.portal(), array.target_name()?);
    let words = ["-i", GUARDED, &url];
    Ok(run(Path::new("iscsi-inq"), &words, TIMEOUT)?.status.success())
}

/// What administrators see of all that travels.
fn seen(array: &Array) -> Result<Value> {
    let mut configuration = array.gantry_json(&["configuration", "export"])?;
    for gone in ["portals", "alerts"] {
        configuration.as_object_mut().context("an object")?.remove(gone);
    }
    let list = |words: &[&str]| array.gantry_json(words);
    let mut volumes = list(&["volume", "list"])?;
    for volume in volumes.as_array_mut().context("a list")? {
        // What was written since.
        volume.as_object_mut().context("an object")?.retain(|key, _| {
            ["name", "pool", "naa", "size_bytes", "maps", "block_size", "tags"]
                .contains(&key.as_str())
        });
    }
    let snapshots = list(&["snapshot", "list"])?;
    let locks: Vec<&Value> =
        snapshots.as_array().context("a list")?.iter().map(|one| &one["locked_until"]).collect();
    Ok(serde_json::json!({ "configuration": configuration, "volumes": volumes, "locks": locks }))
}

fn lose_the_data_directory(array: &mut Array) -> Result<()> {
    array.kill()?;
    fs::remove_dir_all(array.data())?;
    array.restart()?;
    Ok(())
}

fn import(array: &Array, file: &Path, words: &[&str]) -> Result<Value> {
    let file = file.to_str().context("a printable path")?;
    array.gantry_json(&[&["pool", "import", file][..], words].concat())
}

fn refuse_import(array: &Array, file: &Path, words: &[&str]) -> Result<String> {
    let file = file.to_str().context("a printable path")?;
    array.try_gantry(&[&["pool", "import", file][..], words].concat())?.failure()
}

/// Whether this machine has a name that lasts, by which an array knows that it used a pool itself.
fn machine_has_a_name() -> bool {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    id.trim().len() == 32
}

#[test]
fn after_the_data_directory_is_lost_an_import_brings_back_what_hosts_rely_on() -> Result<()> {
    let (mut array, file) = array_with_everything()?;
    let key = array.gantry(&["recovery-key", "show"])?;
    let key = beside(&array, "key", &key)?;
    reserve(&array, PLAIN)?;
    let (before, target) = (seen(&array)?, array.target_name()?);
    lose_the_data_directory(&mut array)?;
    assert_ne!(array.target_name()?, target);

    let mut words = vec!["--recovery-key-file", &key];
    words.extend((!machine_has_a_name()).then_some("--force"));
    let dry = import(&array, &file, &[&words[..], &["--dry-run"]].concat())?;
    assert_eq!(
        (dry["dry_run"].as_bool(), text(&dry, "/target_name")?),
        (Some(true), target.as_str())
    );
    assert_eq!(array.gantry_json(&["pool", "list"])?, serde_json::json!([]));
    assert_ne!(array.target_name()?, target, "nothing was changed");
    let done = import(&array, &file, &words)?;
    assert_eq!(done["collisions"], serde_json::json!([]), "{done:#}");
    assert_eq!(done["missing"], serde_json::json!([]), "{done:#}");

    assert_eq!(array.target_name()?, target);
    assert_eq!(seen(&array)?, before);
    assert!(inquiry(&array, &format!("esx%{SECRET}@"))?);
    assert!(!inquiry(&array, "esx%something-else@")?);
    assert_eq!(write(&array, PLAIN)?, 0, "the holder of the reservation");
    let refused = array.try_gantry(&["snapshot", "delete", "p/monday"])?.failure()?;
    assert!(refused.contains("locked"), "{refused}");
    assert!(array.gantry(&["events"])?.contains("was imported"));
    assert!(array.gantry(&["audit"])?.contains("/v1/pool-imports"));
    // It is this array's pool now: another loss brings the same back.
    assert!(array.stop()?.success());
    array.restart()?;
    assert_eq!(seen(&array)?, before);
    lose_the_data_directory(&mut array)?;
    import(&array, &file, &words)?;
    assert_eq!(seen(&array)?, before);
    assert_eq!(write(&array, PLAIN)?, 0);
    Ok(())
}

/// The reservation keeps others out, also after an import.
#[test]
fn a_reservation_comes_with_its_pool() -> Result<()> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    array.gantry(&["volume", "create", "p/w", "--size", "64M"])?;
    array.gantry(&["volume", "map", "p/w", "--host", "any", "--lun", "3"])?;
    reserve(&array, PLAIN)?;
    for _ in 0..3 {
        lose_the_data_directory(&mut array)?;
        import(&array, &file, &["--force"])?;
        assert_eq!(write(&array, OTHER)?, CONFLICT);
        assert_eq!(write(&array, PLAIN)?, 0);
    }
    Ok(())
}

/// A pool that is found gives nobody a secret, and an import says truthfully what is missing.
#[test]
fn without_the_recovery_key_accounts_come_without_secrets() -> Result<()> {
    let (mut array, file) = array_with_everything()?;
    let told = array.gantry(&["events"])?;
    let bytes = fs::read(&file)?;
    assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    array.kill()?;
    array.restart()?;
    let event = "nobody has the recovery key";
    let begun = std::time::Instant::now();
    while !told.contains(event) && !array.gantry(&["events"])?.contains(event) {
        ensure!(begun.elapsed() < TIMEOUT, "no event");
        std::thread::sleep(Duration::from_millis(50));
    }
    lose_the_data_directory(&mut array)?;
    let wrong = array.gantry(&["recovery-key", "show"])?;
    let wrong = beside(&array, "wrong", &wrong)?;
    let done = import(&array, &file, &["--force", "--recovery-key-file", &wrong])?;
    assert!(text(&done, "/missing/0")?.contains("CHAP secret of host guarded"), "{done:#}");
    assert!(!inquiry(&array, &format!("esx%{SECRET}@"))?, "nobody gets in");
    let secret = array.beside("secret");
    let secret = secret.to_str().context("a printable path")?;
    let chap = ["--chap-user", "esx", "--chap-secret-file", secret];
    array.gantry(&[&["host", "change", "guarded"][..], &chap].concat())?;
    assert!(inquiry(&array, &format!("esx%{SECRET}@"))?);
    // The key is shown on the array's own machine only, and is no key with a letter too few.
    let broken = beside(&array, "broken", "gantry-recovery-1-0000\n")?;
    let refused = refuse_import(&array, &file, &["--recovery-key-file", &broken])?;
    assert!(refused.contains("not complete"), "{refused}");
    Ok(())
}

/// The next start wrote records without accounts over the sealed ones, so that they were lost for good.
#[test]
fn accounts_of_a_lost_secrets_file_are_taken_back_from_the_pool() -> Result<()> {
    let (mut array, _) = array_with_everything()?;
    let account = format!("esx%{SECRET}@");
    let ends = ["", ".copy", ".1", ".2"];
    let lose = |array: &mut Array, names: &[&str]| -> Result<()> {
        array.kill()?;
        for (name, end) in names.iter().flat_map(|name| ends.map(|end| (name, end))) {
            let _ = fs::remove_file(array.data().join(format!("{name}{end}")));
        }
        Ok(())
    };
    let (secrets, key) = ("secrets.json", "recovery-key.json");
    lose(&mut array, &[secrets])?;
    array.restart()?;
    let told = |array: &Array, words: &str| -> Result<()> {
        let begun = std::time::Instant::now();
        while !array.gantry(&["events"])?.contains(words) {
            ensure!(begun.elapsed() < TIMEOUT, "no event says '{words}'");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    };
    told(&array, "they were taken back from the pool")?;
    assert!(inquiry(&array, &account)?);
    // It is saved, too.
    array.kill()?;
    array.restart()?;
    assert!(inquiry(&array, &account)?);

    // Without the key nobody gets in, and the pool keeps what it has until the key is there again.
    let files = ends.map(|end| array.data().join(format!("{key}{end}")));
    let kept = files.map(|file| (fs::read(&file).ok(), file));
    lose(&mut array, &[secrets, key])?;
    array.restart()?;
    told(&array, "cannot be read: it is sealed with a recovery key")?;
    assert!(!inquiry(&array, &account)?, "nobody gets in");
    array.gantry(&["host", "tag", "guarded", "touched=yes"])?;
    lose(&mut array, &[secrets, key])?;
    for (bytes, file) in kept {
        bytes.map(|bytes| fs::write(file, bytes)).transpose()?;
    }
    array.restart()?;
    let begun = std::time::Instant::now();
    while !inquiry(&array, &account)? {
        ensure!(begun.elapsed() < TIMEOUT, "the host does not get in");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[test]
fn after_an_import_free_numbers_rest() -> Result<()> {
    let (mut array, file) = array_with_everything()?;
    // LUN 9 meant a volume until just before the data directory was lost.
    array.gantry(&["volume", "create", "p/x", "--size", "64M"])?;
    array.gantry(&["volume", "map", "p/x", "--host", "all", "--lun", "9"])?;
    array.gantry(&["volume", "unmap", "p/x", "--host", "all"])?;
    array.gantry(&["volume", "create", "p/y", "--size", "64M"])?;
    let mapped =
        |array: &Array| array.try_gantry(&["volume", "map", "p/y", "--host", "all", "--lun", "9"]);
    let rests = mapped(&array)?.failure()?;
    lose_the_data_directory(&mut array)?;
    import(&array, &file, &["--force"])?;
    let still = mapped(&array)?.failure()?;
    assert!(rests.contains("LUN") && still.contains("LUN"), "{rests} {still}");
    assert!(still.contains("rest"), "{still}");
    Ok(())
}

#[test]
fn an_exported_pool_goes_to_another_array_and_what_collides_is_told_first() -> Result<()> {
    let (first, file) = array_with_everything()?;
    let (second, _) = {
        let second = Array::start()?;
        let own = second.create_pool("p", "1G")?;
        second.gantry(&["host", "create", "plain", "--iqn", OTHER])?;
        second.gantry(&["volume", "create", "p/x", "--size", "64M"])?;
        second.gantry(&["volume", "map", "p/x", "--host", "any", "--lun", "3"])?;
        (second, own)
    };
    let refused = refuse_import(&second, &file, &["--rename", "q"])?;
    assert!(refused.contains("uses it") || refused.contains("in use"), "{refused}");

    let session = RawSession::log_in(first.portal(), PLAIN, &first.target_name()?)?;
    let refused = first.try_gantry(&["pool", "export", "p"])?.failure()?;
    assert!(refused.contains("1 session(s) see"), "{refused}");
    drop(session);
    first.gantry(&["pool", "export", "p", "--force"])?;
    assert_eq!(first.gantry_json(&["volume", "list"])?, serde_json::json!([]));
    assert_eq!(first.gantry_json(&["schedule", "list"])?, serde_json::json!([]));
    assert!(first.gantry(&["events"])?.contains("was exported"));

    let before = seen(&second)?;
    let dry = import(&second, &file, &["--dry-run"])?;
    assert_eq!(dry["exported"], true);
    let told = dry["collisions"].to_string();
    for word in ["--rename", "--keep-target-name", "--existing-hosts", "--new-luns"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("--force"), "it was exported: {told}");
    let refused = refuse_import(&second, &file, &["--rename", "q"])?;
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert_eq!(seen(&second)?, before);
    let words = ["--rename", "q", "--keep-target-name", "--existing-hosts", "--new-luns"];
    let done = import(&second, &file, &words)?;
    assert_eq!(text(&done, "/pool")?, "q");
    let volumes = second.gantry_json(&["volume", "list"])?;
    assert_eq!(volumes.as_array().map(Vec::len), Some(3));
    let hosts = second.gantry_json(&["host", "list"])?.to_string();
    assert!(hosts.contains(OTHER) && !hosts.contains(PLAIN), "as it was: {hosts}");
    second.gantry(&["volume", "show", "q/v"])?;
    let again = refuse_import(&second, &file, &["--rename", "r"])?;
    assert!(again.contains("uses it") || again.contains("in use"), "{again}");
    Ok(())
}

/// An export is taken back by an import on the same array, with every LUN.
#[test]
fn an_export_and_an_import_change_nothing() -> Result<()> {
    let (mut array, file) = array_with_everything()?;
    let before = seen(&array)?;
    array.gantry(&["pool", "export", "p"])?;
    assert!(array.stop()?.success());
    array.restart()?;
    assert_eq!(array.gantry_json(&["pool", "list"])?, serde_json::json!([]));
    let done = import(&array, &file, &[])?;
    assert_eq!(done["missing"], serde_json::json!([]), "{done:#}");
    assert_eq!(seen(&array)?, before);
    assert!(inquiry(&array, &format!("esx%{SECRET}@"))?);
    Ok(())
}

/// A pool that was taken over while its array was away is not served by two.
#[test]
fn an_array_does_not_serve_a_pool_that_another_one_has_used_since() -> Result<()> {
    let mut first = Array::start()?;
    let file = first.create_pool("p", "1G")?;
    first.create_lun("p/v", "64M")?;
    first.kill()?;
    let mut second = Array::start()?;
    second.create_pool("other", "1G")?;
    if !machine_has_a_name() {
        let refused = refuse_import(&second, &file, &["--keep-target-name"])?;
        assert!(refused.contains("--force"), "{refused}");
    }
    import(&second, &file, &["--keep-target-name", "--force"])?;
    assert!(second.stop()?.success());
    first.restart()?;
    let pool = first.gantry_json(&["pool", "show", "p"])?;
    assert_eq!(text(&pool, "/state")?, "unavailable", "{pool:#}");
    assert!(text(&pool, "/reason")?.contains("has used it since"), "{pool:#}");
    assert_eq!(first.gantry_json(&["volume", "list"])?, serde_json::json!([]));
    first.gantry(&["pool", "delete", "p", "--force"])?;
    import(&first, &file, &["--force", "--keep-target-name"])?;
    first.gantry(&["volume", "show", "p/v"])?;
    Ok(())
}

/// A pool without records, as earlier versions made them, is served as it is or upgraded in place.
#[test]
fn a_pool_of_an_earlier_version_is_upgraded_unless_that_is_declined() -> Result<()> {
    let mut array = Array::prepare()?.with_words(&[], &["--no-pool-upgrade"]);
    array.restart()?;
    let file = array.create_pool("p", "1G")?;
    array.create_lun("p/v", "64M")?;
    let labels = |file: &Path| -> Result<Vec<u8>> { Ok(fs::read(file)?[4096..12288].to_vec()) };
    let before = labels(&file)?;
    array.kill()?;
    array.restart()?;
    assert_eq!(labels(&file)?, before);
    assert!(array.gantry(&["events"])?.contains("upgrade is declined"));
    let refused = array.try_gantry(&["pool", "export", "p"])?.failure()?;
    assert!(refused.contains("does not keep"), "{refused}");
    lose_the_data_directory(&mut array)?;
    let done = import(&array, &file, &[])?;
    assert!(text(&done, "/missing/0")?.contains("before pools kept records"), "{done:#}");
    assert_eq!(text(&done, "/pool")?, "imported");
    array.gantry(&["volume", "map", "imported/v", "--host", "any", "--lun", "5"])?;
    assert!(array.stop()?.success());

    let mut array = array.with_words(&[], &[]);
    array.restart()?;
    assert!(array.gantry(&["events"])?.contains("it is upgraded"));
    assert_ne!(labels(&file)?, before);
    let seen_before = seen(&array)?;
    lose_the_data_directory(&mut array)?;
    import(&array, &file, &["--force"])?;
    assert_eq!(seen(&array)?, seen_before);
    assert!(array.stop()?.success());
    let path = file.to_str().context("a printable path")?;
    array.gantry(&["pool", "verify", path])?;
    Ok(())
}

#[test]
fn a_pool_is_found_in_a_directory_by_its_labels() -> Result<()> {
    let mut array = Array::start()?;
    let file = array.create_pool("p", "1G")?;
    array.create_pool("q", "1G")?;
    let more = array.beside("more.img");
    let device = format!("file:{}", more.display());
    array.gantry(&["pool", "add-device", "p", "--device", &device, "--size", "1G"])?;
    array.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    beside(&array, "nothing", "no pool")?;
    lose_the_data_directory(&mut array)?;
    let folder = array.beside("");
    let folder = folder.to_str().context("a printable path")?;
    let scan = ["pool", "import", "--scan", folder, "--force"];
    let refused = array.try_gantry(&scan)?.failure()?;
    assert!(refused.contains("2 pools were found") && refused.contains("--pool"), "{refused}");
    let refused = refuse_import(&array, &file, &["--force"])?;
    assert!(refused.contains("missing"), "one of two devices: {refused}");
    let done = array.gantry_json(&[&scan[..], &["--pool", "p"]].concat())?;
    assert_eq!(done["devices"].as_array().map(Vec::len), Some(2), "{done:#}");
    array.gantry(&["volume", "show", "p/v"])?;
    let done = array.gantry_json(&[&scan[..], &["--keep-target-name"]].concat())?;
    assert_eq!(text(&done, "/pool")?, "q");
    let nothing = beside(&array, "nothing", "no pool")?;
    let refused = array.try_gantry(&["pool", "import", &nothing])?.failure()?;
    assert!(refused.contains("nothing"), "{refused}");
    Ok(())
}
