//! Alert receivers for tests: a web server and a mail relay, as small as can be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit, Mac};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
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
        Self::start_with(answers, None)
    }

    /// One that speaks HTTPS and no HTTP.
    pub(crate) fn start_tls(answers: &[&'static str], tls: Arc<ServerConfig>) -> Result<Self> {
        Self::start_with(answers, Some(tls))
    }

    fn start_with(answers: &[&'static str], tls: Option<Arc<ServerConfig>>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, posted) = channel();
        let mut answers = answers.to_vec();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
                let request = serve(stream, tls.as_ref(), |stream| answer_one(stream, answer));
                let Ok(request) = request else { continue };
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

/// Anything that bytes come from and go to.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Talks with whoever connected, encrypted if it is to be.
fn serve<T>(
    mut stream: TcpStream,
    tls: Option<&Arc<ServerConfig>>,
    talk: impl FnOnce(&mut dyn Stream) -> Result<T>,
) -> Result<T> {
    stream.set_read_timeout(Some(PATIENCE))?;
    match tls {
        Some(tls) => talk(&mut encrypted(stream, tls)?),
        None => talk(&mut stream),
    }
}

fn encrypted(
    stream: TcpStream,
    tls: &Arc<ServerConfig>,
) -> Result<StreamOwned<ServerConnection, TcpStream>> {
    Ok(StreamOwned::new(ServerConnection::new(Arc::clone(tls))?, stream))
}

fn answer_one(stream: &mut dyn Stream, answer: &str) -> Result<Posted> {
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
    let stream = reader.into_inner();
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    stream.flush()?;
    Ok(Posted { line: lines.first().cloned().unwrap_or_default(), signature, body })
}

/// How a mail relay encrypts.
#[derive(Clone)]
pub(crate) enum Encryption {
    Never,
    /// After STARTTLS (RFC 3207).
    Later(Arc<ServerConfig>),
    /// From the first byte (RFC 8314).
    AtOnce(Arc<ServerConfig>),
}

/// A mail relay. It tells every line that it hears; those that came encrypted begin with 'tls '.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    heard: Receiver<String>,
}

impl Relay {
    /// One that does not encrypt.
    pub(crate) fn start() -> Result<Self> {
        Self::start_with(Encryption::Never)
    }

    pub(crate) fn start_with(encryption: Encryption) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, heard) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                // Who hangs up in the middle is served no more.
                let _ = relay(stream, &encryption, |line| drop(sender.send(line)));
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

fn relay(stream: TcpStream, how: &Encryption, mut tell: impl FnMut(String)) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    match how {
        Encryption::Never => converse(stream, "250 relay", true, tell).map(drop),
        Encryption::AtOnce(tls) => {
            let tell = |line| tell(format!("tls {line}"));
            converse(encrypted(stream, tls)?, "250 AUTH PLAIN", true, tell).map(drop)
        }
        Encryption::Later(tls) => {
            let offer = "250-relay\r\n250 STARTTLS";
            let Some(stream) = converse(stream, offer, true, &mut tell)? else { return Ok(()) };
            let tell = |line| tell(format!("tls {line}"));
            converse(encrypted(stream, tls)?, "250 AUTH PLAIN", false, tell).map(drop)
        }
    }
}

/// Speaks SMTP until the other end has enough, or wants to encrypt: then the stream is handed back.
fn converse<S: Read + Write>(
    stream: S,
    offer: &str,
    greets: bool,
    mut tell: impl FnMut(String),
) -> Result<Option<S>> {
    let mut reader = BufReader::new(stream);
    let (mut in_data, mut answer) = (false, if greets { "220 relay" } else { "" });
    loop {
        if !answer.is_empty() {
            write!(reader.get_mut(), "{answer}\r\n")?;
            reader.get_mut().flush()?;
        }
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_owned();
        let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        answer = match (in_data, &*verb) {
            (true, ".") => "250 taken",
            (true, _) => "",
            (_, "EHLO") => offer,
            (_, "STARTTLS") if offer.contains("STARTTLS") => "220 go on",
            (_, "AUTH") if offer.contains("AUTH") => "235 welcome",
            (_, "DATA") => "354 go on",
            (_, "QUIT") => "221 bye",
            (_, "MAIL" | "RCPT" | "RSET" | "NOOP") => "250 fine",
            _ => "502 unknown",
        };
        in_data = (in_data || verb == "DATA") && verb != ".";
        tell(line);
        if verb == "STARTTLS" && answer.starts_with("220") {
            write!(reader.get_mut(), "{answer}\r\n")?;
            return Ok(Some(reader.into_inner()));
        }
    }
}
