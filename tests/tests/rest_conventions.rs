//! Conventions of all routes of the management interface: ETags, paging, filters, refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::http::{Answer, Request};
use harness::random::Random;
use harness::{Array, Value, text};
use serde_json::json;

/// How long a line of a stream may take.
const TIMEOUT: Duration = Duration::from_secs(60);

fn array() -> Result<Array> {
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    Ok(array)
}

/// Sends a request as whoever may open the socket.
fn send(array: &Array, request: &Request) -> Result<Answer> {
    request.send_to_socket(&array.data().join("gantry.sock"))
}

fn get(array: &Array, path: &str) -> Result<Answer> {
    send(array, &Request::new("GET", path))
}

fn volume(name: &str) -> Value {
    json!({ "pool": "p", "name": name, "size_bytes": 1 << 20 })
}

fn create_volume(array: &Array, name: &str) -> Result<Answer> {
    send(array, &Request::new("POST", "/v1/volumes").json(&volume(name)))
}

#[test]
fn every_refusal_has_one_form() -> Result<()> {
    let array = array()?;
    let long = "x".repeat(70_000);
    let json = |text: &str| {
        Request::new("POST", "/v1/volumes").with("Content-Type", "application/json").text(text)
    };
    for (request, status) in [
        (Request::new("GET", "/v1/nothing"), 404),
        (Request::new("GET", "/v1/pools/nothing"), 404),
        (Request::new("PUT", "/v1/pools"), 405),
        (Request::new("TRACE", "/v1/pools"), 405),
        (Request::new("POST", "/v1/volumes").text("{}"), 415),
        (Request::new("POST", "/v1/users").text("{}"), 415),
        (json(""), 400),
        (json("{"), 400),
        (json("[]"), 400),
        (json("[\"p\", \"v\", 4096]"), 400),
        (json("{\"name\": \"v\"}"), 400),
        (json("{\"pool\": \"p\", \"name\": \"v\", \"size_bytes\": -1}"), 400),
        (json("{\"pool\": \"p\", \"name\": \"v\", \"size_bytes\": 4096, \"colour\": 1}"), 400),
        (json(&long), 413),
        (Request::new("GET", "/v1/volumes?limit=0"), 400),
        (Request::new("GET", "/v1/volumes?colour=red"), 400),
        (Request::new("GET", "/v1/statistics/history?series=total&seconds=soon"), 400),
        (Request::new("GET", "/v1/volumes/%ff/v"), 400),
    ] {
        let answer = send(&array, &request)?;
        answer.problem(status).with_context(|| format!("{request:?}"))?;
        assert_eq!(answer.header("allow").is_some(), status == 405, "{request:?}");
    }
    Ok(())
}

