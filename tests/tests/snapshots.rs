//! Snapshots, groups of them, clones and reverting, as an administrator and a host see them.

use anyhow::Result;
use harness::pdu::{RawSession, cdb10};
use harness::{Array, Value, initiator, number, text};

const NAME: &str = "iqn.2026-01.org.example:snapshots";

fn array_with_volume() -> Result<(Array, u8)> {
    let array = Array::start()?;
    array.create_pool("p", "2G")?;
    let lun = u8::try_from(array.create_lun("p/v", "64M")?)?;
    Ok((array, lun))
}

fn io(array: &Array, lun: u8, commands: &[&str]) -> Result<String> {
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun.into())?], commands)
}

fn map(array: &Array, path: &str) -> Result<u8> {
    let map = array.gantry_json(&["volume", "map", path, "--host", "any"])?;
    Ok(u8::try_from(number(&map, "/lun")?)?)
}

fn session(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), NAME, &array.target_name()?)
}

fn refuse(array: &Array, words: &[&str], reason: &str) -> Result<()> {
    let refusal = array.try_gantry(words)?.failure()?;
    assert!(refusal.contains(reason), "{words:?}: {refusal}");
    Ok(())
}

/// The sense key, ASC and ASCQ of a command that failed.
fn sense(session: &mut RawSession, lun: u8, cdb: &[u8], data: &[u8]) -> Result<[u8; 3]> {
    let answer = if data.is_empty() {
        session.read_once(lun, cdb, 0)?
    } else {
        session.write(lun, cdb, data)?
    };
    assert_eq!(answer.status, 2, "{cdb:02x?}");
    Ok([answer.sense[2] & 0x0f, answer.sense[12], answer.sense[13]])
}

#[test]
fn a_snapshot_keeps_what_was_there_and_is_mapped_for_reading_only() -> Result<()> {
    let (mut array, lun) = array_with_volume()?;
    io(&array, lun, &["write -P 1 0 8M"])?;
    array.gantry(&["snapshot", "create", "p/v", "monday"])?;
    io(&array, lun, &["write -P 2 0 4M"])?;
    let kept = map(&array, "p/monday")?;
    array.kill()?;
    array.restart()?;
    let kept_url = array.lun_url(kept.into())?;
    initiator::qemu_io(&["-r", "-f", "raw", &kept_url], &["read -P 1 0 8M", "read -P 0 8M 8M"])?;
    io(&array, lun, &["read -P 2 0 4M", "read -P 1 4M 4M"])?;
    let mut session = session(&array)?;
    session.read(kept, &[0; 6], 0)?.good()?;
    assert_eq!(sense(&mut session, kept, &cdb10(0x2a, 0, 0, 8), &[9; 4096])?, [7, 0x27, 0]);
    let mode = session.read(kept, &[0x1a, 0x08, 0x3f, 0, 64, 0], 64)?.good()?;
    assert_eq!(mode[2] & 0x80, 0x80, "the host is told that it is write protected");
    let list = array.gantry_json(&["snapshot", "list"])?;
    assert_eq!((text(&list, "/0/name")?, text(&list, "/0/volume")?), ("monday", "v"));
    assert_eq!(array.gantry_json(&["volume", "list"])?.as_array().map(Vec::len), Some(1));
    refuse(&array, &["volume", "resize", "p/monday", "--size", "128M"], "snapshot never changes")?;
    refuse(&array, &["snapshot", "delete", "p/monday"], "still mapped")?;
    refuse(&array, &["volume", "delete", "p/monday"], "gantry snapshot")?;
    refuse(&array, &["snapshot", "delete", "p/v"], "gantry volume")?;
    array.gantry(&["volume", "unmap", "p/monday", "--host", "any"])?;
    array.gantry(&["snapshot", "delete", "p/monday"])?;
    assert_eq!(array.gantry_json(&["snapshot", "list"])?, serde_json::json!([]));
    Ok(())
}

#[test]
fn a_group_is_made_whole_or_not_at_all() -> Result<()> {
    let (array, _) = array_with_volume()?;
    array.gantry(&["volume", "create", "p/w", "--size", "64M"])?;
    let create = ["snapshot", "create", "--group", "monday", "p/v", "p/w"];
    let made = array.gantry_json(&create)?;
    assert_eq!((text(&made, "/0/name")?, text(&made, "/1/name")?), ("v.monday", "w.monday"));
    array.gantry(&["snapshot", "create", "p/v", "w.tuesday"])?;
    refuse(&array, &["snapshot", "create", "--group", "tuesday", "p/v", "p/w"], "w.tuesday")?;
    let names = |array: &Array| -> Result<Vec<String>> {
        let list = array.gantry_json(&["snapshot", "list"])?;
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter().map(|one| text(one, "/name").map(str::to_owned)).collect()
    };
    assert_eq!(names(&array)?, ["v.monday", "w.tuesday", "w.monday"]);
    array.create_pool("q", "1G")?;
    array.gantry(&["volume", "create", "q/x", "--size", "64M"])?;
    refuse(&array, &["snapshot", "create", "--group", "g", "p/v", "q/x"], "one pool")?;
    refuse(&array, &["snapshot", "create", "--group", "g", "p/v", "p/none"], "p/none")?;
    refuse(&array, &["snapshot", "create", "p/v", "bad name"], "not a valid name")?;
    refuse(&array, &["snapshot", "create", "p/v"], "NAME")?;
    assert_eq!(names(&array)?.len(), 3);
    Ok(())
}

