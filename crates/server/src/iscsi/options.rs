//! Options for sessions: limits on connections and on what one session may hold, and what login
//! offers.

use std::time::Duration;

use clap::Args;
use iscsi::{Budget, ConnectionConfig, Limits, Share};

use super::admission::Quotas;

/// Limits of sessions. What is negotiated is never more.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct SessionOptions {
    /// TCP connections at once: half of them for whoever comes, a quarter for initiators of
    /// configured hosts only, an eighth each for logins under way and discovery sessions (at most
    /// 512), where the oldest makes room.
    #[arg(long, value_name = "COUNT", default_value_t = 4096, value_parser = in_range(1, 1 << 20))]
    pub(crate) connections_max: u64,
    /// TCP connections at once from one IP address (of IPv6 one /64 network); one more is closed.
    #[arg(long, value_name = "COUNT", default_value_t = 2048, value_parser = in_range(1, 1 << 20))]
    pub(crate) connections_per_address: u64,
    /// TCP connections at once of all sessions under one initiator name; a login beyond is refused.
    #[arg(long, value_name = "COUNT", default_value_t = 512, value_parser = in_range(1, 1 << 20))]
    pub(crate) connections_per_initiator: u64,
    /// Seconds after which a discovery session that asks for nothing is closed.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = in_range(1, 3600))]
    pub(crate) discovery_timeout: u64,
    /// Commands at once in one session: the CmdSN window.
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = in_range(1, 4096))]
    pub(crate) session_commands: u64,
    /// MiB that the commands of one session may hold; beyond, they end with TASK SET FULL.
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = in_range(1, 65_536))]
    pub(crate) session_memory: u64,
    /// MiB that all sessions together may hold in flight: data, and answers that wait to be sent. A
    /// host may hold as much of it as is free, so one alone has half; beyond, commands end with TASK
    /// SET FULL.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = in_range(64, 1 << 24))]
    pub(crate) sessions_memory: u64,
    /// MaxRecvDataSegmentLength, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10, value_parser = length())]
    pub(crate) max_recv_data_segment_length: u64,
    /// MaxBurstLength, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = length())]
    pub(crate) max_burst_length: u64,
    /// FirstBurstLength, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10, value_parser = length())]
    pub(crate) first_burst_length: u64,
    /// MaxOutstandingR2T.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = in_range(1, 65_535))]
    pub(crate) max_outstanding_r2t: u64,
    /// MaxConnections: TCP connections of one session.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = in_range(1, 64))]
    pub(crate) max_connections: u64,
    /// ErrorRecoveryLevel, 0 to 2.
    #[arg(long, value_name = "LEVEL", default_value_t = 0, value_parser = in_range(0, 2))]
    pub(crate) error_recovery_level: u64,
    /// DefaultTime2Retain at level 2: seconds that commands wait for another connection.
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = in_range(0, 3600))]
    pub(crate) time2retain: u64,
    /// Seconds that a login may take.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = in_range(1, 3600))]
    pub(crate) login_timeout: u64,
    /// Seconds of silence after which an initiator is asked for a sign of life.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = in_range(1, 3600))]
    pub(crate) ping_interval: u64,
    /// Seconds that it has to answer.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = in_range(1, 3600))]
    pub(crate) ping_timeout: u64,
    /// Seconds in which an initiator has to take what was sent to it, or 16 KiB for each of them.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = in_range(1, 3600))]
    pub(crate) send_timeout: u64,
}

fn in_range(min: u64, max: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(min..=max)
}

/// RFC 7143 13.12 to 13.14.
fn length() -> clap::builder::RangedU64ValueParser {
    in_range(512, (1 << 24) - 1)
}

impl SessionOptions {
    /// What every connection starts with; what it holds is charged to `share`.
    pub(crate) fn connection_config(&self, share: Share) -> ConnectionConfig {
        let narrow = |value: u64| u32::try_from(value).expect("the command line checked the range");
        ConnectionConfig {
            limits: Limits {
                tasks_max: narrow(self.session_commands),
                memory_max: self.session_memory(),
                max_recv_data_segment_length: narrow(self.max_recv_data_segment_length),
                max_burst_length: narrow(self.max_burst_length),
                first_burst_length: narrow(self.first_burst_length),
                max_outstanding_r2t: narrow(self.max_outstanding_r2t),
                max_connections: narrow(self.max_connections),
                error_recovery_level: narrow(self.error_recovery_level),
                default_time2retain: narrow(self.time2retain),
                ..Limits::default()
            },
            share,
            login_timeout: Duration::from_secs(self.login_timeout),
            ping_interval: Duration::from_secs(self.ping_interval),
            ping_timeout: Duration::from_secs(self.ping_timeout),
            send_timeout: Duration::from_secs(self.send_timeout),
        }
    }

    /// The shares of so many connections, as far as open files allow `connections_max`.
    pub(crate) fn quotas(&self, connections: usize) -> Quotas {
        let (address, initiator) = (self.connections_per_address, self.connections_per_initiator);
        Quotas::new(connections, address as usize, initiator as usize)
    }

    /// Bytes that the commands of one session may hold.
    pub(crate) fn session_memory(&self) -> usize {
        usize::try_from(self.session_memory << 20).unwrap_or(usize::MAX)
    }

    /// Memory of all sessions together.
    pub(crate) fn memory_budget(&self) -> Budget {
        Budget::new(usize::try_from(self.sessions_memory << 20).unwrap_or(usize::MAX))
    }
}
