//! Command-line options of the daemon.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use crate::controller::{PeerLink, PeerPortal, parse_number};
use crate::iscsi::SessionOptions;
use crate::limits::MEMORY_BYTES_MIN;
use crate::logs::LogAddress;

#[cfg(test)]
mod tests;

/// Serves thin volumes over iSCSI, with every VAAI offload.
#[derive(Debug, Parser)]
#[command(name = "gantryd", version)]
pub struct Options {
    /// Directory for configuration and the management socket; created at first start.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["print_scsi_reference", "print_man_page", "tell_end_of"])]
    pub data: Option<PathBuf>,
    /// Address of an iSCSI portal; may be repeated.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:3260")]
    pub iscsi: Vec<SocketAddr>,
    /// Number of this controller, from 1 to 256, where several serve one array: the tag of its target
    /// portal group, which no other controller may have. Kept in the data directory. A preview: see
    /// docs/controllers.md.
    #[arg(long, value_name = "NUMBER", value_parser = parse_number)]
    pub(crate) controller: Option<u16>,
    /// Address of an iSCSI portal of another controller of the array, with its number; may be repeated.
    /// Hosts are told of it. Those of the last start are kept if none is given.
    #[arg(long, value_name = "NUMBER=IP:PORT")]
    pub(crate) peer_portal: Vec<PeerPortal>,
    /// Address where this controller listens for the others of the array; those that were paired with it
    /// ('gantry controller pair') are heard. Kept in the data directory.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) link: Option<SocketAddr>,
    /// Where the --link of another controller listens, with its number; may be repeated. Kept in the data
    /// directory; pairing sets it, too.
    #[arg(long, value_name = "NUMBER=HOST:PORT")]
    pub(crate) peer: Vec<PeerLink>,
    /// Seconds after which a pool is taken from another controller that is gone without letting go: for
    /// so long nobody heard it on the link, and its heartbeat in the pool's devices stood still. Only
    /// devices that fence it are taken: images of Ceph, and block devices with --reserve-devices on. A
    /// controller that cannot write its heartbeat serves no longer than that itself. 'off' leaves it to
    /// administrators, also for the pools that this controller has. Say the same at all controllers.
    #[arg(long, value_name = "S|off", default_value = "5", value_parser = parse_take_over)]
    pub(crate) take_over_after: TakeOver,
    #[command(flatten)]
    pub(crate) http: HttpOptions,
    /// Memory for data in flight, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub buffer_memory: usize,
    /// Memory for the maps of all pools together, for example 2G; at least 256M. It is divided
    /// among the pools that there are at the start.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_memory)]
    pub memory: u64,
    /// How files and block devices are read and written.
    #[arg(long, value_enum, default_value_t = IoMethod::Auto)]
    pub io: IoMethod,
    /// Whether block devices are reserved while their pools are open: a persistent reservation keeps
    /// other machines from writing to them, also one that ended without letting go. Needs the
    /// capabilities CAP_SYS_ADMIN and CAP_SYS_RAWIO. A device that knows no reservations is used without.
    #[arg(long, value_enum, value_name = "on|off", default_value_t = ReserveDevices::Off)]
    pub(crate) reserve_devices: ReserveDevices,
    /// Take and report SCSI commands of more than 16 bytes, GET LBA STATUS (32).
    #[arg(long)]
    pub long_cdbs: bool,
    /// Do not count what hosts do: no offload ledger, rates, latencies or history.
    #[arg(long)]
    pub no_statistics: bool,
    /// How the log is written: to standard error as lines or JSON, or as fields to journald, or to
    /// syslog (RFC 5424). What is written is chosen by GANTRY_LOG, for example 'info' or 'debug'.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
    /// Where --log journald and --log syslog send: 'unix:/PATH', or for syslog 'udp:IP:PORT'. By default
    /// the sockets of this machine: /run/systemd/journal/socket and /dev/log.
    #[arg(long, value_name = "ADDRESS")]
    pub log_address: Option<LogAddress>,
    /// Seconds for which a LUN number rests after its volume was unmapped, and after the last
    /// command or session that may have meant that volume, before it goes to another one.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub(crate) lun_rest: u64,
    /// Seconds that a member of a mirror may take for one read, write or flush before the mirror goes
    /// on without it; hosts wait that long at most.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) hang_limit: u64,
    /// Do not upgrade pools that an earlier version made: they then keep nothing of what hosts rely on
    /// besides data, and earlier versions can open them.
    #[arg(long)]
    pub(crate) no_pool_upgrade: bool,
    #[command(flatten)]
    pub(crate) sessions: SessionOptions,
    /// Wait for the end of the process with that number, which started this one, and tell the other controllers of it,
    /// which it names on standard input.
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) tell_end_of: Option<u32>,
    /// Print the reference page of SCSI commands and stop.
    #[arg(long)]
    pub print_scsi_reference: bool,
    /// Print the manual page and stop.
    #[arg(long)]
    pub print_man_page: bool,
}

