//! Schemathesis against the management interface: requests right and wrong, made from the OpenAPI
//! document, and answers compared with it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use harness::{Array, text};

use crate::{process, test, workspace};

/// The version that the results are of.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Operations that are left out: they would write to any file or device of this machine, or send
/// to any address, or never end.
const LEFT_OUT: [&str; 7] = [
    "createPool",
    "addDevice",
    "stream",
    "setAlerts",
    "testAlerts",
    "importConfiguration",
    "createPortal",
];

/// The checks that are made. That everything a schema allows is accepted is not among them: whether
/// a name is taken, or a size fits into a pool, no schema can say.
const LEFT_OUT_CHECK: &str = "positive_data_acceptance";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long requests are sent, in seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Folder of 'gantryd' and 'gantry'; without it they are built, optimised.
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
}

/// Fails if an answer was not as described, or a wrong request was accepted.
pub(crate) fn run(options: &Options) -> Result<()> {
    let program = install()?;
    let folder = match &options.binaries {
        Some(folder) => folder.clone(),
        None => {
            test::build()?;
            workspace::release_folder()
        }
    };
    let mut array = Array::prepare()?.with_binaries(&folder);
    array.restart()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.gantry(&["volume", "create", "p/v", "--size", "1G"])?;
    let token = array.gantry_json(&["token", "create", "schemathesis", "--role", "admin"])?;
    let header = format!("Authorization: Bearer {}", text(&token, "/secret")?);
    let url = format!("http://{}/v1/openapi.json", array.http());
    let seconds = options.seconds.to_string();
    let mut words = vec!["run", &url, "-H", &header, "-c", "all", "--no-color"];
    words.extend(["--exclude-checks", LEFT_OUT_CHECK, "--phases", "coverage,fuzzing"]);
    words.extend(["--request-timeout", "60"]);
    words.extend(["--max-time", &seconds, "--warnings", "off", "--generation-deterministic"]);
    LEFT_OUT.iter().for_each(|name| words.extend(["--exclude-operation-id", name]));
    process::run(&program.to_string_lossy(), &words)
}

/// Schemathesis in a folder of its own below target.
fn install() -> Result<PathBuf> {
    let folder = workspace::release_folder().with_file_name("schemathesis");
    let program = folder.join("bin/st");
    if !program.exists() {
        let place = folder.to_string_lossy();
        process::run("python3", &["-m", "venv", &*place])?;
        let pip = folder.join("bin/pip");
        process::run(&pip.to_string_lossy(), &["install", "--quiet", SCHEMATHESIS])?;
    }
    Ok(program)
}
