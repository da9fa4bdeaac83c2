//! Running the array day by day: locked snapshots, schedules, tasks, alerts, its configuration as
//! one file, and what a service manager hears of it.

mod operations {
    pub(crate) mod authority;
    pub(crate) mod receivers;
}

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::http::Request;
use harness::pdu::RawSession;
use harness::{Array, Value, initiator, number, text};
use operations::authority::Authority;
use operations::receivers::{Encryption, Relay, WebServer};

const PATIENCE: Duration = Duration::from_secs(60);

/// A pool with two volumes.
fn array() -> Result<Array> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    for volume in ["p/a", "p/b"] {
        array.gantry(&["volume", "create", volume, "--size", "64M"])?;
    }
    Ok(array)
}

fn refuse(array: &Array, words: &[&str], reason: &str) -> Result<()> {
    let refusal = array.try_gantry(words)?.failure()?;
    assert!(refusal.contains(reason), "{words:?}: {refusal}");
    Ok(())
}

/// Looks again until there is something.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn list(array: &Array, kind: &str) -> Result<Vec<Value>> {
    let list = array.gantry_json(&[kind, "list"])?;
    Ok(list.as_array().cloned().unwrap_or_default())
}

fn names(array: &Array) -> Result<BTreeSet<String>> {
    let snapshots = list(array, "snapshot")?;
    snapshots.iter().map(|snapshot| Ok(text(snapshot, "/name")?.to_owned())).collect()
}

fn socket(array: &Array) -> PathBuf {
    array.data().join("gantry.sock")
}

/// Runs a command whose words have no blanks.
fn run(array: &Array, words: &str) -> Result<String> {
    array.gantry(&words.split(' ').collect::<Vec<_>>())
}

/// A file with a secret in it.
fn secret_file(array: &Array, name: &str, secret: &str) -> Result<String> {
    let path = array.beside(name);
    fs::write(&path, format!("{secret}\n"))?;
    Ok(path.to_str().context("a printable path")?.to_owned())
}

fn has_event(array: &Array, object: &str, part: &str) -> Result<bool> {
    let events = array.gantry_json(&["events"])?;
    let is_meant = |event: &Value| {
        event["object"] == object && event["message"].as_str().is_some_and(|m| m.contains(part))
    };
    Ok(events.as_array().is_some_and(|events| events.iter().any(is_meant)))
}

#[test]
fn a_locked_snapshot_stays_until_its_moment_whatever_happens() -> Result<()> {
    let mut array = array()?;
    array.gantry(&["snapshot", "create", "p/a", "monday", "--lock-for", "1h"])?;
    array.gantry(&["snapshot", "create", "p/a", "short", "--lock-for", "2s"])?;
    refuse(&array, &["snapshot", "delete", "p/monday"], "locked until")?;
    array.kill()?;
    array.restart()?;
    let delete = Request::new("DELETE", "/v1/snapshots/p/monday");
    delete.send_to_socket(&socket(&array))?.problem(409)?;
    refuse(&array, &["snapshot", "lock", "p/monday", "--lock-for", "30m"], "only be made longer")?;
    refuse(&array, &["snapshot", "lock", "p/monday", "--lock-until", "2001-01-01"], "future")?;
    refuse(&array, &["snapshot", "lock", "p/a", "--lock-for", "1h"], "only snapshots")?;
    array.gantry(&["snapshot", "lock", "p/monday", "--lock-for", "2h"])?;
    let milliseconds = serde_json::json!({ "until": 1_900_000_000_000_u64 });
    let lock = Request::new("PUT", "/v1/pools/p/snapshots/monday/lock").json(&milliseconds);
    lock.send_to_socket(&socket(&array))?.problem(400)?;
    // The volume may go, and its snapshots stay.
    array.gantry(&["volume", "delete", "p/a"])?;
    refuse(&array, &["snapshot", "delete", "p/monday"], "locked until")?;
    wait_for("the end of a lock", || {
        Ok(array.try_gantry(&["snapshot", "delete", "p/short"])?.success().ok())
    })?;
    assert_eq!(names(&array)?, BTreeSet::from(["monday".to_owned()]));
    Ok(())
}

