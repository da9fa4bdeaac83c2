//! No change of the administrator's stops the array: clients that change everything at once, and
//! a data directory that is slow, full or broken.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::faulty_folder::{EIO, ENOSPC, FaultyFolder};
use harness::http::{Answer, Request};
use harness::pdu::RawSession;
use harness::random::Random;
use harness::{Array, Value};
use serde_json::json;

const CLIENTS: u64 = 8;
const REQUESTS_PER_CLIENT: u64 = 400;

/// What all clients know.
struct Clients<'a> {
    array: &'a Array,
    answered: AtomicUsize,
    /// Statuses that were seen.
    statuses: Mutex<BTreeSet<u16>>,
}

impl Clients<'_> {
    /// Sends a request over the socket and waits for its answer.
    fn ask(&self, request: &Request) -> Result<()> {
        let answer =
            send(self.array, request).with_context(|| format!("no answer to {request:?}"))?;
        ensure!(answer.status != 500, "{request:?}: {}", answer.body);
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.statuses.lock().expect("nobody panics with it").insert(answer.status);
        Ok(())
    }

    fn run(&self, client: u64) -> Result<()> {
        let mut random = Random::new(client);
        for number in 0..REQUESTS_PER_CLIENT {
            self.ask(&self.choose(&mut random, client, number))?;
        }
        Ok(())
    }

    /// One request of all kinds that make, change, look at and delete pools and what is in them.
    fn choose(&self, random: &mut Random, client: u64, number: u64) -> Request {
        let mut pick = |count: u64| random.below(count);
        let pool = ["q", "r", "s"][pick(3) as usize];
        let volume = format!("v{}", pick(4));
        let put = |path: String, body: Value| Request::new("PUT", &path).json(&body);
        let post = |path: String, body: Value| Request::new("POST", &path).json(&body);
        let of_pool = format!("/v1/pools/{pool}");
        let of_volume = format!("/v1/volumes/{pool}/{volume}");
        let file = |name: String| format!("file:{}", self.array.beside(&name).display());
        match pick(21) {
            0..=2 => {
                let device = match pick(2) {
                    0 => "memory:".to_owned(),
                    _ => file(format!("{client}-{number}")),
                };
                let body = json!({ "name": pool, "devices": [device], "size_bytes": 1_u64 << 30 });
                post("/v1/pools".to_owned(), body)
            }
            3..=6 => Request::new("DELETE", &of_pool),
            7 => {
                let device = file(format!("{client}-{number}"));
                let body = json!({ "device": device, "size_bytes": 1_u64 << 30 });
                post(format!("{of_pool}/devices"), body)
            }
            8 => {
                let size = (1_u64 << 30) + ((1 + pick(64)) << 20);
                Request::new("PATCH", &of_pool).json(&json!({ "device": 0, "size_bytes": size }))
            }
            9 => put(format!("{of_pool}/scrub"), json!({})),
            10 => Request::new("DELETE", &format!("{of_pool}/scrub")),
            11 => put(
                format!("{of_pool}/thresholds"),
                json!({ "soft_percent": 50, "hard_percent": 60 + pick(30) }),
            ),
            12 => post(
                "/v1/volumes".to_owned(),
                json!({ "pool": pool, "name": volume, "size_bytes": 1 << 20 }),
            ),
            13..=15 => Request::new("DELETE", &of_volume),
            16 => {
                let snapshots = json!([{ "volume": volume, "name": format!("v{}", pick(4)) }]);
                post("/v1/snapshots".to_owned(), json!({ "pool": pool, "snapshots": snapshots }))
            }
            17 => Request::new("DELETE", &format!("/v1/snapshots/{pool}/{volume}")),
            18 => put(format!("{of_volume}/maps/any"), json!({})),
            19 => Request::new("DELETE", &format!("{of_volume}/maps/any")),
            _ => Request::new("GET", ["/v1/pools", "/v1/volumes", "/v1/tasks"][pick(3) as usize]),
        }
    }
}

/// Everything that lists say, without what hosts and time change.
fn state(array: &Array) -> Result<Vec<Value>> {
    let mut state = Vec::new();
    for (noun, fields) in [
        ("pool", &["name", "state", "volumes", "snapshots", "thresholds"][..]),
        ("volume", &["pool", "name", "naa", "size_bytes", "hosts"]),
        ("snapshot", &["pool", "name", "naa", "size_bytes"]),
    ] {
        for object in array.gantry_json(&[noun, "list"])?.as_array().context("a list")? {
            state.push(fields.iter().map(|&field| object[field].clone()).collect());
        }
    }
    Ok(state)
}

