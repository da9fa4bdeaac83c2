//! Types for rate limits (QoS) of volumes and hosts, and shares of hosts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most work that a volume or a host gets done. What is beyond it waits in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    /// I/Os per second; no limit when null or left out. A command is one I/O, or one for each
    /// 256 KiB of its work if that is more.
    #[serde(default)]
    #[schema(minimum = 10, maximum = 10_000_000)]
    pub iops: Option<u32>,
    /// Bytes of work per second; no limit when null or left out. Work is what is read and written;
    /// what changes the map only (copies by reference, zeros, UNMAP) counts a 64th.
    #[serde(default)]
    #[schema(minimum = 1_048_576, maximum = 1_099_511_627_776_u64)]
    pub bytes_per_second: Option<u64>,
    /// For how much time, in milliseconds, unused work is saved up: so much may be done at once after
    /// a pause.
    #[serde(default = "burst_ms_default")]
    #[schema(minimum = 10, maximum = 600_000)]
    pub burst_ms: u32,
}

const fn burst_ms_default() -> u32 {
    100
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { iops: None, bytes_per_second: None, burst_ms: burst_ms_default() }
    }
}

/// Other limits of a volume; what is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRateLimits {
    /// I/Os per second, from 10 on; 0 takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10_000_000)]
    pub iops: Option<u32>,
    /// Bytes of work per second, from 1 MiB on; 0 takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 1_099_511_627_776_u64)]
    pub bytes_per_second: Option<u64>,
    /// For how much time, in milliseconds, unused work is saved up; 0 for what it is where nothing is
    /// said, 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600_000)]
    pub burst_ms: Option<u32>,
}

/// Other limits of a host, or another share; what is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetHostLimits {
    /// I/Os per second, from 10 on; 0 takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10_000_000)]
    pub iops: Option<u32>,
    /// Bytes of work per second, from 1 MiB on; 0 takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 1_099_511_627_776_u64)]
    pub bytes_per_second: Option<u64>,
    /// For how much time, in milliseconds, unused work is saved up; 0 for what it is where nothing is
    /// said, 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600_000)]
    pub burst_ms: Option<u32>,
    /// What it gets of a pool for which other hosts wait, too: so many times what a host with 1 gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub share: Option<u8>,
}

impl SetHostLimits {
    /// What of it a volume has, too.
    pub const fn limits(self) -> SetRateLimits {
        let Self { iops, bytes_per_second, burst_ms, share: _ } = self;
        SetRateLimits { iops, bytes_per_second, burst_ms }
    }
}

/// The share of a host of which nothing was said.
pub(crate) const fn share_default() -> u8 {
    1
}