#[test]
fn a_schedule_makes_snapshots_of_one_moment_and_deletes_its_own_only() -> Result<()> {
    let mut array = array()?;
    array.gantry(&["snapshot", "create", "p/a", "a.often-20200101T000000Z"])?;
    run(&array, "schedule create often --volume p/a --volume p/b --every 1s --keep 2")?;
    let first = wait_for("a run", || {
        let names = names(&array)?;
        Ok(names.iter().find_map(|name| Some(name.strip_prefix("b.often-")?.to_owned())))
    })?;
    assert!(first.len() == 16 && first.ends_with('Z'), "{first}");
    assert!(names(&array)?.contains(&format!("a.often-{first}")));
    wait_for("the end of the first run's snapshots", || {
        Ok((!names(&array)?.contains(&format!("b.often-{first}"))).then_some(()))
    })?;
    assert!(names(&array)?.contains("a.often-20200101T000000Z"));
    // Runs are missed while the daemon is not there, and told of.
    array.kill()?;
    thread::sleep(Duration::from_secs(3));
    array.restart()?;
    wait_for("missed runs", || Ok(has_event(&array, "schedule often", "missed")?.then_some(())))?;
    array.gantry(&["schedule", "change", "often", "--off"])?;
    let kept = wait_for("the last run", || {
        let names = names(&array)?;
        Ok((names.len() == 5).then_some(names))
    })?;
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(names(&array)?, kept);
    array.gantry(&["schedule", "delete", "often"])?;
    assert_eq!(names(&array)?, kept);
    Ok(())
}

#[test]
fn what_a_schedule_locks_or_a_host_sees_outlives_its_retention() -> Result<()> {
    let array = array()?;
    run(&array, "schedule create locked --volume p/a --every 1s --keep 1 --lock-for 1h")?;
    wait_for("three runs", || Ok((names(&array)?.len() >= 3).then_some(())))?;
    array.gantry(&["schedule", "delete", "locked"])?;
    for snapshot in list(&array, "snapshot")? {
        assert!(snapshot["locked_until"].is_u64(), "{snapshot}");
        let path = format!("p/{}", text(&snapshot, "/name")?);
        refuse(&array, &["snapshot", "delete", &path], "locked until")?;
    }
    run(&array, "schedule create seen --volume p/b --every 1s --keep 1")?;
    let seen = wait_for("a run", || {
        Ok(names(&array)?.into_iter().find(|name| name.starts_with("seen-")))
    })?;
    // Between two looks it may have been deleted in its turn; then there is another one.
    if array.try_gantry(&["volume", "map", &format!("p/{seen}"), "--host", "any"])?.status.success()
    {
        wait_for("a complaint", || {
            Ok(has_event(&array, "schedule seen", "beyond its time")?.then_some(()))
        })?;
        assert!(names(&array)?.contains(&seen));
    }
    array.gantry(&["volume", "delete", "p/b"])?;
    wait_for("another complaint", || {
        Ok(has_event(&array, "schedule seen", "no volume named")?.then_some(()))
    })?;
    Ok(())
}

#[test]
fn schedules_that_make_no_sense_are_refused() -> Result<()> {
    let array = array()?;
    for (words, reason) in [
        ("--volume p/nothing --every 1h --keep 1", "no volume named"),
        ("--volume a --every 1h --keep 1", "write POOL/NAME"),
        ("--volume p/a --every 0s --keep 1", "every second at most"),
        ("--volume p/a --every 1h --keep 0", "keeps"),
        ("--volume p/a --every 1h --keep 1 --offset 2h", "offset"),
        ("--volume p/a --every 5 --keep 1", "length of time"),
    ] {
        let words: Vec<_> =
            ["schedule", "create", "s"].into_iter().chain(words.split(' ')).collect();
        refuse(&array, &words, reason)?;
    }
    refuse(&array, &["schedule", "show", "s"], "no schedule named")?;
    refuse(&array, &["schedule", "delete", "s"], "no schedule named")
}

