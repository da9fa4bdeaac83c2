//! `gantry-host`: does to an array what a host does, and measures it.
#![forbid(unsafe_code)]

mod reference;
mod subcommands;
mod validation;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use host::initiator::lean::Work;
use host::initiator::load::{self, Kind, Load};
use host::initiator::ranges::{self, Expected, Range, Summary};
use host::initiator::session::{HeaderDigest, Session};
use host::initiator::times::{self, Times};
use host::initiator::{lean, raw, wire};
use notation::parse_size;
use serde_json::{Value, json};
use subcommands::HostSubcommand;
use validation::Validation;

#[derive(Debug, Parser)]
#[command(name = "gantry-host", version, arg_required_else_help = true)]
struct Arguments {
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Folder of the simulated host.
    #[arg(long, global = true, env = "GANTRY_HOST_STATE", default_value = "gantry-host-state")]
    state: PathBuf,
    /// The initiator's name with which fill, check, hash, zero, unmap and copy log in; one of their own when
    /// left out.
    #[arg(long, global = true)]
    initiator: Option<String>,
    /// Divide all time-outs of the initiator by this: for tests.
    #[arg(long, global = true, hide = true, default_value_t = 1)]
    divide_times: u32,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct RangeArguments {
    /// First byte, for example 1G (powers of 1024).
    #[arg(long, default_value = "0", value_parser = parse_size)]
    offset: u64,
    /// Number of bytes, for example 512M; the rest of the LUN when left out.
    #[arg(long, value_parser = parse_size)]
    length: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Host(HostSubcommand),
    #[command(flatten)]
    Validation(Validation),
    /// Write a pattern that 'check' knows.
    Fill {
        url: String,
        #[command(flatten)]
        range: RangeArguments,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Read, and compare with the pattern.
    Check {
        url: String,
        #[command(flatten)]
        range: RangeArguments,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Compare with zeros instead.
        #[arg(long)]
        zero: bool,
    },
    /// Read, and print the SHA-256.
    Hash {
        url: String,
        #[command(flatten)]
        range: RangeArguments,
    },
    /// Write zeros, by WRITE SAME.
    Zero {
        url: String,
        #[command(flatten)]
        range: RangeArguments,
        /// Send the zeros instead.
        #[arg(long)]
        by_host: bool,
    },
    /// UNMAP.
    Unmap {
        url: String,
        #[command(flatten)]
        range: RangeArguments,
    },
    /// Copy from the start of a LUN to a range of another, by EXTENDED COPY.
    Copy {
        source: String,
        destination: String,
        #[command(flatten)]
        range: RangeArguments,
        /// Read and write instead.
        #[arg(long)]
        by_host: bool,
        /// Bytes per EXTENDED COPY.
        #[arg(long, default_value = "4M", value_parser = parse_size)]
        transfer_size: u64,
    },
    /// A steady load for some seconds.
    Io(IoArguments),
    /// Measure an array with a client that costs next to nothing itself.
    Lean(LeanArguments),
    /// The bare wire: answer requests.
    WireServer {
        #[arg(long)]
        listen: SocketAddr,
        /// Bytes of data of each answer, after its 48 bytes of header.
        #[arg(long, default_value_t = 4096)]
        bytes: usize,
    },
    /// The bare wire: send requests.
    WireClient {
        address: SocketAddr,
        #[arg(long, default_value_t = 1)]
        connections: usize,
        /// Requests outstanding over all connections.
        #[arg(long, default_value_t = 32)]
        queue_depth: usize,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Bytes of data of each answer; as the server was told.
        #[arg(long, default_value_t = 4096)]
        bytes: usize,
        /// How requests that may go at the same time are sent.
        #[arg(long, value_enum, default_value = "together")]
        sends: SendsArgument,
    },
    /// Print the reference page.
    #[command(hide = true)]
    PrintReference,
    /// A file written in place, or read; with --length, prepared first.
    Raw {
        path: PathBuf,
        #[arg(long, value_parser = parse_size)]
        length: Option<u64>,
        #[arg(long, value_enum)]
        pattern: Option<Pattern>,
        #[arg(long, default_value_t = 32)]
        queue_depth: u32,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
}

#[derive(Debug, Args)]
struct IoArguments {
    url: String,
    /// The destination, for xcopy.
    #[arg(long)]
    url2: Option<String>,
    #[arg(long, value_enum)]
    pattern: Pattern,
    #[arg(long, default_value_t = 1)]
    sessions: usize,
    #[arg(long, default_value_t = 32)]
    queue_depth: usize,
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Bytes per command; the pattern's usual size when left out.
    #[arg(long, value_parser = parse_size)]
    block: Option<u64>,
    /// Bytes of the LUN, from its start, that are used.
    #[arg(long, value_parser = parse_size)]
    span: Option<u64>,
    /// Commands per second at most.
    #[arg(long)]
    rate: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pattern {
    Randread,
    Randwrite,
    Xcopy,
    Writesame,
    Unmap,
    /// COMPARE AND WRITE of a block with itself; the span is written first.
    Caw,
}

#[derive(Args, Debug)]
struct LeanArguments {
    url: String,
    /// Where a copy goes; not in use for anything else.
    #[arg(long)]
    url2: Option<String>,
    #[arg(long, value_enum)]
    pattern: LeanPattern,
    /// Bytes of each command; the default is usual for the pattern.
    #[arg(long, value_parser = parse_size)]
    block: Option<u64>,
    #[arg(long, default_value_t = 1)]
    sessions: usize,
    /// Commands outstanding in each session.
    #[arg(long, default_value_t = 32)]
    queue_depth: usize,
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Bytes of the LUN, from its start, that are used.
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    span: u64,
    /// How commands that may go at the same time are sent.
    #[arg(long, value_enum, default_value = "each")]
    sends: SendsArgument,
    /// End when every part of the span had its command, if that is before the time is over.
    #[arg(long)]
    once: bool,
    /// Send and check CRC32C digests of headers and data.
    #[arg(long)]
    digests: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LeanPattern {
    Randread,
    Randwrite,
    /// Seven reads and three writes of ten, at random.
    Mixed,
    Read,
    Write,
    /// COMPARE AND WRITE of blocks with themselves; the span is written first.
    Caw,
    Writesame,
    Unmap,
    Xcopy,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SendsArgument {
    /// Each with a system call of its own, as the kernel's initiator does.
    Each,
    /// In one system call.
    Together,
}

impl From<SendsArgument> for lean::Sends {
    fn from(argument: SendsArgument) -> Self {
        match argument {
            SendsArgument::Each => Self::Each,
            SendsArgument::Together => Self::Together,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let judges = matches!(
        arguments.command,
        Command::Validation(_)
            | Command::Host(HostSubcommand::Doctor { .. } | HostSubcommand::XcopyValidate { .. })
    );
    let times = if judges { Times::JUDGE } else { Times::HOST };
    times::choose(times.divided(arguments.divide_times));
    match &arguments.command {
        Command::Host(subcommand) => {
            ended(subcommands::run(subcommand, &arguments.state, arguments.json))
        }
        Command::Validation(order) => {
            ended(validation::run(order, arguments.json).map(|()| ExitCode::SUCCESS))
        }
        Command::PrintReference => {
            terminal::say_part!("{}", reference::page(&Arguments::command()));
            ExitCode::SUCCESS
        }
        command => measure(command, arguments.initiator.as_deref(), arguments.json),
    }
}

fn ended(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| failed(&error))
}

fn measure(command: &Command, initiator: Option<&str>, as_json: bool) -> ExitCode {
    match run(command, initiator) {
        Ok(outcome) if as_json => {
            terminal::say!("{outcome}");
            ExitCode::SUCCESS
        }
        Ok(outcome) => {
            for (name, value) in outcome.as_object().into_iter().flatten() {
                terminal::say!("{name:18} {value}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    terminal::complain!("gantry-host: {error:#}");
    ExitCode::FAILURE
}

fn connect(url: &str, initiator: Option<&str>) -> Result<Session> {
    let own = format!("iqn.2026-11.io.gantry.host:{}", std::process::id());
    Ok(Session::connect(url, initiator.unwrap_or(&own), HeaderDigest::None)?)
}

fn hash(session: &mut Session, range: &RangeArguments) -> Result<Value> {
    let range = range.on(session)?;
    Ok(json!({ "bytes": range.length, "sha256": ranges::hash(session, range)? }))
}

impl RangeArguments {
    fn on(&self, session: &Session) -> Result<Range> {
        let rest = session.size_bytes.checked_sub(self.offset);
        ensure!(
            rest.is_some(),
            "the LUN has {} bytes: choose a smaller --offset",
            session.size_bytes
        );
        let length = self.length.or(rest).unwrap_or(0);
        Ok(Range { offset: self.offset, length })
    }
}

/// Runs work on a LUN and says what it cost.
fn measured(
    session: &mut Session,
    range: &RangeArguments,
    work: impl FnOnce(&mut Session, Range) -> Result<Summary>,
) -> Result<Value> {
    let range = range.on(session)?;
    let before = session.wire_bytes();
    let started = Instant::now();
    let summary = work(session, range)?;
    let seconds = started.elapsed().as_secs_f64();
    let after = session.wire_bytes();
    let wire_bytes = after.0 + after.1 - before.0 - before.1;
    Ok(json!({
        "seconds": seconds,
        "bytes": summary.bytes,
        "commands": summary.commands,
        "wire_bytes": wire_bytes,
    }))
}

fn run(command: &Command, initiator: Option<&str>) -> Result<Value> {
    let connect = |url: &str| connect(url, initiator);
    match command {
        Command::Host(_) | Command::Validation(_) | Command::PrintReference => Ok(Value::Null),
        Command::Fill { url, range, seed } => {
            measured(&mut connect(url)?, range, |session, range| {
                ranges::fill(session, range, *seed)
            })
        }
        Command::Check { url, range, seed, zero } => {
            let expected = if *zero { Expected::Zeros } else { Expected::Pattern(*seed) };
            measured(&mut connect(url)?, range, |session, range| {
                ranges::check(session, range, expected)
            })
        }
        Command::Hash { url, range } => hash(&mut connect(url)?, range),
        Command::Zero { url, range, by_host } => {
            measured(&mut connect(url)?, range, |session, range| {
                ranges::zero(session, range, !by_host)
            })
        }
        Command::Unmap { url, range } => measured(&mut connect(url)?, range, ranges::unmap),
        Command::Copy { source, destination, range, by_host, transfer_size } => {
            let mut source = connect(source)?;
            let before = source.wire_bytes();
            let mut outcome = measured(&mut connect(destination)?, range, |session, range| {
                if *by_host {
                    ranges::copy_by_host(&mut source, session, range)
                } else {
                    ranges::copy_offloaded(&source, session, range, *transfer_size)
                }
            })?;
            let after = source.wire_bytes();
            let of_source = after.0 + after.1 - before.0 - before.1;
            let of_destination = outcome["wire_bytes"].as_u64().unwrap_or(0);
            outcome["wire_bytes"] = json!(of_source + of_destination);
            Ok(outcome)
        }
        Command::Io(arguments) => Ok(serde_json::to_value(load::run(&arguments.load())?)?),
        Command::Lean(arguments) => Ok(serde_json::to_value(lean::run(&arguments.load())?)?),
        Command::WireServer { listen, bytes } => wire::serve(*listen, *bytes).map(|()| Value::Null),
        Command::WireClient { address, connections, queue_depth, seconds, bytes, sends } => {
            let load = wire::Load {
                address: *address,
                connections: *connections,
                depth: *queue_depth,
                bytes: *bytes,
                duration: Duration::from_secs(*seconds),
                sends: (*sends).into(),
            };
            Ok(serde_json::to_value(wire::run(&load)?)?)
        }
        Command::Raw { path, length, pattern, queue_depth, seconds } => {
            if let Some(length) = length {
                raw::prepare(path, *length)?;
            }
            let direction = match pattern {
                None => return Ok(json!({ "bytes": length })),
                Some(Pattern::Randread) => raw::Direction::Read,
                Some(_) => raw::Direction::DurableWrite,
            };
            let duration = Duration::from_secs(*seconds);
            Ok(serde_json::to_value(raw::run(path, direction, *queue_depth, duration)?)?)
        }
    }
}

impl LeanArguments {
    fn load(&self) -> lean::Load {
        let (work, usual) = match self.pattern {
            LeanPattern::Randread => (Work::RandomRead, 4096),
            LeanPattern::Randwrite => (Work::RandomWrite, 4096),
            LeanPattern::Mixed => (Work::Mixed, 4096),
            LeanPattern::Read => (Work::Read, 128 << 10),
            LeanPattern::Write => (Work::Write, 128 << 10),
            LeanPattern::Caw => (Work::CompareAndWrite, 512),
            LeanPattern::Writesame => (Work::WriteSame, 1 << 20),
            LeanPattern::Unmap => (Work::Unmap, 1 << 20),
            LeanPattern::Xcopy => (Work::ExtendedCopy, 4 << 20),
        };
        lean::Load {
            url: self.url.clone(),
            url2: self.url2.clone(),
            work,
            bytes: self.block.unwrap_or(usual),
            sessions: self.sessions,
            depth: self.queue_depth,
            span: self.span,
            duration: Duration::from_secs(self.seconds),
            once: self.once,
            sends: self.sends.into(),
            digests: self.digests,
        }
    }
}

impl IoArguments {
    fn load(&self) -> Load {
        let (kind, usual) = match self.pattern {
            Pattern::Randread => (Kind::RandomRead, 4096),
            Pattern::Randwrite => (Kind::RandomWrite, 4096),
            Pattern::Xcopy => (Kind::ExtendedCopy, 4 << 20),
            Pattern::Writesame => (Kind::WriteSame, 1 << 20),
            Pattern::Unmap => (Kind::Unmap, 1 << 20),
            Pattern::Caw => (Kind::CompareAndWrite, 512),
        };
        Load {
            url: self.url.clone(),
            url2: self.url2.clone(),
            kind,
            bytes: self.block.unwrap_or(usual),
            sessions: self.sessions,
            queue_depth: self.queue_depth,
            duration: Duration::from_secs(self.seconds),
            span: self.span,
            rate: self.rate,
        }
    }
}