/// A host writes the same version to two volumes, one after the other, again and again. In every
/// group the first volume is equal to the second or one version ahead.
#[test]
fn a_group_is_of_one_moment_while_a_host_writes() -> Result<()> {
    let (array, first) = array_with_volume()?;
    let second = u8::try_from(array.create_lun("p/w", "64M")?)?;
    let (portal, target) = (array.portal(), array.target_name()?);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            let mut session = RawSession::log_in(portal, NAME, &target)?;
            for version in 1_u64.. {
                let block: Vec<u8> = version.to_be_bytes().repeat(512);
                for lun in [first, second] {
                    session.write(lun, &cdb10(0x2a, 0, 0, 8), &block)?.good()?;
                }
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        });
        for group in 0..20 {
            let name = group.to_string();
            array.gantry(&["snapshot", "create", "--group", &name, "p/v", "p/w"])?;
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().expect("the writer returns its errors")
    })?;
    let mut session = session(&array)?;
    let mut latest = 0;
    for group in 0..20 {
        let mut versions = [0; 2];
        for (volume, version) in ["v", "w"].iter().zip(&mut versions) {
            let lun = map(&array, &format!("p/{volume}.{group}"))?;
            let data = session.read(lun, &[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0], 4096)?.good()?;
            *version = u64::from_be_bytes(data[..8].try_into()?);
        }
        let [first, second] = versions;
        assert!(first == second || first == second + 1, "group {group}: {first} and {second}");
        assert!(first >= latest, "groups are in order");
        latest = first;
    }
    assert!(latest > 0);
    Ok(())
}

#[test]
fn a_clone_is_a_volume_of_its_own_and_costs_no_data() -> Result<()> {
    let (array, lun) = array_with_volume()?;
    io(&array, lun, &["write -P 1 0 16M"])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    io(&array, lun, &["write -P 2 0 1M"])?;
    let written = |array: &Array| -> Result<u64> {
        number(&array.gantry_json(&["pool", "show", "p"])?, "/counters/data_bytes_written")
    };
    let before = written(&array)?;
    array.gantry(&["volume", "clone", "p/v", "of-volume"])?;
    array.gantry(&["volume", "clone", "p/s", "p/of-snapshot"])?;
    assert_eq!(written(&array)?, before);
    let (of_volume, of_snapshot) = (map(&array, "p/of-volume")?, map(&array, "p/of-snapshot")?);
    io(&array, of_volume, &["read -P 2 0 1M", "read -P 1 1M 15M", "write -P 3 0 2M"])?;
    io(&array, of_snapshot, &["read -P 1 0 16M", "write -P 4 8M 1M"])?;
    io(&array, lun, &["read -P 2 0 1M", "read -P 1 1M 15M"])?;
    let clone = array.gantry_json(&["volume", "show", "p/of-snapshot"])?;
    assert_eq!(text(&clone, "/origin")?, "p/s");
    assert_eq!(clone["snapshot"], Value::Bool(false));
    assert_ne!(
        text(&clone, "/naa")?,
        text(&array.gantry_json(&["volume", "show", "p/v"])?, "/naa")?
    );
    refuse(&array, &["volume", "clone", "p/v", "s"], "'s'")?;
    refuse(&array, &["volume", "clone", "p/none", "x"], "p/none")?;
    array.gantry(&["snapshot", "delete", "p/s"])?;
    let clone = array.gantry_json(&["volume", "show", "p/of-snapshot"])?;
    assert_eq!(clone["origin"], Value::Null);
    io(&array, of_snapshot, &["read -P 1 0 8M", "read -P 4 8M 1M"])?;
    Ok(())
}

#[test]
fn a_volume_takes_back_what_a_snapshot_kept_and_hosts_are_told() -> Result<()> {
    let (mut array, lun) = array_with_volume()?;
    io(&array, lun, &["write -P 1 0 8M"])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    io(&array, lun, &["write -P 2 0 16M"])?;
    array.gantry(&["volume", "resize", "p/v", "--size", "128M"])?;
    array.gantry(&["volume", "create", "p/other", "--size", "64M"])?;
    let revert = ["volume", "revert", "p/v", "--to", "s"];
    refuse(&array, &revert, "--force")?;
    let of_other = ["volume", "revert", "p/other", "--to", "s"];
    refuse(&array, &of_other, "not a snapshot of this volume")?;
    refuse(&array, &["volume", "revert", "p/v", "--to", "other"], "not a snapshot")?;
    refuse(&array, &["volume", "revert", "p/v", "--to", "none"], "p/none")?;
    let mut session = session(&array)?;
    session.read(lun, &[0; 6], 0)?.good()?;
    array.gantry(&[&revert[..], &["--force"]].concat())?;
    let told = [sense(&mut session, lun, &[0; 6], &[])?, sense(&mut session, lun, &[0; 6], &[])?];
    assert!(told.contains(&[6, 0x2a, 0x09]), "the capacity has changed: {told:02x?}");
    assert!(told.contains(&[6, 0x28, 0x00]), "the medium may have changed: {told:02x?}");
    session.read_once(lun, &[0; 6], 0)?.good()?;
    assert_eq!(initiator::capacity_bytes(&array.lun_url(lun.into())?)?, 64 << 20);
    io(&array, lun, &["read -P 1 0 8M", "read -P 0 8M 8M"])?;
    array.kill()?;
    array.restart()?;
    io(&array, lun, &["read -P 1 0 8M", "read -P 0 8M 8M", "write -P 5 0 1M"])?;
    array.gantry(&["volume", "unmap", "p/v", "--host", "any"])?;
    array.gantry(&revert)?;
    map(&array, "p/v")?;
    io(&array, lun, &["read -P 1 0 8M"])?;
    Ok(())
}
