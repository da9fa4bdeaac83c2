//! Tables: how answers look to people.

use api::{
    BlockSize, Discovery, Event, Fill, Group, Host, Identification, Portal, Session, Severity,
    Target, Thresholds, Volume,
};
pub(crate) use comfy_table::Table;
use comfy_table::presets::NOTHING;

use crate::labels::format_tags;
use crate::primitives::primitives_text;
use crate::rate_limits::limits_text;
use notation::format_size;
use notation::format_time;

pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if !header.is_empty() {
        table.set_header(header);
    }
    table
}

pub(crate) fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

pub(crate) fn optional<T: ToString>(value: Option<T>) -> String {
    or_dash(value.map(|value| value.to_string()).unwrap_or_default())
}

pub(crate) fn volumes_table(volumes: &[Volume]) -> Table {
    let mut rows = table(&["VOLUME", "SIZE", "MAPPED", "THICK", "LUN", "HOSTS", "NAA"]);
    for volume in volumes {
        rows.add_row([
            format!("{}/{}", volume.pool, volume.name),
            format_size(volume.size_bytes),
            format_size(volume.mapped_bytes),
            yes_or_no(volume.thick),
            luns(volume),
            or_dash(volume.hosts.join(", ")),
            volume.naa.clone(),
        ]);
    }
    rows
}

pub(crate) fn volume_details(volume: &Volume) -> Table {
    let mut rows = table(&[]);
    for (name, value) in [
        ("Volume", format!("{}/{}", volume.pool, volume.name)),
        ("NAA", volume.naa.clone()),
        ("Size", format_size(volume.size_bytes)),
        ("Kind", if volume.snapshot { "snapshot" } else { "volume" }.to_owned()),
        ("Created", format_time(volume.created)),
        ("Origin", optional(volume.origin.clone())),
        ("Snapshots", volume.snapshots.to_string()),
        ("Mapped", format_size(volume.mapped_bytes)),
        ("Shared, at most", format_size(volume.shared_bytes)),
        ("Thresholds", thresholds_text(volume.thresholds, volume.fill)),
        ("Thick", yes_or_no(volume.thick)),
        ("Block size", block_size(volume.block_size).to_owned()),
        ("Vendor and product", identification(volume.identification.as_ref())),
        ("Primitives", primitives_text(volume.primitives)),
        ("Limits", limits_text(volume.limits)),
        ("Reservations hidden", yes_or_no(volume.reservations_hidden)),
        ("LUN", luns(volume)),
        ("Hosts", or_dash(volume.hosts.join(", "))),
        ("Read only", or_dash(volume.read_only_hosts.join(", "))),
        ("Tags", or_dash(format_tags(&volume.tags))),
    ] {
        rows.add_row([name.to_owned(), value]);
    }
    rows
}

/// The number by which hosts see a volume; each host's where they differ.
fn luns(volume: &Volume) -> String {
    if volume.maps.iter().all(|map| Some(map.lun) == volume.lun) {
        return optional(volume.lun);
    }
    let each = volume.maps.iter().map(|map| format!("{} for {}", map.lun, map.host));
    each.collect::<Vec<_>>().join(", ")
}

fn identification(own: Option<&Identification>) -> String {
    own.map_or_else(
        || "as the array".to_owned(),
        |own| format!("'{}', '{}'", own.vendor, own.product),
    )
}

pub(crate) fn identification_details(identification: &Identification) -> Table {
    let mut rows = table(&[]);
    rows.add_row(["Vendor", identification.vendor.as_str()]);
    rows.add_row(["Product", identification.product.as_str()]);
    rows
}

fn block_size(size: BlockSize) -> &'static str {
    match size {
        BlockSize::B512 => "512",
        BlockSize::B512e => "512e",
        BlockSize::B4096 => "4096",
    }
}

pub(crate) fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

pub(crate) fn hosts_table(hosts: &[Host]) -> Table {
    let mut rows = table(&["HOST", "CHAP", "INITIATORS", "TAGS"]);
    for host in hosts {
        let chap = match (&host.chap_user, host.mutual_chap) {
            (None, _) => "-".to_owned(),
            (Some(user), false) => user.clone(),
            (Some(user), true) => format!("{user} (mutual)"),
        };
        rows.add_row([
            host.name.clone(),
            chap,
            host.initiators.join("\n"),
            or_dash(format_tags(&host.tags)),
        ]);
    }
    rows
}

pub(crate) fn groups_table(groups: &[Group]) -> Table {
    let mut rows = table(&["GROUP", "HOSTS", "TAGS"]);
    for group in groups {
        let hosts = or_dash(group.hosts.join(", "));
        rows.add_row([group.name.clone(), hosts, or_dash(format_tags(&group.tags))]);
    }
    rows
}

pub(crate) fn portals_table(portals: &[Portal]) -> Table {
    let mut rows = table(&["PORTAL", "GROUP", "STATE", "SENDS TO"]);
    for portal in portals {
        rows.add_row([
            portal.address.clone(),
            portal.target_portal_group_tag.to_string(),
            portal.state.name().to_owned(),
            optional(portal.redirect.clone()),
        ]);
    }
    rows
}

