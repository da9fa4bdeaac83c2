//! How answers look to people.

use api::{Group, Host, Pool, Portal, Session, Target, Volume};
pub(crate) use comfy_table::Table;
use comfy_table::presets::NOTHING;

use crate::size::format_size;

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if !header.is_empty() {
        table.set_header(header);
    }
    table
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn optional<T: ToString>(value: Option<T>) -> String {
    or_dash(value.map(|value| value.to_string()).unwrap_or_default())
}

pub(crate) fn pools_table(pools: &[Pool]) -> Table {
    let mut rows = table(&["NAME", "STATE", "SIZE", "USED", "FREE", "VOLUMES", "DEVICE"]);
    for pool in pools {
        let space =
            |part: fn(&api::Space) -> u64| optional(pool.space.as_ref().map(part).map(format_size));
        rows.add_row([
            pool.name.clone(),
            pool.state.clone(),
            format_size(pool.size_bytes),
            space(|space| space.used_bytes),
            space(|space| space.free_bytes),
            pool.volumes.to_string(),
            pool.device.clone(),
        ]);
    }
    rows
}

pub(crate) fn pool_details(pool: &Pool) -> Table {
    let mut rows = table(&[]);
    let mut row = |name: &str, value: String| {
        rows.add_row([name.to_owned(), value]);
    };
    row("Name", pool.name.clone());
    row("State", pool.state.clone());
    if let Some(reason) = &pool.reason {
        row("Reason", reason.clone());
    }
    row("Device", pool.device.clone());
    row("UUID", pool.uuid.clone());
    row("Size", format_size(pool.size_bytes));
    if let Some(space) = &pool.space {
        row("Used", format_size(space.used_bytes));
        row("Pending", format_size(space.pending_bytes));
        row("Reserve", format_size(space.reserve_bytes));
        row("Free", format_size(space.free_bytes));
        row("Provisioned", format_size(space.provisioned_bytes));
    }
    row("Volumes", pool.volumes.to_string());
    row("Device written", format_size(pool.counters.device_bytes_written));
    row("Device read", format_size(pool.counters.device_bytes_read));
    row("Cloned by reference", format_size(pool.counters.bytes_cloned));
    rows
}

pub(crate) fn volumes_table(volumes: &[Volume]) -> Table {
    let mut rows = table(&["VOLUME", "SIZE", "MAPPED", "RESERVED", "LUN", "HOSTS", "NAA"]);
    for volume in volumes {
        rows.add_row([
            format!("{}/{}", volume.pool, volume.name),
            format_size(volume.size_bytes),
            format_size(volume.mapped_bytes),
            yes_or_no(volume.reserved),
            optional(volume.lun),
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
        ("Mapped", format_size(volume.mapped_bytes)),
        ("Reserved", yes_or_no(volume.reserved)),
        ("LUN", optional(volume.lun)),
        ("Hosts", or_dash(volume.hosts.join(", "))),
        ("Read only", or_dash(volume.read_only_hosts.join(", "))),
    ] {
        rows.add_row([name.to_owned(), value]);
    }
    rows
}

fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

pub(crate) fn hosts_table(hosts: &[Host]) -> Table {
    let mut rows = table(&["HOST", "CHAP", "INITIATORS"]);
    for host in hosts {
        let chap = match (&host.chap_user, host.mutual_chap) {
            (None, _) => "-".to_owned(),
            (Some(user), false) => user.clone(),
            (Some(user), true) => format!("{user} (mutual)"),
        };
        rows.add_row([host.name.clone(), chap, host.initiators.join("\n")]);
    }
    rows
}

pub(crate) fn groups_table(groups: &[Group]) -> Table {
    let mut rows = table(&["GROUP", "HOSTS"]);
    for group in groups {
        rows.add_row([group.name.clone(), group.hosts.join(", ")]);
    }
    rows
}

pub(crate) fn portals_table(portals: &[Portal]) -> Table {
    let mut rows = table(&["PORTAL", "GROUP", "SENDS TO"]);
    for portal in portals {
        rows.add_row([
            portal.address.clone(),
            portal.target_portal_group_tag.to_string(),
            optional(portal.redirect.clone()),
        ]);
    }
    rows
}

pub(crate) fn sessions_table(sessions: &[Session]) -> Table {
    let header = ["INITIATOR", "ADDRESS", "PORTAL", "CONNECTIONS", "KEYS", "LUNS", "RATES"];
    let mut rows = table(&header);
    for session in sessions {
        let keys: Vec<String> =
            session.keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let luns: Vec<String> = session.luns.iter().map(u16::to_string).collect();
        let rates = &session.rates;
        rows.add_row([
            format!("{}\n{}", session.initiator, optional(session.host.clone())),
            session.address.clone(),
            session.portal.clone(),
            session.connections.to_string(),
            format!("AuthMethod={}\n{}", session.authentication, keys.join("\n")),
            or_dash(luns.join(", ")),
            format!(
                "{} commands/s\n{}/s in\n{}/s out",
                rates.commands,
                format_size(rates.bytes_received),
                format_size(rates.bytes_sent)
            ),
        ]);
    }
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
    rows.add_row(["Received".to_owned(), format_size(target.bytes_received)]);
    rows.add_row(["Sent".to_owned(), format_size(target.bytes_sent)]);
    rows.add_row(["Commands".to_owned(), target.commands.to_string()]);
    rows
}