/// The newest task of a kind.
fn task(array: &Array, kind: &str) -> Result<Option<Value>> {
    let tasks = array.gantry_json(&["task", "list"])?;
    let tasks = tasks.as_array().cloned().unwrap_or_default();
    Ok(tasks.into_iter().find(|task| task["kind"] == kind))
}

#[test]
fn long_work_is_a_task_that_can_be_watched_waited_for_and_cancelled() -> Result<()> {
    let array = array()?;
    let lun = array.create_lun("p/v", "64M")?;
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun)?], &["write -P 1 0 48M"])?;
    run(&array, "scrub start p --rate 1M")?;
    let scrub = task(&array, "scrub")?.context("a task")?;
    assert_eq!((&scrub["state"], &scrub["can_cancel"]), (&"running".into(), &true.into()));
    assert_eq!(scrub["object"], "pool p");
    assert!(number(&scrub, "/total")? >= 48 << 20, "{scrub}");
    let id = scrub["id"].to_string();
    array.gantry(&["task", "cancel", &id])?;
    assert_eq!(array.gantry_json(&["task", "show", &id])?["state"], "cancelled");
    refuse(&array, &["task", "cancel", &id], "has ended")?;
    refuse(&array, &["task", "wait", &id], "cancelled")?;
    refuse(&array, &["task", "show", "4711"], "no such task")?;
    run(&array, "scrub start p")?;
    run(&array, "task wait")?;
    let second = task(&array, "scrub")?.context("a task")?;
    assert_eq!((&second["state"], &second["done"]), (&"done".into(), &second["total"]));
    run(&array, "pool extend p --size 2G")?;
    for kind in ["create-pool", "extend-pool"] {
        let task = task(&array, kind)?.context("a task")?;
        assert_eq!(task["state"], "done", "{task}");
    }
    Ok(())
}

#[test]
fn space_that_returns_and_a_device_that_joins_are_tasks() -> Result<()> {
    let array = array()?;
    let lun = u8::try_from(array.create_lun("p/full", "8G")?)?;
    let name = "iqn.2026-01.org.example:operations";
    let mut session = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    session.read(lun, &[0; 6], 0)?.good()?;
    // SBC-4 5.49: WRITE SAME (16) of 16 MiB of sevens.
    for piece in 0..512_u64 {
        let mut cdb = [0; 16];
        cdb[0] = 0x93;
        cdb[2..10].copy_from_slice(&(piece << 15).to_be_bytes());
        cdb[12] = 0x80;
        session.write(lun, &cdb, &[7; 512])?.good()?;
    }
    run(&array, "volume unmap p/full --host any")?;
    run(&array, "volume delete p/full")?;
    let mut before = 0;
    wait_for("the space", || {
        let task = task(&array, "delete")?.context("a task")?;
        let (done, total) = (number(&task, "/done")?, number(&task, "/total")?);
        assert!(before <= done && done <= total && total > 0, "{before}: {task}");
        assert_eq!((&task["unit"], &task["object"]), (&"bytes".into(), &"pool p".into()));
        before = done;
        Ok((task["state"] == "done" && done == total).then_some(()))
    })?;
    let device = format!("file:{}", array.beside("more").display());
    array.gantry(&["pool", "add-device", "p", &device, "--size", "1G"])?;
    let joined = task(&array, "add-device")?.context("a task")?;
    assert_eq!((&joined["state"], &joined["object"]), (&"done".into(), &"pool p".into()));
    // One that cannot be made never begins.
    array.try_gantry(&["pool", "add-device", "p", &device, "--size", "1G"])?.failure()?;
    assert_eq!(task(&array, "add-device")?.context("a task")?["id"], joined["id"]);
    Ok(())
}

