//! Subcommands for rate limits (QoS) of volumes and hosts, and for shares of hosts.

use anyhow::Result;
use api::{Host, RateLimits, SetHostLimits, Volume};
use clap::Args;
use notation::{format_size, parse_size};
use reqwest::Method;
use serde::Serialize;

use crate::commands::{Invocation, check_segment, volume_route};
use crate::tables::{Table, table};

/// Limits that are to change; what is not named stays.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitArguments {
    /// I/Os per second, from 10 on, or 'none'. A command is one I/O, or one for each 256 KiB of its
    /// work.
    #[arg(long, value_parser = parse_iops, value_name = "IOPS")]
    iops: Option<u32>,
    /// Bytes of work per second, from 1 MiB on ('200M'), or 'none'. What changes the map only, such as
    /// a copy by reference, counts a 64th.
    #[arg(long, value_parser = parse_bandwidth, value_name = "SIZE")]
    bandwidth: Option<u64>,
    /// For how many milliseconds unused work is saved up, to be done at once after a pause: 10 to
    /// 600000. 100 where nothing is said.
    #[arg(long, value_name = "MILLISECONDS")]
    burst_ms: Option<u32>,
}

/// Limits and share of a host.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct HostLimitArguments {
    #[command(flatten)]
    limits: LimitArguments,
    /// What the host gets of a pool for which other hosts wait, too: so many times what a host with 1
    /// gets, 1 to 100.
    #[arg(long, value_name = "SHARE")]
    share: Option<u8>,
}

/// Limits and share of a host as they are shown.
#[derive(Serialize)]
struct HostLimits {
    #[serde(flatten)]
    limits: RateLimits,
    share: u8,
}

impl LimitArguments {
    /// `None` if nothing is to be changed.
    fn body(self, share: Option<u8>) -> Option<SetHostLimits> {
        let Self { iops, bandwidth, burst_ms } = self;
        let body = SetHostLimits { iops, bytes_per_second: bandwidth, burst_ms, share };
        (body != SetHostLimits::default()).then_some(body)
    }
}

/// Reads a limit; 'none' is none, which the interface writes as 0.
fn parse_iops(text: &str) -> Result<u32, String> {
    match text {
        "none" => Ok(0),
        "0" => Err("write 'none' to take the limit away".to_owned()),
        _ => text.parse().map_err(|_| "write a number, or 'none'".to_owned()),
    }
}

fn parse_bandwidth(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => match parse_size(text)? {
            0 => Err("write 'none' to take the limit away".to_owned()),
            bytes => Ok(bytes),
        },
    }
}

impl Invocation {
    pub(crate) fn volume_limit(&self, path: &str, arguments: LimitArguments) -> Result<()> {
        let route = volume_route(path)?;
        match arguments.body(None) {
            None => {
                let volume: Volume = self.client.get(&route)?;
                self.show(&volume.limits, |limits| limits_table(*limits, None))
            }
            Some(body) => {
                let route = format!("{route}/limits");
                self.changed::<Volume>(Method::PATCH, &route, &body.limits(), |volume| {
                    format!("Volume {path}: {}.", limits_text(volume.limits))
                })
            }
        }
    }

    pub(crate) fn host_limit(&self, name: &str, arguments: HostLimitArguments) -> Result<()> {
        check_segment("host", name)?;
        let route = format!("/v1/hosts/{name}");
        match arguments.limits.body(arguments.share) {
            None => {
                let host: Host = self.client.get(&route)?;
                let limits = HostLimits { limits: host.limits, share: host.share };
                self.show(&limits, |shown| limits_table(shown.limits, Some(shown.share)))
            }
            Some(body) => {
                let route = format!("{route}/limits");
                self.changed::<Host>(Method::PATCH, &route, &body, |host| {
                    format!("Host {name}: {}, share {}.", limits_text(host.limits), host.share)
                })
            }
        }
    }
}

/// Limits in words.
pub(crate) fn limits_text(limits: RateLimits) -> String {
    let iops = limits.iops.map(|iops| format!("{iops} IOPS"));
    let bytes = limits.bytes_per_second.map(|bytes| format!("{}/s", format_size(bytes)));
    let both: Vec<String> = iops.into_iter().chain(bytes).collect();
    if both.is_empty() {
        return "unlimited".to_owned();
    }
    format!("{}, bursts of {} ms", both.join(" and "), limits.burst_ms)
}

fn limits_table(limits: RateLimits, share: Option<u8>) -> Table {
    let mut rows = table(&[]);
    let none = || "unlimited".to_owned();
    let iops = limits.iops.map_or_else(none, |iops| iops.to_string());
    let bytes =
        limits.bytes_per_second.map_or_else(none, |bytes| format!("{}/s", format_size(bytes)));
    rows.add_row(["IOPS".to_owned(), iops]);
    rows.add_row(["Bandwidth".to_owned(), bytes]);
    rows.add_row(["Burst".to_owned(), format!("{} ms", limits.burst_ms)]);
    if let Some(share) = share {
        rows.add_row(["Share".to_owned(), share.to_string()]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays_and_none_takes_a_limit_away() {
        let arguments = |iops, bandwidth| LimitArguments { iops, bandwidth, burst_ms: None };
        assert_eq!(arguments(None, None).body(None), None);
        let body = arguments(Some(parse_iops("none").unwrap()), None).body(Some(3)).unwrap();
        assert_eq!((body.iops, body.bytes_per_second, body.share), (Some(0), None, Some(3)));
        assert_eq!(parse_bandwidth("200M"), parse_size("200M"));
        assert_eq!((parse_bandwidth("none"), parse_iops("5000")), (Ok(0), Ok(5000)));
        for wrong in ["0", "-1", "many", "", "99999999999"] {
            assert!(parse_iops(wrong).is_err(), "{wrong}");
        }
        assert!(parse_bandwidth("0").is_err() && parse_bandwidth("fast").is_err());
    }

    #[test]
    fn limits_are_told_in_words() {
        assert_eq!(limits_text(RateLimits::default()), "unlimited");
        let limits =
            RateLimits { iops: Some(500), bytes_per_second: Some(1 << 30), burst_ms: 2000 };
        assert_eq!(limits_text(limits), "500 IOPS and 1 GiB/s, bursts of 2000 ms");
    }
}
