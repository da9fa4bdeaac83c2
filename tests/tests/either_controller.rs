//! Administration at either of two controllers: the one that does not have the pools hands requests on to the one that
//! has them, and answers with its answer.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::controllers::{Pair, pair_up, signal, switch};
use harness::http::Request;
use harness::waiting::wait_until;
use harness::{Array, Value, text};
use rustix::process::Signal;

/// How long an administrator waits for an answer when the other controller falls silent.
const ANSWERED_WITHIN: Duration = Duration::from_secs(12);

/// More than are handed on at once.
const MANY: usize = 32;

fn ask(array: &Array, request: &Request) -> Result<harness::http::Answer> {
    request.send_to_socket(&array.data().join("gantry.sock"))
}

fn volumes(array: &Array) -> Result<Vec<String>> {
    let list = array.gantry_json(&["volume", "list"])?;
    let names = list.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

#[test]
fn what_is_asked_of_the_other_controller_is_done_by_the_one_that_has_the_pools() -> Result<()> {
    let pair = Pair::start()?;
    let Pair { first, second, .. } = &pair;
    // As long as they do not know each other nobody can hand anything on.
    let create = ["volume", "create", "p/w", "--size", "32M"];
    let refused = second.try_gantry(&create)?.failure()?;
    ensure!(refused.contains("another controller has a pool"), "{refused}");
    pair_up(&pair)?;

    second.gantry(&create)?;
    ensure!(volumes(first)? == ["v", "w"] && volumes(second)? == ["v", "w"]);
    second.gantry(&["host", "create", "b", "--iqn", "iqn.2026-01.org.example:b"])?;
    second.gantry(&["volume", "map", "p/w", "--host", "b", "--lun", "9"])?;
    second.gantry(&["snapshot", "create", "p/w", "monday"])?;
    second.gantry(&["volume", "clone", "p/monday", "x"])?;
    second.gantry(&["volume", "resize", "p/w", "--size", "48M"])?;
    for shown in [&["volume", "list"][..], &["host", "list"], &["snapshot", "list"]] {
        let [here, there] = [first, second].map(|array| array.gantry_json(shown));
        ensure!(here? == there?, "{shown:?}");
    }
    // A refusal is the owner's.
    let [here, there] =
        [first, second].map(|array| array.try_gantry(&create).and_then(|ended| ended.failure()));
    ensure!(here? == there?);
    // Each notes it: who asked at one, and through whom at the other.
    let audit = first.gantry(&["audit"])?;
    ensure!(audit.contains("controller") && audit.contains("PATCH"), "{audit}");
    // What is about the daemon that is asked stays there, and so does what names devices of its machine.
    ensure!(second.gantry_json(&["controller", "list"])?[1]["is_this"] == true);
    ensure!(second.gantry_json(&["pool", "show", "p"])?["state"] != "ready");
    Ok(())
}

#[test]
fn many_at_once_are_all_answered() -> Result<()> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    let create = |number: usize| {
        let name = format!("p/w{number}");
        pair.second.gantry(&["volume", "create", &name, "--size", "16M"])
    };
    let made: Result<Vec<String>> = thread::scope(|scope| {
        let create = &create;
        let workers = (0..MANY).map(|number| scope.spawn(move || create(number)));
        let workers: Vec<_> = workers.collect();
        workers.into_iter().map(|worker| worker.join().expect("it returns its errors")).collect()
    });
    ensure!(made?.len() == MANY);
    ensure!(volumes(&pair.first)?.len() == MANY + 1);
    ensure!(volumes(&pair.first)? == volumes(&pair.second)?);
    Ok(())
}

#[test]
fn a_change_names_its_version_through_the_other_controller_too() -> Result<()> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    let shown = ask(&pair.second, &Request::new("GET", "/v1/volumes/p/v"))?;
    let tag = shown.header("etag").unwrap_or_default().to_owned();
    let resize = |bytes: u64| {
        Request::new("PATCH", "/v1/volumes/p/v")
            .with("If-Match", &tag)
            .json(&serde_json::json!({ "size_bytes": bytes }))
    };
    let changed = ask(&pair.second, &resize(80 << 20))?;
    ensure!(changed.status == 200, "{changed:?}");
    let late = ask(&pair.second, &resize(96 << 20))?;
    ensure!(late.status == 412, "{late:?}");
    Ok(())
}

#[test]
fn a_pool_is_called_here_from_the_other_controller_and_nobody_waits_for_one_that_stands_still()
-> Result<()> {
    let pair = Pair::start()?;
    pair_up(&pair)?;
    switch(&pair.second)?;
    pair.wait_for(&pair.second, "active-optimized")?;
    wait_until("the first one hands on", || Ok(volumes(&pair.first)? == ["v"]))?;
    pair.first.gantry(&["volume", "create", "p/w", "--size", "32M"])?;
    ensure!(volumes(&pair.second)? == ["v", "w"]);

    signal(&pair.second, Signal::STOP)?;
    let began = Instant::now();
    let ended = pair.first.try_gantry(&["volume", "create", "p/x", "--size", "32M"]);
    let waited = began.elapsed();
    signal(&pair.second, Signal::CONT)?;
    let said = ended?.failure()?;
    ensure!(said.contains("controller 2") || said.contains("another controller"), "{said}");
    ensure!(waited < ANSWERED_WITHIN, "{waited:?}");
    wait_until("it answers again", || Ok(volumes(&pair.first).is_ok_and(|names| names.len() > 1)))?;
    let shown: Value = pair.first.gantry_json(&["volume", "show", "p/w"])?;
    ensure!(shown["size_bytes"] == 32 << 20, "{shown}");
    Ok(())
}

#[test]
fn users_and_tokens_of_the_controller_that_has_the_pools_are_known_at_the_other_one() -> Result<()>
{
    let pair = Pair::start()?;
    pair_up(&pair)?;
    let list = |secret: &str| -> Result<u16> {
        let authorization = format!("Bearer {secret}");
        let request = Request::new("GET", "/v1/volumes").with("Authorization", &authorization);
        Ok(request.send(pair.second.http())?.status)
    };
    let token = pair.first.gantry_json(&["token", "create", "t", "--role", "viewer"])?;
    let (id, secret) = (text(&token, "/id")?, text(&token, "/secret")?);
    wait_until("the token is known", || Ok(list(secret)? == 200))?;
    let refused =
        pair.second.try_gantry(&["token", "create", "u", "--role", "viewer"])?.failure()?;
    ensure!(refused.contains("at controller 1, which has the pools"), "{refused}");
    pair.first.gantry(&["token", "delete", id])?;
    wait_until("the token has ended", || Ok(list(secret)? == 401))?;
    // Whoever has the pools next changes them.
    switch(&pair.second)?;
    pair.wait_for(&pair.second, "active-optimized")?;
    pair.second.gantry(&["token", "create", "u", "--role", "viewer"])?;
    let is_known = |array: &Array| -> Result<bool> {
        let tokens = array.gantry_json(&["token", "list"])?;
        Ok(tokens.as_array().into_iter().flatten().any(|token| token["name"] == "u"))
    };
    wait_until("it is known at the other one", || is_known(&pair.first))
}
