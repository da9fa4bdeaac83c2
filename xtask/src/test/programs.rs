//! Programs of tests, as cargo has built them: several run at once, each one test at a time.
//!
//! Black-box tests are one program a file, unit tests one a crate. Many wait for most of their time, and others never;
//! so those of both kinds are run beside each other.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{binaries_in, tested_folder};
use crate::{process, workspace};

/// Those whose tests mostly wait: for devices that hang, or daemons that open again.
const WAITING: [&str; 17] = [
    "controller_rounds",
    "controllers",
    "either_controller",
    "harness",
    "kill_nine",
    "losses",
    "mirror_checks",
    "mirror_stories",
    "mirror_upkeep",
    "mirrors",
    "outages_hosts",
    "pool_opening",
    "rolling_upgrade",
    "take_over",
    "thresholds",
    "two_owners",
    "witness_device",
];

/// Those of the others that take longest; the first ones, so that no lane ends long after the rest.
const LONG: [&str; 6] =
    ["vmfs", "history", "store", "validate", "witness_libiscsi", "datastore_extents"];

/// Unit tests take and give back much memory: in huge pages that is a third less work for the kernel.
const HUGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Which programs are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Black-box tests, one program a file in `tests`.
    BlackBox,
    /// Tests within the crates, and files in their own `tests`.
    Unit,
}

/// A program, and the folder in which it expects to be started.
struct Tests {
    kind: Kind,
    name: String,
    program: PathBuf,
    folder: PathBuf,
}

/// What is left to be run.
struct Left {
    busy: VecDeque<Tests>,
    waiting: VecDeque<Tests>,
}

/// Which programs a lane takes first.
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

/// Runs all programs of these kinds, in two lanes or one per processor: one begins with those that mostly wait, the others
/// with the rest. A lane that has none left goes on with the others'. One lane more does something else `before`.
pub(super) fn run(kinds: &[Kind], processors: usize, before: impl FnOnce() + Send) -> Result<()> {
    let (waiting, mut busy): (Vec<Tests>, Vec<Tests>) =
        built(kinds)?.into_iter().partition(|tests| WAITING.contains(&tests.name.as_str()));
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
        scope.spawn(|| {
            before();
            work(Lane::Waiting);
        });
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
        let Self { kind, name, program, folder } = self;
        let begun = Instant::now();
        let tested = tested_folder();
        let variables = match kind {
            Kind::BlackBox => binaries_in(&tested),
            Kind::Unit => [(HUGE_PAGES.0, OsStr::new(HUGE_PAGES.1))],
        };
        let program = program.to_string_lossy();
        let ran = process::run_unseen(&program, &["--test-threads=1"], &variables, folder);
        let seconds = begun.elapsed().as_secs_f64();
        let (printed, result) = ran.unwrap_or_else(|error| (String::new(), Err(error)));
        terminal::progress!("{name}, {seconds:.1} s:\n{printed}");
        if let Err(error) = &result {
            terminal::complain!("{error:#}");
        }
        result.is_ok()
    }

    /// The program that a message of cargo is about, if it is one of tests.
    fn of(message: &Value) -> Option<Self> {
        let program = message["executable"].as_str()?.into();
        let (target, profile) = (&message["target"], &message["profile"]);
        let folder: PathBuf = Path::new(message["manifest_path"].as_str()?).parent()?.into();
        let kind = if target["kind"][0] != "test"
            || !folder.starts_with(workspace::root().join("tests"))
        {
            Kind::Unit
        } else if folder.ends_with(GUEST) {
            return None;
        } else {
            Kind::BlackBox
        };
        let name = target["name"].as_str()?.to_owned();
        profile["test"].as_bool()?.then_some(Self { kind, name, program, folder })
    }
}

/// Where the scenarios of the Linux kernel are, which are run by themselves.
const GUEST: &str = "tests/guest";

/// The programs of these kinds.
fn built(kinds: &[Kind]) -> Result<Vec<Tests>> {
    let build = ["test", "--quiet", "--no-run", "--workspace", "--lib", "--bins", "--tests"];
    let arguments = [&build[..], &["--message-format=json"]].concat();
    let messages = process::output(&process::cargo(), &arguments)?;
    let messages = messages.lines().map(serde_json::from_str::<Value>);
    let messages: Vec<Value> = messages.collect::<Result<_, _>>().context("cargo's messages")?;
    let programs = messages.iter().filter_map(Tests::of);
    let programs: Vec<Tests> = programs.filter(|tests| kinds.contains(&tests.kind)).collect();
    check_all_are_there(kinds, &programs)?;
    Ok(programs)
}

/// That cargo named a program for each file of black-box tests and for each crate: one that it passes over would
/// pass.
fn check_all_are_there(kinds: &[Kind], programs: &[Tests]) -> Result<()> {
    let is_of = |kind: Kind, name: &str, tests: &Tests| match kind {
        Kind::BlackBox => tests.name == name,
        Kind::Unit => tests.folder.ends_with(name),
    };
    let has = |kind: Kind, name: &str| {
        programs.iter().any(|tests| tests.kind == kind && is_of(kind, name, tests))
    };
    let wanted = kinds.iter().map(|&kind| Ok((kind, kind.expected()?)));
    for (kind, names) in wanted.collect::<Result<Vec<_>>>()? {
        if let Some(name) = names.iter().find(|name| !has(kind, name)) {
            bail!("cargo names no program of the tests in {name}");
        }
    }
    Ok(())
}

impl Kind {
    /// Names of the programs that there must be: of each file in `tests/tests`, and of each folder in `crates`.
    fn expected(self) -> Result<Vec<String>> {
        let folder = match self {
            Self::BlackBox => "tests/tests",
            Self::Unit => "crates",
        };
        let entries = std::fs::read_dir(workspace::root().join(folder)).context(folder)?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let is_named =
            |path: &&PathBuf| self == Self::Unit || path.extension() == Some(OsStr::new("rs"));
        let stem = |path: &PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
        Ok(paths.iter().filter(is_named).filter_map(stem).collect())
    }
}
