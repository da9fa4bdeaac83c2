//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::size::parse_size;

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
    /// The daemon's HTTP address; goes before --data.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Object {
    /// Pools of space.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Volumes, which hosts see as LUNs.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Hosts: groups of initiators that see the same LUNs.
    #[command(subcommand)]
    Host(HostCommand),
    /// The iSCSI target.
    #[command(subcommand)]
    Target(TargetCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Create a pool on a new file, a block device, or memory.
    Create {
        name: String,
        /// file:PATH, block:PATH or memory:
        #[arg(long)]
        device: String,
        /// Size, for example 20G (powers of 1024).
        #[arg(long, value_parser = parse_size)]
        size: Option<u64>,
    },
    /// List all pools.
    List,
    /// Show one pool.
    Show { name: String },
    /// Make a pool's device larger, while it is in use.
    Extend {
        name: String,
        /// The new size, for example 40G.
        #[arg(long, value_parser = parse_size)]
        size: u64,
    },
    /// Forget an empty pool. Its file stays where it is.
    Delete { name: String },
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
        /// Set all of its space aside, so that it never runs out.
        #[arg(long)]
        reserved: bool,
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
    /// Delete an unmapped volume and all its data.
    Delete {
        #[arg(value_name = "POOL/NAME")]
        path: String,
    },
    /// Let a host see a volume.
    Map {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        /// A host's name, or 'any' for every initiator.
        #[arg(long)]
        host: String,
        /// LUN number, 0 to 16383; the lowest unused one when left out.
        #[arg(long)]
        lun: Option<u16>,
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

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Create a host.
    Create {
        name: String,
        /// iSCSI name of an initiator; may be repeated.
        #[arg(long = "initiator", required = true)]
        initiators: Vec<String>,
    },
    /// List all hosts.
    List,
    /// Delete a host that no volume is mapped to.
    Delete { name: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TargetCommand {
    /// Show the iSCSI name, portals and sessions.
    Show,
}