#[test]
fn an_object_that_somebody_else_changed_is_not_changed_again() -> Result<()> {
    let array = array()?;
    create_volume(&array, "v")?.success()?;
    let path = "/v1/volumes/p/v";
    let first = get(&array, path)?;
    let tag = first.header("etag").context("an ETag")?.to_owned();
    let again = Request::new("GET", path).with("If-None-Match", &tag);
    let again = send(&array, &again)?;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    let resize = |bytes: u64, tag: &str| {
        let body = json!({ "size_bytes": bytes });
        send(&array, &Request::new("PATCH", path).with("If-Match", tag).json(&body))
    };
    resize(2 << 20, &tag)?.success()?;
    ensure!(resize(3 << 20, &tag)?.problem(412)?.contains("look again"));
    send(&array, &Request::new("DELETE", path).with("If-Match", &tag))?.problem(412)?;
    let nonsense = Request::new("PATCH", path).with("If-Match", &tag).json(&json!({ "size": 1 }));
    send(&array, &nonsense)?.problem(400)?;
    let body = get(&array, path)?;
    assert_eq!(body.success()?["size_bytes"], 2 << 20);
    resize(3 << 20, body.header("etag").context("an ETag")?)?.success()?;
    send(&array, &Request::new("DELETE", path).with("If-Match", "*"))?.success()?;
    // What is not there is not what If-Match names, whatever it names.
    send(&array, &Request::new("DELETE", path))?.problem(404)?;
    for (method, path, body) in [
        ("DELETE", path, None),
        ("PATCH", path, Some(json!({ "size_bytes": 1 << 20 }))),
        ("DELETE", "/v1/pools/q", None),
        ("DELETE", "/v1/snapshots/p/s", None),
        ("PUT", "/v1/groups/g", Some(json!({ "hosts": [] }))),
        ("DELETE", "/v1/schedules/s", None),
        ("DELETE", "/v1/users/nobody", None),
        ("PATCH", "/v1/users/nobody", Some(json!({ "role": "viewer" }))),
        ("DELETE", "/v1/portals/127.0.0.1:1", None),
        ("DELETE", "/v1/tokens/0123", None),
        ("POST", "/v1/volumes", Some(volume("new"))),
        ("POST", "/v1/tokens", Some(json!({ "name": "t", "role": "viewer" }))),
    ] {
        for tag in ["*", "\"old-1\""] {
            let request = Request::new(method, path).with("If-Match", tag);
            let request = body.iter().fold(request, |request, body| request.json(body));
            send(&array, &request)?.problem(412).with_context(|| format!("{method} {path}"))?;
        }
    }
    // What is wrong about the request itself is told before what the precondition says.
    let identify = |vendor: &str| {
        let body = json!({ "vendor": vendor, "product": "Array" });
        Request::new("PUT", "/v1/identification").with("If-Match", "\"old-1\"").json(&body)
    };
    send(&array, &identify("ACME"))?.problem(412)?;
    for vendor in ["", " ACME", "ACME 1234", "\u{c4}CME"] {
        ensure!(send(&array, &identify(vendor))?.problem(400)?.contains("vendor"), "{vendor}");
    }
    let state = Request::new("PUT", "/v1/portal-groups/1/state").with("If-Match", "*");
    send(&array, &state.json(&json!({ "state": "standby" })))?.problem(412)?;
    Ok(())
}

/// Made only if there is none, or refused where that has no meaning; never ignored.
#[test]
fn if_none_match_makes_what_is_not_there() -> Result<()> {
    let array = array()?;
    let make = |hosts: Value| {
        let request = Request::new("PUT", "/v1/groups/made").with("If-None-Match", "*");
        send(&array, &request.json(&json!({ "hosts": hosts })))
    };
    make(json!([]))?.success()?;
    ensure!(make(json!([]))?.problem(412)?.contains("it is there"));
    for (method, path, body) in [
        ("DELETE", "/v1/groups/made", None),
        ("PUT", "/v1/groups/made/tags", Some(json!({ "tags": {} }))),
        ("POST", "/v1/volumes", Some(volume("new"))),
        ("DELETE", "/v1/users/nobody", None),
        ("PATCH", "/v1/users/nobody", Some(json!({ "role": "viewer" }))),
        ("POST", "/v1/tokens", Some(json!({ "name": "t", "role": "viewer" }))),
    ] {
        let request = Request::new(method, path).with("If-None-Match", "*");
        let request = body.iter().fold(request, |request, body| request.json(body));
        send(&array, &request)?.problem(412).with_context(|| format!("{method} {path}"))?;
    }
    Ok(())
}

#[test]
fn what_discovery_wants_and_a_portal_are_objects_of_their_own() -> Result<()> {
    let array = array()?;
    let path = "/v1/discovery/chap";
    let open = get(&array, path)?;
    assert_eq!(open.success()?, json!({ "chap_user": null, "mutual": false }));
    let tag = open.header("etag").context("an ETag")?.to_owned();
    let chap = json!({ "user": "finder", "secret": "twelve letters" });
    let set =
        |tag: &str| send(&array, &Request::new("PUT", path).with("If-Match", tag).json(&chap));
    set(&tag)?.success()?;
    set(&tag)?.problem(412)?;
    let shown = get(&array, path)?.success()?;
    assert_eq!(shown, json!({ "chap_user": "finder", "mutual": false }));
    let portal = format!("/v1/portals/{}", array.portal());
    assert_eq!(get(&array, &portal)?.success()?["fixed"], true);
    get(&array, "/v1/portals/here")?.problem(400)?;
    get(&array, "/v1/portals/127.0.0.1:1")?.problem(404)?;
    Ok(())
}

