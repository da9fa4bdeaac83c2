//! One HTTP request at a time over a socket, so that a test decides every header.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    head: String,
    host: Option<String>,
    body: String,
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    head: String,
    /// The body.
    pub body: String,
}

impl Request {
    /// A request without a body.
    pub fn new(method: &str, path: &str) -> Self {
        let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        Self { head, host: None, body: String::new() }
    }

    /// Adds a header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if name.eq_ignore_ascii_case("host") {
            self.host = Some(value.to_owned())
        } else {
            self.head += &format!("{name}: {value}\r\n")
        }
        self
    }

    /// Adds a body of JSON.
    pub fn json(self, body: &Value) -> Self {
        let request = self.with("Content-Type", "application/json");
        Self { body: body.to_string(), ..request }
    }

    /// Adds a body as it is.
    pub fn text(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }

    /// Sends it to an address.
    ///
    /// # Errors
    /// When nobody answers, or not in HTTP.
    pub fn send(&self, address: SocketAddr) -> Result<Answer> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        self.exchange(stream, &address.to_string())
    }

    /// Sends it to an address from another one of this machine.
    ///
    /// # Errors
    /// When nobody answers, or not in HTTP.
    pub fn send_from(&self, source: Ipv4Addr, address: SocketAddr) -> Result<Answer> {
        let stream = connect_from(source, address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        self.exchange(stream, &address.to_string())
    }

    /// Sends it to an address, and closes the connection without waiting for an answer.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn send_and_hang_up(&self, address: SocketAddr) -> Result<()> {
        let mut stream = TcpStream::connect(address)?;
        self.write(&mut stream, &address.to_string())
    }

    /// Sends it to a socket.
    ///
    /// # Errors
    /// When nobody answers, or not in HTTP.
    pub fn send_to_socket(&self, socket: &Path) -> Result<Answer> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        self.exchange(stream, "localhost")
    }

    fn write(&self, stream: &mut impl Write, host: &str) -> Result<()> {
        let host = self.host.as_deref().unwrap_or(host);
        let length = self.body.len();
        let head = format!("{}Host: {host}\r\nContent-Length: {length}\r\n\r\n", self.head);
        stream.write_all(head.as_bytes())?;
        Ok(stream.write_all(self.body.as_bytes())?)
    }

    fn exchange(&self, mut stream: impl Read + Write, host: &str) -> Result<Answer> {
        self.write(&mut stream, host)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Answer::parse(&String::from_utf8_lossy(&answer))
    }
}

fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&address.into())?;
    Ok(TcpStream::from(socket))
}

impl Answer {
    fn parse(text: &str) -> Result<Self> {
        let (head, body) = text.split_once("\r\n\r\n").context("a head and a body")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Self {
            status: status.with_context(|| format!("no status in '{head}'"))?,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }

    /// A header, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All headers of a name, which may be there several times.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        let named = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value).collect()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is not.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("not JSON: {}", self.body))
    }

    /// The body as JSON, if it was answered that all is well.
    ///
    /// # Errors
    /// When something else was answered.
    pub fn success(&self) -> Result<Value> {
        ensure!(self.status == 200, "{}\n{}", self.head, self.body);
        self.json()
    }

    /// The problem (RFC 9457) that was answered, if it has this status.
    ///
    /// # Errors
    /// When something else was answered, or the problem does not say what to do.
    pub fn problem(&self, status: u16) -> Result<String> {
        ensure!(self.status == status, "not {status}: {}\n{}", self.head, self.body);
        ensure!(self.header("content-type") == Some("application/problem+json"), "{}", self.head);
        let problem = self.json()?;
        ensure!(problem["status"] == status, "{problem}");
        let detail = problem["detail"].as_str().context("a detail")?;
        ensure!(!detail.is_empty() && problem["title"].is_string(), "{problem}");
        Ok(detail.to_owned())
    }
}
