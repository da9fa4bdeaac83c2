//! Child processes: running other programs.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use crate::workspace;

/// Runs a program in the root of the work tree, showing what it prints.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<()> {
    run_with(program, arguments, &[])
}

/// The same, with more environment variables.
pub(crate) fn run_with<S: AsRef<OsStr>>(
    program: &str,
    arguments: &[S],
    variables: &[(&str, &OsStr)],
) -> Result<()> {
    let shown = shown(program, arguments);
    terminal::complain!("$ {shown}");
    let status = command(program, arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("starting {program}"))?;
    if !status.success() {
        bail!("'{shown}' failed ({status})");
    }
    Ok(())
}

/// The same, in a folder; what it prints, to both streams, is returned instead of shown.
pub(crate) fn run_unseen<S: AsRef<OsStr>>(
    program: &str,
    arguments: &[S],
    variables: &[(&str, &OsStr)],
    folder: &Path,
) -> Result<(String, Result<()>)> {
    let shown = shown(program, arguments);
    let (mut reader, writer) = std::io::pipe()?;
    let mut child = command(program, arguments)
        .current_dir(folder)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let mut printed = Vec::new();
    reader.read_to_end(&mut printed)?;
    let status = child.wait()?;
    let result =
        if status.success() { Ok(()) } else { Err(anyhow!("'{shown}' failed ({status})")) };
    Ok((String::from_utf8_lossy(&printed).into_owned(), result))
}

/// Runs a program in the root of the work tree and returns what it printed.
pub(crate) fn output<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String> {
    let shown = shown(program, arguments);
    let output = command(program, arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        bail!("'{shown}' failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("'{shown}' did not print text"))
}

/// A program that starts in the root of the work tree. It hears nothing of the package that cargo runs us from: the
/// build script of `ring` looks at those variables, so that it and all that uses it would be built once more after
/// each change between `cargo xtask` and plain `cargo`.
fn command<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace::root());
    let of_package =
        |name: &str| ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|head| name.starts_with(head));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_package) {
            command.env_remove(name);
        }
    }
    command
}

fn shown<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let arguments = arguments.iter().map(|argument| argument.as_ref().to_string_lossy());
    [program.into()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The cargo that runs us.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