#[test]
fn pages_and_filters_show_every_object_once() -> Result<()> {
    let array = array()?;
    for name in ["b1", "a1", "c1", "a2", "b2"] {
        create_volume(&array, name)?.success()?;
    }
    let (mut path, mut seen) = ("/v1/volumes?limit=2".to_owned(), Vec::new());
    loop {
        let answer = get(&array, &path)?;
        let list = answer.success()?;
        let list = list.as_array().context("a list")?;
        ensure!(list.len() <= 2, "{path}");
        seen.extend(list.iter().map(|volume| volume["name"].clone()));
        let Some(link) = answer.header("link") else { break };
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        path = next.with_context(|| link.to_owned())?.to_owned();
    }
    assert_eq!(seen, ["a1", "a2", "b1", "b2", "c1"]);
    let names = |query: &str| -> Result<Vec<String>> {
        let list = get(&array, &format!("/v1/volumes?{query}"))?.success()?;
        let names = list.as_array().context("a list")?.iter();
        names.map(|volume| Ok(text(volume, "/name")?.to_owned())).collect()
    };
    assert_eq!(names("name=a*&limit=10")?, ["a1", "a2"]);
    assert_eq!(names("pool=q")?, [""; 0]);
    assert_eq!(names("after=p/b1&limit=1")?, ["b2"]);
    Ok(())
}

#[test]
fn a_request_that_is_sent_again_with_its_key_is_done_once() -> Result<()> {
    let array = array()?;
    let create = |name: &str, key: &str| {
        let request = Request::new("POST", "/v1/volumes").with("Idempotency-Key", key);
        send(&array, &request.json(&volume(name)))
    };
    let first = create("v", "k1")?;
    first.success()?;
    let again = create("v", "k1")?;
    assert_eq!((again.status, &again.body), (200, &first.body));
    create("w", "k1")?.problem(422)?;
    create("v", "k2")?.problem(409)?;
    create("v", "k2")?.problem(409)?;
    create("v", &"k".repeat(65))?.problem(400)?;
    create("v", "two words")?.problem(400)?;
    assert_eq!(get(&array, "/v1/volumes")?.success()?.as_array().map(Vec::len), Some(1));
    Ok(())
}

/// An import with `dry_run=true`, then the real one with the same key and body, was answered 200, and
/// nothing was imported.
#[test]
fn a_key_is_of_one_request_with_its_query() -> Result<()> {
    let array = array()?;
    let mut configuration = get(&array, "/v1/configuration")?.success()?;
    configuration["hosts"] =
        json!([{ "name": "esx1", "initiators": ["iqn.2026-01.org.example:a"] }]);
    // Larger than other bodies may be.
    configuration["array"] = json!("x".repeat(100_000));
    let import = |query: &str, key: &str| {
        let request = Request::new("POST", &format!("/v1/configuration{query}"));
        send(&array, &request.with("Idempotency-Key", key).json(&configuration))
    };
    assert_eq!(import("?dry_run=true", "k")?.success()?["dry_run"], true);
    assert_eq!(import("?dry%5Frun=true", "k")?.success()?["dry_run"], true);
    import("", "k")?.problem(422)?;
    import("?dry_run=false", "k")?.problem(422)?;
    get(&array, "/v1/hosts/esx1")?.problem(404)?;
    let real = import("", "l")?;
    assert_eq!(real.success()?["dry_run"], false);
    assert_eq!(import("", "l")?.body, real.body);
    get(&array, "/v1/hosts/esx1")?.success()?;
    Ok(())
}

/// A caller who hung up was forgotten: sent again, the request met what it had made itself, and the
/// audit log did not know of it.
#[test]
fn what_a_caller_asked_for_who_hung_up_is_answered_to_the_next_and_noted() -> Result<()> {
    let array = array()?;
    let token = array.gantry(&["token", "create", "t", "--role", "admin"])?;
    let create = |name: &str| {
        let request = Request::new("POST", "/v1/volumes").with("Idempotency-Key", name);
        request.with("Authorization", &format!("Bearer {}", token.trim())).json(&volume(name))
    };
    let names: Vec<String> = (0..20).map(|number| format!("v{number}")).collect();
    for name in &names {
        create(name).send_and_hang_up(array.http())?;
    }
    for name in &names {
        let deadline = Instant::now() + TIMEOUT;
        let mut answer = create(name).send(array.http())?;
        // The first one may be under way still.
        while answer.status == 409 && Instant::now() < deadline {
            ensure!(answer.body.contains("under way"), "{}", answer.body);
            thread::sleep(Duration::from_millis(10));
            answer = create(name).send(array.http())?;
        }
        assert_eq!(answer.success()?["name"], *name);
    }
    let done = |entry: &&Value| entry["path"] == "/v1/volumes" && entry["status"] == 200;
    let audit = get(&array, "/v1/audit")?.success()?;
    let noted = audit.as_array().context("a list")?.iter().filter(done).count();
    ensure!(noted >= 2 * names.len() - 1, "{noted} of them were noted");
    Ok(())
}

