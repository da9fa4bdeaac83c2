//! Administration of mirrors: members that are filled as tasks that can be paused, go on over a restart
//! and can be cancelled; health check, metrics and events of degraded mirrors and of spares that are
//! missing.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::FaultyFolder;
use harness::http::Request;
use harness::waiting::wait_until;
use harness::{Array, Value, text};

const PATIENCE: Duration = Duration::from_secs(60);

fn ask(array: &Array, path: &str) -> Result<String> {
    let answer = Request::new("GET", path).send_to_socket(&array.data().join("gantry.sock"))?;
    ensure!(answer.status == 200, "{path}: {} {}", answer.status, answer.body);
    Ok(answer.body)
}

/// Asks until the answer is as wanted.
fn wait_for(array: &Array, path: &str, is_so: impl Fn(&str) -> bool) -> Result<String> {
    let begun = Instant::now();
    loop {
        let answer = ask(array, path)?;
        if is_so(&answer) {
            return Ok(answer);
        }
        ensure!(begun.elapsed() < PATIENCE, "{path}: {answer}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// The newest resilver among the tasks.
fn resilver(array: &Array) -> Result<Value> {
    let tasks = array.gantry_json(&["task", "list"])?;
    let tasks = tasks.as_array().context("tasks")?;
    let newest = tasks.iter().find(|task| task["kind"] == "resilver");
    newest.cloned().with_context(|| format!("no resilver in {tasks:#?}"))
}

fn number_of(task: &Value) -> Result<String> {
    Ok(task["id"].as_u64().context("a number")?.to_string())
}

fn file(path: &Path) -> String {
    format!("file:{}", path.display())
}

/// An array with a mirror of two whose resilvers rest.
fn resting() -> Result<Array> {
    let array = Array::start()?;
    let devices = ["a.img", "b.img"].map(|name| file(&array.beside(name)));
    let [a, b] = &devices;
    array.gantry(&["pool", "create", "p", "--mirror", "2", a, b, "--size", "1G"])?;
    array.create_lun("p/v", "64M")?;
    array.gantry(&["pool", "resilver", "p", "pause"])?;
    Ok(array)
}

#[test]
fn a_member_that_is_filled_is_a_task_that_rests_over_a_restart_and_goes_on() -> Result<()> {
    let mut array = resting()?;
    let c = file(&array.beside("c.img"));
    array.gantry(&["pool", "attach", "p", &c])?;
    let check = |task: &Value| -> Result<()> {
        assert_eq!(text(task, "/object")?, format!("member p/{c}"));
        assert_eq!((text(task, "/state")?, &task["paused"]), ("running", &true.into()), "{task:#}");
        assert_eq!((&task["can_pause"], &task["can_cancel"]), (&true.into(), &true.into()));
        assert_eq!(text(task, "/unit")?, "bytes");
        Ok(())
    };
    check(&resilver(&array)?)?;
    let shown = array.gantry(&["task", "list"])?;
    assert!(shown.contains("resilver") && shown.contains("paused"), "{shown}");
    let ready = wait_for(&array, "/readyz", |body| body.contains("degraded"))?;
    assert!(ready.starts_with("ok; pool 'p': mirror 0 is degraded: "), "{ready}");
    assert!(ready.contains("c.img is being filled"), "{ready}");
    let metrics = ask(&array, "/metrics")?;
    let labels = format!("{{pool=\"p\",mirror=\"0\",device=\"{c}\"}}");
    for sample in [
        "gantry_mirror_degraded{pool=\"p\",mirror=\"0\"} 1".to_owned(),
        format!("gantry_mirror_resilver_paused{labels} 1"),
        format!("gantry_mirror_resilver_copied_bytes{labels} "),
        format!("gantry_mirror_resilver_left_bytes{labels} "),
        "gantry_pool_spares{pool=\"p\"} 0".to_owned(),
    ] {
        assert!(metrics.contains(&sample), "{sample} is not in {metrics}");
    }

    array.kill()?;
    array.restart()?;
    wait_for(&array, "/v1/tasks", |body| body.contains("resilver"))?;
    let task = resilver(&array)?;
    check(&task)?;
    let id = number_of(&task)?;
    array.gantry(&["task", "resume", &id])?;
    array.gantry(&["task", "wait", &id])?;
    let task = array.gantry_json(&["task", "show", &id])?;
    assert_eq!((text(&task, "/state")?, &task["done"]), ("done", &task["total"]), "{task:#}");
    for action in ["pause", "resume", "cancel"] {
        let ended = array.try_gantry(&["task", action, &id])?;
        assert!(ended.stderr.contains("the task has ended"), "{ended:?}");
    }
    wait_for(&array, "/readyz", |body| !body.contains("degraded"))?;
    let metrics = ask(&array, "/metrics")?;
    assert!(metrics.contains("gantry_mirror_degraded{pool=\"p\",mirror=\"0\"} 0"), "{metrics}");
    assert!(!metrics.contains("gantry_mirror_resilver_paused{"), "{metrics}");
    Ok(())
}

#[test]
fn new_devices_that_hang_hold_up_others_for_half_a_minute_and_leave_no_files() -> Result<()> {
    let array = resting()?;
    let disk = FaultyFolder::mount()?;
    let stall = disk.stall();
    let device = |name: &str| file(&disk.file(name));
    // As many as are made at once.
    let mut commands = vec![["pool", "attach", "p"].map(str::to_owned).to_vec()];
    commands[0].push(device("m.img"));
    for number in 1..8 {
        let pool = format!("q{number}");
        let words = ["pool", "create", &pool, &device(&format!("{pool}.img")), "--size", "1G"];
        commands.push(words.map(str::to_owned).to_vec());
    }
    let answers: Vec<_> = thread::scope(|scope| {
        let give = |words: &Vec<String>| {
            array.try_gantry(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let given: Vec<_> = commands.iter().map(|words| scope.spawn(move || give(words))).collect();
        given.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    });
    for answer in answers {
        let answer = answer?;
        ensure!(!answer.is_success() && answer.stderr.contains("has not answered"), "{answer:?}");
    }
    // Nothing is claimed or configured any more, and there is room for others.
    array.gantry(&["pool", "attach", "p", &file(&array.beside("c.img"))])?;
    array.gantry(&["pool", "create", "q1", &file(&array.beside("q1.img")), "--size", "1G"])?;
    drop(stall);
    let is_empty = || Ok(std::fs::read_dir(disk.path())?.next().is_none());
    wait_until("the files that were given up are removed", is_empty)
}

#[test]
fn a_resilver_that_is_cancelled_takes_its_member_out_of_the_mirror() -> Result<()> {
    let array = resting()?;
    let c = file(&array.beside("c.img"));
    array.gantry(&["pool", "attach", "p", &c])?;
    let id = number_of(&resilver(&array)?)?;
    let said = array.gantry(&["task", "resume", &id])?;
    assert!(said.contains("goes on"), "{said}");
    // It may have ended meanwhile: the next one rests.
    array.gantry(&["task", "wait", &id])?;
    array.gantry(&["pool", "detach", "p", &c])?;
    array.gantry(&["pool", "resilver", "p", "pause"])?;
    let d = file(&array.beside("d.img"));
    array.gantry(&["pool", "attach", "p", &d])?;
    let id = number_of(&resilver(&array)?)?;
    let said = array.gantry(&["task", "cancel", &id])?;
    assert!(said.contains("is cancelled"), "{said}");
    let task = array.gantry_json(&["task", "show", &id])?;
    assert_eq!(text(&task, "/state")?, "cancelled", "{task:#}");
    let pool = array.gantry_json(&["pool", "show", "p"])?;
    assert_eq!(pool["mirrors"][0]["members"].as_array().context("members")?.len(), 2);
    assert_eq!(pool["mirrors"][0]["degraded"], false);
    let scrub = array.gantry(&["scrub", "start", "p"]);
    scrub?;
    let tasks = array.gantry_json(&["task", "list"])?;
    let scrub = tasks.as_array().context("tasks")?.iter().find(|task| task["kind"] == "scrub");
    let refused = array.try_gantry(&["task", "pause", &number_of(scrub.context("a scrub")?)?])?;
    assert!(!refused.status.success(), "{refused:?}");
    Ok(())
}

#[test]
fn a_spare_that_is_not_there_is_told_before_it_is_needed() -> Result<()> {
    let array = resting()?;
    let path = array.beside("s.img");
    let spare = file(&path);
    array.gantry(&["pool", "spare", "add", "p", &spare, "--size", "1G"])?;
    let sample = format!("gantry_pool_spare_missing{{pool=\"p\",device=\"{spare}\"}}");
    wait_for(&array, "/metrics", |body| body.contains(&format!("{sample} 0")))?;
    let away = path.with_extension("away");
    std::fs::rename(&path, &away)?;
    let ready = wait_for(&array, "/readyz", |body| body.contains("spare"))?;
    assert!(ready.contains(&format!("pool 'p': spare {spare} is missing")), "{ready}");
    assert!(ask(&array, "/metrics")?.contains(&format!("{sample} 1")));
    let events = array.gantry_json(&["events"])?.to_string();
    assert!(events.contains("cannot step in for a device that fails"), "{events}");
    std::fs::rename(&away, &path)?;
    wait_for(&array, "/readyz", |body| !body.contains("spare"))?;
    let events = array.gantry_json(&["events"])?.to_string();
    assert!(events.contains("is there again"), "{events}");
    Ok(())
}
