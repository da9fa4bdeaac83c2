//! Arguments of the command line (clap).

use std::net::SocketAddr;
use std::path::PathBuf;

use api::{BlockSize, PathState};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::alerts::AlertCommand;
use crate::configuration::ConfigurationCommand;
use crate::confirmation::Confirmation;
use crate::labels::{NewTags, RenameArguments, TagArguments};
use crate::offload::OffloadCommand;
use crate::pool_import::RecoveryKeyCommand;
use crate::pools::{PoolCommand, ThresholdArguments};
use crate::primitives::PrimitiveArguments;
use crate::rate_limits::{HostLimitArguments, LimitArguments};
use crate::schedules::ScheduleCommand;
use crate::scrubs::ScrubCommand;
use crate::snapshots::SnapshotCommand;
use crate::support_bundle::SupportBundleArguments;
use crate::tasks::TaskCommand;
use crate::top::TopArguments;
use crate::users::{AuditArguments, TokenCommand, UserCommand};
use notation::parse_size;

#[cfg(test)]
mod tests;

/// Administers a Gantry array.
#[derive(Debug, Parser)]
#[command(name = "gantry", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) object: Object,
}

/// Options that stand before or after any subcommand.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The daemon's data directory, whose socket is used.
    #[arg(long, global = true, value_name = "DIR", env = "GANTRY_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// For how many seconds to wait for a daemon on this machine that is starting: by default 3 if
    /// nobody has opened the data directory yet, and 60 if somebody has.
    #[arg(long, global = true, value_name = "S")]
    pub(crate) wait: Option<u64>,
    /// The daemon's HTTP or HTTPS address; goes before --data. A token is needed there, in the
    /// variable GANTRY_TOKEN or in a file.
    #[arg(long, global = true, value_name = "URL", env = "GANTRY_URL")]
    pub(crate) url: Option<String>,
    /// File with the token on its first line; goes before GANTRY_TOKEN.
    #[arg(long, global = true, value_name = "FILE", env = "GANTRY_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate that an HTTPS address is trusted by, PEM: for example tls.crt from the daemon's
    /// data directory. Without it those that this machine trusts.
    #[arg(long, global = true, value_name = "FILE", env = "GANTRY_CA")]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Object {
    /// Pools of space.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Volumes, which hosts see as LUNs.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Snapshots of volumes.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Schedules: snapshots that are taken, and deleted, by themselves.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Scrubs: comparing all that a pool holds with its checksums.
    #[command(subcommand)]
    Scrub(ScrubCommand),
    /// Hosts: groups of initiators that see the same LUNs.
    #[command(subcommand)]
    Host(HostCommand),
    /// Groups of hosts, to which volumes are mapped as to a host.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Controllers: daemons that serve the same array, each pool by one of them (a preview).
    #[command(subcommand)]
    Controller(ControllerCommand),
    /// Portals: addresses at which hosts find the target.
    #[command(subcommand)]
    Portal(PortalCommand),
    /// What initiators must prove to be told of the target.
    #[command(subcommand)]
    Discovery(DiscoveryCommand),
    /// Sessions: who is logged in.
    #[command(subcommand)]
    Session(SessionCommand),
    /// The iSCSI target.
    #[command(subcommand)]
    Target(TargetCommand),
    /// Users, who administer the array over the network.
    #[command(subcommand)]
    User(UserCommand),
    /// Tokens, by which programs administer the array over the network.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Who asked for which change.
    Audit(AuditArguments),
    /// What happened lately.
    Events,
    /// Tasks: long work, and how far it is.
    #[command(subcommand)]
    Task(TaskCommand),
    /// The configuration as one file.
    #[command(subcommand)]
    Configuration(ConfigurationCommand),
    /// Alerts: who is told of events.
    #[command(subcommand)]
    Alert(AlertCommand),
    /// What hosts had the array do, and what they did themselves and why.
    #[command(subcommand)]
    Offload(OffloadCommand),
    /// What goes on now, by volume, host or primitive.
    Top(TopArguments),
    /// Who contends for which blocks by COMPARE AND WRITE (ATS).
    Locks,
    /// What became of the space that volumes gave up.
    Reclaim,
    /// When pools will be full.
    Forecast,
    /// The key by which CHAP secrets in pools are read after the data directory is lost.
    #[command(subcommand)]
    RecoveryKey(RecoveryKeyCommand),
    /// Write what somebody needs who looks for a fault: state, events, statistics, logs and facts of
    /// this machine in one .tar.gz, without secrets. Works as far as it can when no daemon answers.
    SupportBundle(SupportBundleArguments),
    /// Print completions for a shell.
    Completions { shell: Shell },
    /// Write the manual pages into a folder.
    #[command(hide = true)]
    ManPages { folder: PathBuf },
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Create a volume.
    Create {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        /// Size, for example 200G (powers of 1024).
        #[arg(long, value_parser = parse_size)]
        size: u64,
        /// Thick: set all of its space aside, so that it never runs out.
        #[arg(long, alias = "reserved")]
        thick: bool,
        /// The blocks that hosts see, for the life of the volume. ESXi needs 512 or 512e.
        #[arg(long, value_enum, default_value = "512")]
        block_size: BlockSizeArgument,
        #[command(flatten)]
        tags: NewTags,
    },
    /// List all volumes.
    List,
    /// Show one volume.
    Show {
        #[arg(value_name = "POOL/NAME")]
        path: String,
    },
    /// Change the size of a volume.
    Resize {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        /// The new size, for example 300G.
        #[arg(long, value_parser = parse_size)]
        size: u64,
        /// Agree to lose what lies beyond a smaller size.
        #[arg(long)]
        shrink: bool,
    },
    /// Make a new, writable volume with the content of a volume or snapshot, at once.
    Clone {
        /// Volume or snapshot.
        #[arg(value_name = "POOL/SOURCE")]
        path: String,
        /// Name of the new volume, in the same pool.
        name: String,
        /// Thick: set all of its space aside, so that it never runs out.
        #[arg(long, alias = "reserved")]
        thick: bool,
        #[command(flatten)]
        tags: NewTags,
    },
    /// Take back the content and the size that a snapshot of the volume kept.
    Revert {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        /// The snapshot, which stays.
        #[arg(long, value_name = "SNAPSHOT")]
        to: String,
        /// Agree that the volume changes while it is mapped; no host may have it open.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Set how full the volume may become before someone is told.
    Set {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[command(flatten)]
        thresholds: ThresholdArguments,
    },
    /// Say whether hosts may reserve the volume; hidden, RESERVE and PERSISTENT RESERVE are
    /// answered as not supported.
    Reservations {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[arg(value_enum)]
        visibility: VisibilityArgument,
    },
    /// Give the volume a vendor and product of its own to tell hosts (INQUIRY), or the array's
    /// again. ESXi has the array copy only between LUNs that tell the same.
    Identification {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[command(flatten)]
        identification: IdentificationArguments,
        /// Tell what the array tells.
        #[arg(long, conflicts_with_all = ["vendor", "product"], required_unless_present = "vendor")]
        inherit: bool,
    },
    /// Show which primitives (offloads: ATS, Full Copy, Block Zero, Delete) are on for a volume, or
    /// turn some off or on. Hosts may use one only where volume, host and array have it on.
    Primitives {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[command(flatten)]
        primitives: PrimitiveArguments,
    },
    /// Show the rate limits (QoS) of a volume, or change them, whoever uses it. They count at once, also
    /// for what waits.
    Limit {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[command(flatten)]
        limits: LimitArguments,
    },
    /// Give a volume another name; hosts notice nothing.
    Rename(RenameArguments),
    /// Say which tags (labels) a volume has.
    Tag(TagArguments),
    /// Delete an unmapped volume and all its data. Its snapshots stay.
    Delete {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Let a host see a volume.
    Map {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        /// A host's or a group's name, or 'any' for every initiator.
        #[arg(long)]
        host: String,
        /// LUN number, 0 to 16383. When left out it is the one by which other hosts see the volume,
        /// or this one saw it before, if that is free; else the lowest free one of the host.
        #[arg(long, value_parser = clap::value_parser!(u16).range(0..=16_383))]
        lun: Option<u16>,
        /// Let the host read only.
        #[arg(long)]
        read_only: bool,
    },
    /// Take a volume away from a host.
    Unmap {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        /// A host's name, or 'any', as it was mapped.
        #[arg(long)]
        host: String,
    },
}

/// The blocks that hosts see of a volume.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BlockSizeArgument {
    /// Blocks of 512 bytes.
    #[value(name = "512")]
    B512,
    /// Blocks of 512 bytes; hosts are told that 4096 at once are better.
    #[value(name = "512e")]
    B512e,
    /// Blocks of 4096 bytes.
    #[value(name = "4096")]
    B4096,
}

