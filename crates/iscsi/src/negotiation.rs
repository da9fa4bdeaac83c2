//! Key negotiation (RFC 7143 13): one table says how each key is settled, one function settles it.

use crate::limits::Limits;
use crate::name::fold_name;
use crate::parameters::SessionParameters;
use crate::text::{emit, parse_number};

/// The largest value of a length key.
const LENGTH_MAX: u32 = (1 << 24) - 1;

/// How a key gets its value (RFC 7143 6.2).
enum Rule {
    /// The smaller of both numbers.
    Smaller(Number),
    /// The larger of both numbers.
    Larger(Number),
    /// Yes if both say Yes; our side's word is given.
    And(bool, fn(&mut SessionParameters) -> &mut bool),
    /// Yes if one says Yes.
    Or(bool, fn(&mut SessionParameters) -> &mut bool),
    /// CRC32C or None, whichever the initiator names first.
    Digest(fn(&mut SessionParameters) -> &mut bool),
    /// The first of the initiator's values that is ours; the result changes nothing here.
    OneOf(&'static [&'static str]),
    /// Who the initiator is and what it wants, said again: read from the first request already. No
    /// answer; false if it says something else now.
    Identity(fn(&SessionParameters, &str) -> bool),
    /// The initiator declares; no answer. False if the value is malformed.
    Declared(fn(&mut SessionParameters, &str) -> bool),
    /// Always the same answer.
    Fixed(&'static str),
}

/// A numerical key.
struct Number {
    min: u32,
    max: u32,
    ours: fn(&Limits) -> u32,
    field: fn(&mut SessionParameters) -> &mut u32,
}

/// Where a key has a meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sessions {
    Any,
    /// Changes nothing in a discovery session. It is answered with a value all the same: RFC 7143 6.2
    /// allows "Irrelevant", which some initiators take for a malformed number.
    Normal,
}

/// One key.
struct Row {
    key: &'static str,
    sessions: Sessions,
    rule: Rule,
}

impl Row {
    /// Whether only the first connection of a session settles the key (RFC 7143 13: use LO).
    fn is_of_session(&self) -> bool {
        let more = ["DefaultTime2Wait", "DefaultTime2Retain", "ErrorRecoveryLevel"];
        self.sessions == Sessions::Normal || more.contains(&self.key)
    }
}

const fn row(key: &'static str, sessions: Sessions, rule: Rule) -> Row {
    Row { key, sessions, rule }
}