#[test]
fn a_host_that_sanitizes_a_volume_is_a_task() -> Result<()> {
    let array = array()?;
    let lun = u8::try_from(array.create_lun("p/large", "512M")?)?;
    let name = "iqn.2026-01.org.example:operations";
    let mut session = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
    session.read(lun, &[0; 6], 0)?.good()?;
    // SBC-4 5.30: OVERWRITE with IMMED; one pass, a pattern of one block of zeros.
    let mut list = vec![1, 0, 2, 0];
    list.resize(4 + 512, 0);
    session.write(lun, &[0x48, 0x81, 0, 0, 0, 0, 0, 2, 4, 0], &list)?.good()?;
    let begun = wait_for("a task", || task(&array, "sanitize"))?;
    assert_eq!((&begun["object"], &begun["can_cancel"]), (&"volume p/large".into(), &false.into()));
    let id = begun["id"].to_string();
    if begun["state"] == "running" {
        refuse(&array, &["task", "cancel", &id], "cannot be cancelled")?;
    }
    array.gantry(&["task", "wait", &id])?;
    assert_eq!(array.gantry_json(&["task", "show", &id])?["state"], "done");
    Ok(())
}

const KEY: &str = "a key that nobody knows";

#[test]
fn a_webhook_is_told_signed_and_again_until_it_takes_it() -> Result<()> {
    let mut array = array()?;
    let elsewhere = WebServer::start(&["200 OK"])?;
    let server = WebServer::start(&["503 Not now", "200 OK"])?;
    let key = secret_file(&array, "key", KEY)?;
    let url = format!("http://{}/told?by=gantry", server.address);
    let words = "--severity information --secret-file";
    run(&array, &format!("alert webhook hook {url} {words} {key}"))?;
    run(&array, "scrub start p")?;
    let first = server.next()?;
    assert_eq!(first.line, "POST /told?by=gantry HTTP/1.1");
    let second = server.next()?;
    assert!(first.is_signed_with(KEY) && second.is_signed_with(KEY));
    assert_eq!(first.body, second.body);
    let message = first.json()?;
    assert_eq!((&message["object"], &message["test"]), (&"pool p".into(), &false.into()));
    assert_eq!(message["array"], array.target_name()?);
    // The key outlives a restart and a change of the rest, and is shown nowhere.
    array.stop()?;
    array.restart()?;
    run(&array, &format!("alert webhook hook {url}&again"))?;
    let shown = run(&array, "alert show --json")?;
    assert!(!shown.contains(KEY) && shown.contains("\"signed\": true"), "{shown}");
    for file in ["gantry.json", "audit.log"] {
        let text = fs::read_to_string(array.data().join(file)).unwrap_or_default();
        assert!(!text.contains(KEY), "{file}");
    }
    run(&array, "alert test")?;
    wait_for("the test", || {
        let posted = server.next()?;
        Ok((posted.json()?["test"] == true && posted.is_signed_with(KEY)).then_some(()))
    })?;
    // A redirection is not followed.
    let location: &'static str =
        format!("302 Found\r\nLocation: http://{}/", elsewhere.address).leak();
    let moved = WebServer::start(&[location])?;
    run(&array, &format!("alert webhook moved http://{}/", moved.address))?;
    refuse(&array, &["alert", "test"], "not followed")?;
    moved.next()?;
    assert!(elsewhere.is_silent());
    run(&array, "alert delete-webhook moved")?;
    assert!(!array.log().contains(KEY));
    Ok(())
}