/// A driver acts on types and members, not on sentences, and gets no advice about a command line.
#[test]
fn a_refusal_has_a_type_and_members_that_a_program_can_act_on() -> Result<()> {
    let array = array()?;
    create_volume(&array, "v")?.success()?;
    array.gantry(&["volume", "map", "p/v", "--host", "any"])?;
    array.gantry(&["snapshot", "create", "p/v", "s"])?;
    let put = |path: &str, body: Value| Request::new("PUT", path).json(&body);
    let post = |path: &str, body: Value| Request::new("POST", path).json(&body);
    let get = |path: &str| Request::new("GET", path);
    let delete = |path: &str| Request::new("DELETE", path);
    for (request, kind, members) in [
        (delete("/v1/pools/p"), "pool-not-empty", json!({ "pool": "p", "volumes": 2 })),
        (
            post("/v1/volumes", volume("v")),
            "name-taken",
            json!({ "object": "volume", "name": "v" }),
        ),
        (delete("/v1/volumes/p/v"), "still-mapped", json!({})),
        (delete("/v1/volumes/p/s"), "is-snapshot", json!({})),
        (delete("/v1/snapshots/p/v"), "is-volume", json!({})),
        (get("/v1/volumes/p/w"), "not-found", json!({ "object": "volume", "name": "p/w" })),
        (delete("/v1/hosts/h"), "not-found", json!({ "object": "host", "name": "h" })),
        (delete("/v1/users/u"), "not-found", json!({ "object": "user", "name": "u" })),
        (delete("/v1/users/admin"), "last-administrator", json!({ "user": "admin" })),
        (delete("/v1/volumes/p/v/maps/h"), "not-mapped", json!({ "host": "h" })),
        (
            Request::new("PATCH", "/v1/volumes/p/v").json(&json!({ "size_bytes": 4096 })),
            "shrink-not-confirmed",
            json!({ "size_bytes": 1 << 20 }),
        ),
        (
            post("/v1/pools", json!({ "name": "q", "devices": [], "size_bytes": 1 << 30 })),
            "device-missing",
            json!({}),
        ),
        (
            post("/v1/pools", json!({ "name": "q", "devices": ["memory:"] })),
            "device-size-missing",
            json!({}),
        ),
        (
            post(
                "/v1/volumes",
                json!({ "pool": "p", "name": "r", "size_bytes": 1_u64 << 40, "thick": true }),
            ),
            "pool-full",
            json!({}),
        ),
        (put("/v1/volumes", json!({})), "method-not-allowed", json!({})),
        (get("/v1/nothing"), "no-such-path", json!({})),
        (post("/v1/volumes", json!({})), "invalid-request", json!({})),
    ] {
        let answer = send(&array, &request)?;
        let problem = answer.json()?;
        answer.problem(answer.status)?;
        assert_eq!(problem["type"], format!("urn:gantry:problem:{kind}"), "{problem}");
        for (name, value) in members.as_object().context("an object")? {
            assert_eq!(problem[name], *value, "{problem}");
        }
        let detail = text(&problem, "/detail")?;
        ensure!(!detail.contains("gantry ") && !detail.contains("--"), "{detail}");
    }
    let advice = |words: &[&str]| array.try_gantry(words)?.failure();
    let size = advice(&["pool", "create", "q", "--device", "memory:"])?;
    ensure!(size.contains("--size 20G"), "{size}");
    let missing = advice(&["volume", "show", "p/w"])?;
    ensure!(missing.contains("'gantry volume list'"), "{missing}");
    Ok(())
}

fn rename(array: &Array, path: &str, name: &str, key: &str) -> Result<Answer> {
    let request = Request::new("POST", &format!("{path}/rename")).with("Idempotency-Key", key);
    send(array, &request.json(&json!({ "name": name })))
}

