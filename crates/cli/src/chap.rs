//! Reads CHAP secrets from files or the standard input; they are never on the command line.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use api::{Chap, Secret};

use crate::arguments::ChapArguments;

/// Stands for the standard input.
const STANDARD_INPUT: &str = "-";

/// The account that the arguments describe, if they do.
pub(crate) fn read_chap(arguments: &ChapArguments) -> Result<Option<Chap>> {
    let (Some(user), Some(file)) = (&arguments.chap_user, &arguments.chap_secret_file) else {
        return Ok(None);
    };
    let secret = read_secret(file)?;
    let mutual_secret = arguments.mutual_secret_file.as_deref().map(read_secret).transpose()?;
    let mutual_user = arguments.mutual_user.clone();
    Ok(Some(Chap { user: user.clone(), secret, mutual_user, mutual_secret }))
}

/// The first line of a file, or the next line of the standard input, without its end.
pub(crate) fn read_secret(path: &Path) -> Result<Secret> {
    let text = if path == Path::new(STANDARD_INPUT) {
        let mut line = String::new();
        io::stdin().read_line(&mut line).context("cannot read a secret from the standard input")?;
        line
    } else {
        fs::read_to_string(path)
            .with_context(|| format!("cannot read the secret in {}", path.display()))?
    };
    match text.lines().next() {
        Some(secret) if !secret.is_empty() => Ok(Secret(secret.to_owned())),
        _ => bail!("there is no secret in {}: put it on the first line", path.display()),
    }
}