/// Whether hosts find a way to reserve a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VisibilityArgument {
    Shown,
    Hidden,
}

/// Parses states of target portal groups by the names that the interface gives them.
fn path_states() -> impl TypedValueParser<Value = PathState> {
    let state = |name: String| PathState::ALL.into_iter().find(|state| state.name() == name);
    PossibleValuesParser::new(PathState::ALL.map(PathState::name))
        .map(move |name| state(name).expect("it is one of those names"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Create a host.
    Create {
        name: String,
        /// iSCSI name of an initiator; may be repeated.
        #[arg(long = "initiator", alias = "iqn", required = true)]
        initiators: Vec<String>,
        #[command(flatten)]
        chap: ChapArguments,
    },
    /// List all hosts.
    List,
    /// Give a host other initiators or another CHAP account. Sessions stay as they are.
    Change {
        name: String,
        /// iSCSI name of an initiator; may be repeated. Takes the place of all there were.
        #[arg(long = "initiator", alias = "iqn")]
        initiators: Vec<String>,
        #[command(flatten)]
        chap: ChapArguments,
        /// Let the host's initiators in without a proof.
        #[arg(long, conflicts_with = "chap_user")]
        no_chap: bool,
    },
    /// Show which primitives (offloads) are on for a host, or turn some off or on; its sessions stay,
    /// and are told.
    Primitives {
        name: String,
        #[command(flatten)]
        primitives: PrimitiveArguments,
    },
    /// Show the rate limits (QoS) of a host and its share, or change them, on all volumes together. They
    /// count at once, also for what waits.
    Limit {
        name: String,
        #[command(flatten)]
        limits: HostLimitArguments,
    },
    /// Say which tags (labels) a host has.
    Tag(TagArguments),
    /// Delete a host that no volume is mapped to.
    Delete { name: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TargetCommand {
    /// Show the iSCSI name, portals and sessions.
    Show,
    /// Show the vendor and product that all volumes tell hosts (INQUIRY) which have none of their
    /// own, or change them. Hosts are told at once.
    Identification {
        #[command(flatten)]
        identification: IdentificationArguments,
    },
    /// Show which primitives (offloads) are on for everybody, or turn some off or on.
    Primitives {
        #[command(flatten)]
        primitives: PrimitiveArguments,
    },
}

/// A vendor and a product.
#[derive(Debug, Args)]
pub(crate) struct IdentificationArguments {
    /// 1 to 8 printable ASCII characters.
    #[arg(long, requires = "product")]
    pub(crate) vendor: Option<String>,
    /// 1 to 16 printable ASCII characters.
    #[arg(long, requires = "vendor")]
    pub(crate) product: Option<String>,
}

/// A CHAP account. Secrets are read from files, because others see the command line.
#[derive(Debug, Args)]
pub(crate) struct ChapArguments {
    /// CHAP name of the initiators; they must prove their secret from then on.
    #[arg(long, value_name = "NAME", requires = "chap_secret_file")]
    pub(crate) chap_user: Option<String>,
    /// File with their secret on its first line, 12 to 255 bytes; - for the standard input.
    #[arg(long, value_name = "FILE", requires = "chap_user")]
    pub(crate) chap_secret_file: Option<PathBuf>,
    /// CHAP name of the array, which then proves its own secret when asked.
    #[arg(long, value_name = "NAME", requires_all = ["chap_user", "mutual_secret_file"])]
    pub(crate) mutual_user: Option<String>,
    /// File with the array's secret, different from the initiators'; - for the standard input,
    /// where it is the second line if both are there.
    #[arg(long, value_name = "FILE", requires = "mutual_user")]
    pub(crate) mutual_secret_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Create a group, or change its members.
    Set {
        name: String,
        /// A host's name; may be repeated.
        #[arg(long = "host", required = true)]
        hosts: Vec<String>,
    },
    /// List all groups.
    List,
    /// Say which tags (labels) a group has.
    Tag(TagArguments),
    /// Delete a group that no volume is mapped to.
    Delete { name: String },
}

/// Whether a controller is in maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MaintenanceArgument {
    On,
    Off,
}

/// What is done with controllers.
#[derive(Debug, Subcommand)]
pub(crate) enum ControllerCommand {
    /// List all controllers, and how each serves the pools.
    List,
    /// Give a pool of the controller that is asked to another one; hosts go on there.
    Switch {
        /// The pool.
        pool: String,
        /// Also if no controller that is known would take it, or none of its hosts has a path there.
        #[arg(long)]
        force: bool,
    },
    /// Print a code by which another controller joins this one, once, within ten minutes. Whoever has it
    /// can become a controller of the array.
    Pair {
        /// Where the other controller finds the link of this one, if it is not the address of --link.
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
    },
    /// Join the controller that printed a code: both know each other's certificate from then on.
    Join {
        /// The code; - for the standard input.
        #[arg(value_name = "CODE")]
        code: String,
    },
    /// Give the pools of the controller that is asked to others, and let it take none, until it is switched
    /// off or its daemon is started again.
    Maintenance {
        #[arg(value_name = "on|off")]
        state: MaintenanceArgument,
    },
    /// Forget another controller: it is not heard any more until it is paired anew.
    Forget {
        /// Its number.
        #[arg(value_name = "NUMBER")]
        controller: u16,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PortalCommand {
    /// Listen on another address, from now on.
    Create {
        #[arg(value_name = "IP:PORT")]
        address: SocketAddr,
        /// Target portal group, 1 to 65535. Portals of one group share sessions.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
        group: u16,
        /// Send initiators to another address instead of letting them in.
        #[arg(long, value_name = "IP:PORT")]
        redirect: Option<SocketAddr>,
    },
    /// List all portals.
    List,
    /// Say how well the paths of a target portal group work; hosts are told at once (ALUA).
    State {
        /// Target portal group, 1 to 65535.
        #[arg(value_parser = clap::value_parser!(u16).range(1..))]
        group: u16,
        #[arg(value_parser = path_states())]
        state: PathState,
    },
    /// Stop listening; sessions that came through the portal are asked to log out.
    Delete {
        #[arg(value_name = "IP:PORT")]
        address: SocketAddr,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiscoveryCommand {
    /// Show whether a proof is demanded.
    Show,
    /// Demand a CHAP account of whoever asks for targets.
    SetChap {
        #[command(flatten)]
        chap: ChapArguments,
    },
    /// Tell everybody of the target.
    NoChap,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List all sessions, a line each: who, through which portal, which LUNs, how fast.
    List {
        /// List what was negotiated at login (RFC 7143 13) instead, a line for each key.
        #[arg(long)]
        keys: bool,
    },
    /// Show one session, with what was negotiated at its login.
    Show {
        /// Target session identifying handle, as 'session list' shows it.
        #[arg(value_name = "TSIH")]
        tsih: u16,
    },
    /// End sessions: their initiators are asked to log out, and after 2 s their connections are
    /// closed. They may log in again.
    Close {
        /// Target session identifying handle of one session, as 'session list' shows it.
        #[arg(value_name = "TSIH", required_unless_present = "iqn", conflicts_with = "iqn")]
        tsih: Option<u16>,
        /// All sessions of this initiator.
        #[arg(long, value_name = "IQN")]
        iqn: Option<String>,
    },
}

impl From<BlockSizeArgument> for BlockSize {
    fn from(argument: BlockSizeArgument) -> Self {
        match argument {
            BlockSizeArgument::B512 => Self::B512,
            BlockSizeArgument::B512e => Self::B512e,
            BlockSizeArgument::B4096 => Self::B4096,
        }
    }
}