/// Eight clients like these ended every daemon within a second: two simultaneous deletions of a
/// pool left one of them waiting for ever, or the number of a pool that was gone was looked up.
#[test]
fn eight_clients_that_change_everything_at_once_are_all_answered() -> Result<()> {
    let mut array = Array::start()?;
    let clients =
        Clients { array: &array, answered: AtomicUsize::new(0), statuses: Mutex::default() };
    thread::scope(|scope| {
        let clients = &clients;
        let threads = (0..CLIENTS).map(|client| scope.spawn(move || clients.run(client)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it returns"))
    })?;
    assert_eq!(clients.answered.into_inner() as u64, CLIENTS * REQUESTS_PER_CLIENT);
    let statuses = clients.statuses.into_inner()?;
    for status in [200, 404, 409] {
        assert!(statuses.contains(&status), "{statuses:?}");
    }
    ensure!(array.is_running()?, "{}", array.log());
    ensure!(!array.log().contains("panicked"), "{}", array.log());
    delete_memory_pools(&array)?;
    let before = state(&array)?;
    assert!(array.stop()?.success());
    array.restart()?;
    assert_eq!(state(&array)?, before, "what was answered is there after a restart");
    Ok(())
}

/// Pools in memory are gone after a restart.
fn delete_memory_pools(array: &Array) -> Result<()> {
    for pool in array.gantry_json(&["pool", "list"])?.as_array().context("a list")? {
        let in_memory = |device: &Value| device["device"].as_str() == Some("memory:");
        if !pool["devices"].as_array().context("devices")?.iter().any(in_memory) {
            continue;
        }
        let name = pool["name"].as_str().context("a name")?;
        for noun in ["volume", "snapshot"] {
            for object in array.gantry_json(&[noun, "list"])?.as_array().context("a list")? {
                if object["pool"] == name {
                    delete(array, noun, object)?;
                }
            }
        }
        send(array, &Request::new("DELETE", &format!("/v1/pools/{name}")))?.success()?;
    }
    Ok(())
}

fn delete(array: &Array, noun: &str, object: &Value) -> Result<()> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let place = format!("{}/{}", text("pool"), text("name"));
    let path = format!("/v1/{noun}s/{place}");
    for host in object["hosts"].as_array().into_iter().flatten() {
        // Snapshots are mapped as volumes are.
        let map = format!("/v1/volumes/{place}/maps/{}", host.as_str().unwrap_or_default());
        send(array, &Request::new("DELETE", &map))?.success()?;
    }
    send(array, &Request::new("DELETE", &path))?.success()?;
    Ok(())
}

/// Sends a request as whoever may open the socket.
fn send(array: &Array, request: &Request) -> Result<Answer> {
    request.send_to_socket(&array.data().join("gantry.sock"))
}

/// Everything that is gathered over many turns of the loop.
const LONG: [&str; 14] = [
    "/v1/volumes",
    "/v1/snapshots",
    "/v1/pools",
    "/v1/sessions",
    "/v1/target",
    "/v1/configuration",
    "/v1/offload",
    "/v1/offload/explain",
    "/v1/locks",
    "/v1/reclaim",
    "/v1/forecast",
    "/v1/statistics/live",
    "/v1/events",
    "/metrics",
];

/// A look that several share, or that is under way already, must not show an administrator less
/// than what was answered.
#[test]
fn lists_show_what_was_answered_before_while_everybody_lists() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..CLIENTS as usize {
            let (array, over) = (&array, &over);
            scope.spawn(move || {
                for path in LONG.iter().cycle().skip(client) {
                    if over.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    let answer = send(array, &Request::new("GET", path))?;
                    ensure!(answer.status == 200, "{path}: {answer:?}");
                }
                Ok::<(), anyhow::Error>(())
            });
        }
        let checked = (0..40).try_for_each(|number| check_lists(&array, number));
        over.store(true, Ordering::Relaxed);
        checked
    })
}