/// RFC 7143 13 without the keys of authentication and SendTargets, the keys of RFC 7144 and 7145,
/// and the markers that RFC 7143 13.25 made obsolete.
static KEYS: &[Row] = &[
    row("HeaderDigest", Sessions::Any, Rule::Digest(|p| &mut p.header_digest)),
    row("DataDigest", Sessions::Any, Rule::Digest(|p| &mut p.data_digest)),
    row(
        "MaxConnections",
        Sessions::Normal,
        Rule::Smaller(Number {
            min: 1,
            max: 65_535,
            ours: |limits| limits.max_connections,
            field: |p| &mut p.max_connections,
        }),
    ),
    row("InitiatorName", Sessions::Any, Rule::Identity(is_initiator_name)),
    row(
        "TargetName",
        Sessions::Any,
        Rule::Identity(|p, name| fold_name(name).is_ok_and(|name| p.target_name == Some(name))),
    ),
    row("SessionType", Sessions::Any, Rule::Identity(is_session_type)),
    row("InitiatorAlias", Sessions::Any, Rule::Declared(declare_initiator_alias)),
    row("NodeArchitecture", Sessions::Any, Rule::Declared(|_, _| true)),
    row("MaxRecvDataSegmentLength", Sessions::Any, Rule::Declared(declare_segment_length)),
    row("InitialR2T", Sessions::Normal, Rule::Or(false, |p| &mut p.initial_r2t)),
    row("ImmediateData", Sessions::Normal, Rule::And(true, |p| &mut p.immediate_data)),
    row(
        "MaxBurstLength",
        Sessions::Normal,
        Rule::Smaller(Number {
            min: 512,
            max: LENGTH_MAX,
            ours: |limits| limits.max_burst_length,
            field: |p| &mut p.max_burst_length,
        }),
    ),
    row(
        "FirstBurstLength",
        Sessions::Normal,
        Rule::Smaller(Number {
            min: 512,
            max: LENGTH_MAX,
            ours: |limits| limits.first_burst_length,
            field: |p| &mut p.first_burst_length,
        }),
    ),
    row(
        "DefaultTime2Wait",
        Sessions::Any,
        Rule::Larger(Number {
            min: 0,
            max: 3600,
            ours: |_| 2,
            field: |p| &mut p.default_time2wait,
        }),
    ),
    row(
        "DefaultTime2Retain",
        Sessions::Any,
        Rule::Smaller(Number {
            min: 0,
            max: 3600,
            // Nothing is retained that could not be taken over.
            ours: |limits| match limits.error_recovery_level {
                2 => limits.default_time2retain,
                _ => 0,
            },
            field: |p| &mut p.default_time2retain,
        }),
    ),
    row(
        "MaxOutstandingR2T",
        Sessions::Normal,
        Rule::Smaller(Number {
            min: 1,
            max: 65_535,
            ours: |limits| limits.max_outstanding_r2t,
            field: |p| &mut p.max_outstanding_r2t,
        }),
    ),
    row("DataPDUInOrder", Sessions::Normal, Rule::Or(true, |p| &mut p.data_pdu_in_order)),
    row("DataSequenceInOrder", Sessions::Normal, Rule::Or(true, |p| &mut p.data_sequence_in_order)),
    row(
        "ErrorRecoveryLevel",
        Sessions::Any,
        Rule::Smaller(Number {
            min: 0,
            max: 2,
            ours: |limits| limits.error_recovery_level,
            field: |p| &mut p.error_recovery_level,
        }),
    ),
    row("TaskReporting", Sessions::Normal, Rule::OneOf(&["RFC3720"])),
    row(
        "iSCSIProtocolLevel",
        Sessions::Normal,
        Rule::Smaller(Number { min: 0, max: 31, ours: |_| 2, field: |p| &mut p.protocol_level }),
    ),
    row("RDMAExtensions", Sessions::Any, Rule::Fixed("No")),
    row("IFMarker", Sessions::Any, Rule::Fixed("No")),
    row("OFMarker", Sessions::Any, Rule::Fixed("No")),
    row("IFMarkInt", Sessions::Any, Rule::Fixed("Irrelevant")),
    row("OFMarkInt", Sessions::Any, Rule::Fixed("Irrelevant")),
];

fn is_session_type(parameters: &SessionParameters, value: &str) -> bool {
    value == if parameters.discovery { "Discovery" } else { "Normal" }
}

fn is_initiator_name(parameters: &SessionParameters, value: &str) -> bool {
    fold_name(value).is_ok_and(|name| parameters.initiator_name == name)
}

fn declare_initiator_alias(parameters: &mut SessionParameters, value: &str) -> bool {
    // RFC 7143 13.7: text for people, who read it on a terminal.
    let fits = value.len() <= 255 && !value.chars().any(char::is_control);
    parameters.initiator_alias = fits.then(|| value.to_owned());
    fits
}

fn declare_segment_length(parameters: &mut SessionParameters, value: &str) -> bool {
    let length = parse_number(value).filter(|length| (512..=LENGTH_MAX).contains(length));
    if let Some(length) = length {
        parameters.initiator_max_recv_data_segment_length = length;
    }
    length.is_some()
}

/// A key came twice in one negotiation (RFC 7143 6.3: a protocol error). Those that say who the
/// initiator is may: some initiators repeat them in every stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated;

/// Settles keys and remembers which were settled.
#[derive(Debug, Default)]
pub(crate) struct Negotiation {
    /// One bit per row of the table.
    settled: u32,
}

