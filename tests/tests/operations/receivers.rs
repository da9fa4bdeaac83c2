//! Somebody who takes alerts: a web server and a mail relay, as small as can be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How long something may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that came to a web server.
#[derive(Debug)]
pub(crate) struct Posted {
    /// 'POST /path HTTP/1.1'.
    pub(crate) line: String,
    /// What it claims to be signed with.
    pub(crate) signature: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// A web server that answers each request with the next of its answers, and the last one for ever.
pub(crate) struct WebServer {
    pub(crate) address: SocketAddr,
    posted: Receiver<Posted>,
}

impl WebServer {
    /// Each answer is a status and headers, as 'HTTP/1.1 ' is followed by them.
    pub(crate) fn start(answers: &[&'static str]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, posted) = channel();
        let mut answers = answers.to_vec();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
                let Ok(request) = answer_one(stream, answer) else { continue };
                if sender.send(request).is_err() {
                    return;
                }
            }
        });
        Ok(Self { address, posted })
    }

    pub(crate) fn next(&self) -> Result<Posted> {
        self.posted.recv_timeout(PATIENCE).context("nothing was posted")
    }

    /// Whether nothing more has come so far.
    pub(crate) fn is_silent(&self) -> bool {
        self.posted.try_recv().is_err()
    }
}

impl Posted {
    pub(crate) fn json(&self) -> Result<serde_json::Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// Whether it is signed with this key.
    pub(crate) fn is_signed_with(&self, key: &str) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any length fits");
        mac.update(&self.body);
        let digest = mac.finalize().into_bytes();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.signature == Some(format!("sha256={digest}"))
    }
}

fn answer_one(stream: TcpStream, answer: &str) -> Result<Posted> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let mut pairs = lines.iter().filter_map(|line| line.split_once(": "));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").context("a length")?.parse()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let signature = header("x-gantry-signature");
    let mut stream = reader.into_inner();
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    Ok(Posted { line: lines.first().cloned().unwrap_or_default(), signature, body })
}

/// A mail relay without encryption. It tells every line that it hears.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    heard: Receiver<String>,
}

impl Relay {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, heard) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                // Who hangs up in the middle is served no more.
                let _ = converse(stream, |line| drop(sender.send(line)));
            }
        });
        Ok(Self { address, heard })
    }

    /// Everything that was heard up to a line that begins so.
    pub(crate) fn heard_up_to(&self, end: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let line = self.heard.recv_timeout(PATIENCE).with_context(|| format!("{lines:?}"))?;
            let is_end = line.starts_with(end);
            lines.push(line);
            if is_end {
                return Ok(lines);
            }
        }
    }

    /// Everything that was heard so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.try_iter().collect()
    }
}

fn converse(stream: TcpStream, mut tell: impl FnMut(String)) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answers = stream.try_clone()?;
    let mut in_data = false;
    write!(answers, "220 relay\r\n")?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        let answer = match (in_data, &*verb) {
            (true, ".") => "250 taken",
            (true, _) => "",
            (_, "EHLO") => "250 relay",
            (_, "DATA") => "354 go on",
            (_, "QUIT") => "221 bye",
            (_, "MAIL" | "RCPT" | "RSET" | "NOOP") => "250 fine",
            _ => "502 unknown",
        };
        in_data = (in_data || verb == "DATA") && verb != ".";
        tell(line);
        if !answer.is_empty() {
            write!(answers, "{answer}\r\n")?;
        }
    }
    Ok(())
}