#[test]
fn nobody_waits_for_a_receiver_that_does_not_answer() -> Result<()> {
    let array = array()?;
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let server = WebServer::start(&["200 OK"])?;
    let severity = "--severity information";
    run(&array, &format!("alert webhook silent {severity} http://{}/", silent.local_addr()?))?;
    run(&array, &format!("alert webhook hook {severity} http://{}/", server.address))?;
    // Nobody listens on port 1, and the system says so at once.
    run(&array, &format!("alert webhook nobody {severity} http://127.0.0.1:1/"))?;
    // Three pools: what is told again of one pool within minutes is one event.
    for pool in ["q", "r"] {
        run(&array, &format!("pool create {pool} --device memory: --size 1G"))?;
    }
    for pool in ["p", "q", "r"] {
        run(&array, &format!("scrub start {pool}"))?;
        run(&array, "task wait")?;
    }
    for pool in ["p", "q", "r"] {
        assert_eq!(server.next()?.json()?["object"], format!("pool {pool}"));
    }
    let deliveries = array.gantry_json(&["alert", "deliveries"])?;
    let deliveries = deliveries.as_array().context("a list")?;
    let of = |name: &str| deliveries.iter().find(|delivery| delivery["receiver"] == name);
    assert_eq!(of("webhook hook").context("a delivery")?["ok"], true);
    let failed = of("webhook nobody").context("a delivery")?;
    assert!(text(failed, "/detail")?.contains("tried again"), "{failed}");
    Ok(())
}