/// Makes a volume, a snapshot and a map, and deletes them again; each is in the lists, or not, as
/// soon as that was answered.
fn check_lists(array: &Array, number: u64) -> Result<()> {
    let (volume, snapshot) = (format!("v{number}"), format!("s{number}"));
    let change = |method: &str, path: &str, body: Value| {
        send(array, &Request::new(method, path).json(&body))?.success().map(drop)
    };
    let names = |list: &str| -> Result<Vec<String>> {
        let answer = send(array, &Request::new("GET", &format!("/v1/{list}")))?;
        let list = answer.success()?;
        let name = |one: &Value| one["name"].as_str().unwrap_or_default().to_owned();
        Ok(list.as_array().context("a list")?.iter().map(name).collect())
    };
    let size = json!({ "pool": "p", "name": volume, "size_bytes": 1 << 20 });
    change("POST", "/v1/volumes", size)?;
    ensure!(names("volumes")?.contains(&volume), "{volume} is not listed");
    let members = json!([{ "volume": volume, "name": snapshot }]);
    change("POST", "/v1/snapshots", json!({ "pool": "p", "snapshots": members }))?;
    ensure!(names("snapshots")?.contains(&snapshot), "{snapshot} is not listed");
    let map = format!("/v1/volumes/p/{volume}/maps/any");
    change("PUT", &map, json!({}))?;
    let configuration = send(array, &Request::new("GET", "/v1/configuration"))?.success()?;
    let volumes = configuration["volumes"].as_array().context("volumes")?;
    let path = format!("p/{volume}");
    let listed = volumes.iter().find(|one| one["volume"] == path.as_str()).context("a volume")?;
    ensure!(listed["maps"][0]["host"] == "any", "{listed}");
    change("DELETE", &map, json!({}))?;
    change("DELETE", &format!("/v1/snapshots/p/{snapshot}"), json!({}))?;
    ensure!(!names("snapshots")?.contains(&snapshot), "{snapshot} is still listed");
    change("DELETE", &format!("/v1/volumes/p/{volume}"), json!({}))?;
    ensure!(!names("volumes")?.contains(&volume), "{volume} is still listed");
    Ok(())
}

/// READ (10) of one block at block 0 (SBC-4 5.18).
const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];

const HOST: &str = "iqn.2026-01.org.example:host";

/// An array whose data directory is on a file system of the test's, with a volume that all see.
fn array_in(folder: &FaultyFolder) -> Result<(Array, RawSession)> {
    let mut array = Array::at(&folder.path(), free_address()?)?;
    array.restart()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    let lun = array.create_lun("p/v", "64M")?;
    assert_eq!(lun, 0);
    let host = RawSession::log_in(array.portal(), HOST, &array.target_name()?)?;
    Ok((array, host))
}

fn host(number: u64) -> Request {
    let initiator = format!("iqn.2026-01.org.example:{number}");
    let body = json!({ "name": format!("h{number}"), "initiators": [initiator] });
    Request::new("POST", "/v1/hosts").json(&body)
}

/// With two seconds for each fsync one new host made a READ take four.
#[test]
fn a_slow_data_directory_delays_no_read_and_one_save_serves_all_who_wait() -> Result<()> {
    const DELAY: Duration = Duration::from_secs(2);
    let folder = FaultyFolder::mount()?;
    let (array, mut reader) = array_in(&folder)?;
    folder.delay_fsync(DELAY);
    let before = folder.fsyncs();
    let reads = AtomicUsize::new(0);
    thread::scope(|scope| {
        let array = &array;
        let begun = Instant::now();
        let requests: Vec<_> =
            (0..20).map(|n| scope.spawn(move || send(array, &host(n)))).collect();
        while requests.iter().any(|request| !request.is_finished()) {
            reader.read(0, &READ, 512)?.good()?;
            reads.fetch_add(1, Ordering::Relaxed);
        }
        for request in requests {
            request.join().expect("it returns")?.success()?;
        }
        ensure!(begun.elapsed() >= 2 * DELAY, "answered before it was saved");
        Ok(())
    })?;
    // With fsync in the reactor there is about one READ for each of them.
    let (reads, fsyncs) = (reads.into_inner(), folder.fsyncs() - before);
    ensure!(reads > 100, "{reads} READs while the data directory was slow");
    ensure!(fsyncs <= 3 * 2, "{fsyncs} fsyncs for 20 hosts: one save serves all who wait");
    folder.delay_fsync(Duration::ZERO);
    let hosts = array.gantry_json(&["host", "list"])?;
    assert_eq!(hosts.as_array().map(Vec::len), Some(20));
    Ok(())
}