impl Negotiation {
    /// Settles one key of the initiator, and appends the answer to `reply`.
    pub(crate) fn settle(
        &mut self,
        (key, value): (&str, &str),
        limits: &Limits,
        parameters: &mut SessionParameters,
        reply: &mut Vec<u8>,
    ) -> Result<(), Repeated> {
        let Some(index) = KEYS.iter().position(|row| row.key == key) else {
            emit(reply, key, "NotUnderstood");
            return Ok(());
        };
        let row = &KEYS[index];
        if let Rule::Identity(is_same) = row.rule {
            return if is_same(parameters, value) { Ok(()) } else { Err(Repeated) };
        }
        if self.settled & (1 << index) != 0 {
            return Err(Repeated);
        }
        self.settled |= 1 << index;
        let answer = if parameters.joined && row.is_of_session() {
            row.rule.in_force(parameters)
        } else {
            row.rule.answer(value, limits, parameters)
        };
        if let Some(answer) = answer {
            emit(reply, key, &answer);
        }
        Ok(())
    }
}

/// Settles a key in full-feature phase, where only the initiator's MaxRecvDataSegmentLength may
/// change (RFC 7143 13.12).
pub(crate) fn settle_in_full_feature_phase(
    (key, value): (&str, &str),
    parameters: &mut SessionParameters,
    reply: &mut Vec<u8>,
) {
    if key == "MaxRecvDataSegmentLength" && declare_segment_length(parameters, value) {
        return;
    }
    let known = KEYS.iter().any(|row| row.key == key);
    emit(reply, key, if known { "Reject" } else { "NotUnderstood" });
}

impl Rule {
    /// The value that a session has, which a further connection cannot change (RFC 7143 13: use LO);
    /// `None` if the key wants no answer.
    fn in_force(&self, parameters: &mut SessionParameters) -> Option<String> {
        let word = |yes| if yes { "Yes" } else { "No" };
        let value = match self {
            Self::Smaller(number) | Self::Larger(number) => {
                return Some((number.field)(parameters).to_string());
            }
            Self::And(_, field) | Self::Or(_, field) => word(*field(parameters)),
            Self::OneOf(ours) => ours.first()?,
            Self::Fixed(answer) => answer,
            Self::Digest(_) => "Reject",
            Self::Identity(_) | Self::Declared(_) => return None,
        };
        Some(value.to_owned())
    }

    /// Applies the rule; `None` if the key wants no answer.
    fn answer(
        &self,
        value: &str,
        limits: &Limits,
        parameters: &mut SessionParameters,
    ) -> Option<String> {
        let answer = match self {
            Self::Smaller(number) => number.settle(value, u32::min, limits, parameters),
            Self::Larger(number) => number.settle(value, u32::max, limits, parameters),
            Self::And(ours, field) => boolean(value, |theirs| theirs && *ours, field(parameters)),
            Self::Or(ours, field) => boolean(value, |theirs| theirs || *ours, field(parameters)),
            Self::Digest(field) => digest(value, field(parameters)),
            Self::OneOf(ours) => {
                value.split(',').find(|value| ours.contains(value)).map(str::to_owned)
            }
            Self::Declared(declare) if declare(parameters, value) => return None,
            Self::Declared(_) => None,
            Self::Identity(_) => return None,
            Self::Fixed(answer) => Some((*answer).to_owned()),
        };
        Some(answer.unwrap_or_else(|| "Reject".to_owned()))
    }
}

impl Number {
    fn settle(
        &self,
        value: &str,
        choose: fn(u32, u32) -> u32,
        limits: &Limits,
        parameters: &mut SessionParameters,
    ) -> Option<String> {
        let theirs = parse_number(value).filter(|value| (self.min..=self.max).contains(value))?;
        let result = choose(theirs, (self.ours)(limits));
        *(self.field)(parameters) = result;
        Some(result.to_string())
    }
}

fn boolean(value: &str, combine: impl Fn(bool) -> bool, field: &mut bool) -> Option<String> {
    let theirs = match value {
        "Yes" => true,
        "No" => false,
        _ => return None,
    };
    *field = combine(theirs);
    Some(if *field { "Yes" } else { "No" }.to_owned())
}

fn digest(value: &str, field: &mut bool) -> Option<String> {
    let chosen = value.split(',').find(|value| ["CRC32C", "None"].contains(value))?;
    *field = chosen == "CRC32C";
    Some(chosen.to_owned())
}

#[cfg(test)]
mod tests;