#[test]
fn mail_goes_through_a_relay_and_never_unencrypted_against_the_word() -> Result<()> {
    let array = array()?;
    let relay = Relay::start()?;
    let words = format!(
        "alert mail --relay {} --from array@example.org --to a@example.org --to b@example.org",
        relay.address
    );
    run(&array, &format!("{words} --tls none --severity error"))?;
    run(&array, "alert test")?;
    let heard = relay.heard_up_to(".")?.join("\n");
    for part in [
        "MAIL FROM:<array@example.org>",
        "RCPT TO:<a@example.org>",
        "RCPT TO:<b@example.org>",
        "Subject: [gantry] test: information: alerts this is a test",
        &array.target_name()?,
    ] {
        assert!(heard.contains(part), "{part}: {heard}");
    }
    relay.heard();
    // This relay cannot encrypt: it hears neither sender nor password.
    let password = secret_file(&array, "password", "hush")?;
    run(&array, &format!("{words} --tls starttls --user u --password-file {password}"))?;
    array.try_gantry(&["alert", "test"])?.failure()?;
    let heard = relay.heard().join("\n");
    assert!(!heard.contains("MAIL") && !heard.contains("AUTH"), "{heard}");
    let words: Vec<&str> = words.split(' ').collect();
    let with = |more: &[&'static str]| [&words[..], more].concat();
    let file = ["--password-file", &*password];
    refuse(&array, &[&with(&["--tls", "none", "--user", "u"])[..], &file].concat(), "unencrypted")?;
    // A password that was given for one user is not used for another.
    refuse(&array, &with(&["--user", "somebody"]), "not known")?;
    assert!(!array.log().contains("hush"));
    Ok(())
}

/// An array on a system that trusts this authority and no other.
fn array_that_trusts(authority: &Authority) -> Result<Array> {
    let array = Array::prepare()?;
    let file = array.beside("authority.pem");
    fs::write(&file, &authority.certificate)?;
    let variable = format!("SSL_CERT_FILE={}", file.display());
    let mut array = array.with_words(&["env", &variable], &[]);
    array.restart()?;
    Ok(array)
}

#[test]
fn a_webhook_by_https_is_told_only_if_its_certificate_is_trusted() -> Result<()> {
    let (trusted, unknown) = (Authority::new("ours")?, Authority::new("theirs")?);
    let array = array_that_trusts(&trusted)?;
    let server = WebServer::start_tls(&["200 OK"], trusted.server)?;
    let stranger = WebServer::start_tls(&["200 OK"], unknown.server)?;
    let key = secret_file(&array, "key", KEY)?;
    let url = format!("https://{}/told", server.address);
    run(&array, &format!("alert webhook hook {url} --secret-file {key}"))?;
    run(&array, "alert test")?;
    let posted = server.next()?;
    assert!(posted.is_signed_with(KEY) && posted.json()?["test"] == true);
    let port = stranger.address.port();
    run(&array, &format!("alert webhook hook https://127.0.0.1:{port}/"))?;
    refuse(&array, &["alert", "test"], "does not trust")?;
    // A certificate for another name is none, whoever signed it.
    let port = server.address.port();
    run(&array, &format!("alert webhook hook https://localhost:{port}/"))?;
    refuse(&array, &["alert", "test"], "certificate")?;
    assert!(stranger.is_silent() && server.is_silent());
    Ok(())
}

#[test]
fn mail_goes_encrypted_to_a_relay_whose_certificate_is_trusted_and_to_no_other() -> Result<()> {
    // The unknown one claims to be the other.
    let (trusted, unknown) = (Authority::new("ours")?, Authority::new("ours")?);
    let array = array_that_trusts(&trusted)?;
    let password = secret_file(&array, "password", "hush")?;
    for (word, encryption, of_stranger) in [
        (
            "starttls",
            Encryption::Later(trusted.server.clone()),
            Encryption::Later(unknown.server.clone()),
        ),
        ("tls", Encryption::AtOnce(trusted.server), Encryption::AtOnce(unknown.server)),
    ] {
        let (relay, stranger) = (Relay::start_with(encryption)?, Relay::start_with(of_stranger)?);
        let to = |relay: &Relay| {
            let people = "--from array@example.org --to ops@example.org --user u";
            let address = relay.address;
            let tls = format!("--tls {word} --password-file {password}");
            run(&array, &format!("alert mail --relay {address} {people} {tls}"))
        };
        to(&relay)?;
        run(&array, "alert test")?;
        let heard = relay.heard_up_to("tls .")?.join("\n");
        // RFC 4616: NUL, user, NUL, password; in base64.
        for part in ["tls AUTH PLAIN AHUAaHVzaA==", "tls RCPT TO:<ops@example.org>", "tls Subject:"]
        {
            assert!(heard.contains(part), "{part}: {heard}");
        }
        to(&stranger)?;
        refuse(&array, &["alert", "test"], "does not trust")?;
        let heard = stranger.heard().join("\n");
        assert!(!heard.contains("MAIL") && !heard.contains("AUTH"), "{heard}");
    }
    assert!(!array.log().contains("hush"));
    Ok(())
}

/// An array with one of everything.
fn configured() -> Result<Array> {
    let array = array()?;
    let secret = secret_file(&array, "secret", "twelve or more bytes")?;
    let chap = format!("--chap-user esx --chap-secret-file {secret}");
    run(&array, &format!("host create esx1 --initiator iqn.2026-01.org.example:esx1 {chap}"))?;
    run(&array, "host create esx2 --initiator iqn.2026-01.org.example:esx2")?;
    run(&array, "group set esx --host esx1 --host esx2")?;
    run(&array, "volume map p/a --host esx --lun 7")?;
    run(&array, "volume map p/b --host esx2 --read-only")?;
    run(&array, "volume set p/a --soft 40 --hard 50")?;
    run(&array, "pool set p --soft 60 --hard 70")?;
    run(&array, "volume reservations p/b hidden")?;
    run(&array, "schedule create daily --volume p/a --every 1d --keep 7 --lock-for 2d")?;
    let key = secret_file(&array, "key", KEY)?;
    run(&array, &format!("alert webhook hook http://127.0.0.1:1/ --secret-file {key}"))?;
    Ok(array)
}

fn exported(array: &Array) -> Result<Value> {
    let mut configuration: Value = serde_json::from_str(&run(array, "configuration export")?)?;
    configuration["array"] = Value::Null;
    // Each array has files of its own.
    for pool in configuration["pools"].as_array_mut().context("pools")? {
        pool["devices"] = Value::Null;
    }
    Ok(configuration)
}

#[test]
fn a_configuration_moves_to_another_array_as_a_whole_or_not_at_all() -> Result<()> {
    let first = configured()?;
    let file = first.beside("configuration.json");
    let name = file.to_str().context("a printable path")?;
    first.gantry(&["configuration", "export", "--with-secrets", name])?;
    assert!(fs::read_to_string(&file)?.contains(KEY));
    let without = run(&first, "configuration export")?;
    assert!(!without.contains(KEY) && !without.contains("twelve"), "{without}");
    // Pools and volumes are not there: nothing is changed, and everything that is wrong is said.
    let second = Array::start()?;
    let before = exported(&second)?;
    let refusal = second.try_gantry(&["configuration", "import", name])?.failure()?;
    for part in ["nothing was changed", "pool p: ", "volume p/a: ", "schedule daily: "] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    assert_eq!(exported(&second)?, before);
    second.create_pool("p", "1G")?;
    run(&second, "volume create p/a --size 64M")?;
    run(&second, "volume create p/b --size 64M")?;
    let before = exported(&second)?;
    let planned = second.gantry_json(&["configuration", "import", name, "--dry-run"])?;
    assert!(planned["changes"].to_string().contains("host esx1 is created"), "{planned}");
    assert_eq!(exported(&second)?, before);
    let done = second.gantry_json(&["configuration", "import", name])?;
    assert_eq!(done["changes"], planned["changes"]);
    assert_eq!(exported(&second)?, exported(&first)?);
    let again = second.gantry_json(&["configuration", "import", name])?;
    assert_eq!(again["changes"], serde_json::json!([]));
    // Secrets that are not in the file stay where names are the same, and are missed elsewhere.
    fs::write(&file, &without)?;
    let again = second.gantry_json(&["configuration", "import", name])?;
    assert_eq!(again["changes"], serde_json::json!([]));
    run(&second, "host change esx1 --no-chap")?;
    refuse(&second, &["configuration", "import", name], "host esx1: the CHAP secret")?;
    Ok(())
}

#[test]
fn an_empty_array_is_made_as_a_file_describes_another() -> Result<()> {
    let first = configured()?;
    run(&first, "volume create p/c --size 8M --thick --block-size 4096")?;
    run(&first, "snapshot create p/a s")?;
    run(&first, "volume map p/s --host esx2")?;
    let file = first.beside("configuration.json");
    let name = file.to_str().context("a printable path")?;
    first.gantry(&["configuration", "export", "--with-secrets", name])?;
    let second = Array::start()?;
    let place = format!("file:{}", second.beside("again.img").display());
    let mut moved: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    moved["pools"][0]["devices"][0]["device"] = place.into();
    fs::write(&file, moved.to_string())?;
    let import = ["configuration", "import", name, "--create"];
    let planned = second.gantry(&[&import[..], &["--dry-run"]].concat())?;
    for part in ["pool p is created on file:", "volume p/c of 8 MiB", "snapshot p/s is not here"] {
        assert!(planned.contains(part), "{part}: {planned}");
    }
    assert_eq!(second.gantry_json(&["pool", "list"])?, serde_json::json!([]));
    second.gantry(&import)?;
    let (mut expected, made) = (exported(&first)?, exported(&second)?);
    let volumes = expected["volumes"].as_array_mut().context("volumes")?;
    volumes.retain(|volume| volume["volume"] != "p/s");
    assert_eq!(made, expected);
    // A second time there is nothing to make.
    let again = second.gantry_json(&[&import[..], &["--dry-run"]].concat())?;
    assert!(!again["changes"].to_string().contains("is created"), "{again}");
    Ok(())
}

#[test]
fn secrets_leave_over_the_socket_only_and_nonsense_is_refused() -> Result<()> {
    let array = configured()?;
    let token = array.gantry_json(&["token", "create", "t", "--role", "admin"])?;
    let bearer = format!("Bearer {}", text(&token, "/secret")?);
    let get = |query: &str| {
        let request = Request::new("GET", &format!("/v1/configuration{query}"));
        request.with("Authorization", &bearer).send(array.http())
    };
    for query in ["?with_secrets=true", "?with_secrets=true&peer=socket"] {
        get(query)?.problem(403)?;
    }
    for body in [
        serde_json::json!({}),
        serde_json::json!({ "version": 2 }),
        serde_json::json!({ "version": 1, "hostz": [] }),
        serde_json::json!({ "version": 1, "hosts": [{ "name": "x" }] }),
    ] {
        let import = Request::new("POST", "/v1/configuration").json(&body);
        import.send_to_socket(&socket(&array))?.problem(400)?;
    }
    let hosts: Vec<Value> = (0..30)
        .map(|number| serde_json::json!({ "name": format!("h{number}"), "initiators": ["wrong"] }))
        .collect();
    let import = Request::new("POST", "/v1/configuration?dry_run=true");
    let import = import.json(&serde_json::json!({ "version": 1, "hosts": hosts }));
    let problem = import.send_to_socket(&socket(&array))?.problem(409)?;
    assert!(problem.contains("h0") && problem.contains("and 10 more"), "{problem}");
    Ok(())
}

#[test]
fn events_outlive_a_sudden_end() -> Result<()> {
    let mut array = array()?;
    let deviate = ["volume", "identification", "p/a", "--vendor", "ACME", "--product", "Array"];
    array.gantry(&deviate)?;
    let before = array.gantry_json(&["events"])?;
    assert!(before[0]["message"].to_string().contains("ACME"), "{before}");
    wait_for("the record", || {
        let record = fs::read_to_string(array.data().join("events.jsonl"))?;
        Ok(record.contains("ACME").then_some(()))
    })?;
    array.kill()?;
    array.restart()?;
    array.gantry(&["volume", "identification", "p/a", "--inherit"])?;
    let after = array.gantry_json(&["events"])?;
    assert_eq!((&after[0], &after[1]["number"]), (&before[0], &2.into()), "{after}");
    Ok(())
}

#[test]
fn a_service_manager_hears_that_the_daemon_is_ready_lives_and_stops() -> Result<()> {
    let array = Array::prepare()?;
    let place = array.beside("notify.sock");
    let heard = UnixDatagram::bind(&place)?;
    heard.set_read_timeout(Some(PATIENCE))?;
    let variable = format!("NOTIFY_SOCKET={}", place.display());
    let mut array = array.with_words(&["env", &variable, "WATCHDOG_USEC=10000000"], &[]);
    array.restart()?;
    let next = || -> Result<String> {
        let mut message = [0; 256];
        let length = heard.recv(&mut message)?;
        Ok(String::from_utf8_lossy(&message[..length]).trim().to_owned())
    };
    let mut before = Vec::new();
    wait_for("readiness", || {
        before.push(next()?);
        Ok(before.contains(&"READY=1".to_owned()).then_some(()))
    })?;
    for _ in 0..2 {
        assert_eq!(next()?, "WATCHDOG=1");
    }
    array.stop()?;
    wait_for("the end", || Ok((next()? == "STOPPING=1").then_some(())))
}

/// The socket of a service manager that is busy takes nothing: words wait, none is left out.
#[test]
fn a_busy_service_manager_hears_everything_later() -> Result<()> {
    let array = Array::prepare()?;
    let place = array.beside("notify.sock");
    let heard = UnixDatagram::bind(&place)?;
    let other = UnixDatagram::unbound()?;
    other.connect(&place)?;
    other.set_nonblocking(true)?;
    while other.send(b"OTHER=1").is_ok() {}
    heard.set_read_timeout(Some(PATIENCE))?;
    let variable = format!("NOTIFY_SOCKET={}", place.display());
    let mut array = array.with_words(&["env", &variable, "WATCHDOG_USEC=10000000"], &[]);
    array.restart()?;
    // More of its words than there would be room for in a queue.
    thread::sleep(Duration::from_secs(7));
    let mut words = Vec::new();
    thread::scope(|scope| -> Result<()> {
        let ended = scope.spawn(|| array.stop());
        while words.last().is_none_or(|word| word != "STOPPING=1") {
            let mut message = [0; 256];
            let length = heard.recv(&mut message)?;
            words.push(String::from_utf8_lossy(&message[..length]).trim().to_owned());
        }
        ended.join().expect("it does not panic").map(drop)
    })?;
    words.retain(|word| word != "OTHER=1");
    ensure!(words.starts_with(&["READY=1".to_owned(), "WATCHDOG=1".to_owned()]), "{words:?}");
    Ok(())
}