/// The names in a list.
fn names(array: &Array, path: &str) -> Result<Vec<Value>> {
    let list = get(array, path)?.success()?;
    Ok(list.as_array().context("a list")?.iter().map(|found| found["name"].clone()).collect())
}

/// What is made has its tags from its first moment; a tag that is none leaves nothing.
#[test]
fn volumes_snapshots_and_clones_are_made_with_tags() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    let tags = ["--tag", "env=test", "--tag", "owner=ann"];
    let made = json!({ "env": "test", "owner": "ann" });
    let create = |words: &[&str]| array.gantry(&[words, &tags].concat());
    create(&["volume", "create", "p/v", "--size", "1M"])?;
    create(&["snapshot", "create", "--group", "g", "p/v"])?;
    create(&["volume", "clone", "p/v.g", "c"])?;
    let snapshot = json!({ "volume": "v", "name": "s", "tags": { "a": "b" } });
    let bad = json!({ "volume": "v", "name": "t", "tags": { "a b": "c" } });
    let many = json!({ "pool": "p", "snapshots": [snapshot, bad] });
    send(&array, &Request::new("POST", "/v1/snapshots").json(&many))?.problem(400)?;
    let body = json!({ "pool": "p", "name": "w", "size_bytes": 4096, "tags": { "": "x" } });
    send(&array, &Request::new("POST", "/v1/volumes").json(&body))?.problem(400)?;
    let clone = json!({ "name": "w", "tags": { "x": "\u{7}" } });
    send(&array, &Request::new("POST", "/v1/volumes/p/v/clones").json(&clone))?.problem(400)?;
    for _ in 0..2 {
        for path in ["/v1/volumes/p/v", "/v1/snapshots/p/v.g", "/v1/volumes/p/c"] {
            assert_eq!(get(&array, path)?.success()?["tags"], made, "{path}");
        }
        assert_eq!(names(&array, "/v1/volumes?tag=env:test")?, ["c", "v"]);
        assert_eq!(names(&array, "/v1/snapshots")?, ["v.g"]);
        assert_eq!(names(&array, "/v1/volumes")?, ["c", "v"]);
        array.kill()?;
        array.restart()?;
    }
    Ok(())
}

#[test]
fn objects_have_tags_by_which_they_are_found_and_volumes_other_names() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "2G")?;
    for name in ["a", "b"] {
        create_volume(&array, name)?.success()?;
    }
    array.gantry(&["snapshot", "create", "p/a", "s"])?;
    array.gantry(&["host", "create", "h", "--initiator", "iqn.2026-01.org.example:h"])?;
    let before = array.gantry_json(&["volume", "show", "p/a"])?;
    let map = array.gantry_json(&["volume", "map", "p/a", "--host", "h"])?;
    let tag = |path: &str, tags: Value| {
        send(&array, &Request::new("PUT", &format!("{path}/tags")).json(&json!({ "tags": tags })))
    };
    for path in ["/v1/volumes/p/a", "/v1/snapshots/p/s", "/v1/hosts/h", "/v1/pools/p"] {
        let tagged = tag(path, json!({ "env": "prod", "owner": "ann" }))?.success()?;
        assert_eq!(tagged["tags"]["env"], "prod", "{path}");
        assert_eq!(
            tag(path, json!({ "env": "prod" }))?.success()?["tags"],
            json!({ "env": "prod" })
        );
        tag(path, json!({ "a b": "c" }))?.problem(400)?;
    }
    tag("/v1/volumes/p/s", json!({}))?.problem(409)?;
    tag("/v1/snapshots/p/a", json!({}))?.problem(409)?;
    array.gantry(&["volume", "tag", "p/b", "env=test"])?;
    let rename = |path: &str, name: &str, key: &str| rename(&array, path, name, key);
    rename("/v1/volumes/p/a", "b", "1")?.problem(409)?;
    rename("/v1/volumes/p/a", "../b", "2")?.problem(400)?;
    rename("/v1/volumes/p/s", "c", "3")?.problem(409)?;
    let renamed = rename("/v1/volumes/p/a", "c", "4")?;
    assert_eq!(rename("/v1/volumes/p/a", "c", "4")?.body, renamed.body);
    array.gantry(&["snapshot", "rename", "p/s", "t"])?;
    array.gantry(&[
        "schedule", "create", "daily", "--volume", "p/b", "--every", "1d", "--keep", "2",
    ])?;
    let scheduled = rename("/v1/volumes/p/b", "d", "5")?;
    scheduled.problem(409)?;
    assert_eq!(scheduled.json()?["schedule"], "daily");
    array.kill()?;
    array.restart()?;
    let after = array.gantry_json(&["volume", "show", "p/c"])?;
    assert_eq!((&after["naa"], &after["lun"]), (&before["naa"], &map["lun"]));
    get(&array, "/v1/volumes/p/a")?.problem(404)?;
    assert_eq!(get(&array, "/v1/snapshots/p/t")?.success()?["volume"], "c");
    let found = |path: &str| names(&array, path);
    assert_eq!(found("/v1/volumes?tag=env:prod")?, ["c"]);
    assert_eq!(found("/v1/volumes?tag=env:*t*")?, ["b"]);
    assert_eq!(found("/v1/volumes?tag=env")?, ["b", "c"]);
    assert_eq!(found("/v1/snapshots?tag=env:prod")?, ["t"]);
    assert_eq!(found("/v1/hosts?tag=env:prod")?, ["h"]);
    assert_eq!(found("/v1/pools?tag=env:test")?, [""; 0]);
    for list in ["host", "snapshot"] {
        ensure!(array.gantry(&[list, "list"])?.contains("env=prod"), "{list}");
    }
    // They go with the configuration, and with their object.
    let configuration = get(&array, "/v1/configuration")?.success()?;
    array.gantry(&["host", "tag", "h", "--none"])?;
    let import = Request::new("POST", "/v1/configuration").json(&configuration);
    let changes = send(&array, &import)?.success()?;
    assert_eq!(changes["changes"], json!(["host h is changed"]));
    assert_eq!(found("/v1/hosts?tag=env:prod")?, ["h"]);
    array.gantry(&["volume", "unmap", "p/c", "--host", "h"])?;
    array.gantry(&["volume", "delete", "p/c"])?;
    create_volume(&array, "c")?.success()?;
    assert_eq!(found("/v1/volumes?tag=env:prod")?, [""; 0]);
    Ok(())
}

