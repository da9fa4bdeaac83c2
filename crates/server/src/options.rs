//! The daemon's command line.

mod sessions;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

pub use sessions::SessionOptions;

/// Serves thin volumes over iSCSI, with every VAAI offload.
#[derive(Debug, Parser)]
#[command(name = "gantryd", version)]
pub struct Options {
    /// Directory for configuration and the management socket; created at first start.
    #[arg(long, value_name = "DIR", required_unless_present = "print_scsi_reference")]
    pub data: Option<PathBuf>,
    /// Address of an iSCSI portal; may be repeated.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:3260")]
    pub iscsi: Vec<SocketAddr>,
    /// Address of the management interface; loopback only.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8480")]
    pub http: SocketAddr,
    /// Memory for data in flight, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub buffer_memory: usize,
    /// How files and block devices are read and written.
    #[arg(long, value_enum, default_value_t = IoMethod::Auto)]
    pub io: IoMethod,
    /// Take and report SCSI commands of more than 16 bytes, GET LBA STATUS (32).
    #[arg(long)]
    pub long_cdbs: bool,
    #[command(flatten)]
    pub sessions: SessionOptions,
    /// Print the reference page of SCSI commands and stop.
    #[arg(long)]
    pub print_scsi_reference: bool,
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
