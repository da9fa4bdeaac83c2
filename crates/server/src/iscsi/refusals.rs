//! Refused logins and connections: counted by reason, and told in the log and as events no faster
//! than a token bucket per reason and address allows, with the number of those left out.

use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use iscsi::{ClosedReason, LoginStatus};

use crate::limits::{
    REFUSAL_EVENT_INTERVAL, REFUSAL_EVENTS_PER_INTERVAL, REFUSAL_LOG_BURST, REFUSAL_LOG_INTERVAL,
    REFUSAL_SOURCES_MAX, SESSION_LINES_PER_INTERVAL,
};
use crate::source_address::source;

#[cfg(test)]
mod tests;

macro_rules! reasons {
    ($($reason:ident $label:literal $text:literal;)*) => {
        /// Why a connection or a login was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Reason { $(#[doc = $text] $reason,)* }

        impl Reason {
            /// Every reason.
            pub(crate) const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The label of the metric.
            pub(crate) const fn label(self) -> &'static str {
                match self { $(Self::$reason => $label,)* }
            }

            /// In words, after 'login refused: ' or 'connection closed: '.
            const fn text(self) -> &'static str {
                match self { $(Self::$reason => $text,)* }
            }
        }
    };
}

reasons! {
    InitiatorError "initiator_error" "the initiator made a mistake, or its name is no iSCSI name";
    AuthenticationFailure "authentication_failure" "CHAP failed or is missing";
    AuthorizationFailure "authorization_failure" "it may not use this target";
    NotFound "not_found" "there is no such target";
    UnsupportedVersion "unsupported_version" "it speaks another version";
    TooManyConnections "too_many_connections" "the session has as many connections as it may";
    MissingParameter "missing_parameter" "a key that must be there is missing";
    SessionType "session_type" "there is no such type of session";
    NoSession "no_session" "there is no such session";
    OutOfResources "out_of_resources" "all session handles are in use";
    TargetError "target_error" "the target failed";
    LoginTimeout "login_timeout" "login was not completed in time";
    Protocol "protocol_error" "what came is no iSCSI";
    AddressQuota "address_quota" "its address has as many connections as --connections-per-address allows";
    InitiatorQuota "initiator_quota" "it has as many connections as --connections-per-initiator allows";
    KnownHostsShare "known_hosts_share" "what is left is kept for initiators of configured hosts";
    ConnectionsMax "connections_max" "there are as many connections as --connections-max allows";
    LoginRoom "login_room" "it was the oldest login under way of the address with most, and others wait";
    DiscoveryRoom "discovery_room" "it was the oldest discovery session, and others wait";
    DiscoveryIdle "discovery_idle" "a discovery session that asks for nothing";
    Accept "accept_error" "the system could not give the connection";
}

impl Reason {
    /// Of a login that was answered so; `None` if that is no refusal.
    pub(crate) fn of_status(class_and_detail: [u8; 2]) -> Option<Self> {
        let is = |status: LoginStatus| status.class_and_detail() == class_and_detail;
        if class_and_detail[0] == 1 {
            return None;
        }
        let known = [
            (LoginStatus::AuthenticationFailure, Self::AuthenticationFailure),
            (LoginStatus::AuthorizationFailure, Self::AuthorizationFailure),
            (LoginStatus::NotFound, Self::NotFound),
            (LoginStatus::UnsupportedVersion, Self::UnsupportedVersion),
            (LoginStatus::TooManyConnections, Self::TooManyConnections),
            (LoginStatus::MissingParameter, Self::MissingParameter),
            (LoginStatus::SessionTypeNotSupported, Self::SessionType),
            (LoginStatus::SessionDoesNotExist, Self::NoSession),
            (LoginStatus::OutOfResources, Self::OutOfResources),
            (LoginStatus::TargetError, Self::TargetError),
        ];
        let found = known.into_iter().find(|(status, _)| is(*status));
        Some(found.map_or(Self::InitiatorError, |(_, reason)| reason))
    }

    /// Of a connection that ended before it had logged in.
    pub(crate) fn of_end(reason: ClosedReason) -> Option<Self> {
        match reason {
            ClosedReason::LoginRefused(status) => Self::of_status(status),
            ClosedReason::LoginTimeout => Some(Self::LoginTimeout),
            ClosedReason::Protocol(_) | ClosedReason::HeaderDigest => Some(Self::Protocol),
            ClosedReason::PeerDead | ClosedReason::PeerSlow | ClosedReason::ByTarget => None,
        }
    }

    /// Whether an administrator is told by an event, besides log and metric: what happens to those
    /// that hold places is in the metric.
    const fn is_event(self) -> bool {
        !matches!(self, Self::LoginRoom | Self::DiscoveryRoom | Self::DiscoveryIdle)
    }
}

/// Lines of one kind about one address.
#[derive(Clone, Debug)]
struct Bucket {
    /// Lines that may still be written.
    lines: u32,
    refilled: Duration,
    /// Refusals left out of the log since the last line.
    left_out: u64,
    /// Refusals since the last event.
    since_event: u64,
    last_event: Option<Duration>,
}