/// Tags of a group stay when its members change and go with it; two administrators who edit them at
/// once are told.
#[test]
fn a_group_of_hosts_has_tags_until_it_is_deleted() -> Result<()> {
    let array = Array::start()?;
    array.gantry(&["host", "create", "h", "--initiator", "iqn.2026-01.org.example:h"])?;
    array.gantry(&["group", "set", "g", "--host", "h"])?;
    let tagged = |tag: &str| get(&array, &format!("/v1/groups?tag={tag}"))?.success();
    let put = |path: &str, version: &str, tags: Value| {
        let request = Request::new("PUT", path).with("If-Match", version);
        send(&array, &request.json(&json!({ "tags": tags })))
    };
    let shown = get(&array, "/v1/groups/g")?;
    let version = shown.header("etag").context("an ETag")?;
    let set = put("/v1/groups/g/tags", version, json!({ "env": "prod" }))?.success()?;
    assert_eq!(set["tags"], json!({ "env": "prod" }));
    put("/v1/groups/g/tags", version, json!({ "env": "test" }))?.problem(412)?;
    put("/v1/groups/none/tags", "*", json!({}))?.problem(412)?;
    for tags in
        [json!({ "k": "x".repeat(60 << 10) }), json!({ "a\u{1b}": "" }), json!({ "a": "\u{7}" })]
    {
        put("/v1/groups/g/tags", "*", tags)?.problem(400)?;
    }
    ensure!(array.gantry(&["group", "set", "g", "--host", "h"])?.contains("1 host"));
    ensure!(array.gantry(&["group", "list"])?.contains("env=prod"));
    // They go with the configuration, and with their object.
    let configuration = get(&array, "/v1/configuration")?.success()?;
    array.gantry(&["group", "tag", "g", "env=lost"])?;
    let import = Request::new("POST", "/v1/configuration").json(&configuration);
    let changes = send(&array, &import)?.success()?;
    assert_eq!(changes["changes"], json!(["group g is changed"]));
    assert_eq!(tagged("env:prod")?[0]["name"], "g");
    array.gantry(&["group", "delete", "g"])?;
    array.gantry(&["group", "set", "g", "--host", "h"])?;
    assert_eq!(tagged("env")?, json!([]));
    Ok(())
}

