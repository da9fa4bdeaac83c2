//! Black-box tests: each file is a process that runs one test at a time, and several files run at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{binaries_in, test_files, tested_folder};
use crate::process;

/// Files whose tests mostly wait: for devices that hang, or daemons that open again.
const WAITING: [&str; 13] = [
    "controller_rounds",
    "controllers",
    "kill_nine",
    "losses",
    "mirror_checks",
    "mirror_upkeep",
    "mirrors",
    "outages_hosts",
    "pool_opening",
    "rolling_upgrade",
    "take_over",
    "thresholds",
    "witness_device",
];

/// Those of the others that take longest; the first ones, so that no lane ends long after the rest.
const LONG: [&str; 4] = ["history", "validate", "witness_libiscsi", "datastore_extents"];

/// A file's tests.
struct Tests {
    name: String,
    program: PathBuf,
}

/// What is left to be run.
struct Left {
    busy: VecDeque<Tests>,
    waiting: VecDeque<Tests>,
}

/// Which files a lane takes first.
#[derive(Clone, Copy)]
enum Lane {
    Busy,
    Waiting,
}

impl Left {
    fn next(&mut self, lane: Lane) -> Option<Tests> {
        let Self { busy, waiting } = self;
        match lane {
            Lane::Busy => busy.pop_front().or_else(|| waiting.pop_front()),
            Lane::Waiting => waiting.pop_front().or_else(|| busy.pop_front()),
        }
    }
}

/// Runs all files in two lanes, or one per processor: one begins with those that mostly wait, the others with the rest.
/// A lane that has none left goes on with the other ones.
pub(super) fn run(processors: usize) -> Result<()> {
    let (waiting, mut busy): (Vec<Tests>, Vec<Tests>) =
        programs()?.into_iter().partition(|tests| WAITING.contains(&tests.name.as_str()));
    busy.sort_by_key(|tests| {
        LONG.iter().position(|name| *name == tests.name).unwrap_or(LONG.len())
    });
    let left = Mutex::new(Left { busy: busy.into(), waiting: waiting.into() });
    let failed = Mutex::new(Vec::new());
    let work = |lane: Lane| {
        let next = || left.lock().expect("nobody panics with it").next(lane);
        while let Some(tests) = next() {
            if !tests.succeed() {
                failed.lock().expect("nobody panics with it").push(tests.name);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(Lane::Waiting));
        for _ in 1..processors.max(2) {
            scope.spawn(|| work(Lane::Busy));
        }
    });
    let failed = failed.into_inner().expect("nobody panicked with it");
    if !failed.is_empty() {
        bail!("tests failed in {}", failed.join(", "));
    }
    Ok(())
}

impl Tests {
    /// Runs them, shows what they print when they are done, and says whether all passed.
    fn succeed(&self) -> bool {
        let Self { name, program } = self;
        let (begun, folder) = (Instant::now(), tested_folder());
        let ran = process::run_unseen(
            &program.to_string_lossy(),
            &["--test-threads=1"],
            &binaries_in(&folder),
        );
        let seconds = begun.elapsed().as_secs_f64();
        let (printed, result) = ran.unwrap_or_else(|error| (String::new(), Err(error)));
        terminal::progress!("{name}, {seconds:.1} s:\n{printed}");
        if let Err(error) = &result {
            terminal::complain!("{error:#}");
        }
        result.is_ok()
    }
}

/// The programs of all files, as cargo has built them.
fn programs() -> Result<Vec<Tests>> {
    let arguments =
        ["test", "--quiet", "--no-run", "--workspace", "--tests", "--message-format=json"];
    let messages = process::output(&process::cargo(), &arguments)?;
    let built: Vec<Value> = messages
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("cargo's messages")?;
    let program_of = |name: &String| {
        let is_its = |message: &&Value| {
            message["target"]["name"] == name.as_str() && message["target"]["kind"][0] == "test"
        };
        let executable =
            built.iter().find(is_its).and_then(|message| message["executable"].as_str());
        let program =
            executable.with_context(|| format!("cargo names no program of {name}"))?.into();
        Ok(Tests { name: name.clone(), program })
    };
    test_files("tests")?.iter().map(program_of).collect()
}