/// One line a session.
pub(crate) fn sessions_table(sessions: &[Session]) -> Table {
    let mut rows = table(&[
        "TSIH",
        "INITIATOR",
        "HOST",
        "ADDRESS",
        "PORTAL",
        "CONNECTIONS",
        "LUNS",
        "COMMANDS/S",
        "IN/S",
        "OUT/S",
    ]);
    for session in sessions {
        let rates = &session.rates;
        rows.add_row([
            session.tsih.to_string(),
            session.initiator.clone(),
            optional(session.host.clone()),
            session.address.clone(),
            session.portal.clone(),
            session.connections.to_string(),
            or_dash(number_ranges(&session.luns)),
            rates.commands.to_string(),
            format_size(rates.bytes_received),
            format_size(rates.bytes_sent),
        ]);
    }
    rows
}

/// One session, and what was negotiated at its login.
pub(crate) fn session_details(session: &Session) -> Table {
    let mut rows = table(&[]);
    let Session { rates, .. } = session;
    let fixed = [
        ("TSIH", session.tsih.to_string()),
        ("Initiator", session.initiator.clone()),
        ("Host", optional(session.host.clone())),
        ("Address", session.address.clone()),
        ("Portal", session.portal.clone()),
        ("ISID", session.isid.clone()),
        ("Authentication", session.authentication.clone()),
        ("Connections", session.connections.to_string()),
        ("LUNs", or_dash(number_ranges(&session.luns))),
        ("Read only", or_dash(number_ranges(&session.read_only_luns))),
        ("Commands under way", session.commands_under_way.to_string()),
        ("Commands", format!("{}, {}/s", session.commands, rates.commands)),
        ("Received", traffic(session.bytes_received, rates.bytes_received)),
        ("Sent", traffic(session.bytes_sent, rates.bytes_sent)),
    ];
    let keys = session.keys.iter().map(|(key, value)| (key.as_str(), value.clone()));
    for (name, value) in fixed.into_iter().chain(keys) {
        rows.add_row([name.to_owned(), value]);
    }
    rows
}

fn traffic(bytes: u64, per_second: u64) -> String {
    format!("{}, {}/s", format_size(bytes), format_size(per_second))
}

/// What was negotiated at login, a line a key.
pub(crate) fn session_keys_table(sessions: &[Session]) -> Table {
    let mut rows = table(&["INITIATOR", "ADDRESS", "KEY", "VALUE"]);
    for session in sessions {
        let method = ("AuthMethod", session.authentication.as_str());
        let keys = session.keys.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        for (key, value) in std::iter::once(method).chain(keys) {
            rows.add_row([&session.initiator, &session.address, key, value]);
        }
    }
    rows
}

/// Ascending numbers, those that follow each other as ranges: '0-3, 7'.
fn number_ranges(numbers: &[u16]) -> String {
    let runs = numbers.chunk_by(|a, b| u32::from(*b) == u32::from(*a) + 1);
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u16::to_string).collect(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

pub(crate) fn discovery_details(discovery: &Discovery) -> Table {
    let mut rows = table(&[]);
    let proof = match (&discovery.chap_user, discovery.mutual) {
        (None, _) => "none: everybody who reaches a portal may ask".to_owned(),
        (Some(user), false) => format!("CHAP as '{user}'"),
        (Some(user), true) => format!("CHAP as '{user}', mutual"),
    };
    rows.add_row(["Proof".to_owned(), proof]);
    rows
}

pub(crate) fn target_details(target: &Target) -> Table {
    let mut rows = table(&[]);
    rows.add_row(["Name".to_owned(), target.name.clone()]);
    for portal in &target.portals {
        let group = portal.target_portal_group_tag;
        rows.add_row(["Portal".to_owned(), format!("{},{group}", portal.address)]);
    }
    for session in &target.sessions {
        let luns = session.luns.len();
        let text = format!("{} from {}, {luns} LUN(s)", session.initiator, session.address);
        rows.add_row(["Session".to_owned(), text]);
    }
    if let Some(since) = target.configuration_unsaved_since {
        let text = format!("cannot be saved since {}: see 'gantry events'", format_time(since));
        rows.add_row(["Configuration".to_owned(), text]);
    }
    rows.add_row(["Received".to_owned(), format_size(target.bytes_received)]);
    rows.add_row(["Sent".to_owned(), format_size(target.bytes_sent)]);
    rows.add_row(["Commands".to_owned(), target.commands.to_string()]);
    rows
}

pub(crate) fn events_table(events: &[Event]) -> Table {
    let mut rows = table(&["TIME", "COUNT", "LAST", "SEVERITY", "OBJECT", "MESSAGE"]);
    for event in events {
        let again = event.count > 1;
        rows.add_row([
            format_time(event.time),
            if again { event.count.to_string() } else { String::new() },
            if again { format_time(event.last_time) } else { String::new() },
            severity_word(event.severity).to_owned(),
            event.object.clone(),
            event.message.clone(),
        ]);
    }
    rows
}

/// How bad an event is.
pub(crate) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Information => "information",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Thresholds, and which of them is reached.
pub(crate) fn thresholds_text(thresholds: Thresholds, fill: Fill) -> String {
    let reached = match fill {
        Fill::Normal => "",
        Fill::Soft => " (soft reached)",
        Fill::Hard => " (hard reached)",
    };
    format!("{} % and {} %{reached}", thresholds.soft_percent, thresholds.hard_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        for (numbers, text) in [
            (&[][..], ""),
            (&[0], "0"),
            (&[0, 1], "0-1"),
            (&[0, 1, 2, 7, 9, 10], "0-2, 7, 9-10"),
            (&[16_383], "16383"),
        ] {
            assert_eq!(number_ranges(numbers), text);
        }
    }
}