/// A change that was accepted and is not saved yet counts, also one that only the secrets show: of
/// two administrators who saw the same host the second one is refused.
#[test]
fn of_two_who_change_the_same_account_while_the_first_is_saved_the_second_is_refused() -> Result<()>
{
    let folder = FaultyFolder::mount()?;
    let (array, _) = array_in(&folder)?;
    let account = json!({ "user": "u", "secret": "a secret of 14" });
    send(&array, &host(1))?.success()?;
    let change =
        |chap: &Value| Request::new("PATCH", "/v1/hosts/h1").json(&json!({ "chap": chap }));
    send(&array, &change(&account))?.success()?;
    let shown = send(&array, &Request::new("GET", "/v1/hosts/h1"))?;
    let seen = shown.header("etag").context("an ETag")?.to_owned();
    let mutual = json!({
        "user": "u", "secret": "a secret of 14", "mutual_user": "a", "mutual_secret": "another secret",
    });
    folder.delay_fsync(Duration::from_secs(1));
    let before = folder.fsyncs();
    thread::scope(|scope| {
        let first = scope.spawn(|| send(&array, &change(&mutual)));
        while folder.fsyncs() == before && !first.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        let second = send(&array, &change(&account).with("If-Match", &seen))?;
        ensure!(second.status == 412, "{}", second.body);
        first.join().expect("it returns")?.success()?;
        Ok(())
    })?;
    folder.delay_fsync(Duration::ZERO);
    let shown = send(&array, &Request::new("GET", "/v1/hosts/h1"))?.success()?;
    assert_eq!(shown["mutual_chap"], true);
    Ok(())
}

/// What cannot be saved has never been: the caller is told, and no host saw it.
#[test]
fn a_change_that_cannot_be_saved_is_taken_back() -> Result<()> {
    let folder = FaultyFolder::mount()?;
    let (mut array, mut reader) = array_in(&folder)?;
    send(
        &array,
        &Request::new("POST", "/v1/volumes")
            .json(&json!({ "pool": "p", "name": "w", "size_bytes": 1 << 20 })),
    )?
    .success()?;
    let map = Request::new("PUT", "/v1/volumes/p/w/maps/any").json(&json!({}));
    // REPORT LUNS (SPC-4 6.33): eight bytes for each number after a header of eight.
    let report_luns = [0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    let inventory = |reader: &mut RawSession| -> Result<usize> {
        Ok(reader.read(0, &report_luns, 256)?.good()?.len() / 8 - 1)
    };
    for error in [ENOSPC, EIO] {
        folder.fail_fsync(error);
        send(&array, &map)?.problem(500)?;
        send(&array, &host(1))?.problem(500)?;
        assert_eq!(inventory(&mut reader)?, 1);
        let volume = send(&array, &Request::new("GET", "/v1/volumes/p/w"))?.success()?;
        assert_eq!(volume["hosts"], json!([]));
        assert_eq!(array.gantry_json(&["host", "list"])?, json!([]));
    }
    let events = array.gantry_json(&["events"])?.to_string();
    ensure!(events.contains("cannot be saved"), "{events}");
    let unsaved = |array: &Array| -> Result<bool> {
        let metrics = send(array, &Request::new("GET", "/metrics"))?.body;
        ensure!(metrics.contains("\ngantry_configuration_save_seconds "), "{metrics}");
        let is_unsaved = metrics.contains("\ngantry_configuration_unsaved 1\n");
        let since = "\ngantry_configuration_unsaved_since_timestamp_seconds ";
        assert_eq!(metrics.contains(since), is_unsaved);
        let target = array.gantry_json(&["target", "show"])?;
        assert_eq!(target["configuration_unsaved_since"].is_u64(), is_unsaved);
        let text = array.gantry(&["target", "show"])?;
        assert_eq!(text.contains("cannot be saved since 20"), is_unsaved, "{text}");
        Ok(is_unsaved)
    };
    ensure!(unsaved(&array)?, "the metric says that everything is saved");
    folder.fail_fsync(0);
    send(&array, &map)?.success()?;
    ensure!(!unsaved(&array)?, "the metric says that something is not saved");
    assert_eq!(inventory(&mut reader)?, 2);
    send(&array, &host(1))?.success()?;
    array.kill()?;
    array.restart()?;
    let hosts = array.gantry_json(&["host", "list"])?;
    assert_eq!(hosts.as_array().map(Vec::len), Some(1), "what was answered is there");
    Ok(())
}

/// An address is opened before its portal is saved; one that cannot be saved is closed again.
#[test]
fn a_portal_that_cannot_be_saved_listens_nowhere() -> Result<()> {
    let folder = FaultyFolder::mount()?;
    let (array, _) = array_in(&folder)?;
    let address = free_address()?;
    let body = json!({ "address": address, "target_portal_group_tag": 2 });
    let create = Request::new("POST", "/v1/portals").json(&body);
    folder.fail_fsync(ENOSPC);
    send(&array, &create)?.problem(500)?;
    let refused = RawSession::log_in(address, HOST, &array.target_name()?);
    ensure!(refused.is_err(), "it accepts initiators");
    folder.fail_fsync(0);
    send(&array, &create)?.success()?;
    RawSession::log_in(address, HOST, &array.target_name()?)?;
    Ok(())
}