/// Where administrators reach the daemon, besides its socket.
#[derive(Clone, Debug, Args)]
pub(crate) struct HttpOptions {
    /// Address of the management interface; loopback only.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8480")]
    pub(crate) http: SocketAddr,
    /// Address of the management interface over TLS. Other machines are refused until the first
    /// password was changed.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) https: Option<SocketAddr>,
    /// Certificate for --https and those that signed it, PEM; without one the daemon makes its own
    /// and keeps it in the data directory.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "https"])]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// TCP connections to the management interface at once. If all are in use, the one that has
    /// been idle longest makes room; the daemon's own socket is not counted.
    #[arg(long, value_name = "COUNT", default_value_t = 512, value_parser = clap::value_parser!(u64).range(4..=65_536))]
    pub(crate) http_connections_max: u64,
    /// Those of them that one IP address (of IPv6 one /64 network) may have.
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(crate) http_connections_per_address: u64,
    /// Seconds that a TLS handshake or the head of a request may take, and that a connection may
    /// be idle between two requests.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) http_timeout: u64,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
    /// Fields for systemd-journald, by its native protocol.
    Journald,
    /// Messages for syslog (RFC 5424).
    Syslog,
}

impl LogFormat {
    /// Whether each event is a datagram to a log daemon.
    pub(crate) const fn is_datagrams(self) -> bool {
        matches!(self, Self::Journald | Self::Syslog)
    }
}

impl Options {
    /// Whether the log can go where it is to go.
    ///
    /// # Errors
    /// A sentence, when it cannot.
    pub fn check_log(&self) -> Result<(), &'static str> {
        match (self.log, &self.log_address) {
            (LogFormat::Text | LogFormat::Json, Some(_)) => {
                Err("--log-address is for --log journald and --log syslog")
            }
            (LogFormat::Journald, Some(LogAddress::Udp(_))) => {
                Err("journald is reached over a socket of this machine: --log-address unix:/PATH")
            }
            _ => Ok(()),
        }
    }
}

/// How files and block devices are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoMethod {
    /// io_uring where the kernel allows it, else threads.
    Auto,
    /// io_uring, or refuse to start.
    IoUring,
    /// A pool of threads.
    Threads,
}

/// Whether pools are taken from controllers that are gone, and after what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOver {
    /// After that time without a sign of them.
    After(Duration),
    /// By administrators only.
    Off,
}

impl TakeOver {
    /// That time; `None` if only administrators do it.
    pub(crate) const fn limit(self) -> Option<Duration> {
        match self {
            Self::After(limit) => Some(limit),
            Self::Off => None,
        }
    }
}

/// The least and the most that may be said, in seconds.
const TAKE_OVER_SECONDS: RangeInclusive<u64> = 2..=600;

fn parse_take_over(text: &str) -> Result<TakeOver, String> {
    if text == "off" {
        return Ok(TakeOver::Off);
    }
    let seconds = text.parse().ok().filter(|seconds| TAKE_OVER_SECONDS.contains(seconds));
    let after = seconds.map(|seconds| TakeOver::After(Duration::from_secs(seconds)));
    after.ok_or_else(|| format!("'{text}' is neither 'off' nor a number of seconds from 2 to 600"))
}

/// Whether block devices are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReserveDevices {
    /// Each, with this array's key.
    On,
    /// None.
    Off,
}

/// Reads a number of MiB, GiB or TiB: '256M', '2G'.
fn parse_memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size: write for example 512M or 2G");
    let upper = text.to_ascii_uppercase();
    let units = [("M", 20), ("G", 30), ("T", 40)];
    let unit = units.iter().find_map(|(name, shift)| Some((upper.strip_suffix(name)?, *shift)));
    let (digits, shift) = unit.ok_or_else(wrong)?;
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if bytes < MEMORY_BYTES_MIN {
        return Err("the maps of the pools need at least 256M: choose a larger size".to_owned());
    }
    Ok(bytes)
}
