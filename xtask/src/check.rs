//! Static checks of the source tree: what a reviewer should not have to look for.

mod banned;
mod decisions;
mod edges;
mod heads;
mod io_free;
mod mistakes;
mod module_edges;
mod packages;
mod seam;
mod shape;
mod spaces;
mod text;
pub(crate) mod walls;

use anyhow::{Result, bail};

use crate::docs;
use crate::process;
use crate::web;
use crate::workspace;

/// A rule that was broken, as people read it: place, then what to do.
pub(crate) type Finding = String;

/// Runs every check, and fails after the last one if any found something.
pub(crate) fn run() -> Result<()> {
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        match check() {
            Ok(()) => terminal::progress!("check: {name}: fine\n"),
            Err(error) => {
                terminal::progress!("check: {name}: {error:#}\n");
                failed.push(name);
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("not fine: {}", failed.join(", "));
}

type Check = fn() -> Result<()>;

const CHECKS: [(&str, Check); 19] = [
    ("formatting", formatting),
    ("edges between rooms", || refuse(edges::findings()?)),
    ("edges between folders", || refuse(module_edges::findings()?)),
    ("seam of the front ends", || refuse(seam::findings()?)),
    ("rooms without I/O", || refuse(io_free::findings()?)),
    ("banned calls", || refuse(banned::findings()?)),
    ("functions, files, unsafe", || refuse(shape::findings()?)),
    ("address spaces", || refuse(spaces::findings()?)),
    ("walls in the pool engine", || refuse(walls::findings()?)),
    ("deliberate mistakes", || refuse(mistakes::findings()?)),
    ("text", || refuse(text::findings()?)),
    ("packages of others", || refuse(packages::findings()?)),
    ("first lines of files", || refuse(heads::findings()?)),
    ("decisions", || refuse(decisions::findings()?)),
    ("lints", lints),
    ("fuzz targets", fuzz_targets),
    ("generated pages", docs::compare),
    ("types of the web page", web::types::compare),
    ("web page", web::compare),
];

fn formatting() -> Result<()> {
    process::run(&process::cargo(), &["fmt", "--all", "--check"])?;
    process::run(&process::cargo(), &["fmt", "--manifest-path", FUZZ_TARGETS, "--check"])
}

/// A workspace of their own: they are built with another toolchain.
const FUZZ_TARGETS: &str = "fuzz/Cargo.toml";

/// Compiles the fuzz targets, without what only the other toolchain has, so that none goes stale.
fn fuzz_targets() -> Result<()> {
    // Nothing is linked, so the fuzzer's own library, in C++, is not built.
    let library = workspace::root().join("target/libfuzzer.a");
    let arguments = ["check", "--quiet", "--manifest-path", FUZZ_TARGETS];
    let variables = [("CUSTOM_LIBFUZZER_PATH", library.as_os_str())];
    process::run_with(&process::cargo(), &arguments, &variables)
}

fn lints() -> Result<()> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    process::run(&process::cargo(), &arguments)
}

fn refuse(findings: Vec<Finding>) -> Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    bail!("{} finding(s)\n  {}", findings.len(), findings.join("\n  "));
}
