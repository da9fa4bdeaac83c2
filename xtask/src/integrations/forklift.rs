//! The storage provider for Forklift: its own tests, then Forklift's build, tests and populator with the patch, in
//! a copy of a work tree of Forklift.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::go_module;
use crate::{process, workspace};

/// The environment variable that names a work tree of Forklift.
const WORK_TREE: &str = "GANTRY_FORKLIFT";
/// The commit that is fetched otherwise, and that the patch is made against.
const COMMIT: &str = "d42511bb28a605af9303b097333baa61d6c74a00";
const SOURCE: &str = "https://github.com/kubev2v/forklift.git";
/// The folder of the populator, a module of its own with all that it depends on.
const POPULATOR: &str = "cmd/vsphere-copy-offload-populator";
/// The parts of Forklift that the patch and the build touch.
const PARTS: [&str; 3] = [POPULATOR, "pkg/apis/forklift/v1beta1", "operator/config/crd/bases"];

/// Runs everything; the program that plays the populator is built on the way.
pub(super) fn test(binaries: &Path) -> Result<()> {
    let ours = workspace::root().join("integrations/forklift");
    let patched = patched(&ours)?;
    let populator = patched.join(POPULATOR);
    let populator = utf8(&populator)?;
    // Without -trimpath Go would build everything anew for another folder.
    process::run("go", &["-C", populator, "build", "-trimpath", "-o", "/dev/null", "."])?;
    let tests = ["./internal/gantry/...", "./internal/populator/..."];
    process::run("go", &[&["-C", populator, "test", "-trimpath"], &tests[..]].concat())?;
    let runner = workspace::folder_of("forklift").join("gantryflow");
    let build = ["-C", populator, "build", "-trimpath", "-o", utf8(&runner)?, "./gantryflow"];
    process::run("go", &build)?;
    let variables: [(&str, &OsStr); 2] =
        [("GANTRY_BIN_DIR", binaries.as_os_str()), ("GANTRY_FORKLIFT_RUNNER", runner.as_os_str())];
    go_module("integrations/forklift/populator", &variables)
}

/// A copy of Forklift with the patch, the provider and the program that runs the populator.
fn patched(ours: &Path) -> Result<PathBuf> {
    let work_tree = work_tree()?;
    let copy = workspace::folder_of("forklift").join("patched");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    for part in PARTS {
        let to = copy.join(part);
        fs::create_dir_all(&to)?;
        let from = work_tree.join(part).join(".");
        process::run("cp", &["-r", utf8(&from)?, utf8(&to)?])?;
    }
    let target = utf8(&copy)?;
    // Patches apply to a repository or to a plain folder; the copy is not to be taken for a part of ours.
    process::run("git", &["init", "--quiet", target])?;
    for entry in fs::read_dir(ours.join("patches"))? {
        let patch = entry?.path();
        process::run("git", &["-C", target, "apply", utf8(&patch)?])?;
    }
    for (from, to) in [("populator/internal/gantry", "internal/gantry"), ("runner", "gantryflow")] {
        let (from, to) = (ours.join(from), copy.join(POPULATOR).join(to));
        process::run("cp", &["-r", utf8(&from)?, utf8(&to)?])?;
    }
    Ok(copy)
}

/// The work tree that the environment names, or one that is fetched into target/forklift.
fn work_tree() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(WORK_TREE).map(PathBuf::from) {
        if named.join(POPULATOR).join("go.mod").is_file() {
            return Ok(named);
        }
        bail!("{WORK_TREE} names {}, which is no work tree of Forklift", named.display());
    }
    let folder = workspace::folder_of("forklift").join("upstream");
    if !folder.join(POPULATOR).join("go.mod").is_file() {
        fetch(&folder).with_context(|| {
            format!("Forklift is missing: set {WORK_TREE} to a work tree of it at {COMMIT}")
        })?;
    }
    Ok(folder)
}

/// Fetches only what is needed: the whole has 1 GiB.
fn fetch(folder: &Path) -> Result<()> {
    let path = utf8(folder)?;
    process::run("git", &["init", "--quiet", path])?;
    process::run("git", &[&["-C", path, "sparse-checkout", "set"], &PARTS[..]].concat())?;
    let fetch = ["fetch", "--quiet", "--depth=1", "--filter=blob:none", SOURCE, COMMIT];
    process::run("git", &[&["-C", path], &fetch[..]].concat())?;
    process::run("git", &["-C", path, "checkout", "--quiet", "FETCH_HEAD"])
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().context("the path of the work tree is not UTF-8")
}
