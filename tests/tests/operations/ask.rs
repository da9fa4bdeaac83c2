//! One question to the management interface over the daemon's socket, in plain HTTP.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Array, Value};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request; returns the status and the body, which is null if it is not JSON.
pub(crate) fn ask(array: &Array, method: &str, path: &str, body: &str) -> Result<(u16, Value)> {
    let mut socket = UnixStream::connect(array.data().join("gantry.sock"))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    Ok((
        status.context("an answer without a status")?,
        serde_json::from_str(body).unwrap_or_default(),
    ))
}