/// Content of an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RefusalReport {
    /// Object of the event.
    pub(crate) object: String,
    /// Text of the event.
    pub(crate) message: String,
}

/// Every refusal since the start.
#[derive(Debug)]
pub(crate) struct Refusals {
    counts: Vec<u64>,
    /// By reason and address; `None` stands for all addresses that found no place.
    buckets: HashMap<(Reason, Option<IpAddr>), Bucket>,
    events_left: u32,
    events_refilled: Duration,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            counts: vec![0; Reason::ALL.len()],
            buckets: HashMap::new(),
            events_left: REFUSAL_EVENTS_PER_INTERVAL,
            events_refilled: Duration::ZERO,
        }
    }
}

impl Refusals {
    /// Counts a refusal and writes it to the log if it may; returns the event that is due.
    pub(crate) fn note(
        &mut self,
        reason: Reason,
        address: IpAddr,
        initiator: &str,
        now: Duration,
    ) -> Option<RefusalReport> {
        self.counts[reason as usize] += 1;
        let key = self.key(reason, address);
        let bucket = self.buckets.entry(key).or_insert_with(|| Bucket::new(now));
        bucket.refill(now);
        if bucket.lines > 0 {
            bucket.lines -= 1;
            let (reason, text) = (reason.label(), reason.text());
            tracing::info!(reason, %address, initiator, "refused: {text}");
        } else {
            bucket.left_out += 1;
        }
        bucket.since_event += 1;
        let is_due = bucket.last_event.is_none_or(|last| now >= last + REFUSAL_EVENT_INTERVAL);
        if !reason.is_event() || !is_due || self.events_left == 0 {
            return None;
        }
        self.events_left -= 1;
        bucket.last_event = Some(now);
        let times = std::mem::take(&mut bucket.since_event);
        Some(told(reason, address, initiator, times))
    }

    /// Refusals for a reason since the start.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// Says how many lines were left out, and forgets addresses that are quiet.
    pub(crate) fn tick(&mut self, now: Duration) {
        if now >= self.events_refilled + REFUSAL_EVENT_INTERVAL {
            self.events_refilled = now;
            self.events_left = REFUSAL_EVENTS_PER_INTERVAL;
        }
        for ((reason, address), bucket) in &mut self.buckets {
            if bucket.left_out > 0 && now >= bucket.refilled + REFUSAL_LOG_INTERVAL {
                let more = std::mem::take(&mut bucket.left_out);
                let address = address.map_or_else(|| "others".to_owned(), |ip| ip.to_string());
                tracing::info!(reason = reason.label(), address, more, "refused: {more} more");
            }
        }
        self.buckets.retain(|_, bucket| {
            let quiet_since = bucket.last_event.unwrap_or_default().max(bucket.refilled);
            bucket.left_out > 0 || now < quiet_since + REFUSAL_EVENT_INTERVAL
        });
    }

    fn key(&self, reason: Reason, address: IpAddr) -> (Reason, Option<IpAddr>) {
        let key = (reason, Some(source(address)));
        if self.buckets.contains_key(&key) || self.buckets.len() < REFUSAL_SOURCES_MAX {
            key
        } else {
            (reason, None)
        }
    }
}

impl Bucket {
    const fn new(now: Duration) -> Self {
        Self {
            lines: REFUSAL_LOG_BURST,
            refilled: now,
            left_out: 0,
            since_event: 0,
            last_event: None,
        }
    }

    fn refill(&mut self, now: Duration) {
        if self.left_out == 0 && now >= self.refilled + REFUSAL_LOG_INTERVAL {
            self.lines = REFUSAL_LOG_BURST;
            self.refilled = now;
        }
    }
}

fn told(reason: Reason, address: IpAddr, initiator: &str, times: u64) -> RefusalReport {
    let who = if initiator.is_empty() { "somebody" } else { initiator };
    let more = match times {
        0 | 1 => String::new(),
        times => format!(" ({times} times since the last event about it)"),
    };
    RefusalReport {
        object: format!("address {address}"),
        message: format!("{who} was refused: {}{more}", reason.text()),
    }
}

/// Token bucket for log lines about sessions that come and go: an initiator that logs in all the
/// time must not fill the disk.
#[derive(Debug, Default)]
pub(crate) struct Chatter {
    told: u32,
    since: Duration,
    left_out: u64,
}

impl Chatter {
    /// Whether one more line may be written; counts it if not.
    pub(crate) fn may_tell(&mut self, now: Duration) -> bool {
        if self.left_out == 0 && now >= self.since + REFUSAL_LOG_INTERVAL {
            (self.told, self.since) = (0, now);
        }
        let may = self.told < SESSION_LINES_PER_INTERVAL;
        self.told += u32::from(may);
        self.left_out += u64::from(!may);
        may
    }

    /// Says how many lines were left out.
    pub(crate) fn tick(&mut self, now: Duration) {
        if self.left_out > 0 && now >= self.since + REFUSAL_LOG_INTERVAL {
            let more = std::mem::take(&mut self.left_out);
            tracing::info!(more, "sessions that begin, end and fail: {more} more lines");
        }
    }
}