#[test]
fn answers_are_compressed_for_whoever_understands_it_unless_they_hold_secrets() -> Result<()> {
    let array = array()?;
    for number in 0..10 {
        create_volume(&array, &format!("v{number}"))?.success()?;
    }
    let ask = |path: &str, encoding: &str| {
        send(&array, &Request::new("GET", path).with("Accept-Encoding", encoding))
    };
    let plain = ask("/v1/volumes", "br, deflate;q=1, gzip;q=0")?;
    assert_eq!(
        (plain.header("content-encoding"), plain.header("vary")),
        (None, Some("accept-encoding"))
    );
    let tag = plain.header("etag").context("an ETag")?;
    for path in ["/v1/volumes", "/v1/openapi.json", "/metrics"] {
        let packed = ask(path, "gzip, br")?;
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        let length: usize = packed.header("content-length").context("a length")?.parse()?;
        ensure!(length < get(&array, path)?.body.len() / 2, "{path}: {length}");
    }
    let packed = ask("/v1/volumes", "gzip")?;
    let packed_tag = packed.header("etag").context("an ETag")?;
    assert_eq!(packed_tag, format!("{}-gzip\"", tag.trim_end_matches('"')));
    for known in [tag, packed_tag] {
        let again = Request::new("GET", "/v1/volumes").with("If-None-Match", known);
        let again = send(&array, &again.with("Accept-Encoding", "gzip"))?;
        assert_eq!((again.status, again.header("etag")), (304, Some(known)));
    }
    let single = ask("/v1/volumes/p/v0", "gzip")?;
    let single_tag = single.header("etag").context("an ETag")?;
    let request = Request::new("DELETE", "/v1/volumes/p/v0").with("If-Match", single_tag);
    send(&array, &request)?.success()?;
    for path in ["/v1/configuration", "/v1/configuration?with_secrets=true", "/v1/me", "/v1/alerts"]
    {
        assert_eq!(ask(path, "gzip")?.header("content-encoding"), None, "{path}");
    }
    Ok(())
}

#[test]
fn whoever_is_refused_while_sending_reads_why() -> Result<()> {
    let array = array()?;
    let body = volume("v").to_string();
    let mut stream = UnixStream::connect(array.data().join("gantry.sock"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "POST /v1/volumes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Idempotency-Key: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        "k".repeat(65),
        body.len()
    )?;
    // So a network may deliver a body: long after its head.
    thread::sleep(Duration::from_millis(200));
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    Ok(())
}

/// The next lines of a stream that begin so.
fn next_line(stream: &mut impl BufRead, start: &str) -> Result<String> {
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line)? > 0, "the stream ended before '{start}'");
        if line.starts_with(start) {
            return Ok(line.trim().to_owned());
        }
    }
}

fn open_stream(array: &Array, token: &str) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(array.http())?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let host = array.http();
    write!(
        stream,
        "GET /v1/stream HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    )?;
    Ok(BufReader::new(stream))
}

#[test]
fn a_stream_tells_rates_and_changes_until_its_token_ends() -> Result<()> {
    let array = array()?;
    let token = array.gantry_json(&["token", "create", "page"])?;
    let (id, secret) = (text(&token, "/id")?, text(&token, "/secret")?);
    let mut stream = open_stream(&array, secret)?;
    ensure!(next_line(&mut stream, "HTTP/1.1 ")?.contains(" 200 "));
    ensure!(next_line(&mut stream, "content-type")?.contains("text/event-stream"));
    next_line(&mut stream, "event: live")?;
    let live = next_line(&mut stream, "data: ")?;
    let live: Value = serde_json::from_str(live.trim_start_matches("data: "))?;
    ensure!(live["interval_seconds"] == 1, "{live}");
    create_volume(&array, "v")?.success()?;
    next_line(&mut stream, "event: changed")?;
    assert_eq!(next_line(&mut stream, "data: ")?, "data: [\"volumes\",\"pools\"]");
    let mut more: Vec<_> = (0..15).map(|_| open_stream(&array, secret)).collect::<Result<_>>()?;
    for stream in &mut more {
        ensure!(next_line(stream, "HTTP/1.1 ")?.contains(" 200 "));
    }
    ensure!(next_line(&mut open_stream(&array, secret)?, "HTTP/1.1 ")?.contains(" 429 "));
    array.gantry(&["token", "delete", id])?;
    let ended = next_line(&mut stream, "nothing starts so").unwrap_err().to_string();
    ensure!(ended.contains("the stream ended"), "{ended}");
    Ok(())
}

