//! gantry-host as the client of a measurement, pinned to core 1.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use harness::Value;
use harness::program::run;

use super::subjects::SPAN_BYTES;

/// Beyond the measured seconds: for connecting, and for filling.
const GRACE: Duration = Duration::from_secs(600);

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// 4 KiB random reads, 32 outstanding.
    RandomRead,
    /// 4 KiB random writes, 32 outstanding, each durable when answered.
    DurableRandomWrite,
    /// EXTENDED COPY of 4 MiB, 8 outstanding.
    ExtendedCopy,
    /// WRITE SAME of 1 MiB of zeroes, 32 outstanding.
    WriteSame,
}

impl Load {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::RandomRead => "4 KiB random read, 32 outstanding",
            Self::DurableRandomWrite => "4 KiB durable random write, 32 outstanding",
            Self::ExtendedCopy => "EXTENDED COPY of 4 MiB, 8 outstanding",
            Self::WriteSame => "WRITE SAME of 1 MiB, 32 outstanding",
        }
    }

    fn pattern(self) -> &'static str {
        match self {
            Self::RandomRead => "randread",
            Self::DurableRandomWrite => "randwrite",
            Self::ExtendedCopy => "xcopy",
            Self::WriteSame => "writesame",
        }
    }

    fn depth(self) -> &'static str {
        match self {
            Self::RandomRead | Self::DurableRandomWrite | Self::WriteSame => "32",
            Self::ExtendedCopy => "8",
        }
    }
}

/// Sessions over which a load is spread, also connections on the bare wire.
const SESSIONS: &str = "4";

/// Where the client does it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// A LUN with data, and one that takes copies and zeroes.
    Lun {
        data: &'a str,
        copy: &'a str,
    },
    Wire(SocketAddr),
    File(&'a Path),
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) operations: f64,
    pub(crate) per_second: f64,
    /// User and system time of the server per operation, in microseconds.
    pub(crate) server_cpu_us: Option<f64>,
}

pub(super) struct Client {
    program: PathBuf,
    seconds: u32,
}

impl Client {
    pub(super) fn new(binaries: &Path, seconds: u32) -> Self {
        Self { program: binaries.join("gantry-host"), seconds }
    }

    fn run(&self, words: &[&str]) -> Result<Value> {
        let program = self.program.to_str().context("a printable path")?;
        let words = [&["-c", "1", program], words, &["--json"]].concat();
        let timeout = GRACE + Duration::from_secs(self.seconds.into());
        let printed = run(Path::new("taskset"), &words, timeout)?.success()?;
        serde_json::from_str(&printed).with_context(|| format!("not JSON: {printed}"))
    }

    /// Writes data to the first bytes of a LUN.
    pub(super) fn fill(&self, url: &str, length: u64) -> Result<()> {
        self.run(&["fill", url, "--length", &length.to_string()]).map(drop)
    }

    /// Writes data to the whole of a file.
    pub(super) fn prepare_file(&self, path: &Path, length: u64) -> Result<()> {
        let path = path.to_str().context("a printable path")?;
        self.run(&["raw", path, "--length", &length.to_string()]).map(drop)
    }

    pub(super) fn measure(&self, load: Load, place: Place<'_>) -> Result<Measured> {
        let seconds = self.seconds.to_string();
        let words = [&Self::words(load, place)?[..], &["--seconds".to_owned(), seconds]].concat();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let answer = self.run(&words)?;
        let read = |name: &str| {
            let found = answer[name].as_f64();
            found.with_context(|| format!("gantry-host does not say '{name}': {answer}"))
        };
        Ok(Measured {
            operations: read("operations")?,
            per_second: read("per_second")?,
            server_cpu_us: None,
        })
    }

    fn words(load: Load, place: Place<'_>) -> Result<Vec<String>> {
        let (pattern, depth) = (load.pattern(), load.depth());
        let span = SPAN_BYTES.to_string();
        let words = match place {
            Place::Lun { data, copy } => {
                let (urls, depth) = match load {
                    // libiscsi would be what is measured; the depth is that of each session.
                    Load::RandomRead | Load::DurableRandomWrite => {
                        (&["lean", data, "--sends", "together"][..], "8")
                    }
                    Load::ExtendedCopy => (&["io", data, "--url2", copy][..], depth),
                    Load::WriteSame => (&["io", copy][..], depth),
                };
                let mut words = urls.to_vec();
                words.extend(["--pattern", pattern, "--queue-depth", depth]);
                words.extend(["--sessions", SESSIONS, "--span", &span]);
                words.into_iter().map(str::to_owned).collect()
            }
            Place::Wire(address) => {
                let mut words = vec!["wire-client".to_owned(), address.to_string()];
                words
                    .extend(["--connections", SESSIONS, "--queue-depth", depth].map(str::to_owned));
                words
            }
            Place::File(path) => {
                let path = path.to_str().context("a printable path")?;
                ["raw", path, "--pattern", pattern, "--queue-depth", depth]
                    .map(str::to_owned)
                    .to_vec()
            }
        };
        Ok(words)
    }
}