#[test]
fn the_document_describes_what_is_answered() -> Result<()> {
    let array = array()?;
    let document = Request::new("GET", "/v1/openapi.json").send(array.http())?.success()?;
    assert_eq!(document["openapi"], "3.1.0");
    let operation = &document["paths"]["/v1/pools"]["post"];
    assert_eq!(operation["description"], "Needs the role 'admin'.");
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["$ref"], "#/components/schemas/CreatePool");
    let pool = get(&array, "/v1/pools/p")?.success()?;
    let described = &document["components"]["schemas"]["Pool"]["properties"];
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
    };
    assert_eq!(names(&pool), names(described));
    Ok(())
}

const CLIENTS: usize = 100;

/// One client: what it was told about the objects that it made and deleted.
struct Client {
    socket: PathBuf,
    number: usize,
    /// Paths, and whether they are there. What a request under way may have changed is not here.
    known: BTreeMap<String, bool>,
}

impl Client {
    /// Sends a request that makes or deletes a path; false when nobody answers any more.
    fn change(&mut self, path: &str, exists: bool, request: &Request) -> bool {
        self.known.remove(path);
        let done = request.send_to_socket(&self.socket).is_ok_and(|answer| answer.status == 200);
        if done {
            self.known.insert(path.to_owned(), exists);
        }
        done
    }

    fn round(&mut self, round: usize) -> bool {
        let name = format!("v{}-{round}", self.number);
        let path = format!("/v1/volumes/p/{name}");
        let create = Request::new("POST", "/v1/volumes").json(&volume(&name));
        let host = format!("h{}", self.number);
        let host_path = format!("/v1/hosts/{host}");
        let initiator = format!("iqn.2026-01.org.example:{host}");
        let host = json!({ "name": host, "initiators": [initiator] });
        self.change(&path, true, &create)
            && self.change(&host_path, true, &Request::new("POST", "/v1/hosts").json(&host))
            && self.change(&host_path, false, &Request::new("DELETE", &host_path))
            && (round.is_multiple_of(2)
                || self.change(&path, false, &Request::new("DELETE", &path)))
    }

    fn run(mut self) -> BTreeMap<String, bool> {
        let mut round = 0;
        while self.round(round) {
            round += 1;
        }
        self.known
    }
}

/// Many clients work until the daemon is killed; returns what they were told.
fn work_and_kill(array: &mut Array, ms: u64) -> Result<BTreeMap<String, bool>> {
    let socket = array.data().join("gantry.sock");
    let start = |number| {
        let client = Client { socket: socket.clone(), number, known: BTreeMap::new() };
        thread::spawn(move || client.run())
    };
    let clients: Vec<_> = (0..CLIENTS).map(start).collect();
    thread::sleep(Duration::from_millis(ms));
    array.kill()?;
    let known = clients.into_iter().map(|client| client.join().expect("a client does not panic"));
    Ok(known.flatten().collect())
}

/// Deletes all of a collection, which shows that every object in it is whole.
fn delete_all(array: &Array, collection: &str) -> Result<()> {
    let list = get(array, &format!("/v1/{collection}"))?.success()?;
    for object in list.as_array().context("a list")? {
        let pool = object["pool"].as_str().map(|pool| format!("{pool}/")).unwrap_or_default();
        let path = format!("/v1/{collection}/{pool}{}", text(object, "/name")?);
        send(array, &Request::new("DELETE", &path))?.success()?;
    }
    Ok(())
}

#[test]
fn a_hundred_clients_and_sudden_ends_leave_what_was_answered() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "2G")?;
    let mut random = Random::new(7);
    let mut answers = 0;
    for _ in 0..3 {
        let known = work_and_kill(&mut array, 500 + random.below(2000))?;
        array.restart()?;
        answers += known.len();
        for (path, exists) in &known {
            let answer = get(&array, path)?;
            assert_eq!(answer.status, if *exists { 200 } else { 404 }, "{path}");
        }
        delete_all(&array, "volumes")?;
        delete_all(&array, "hosts")?;
    }
    ensure!(answers > 0, "nothing was answered before the kills");
    Ok(())
}
