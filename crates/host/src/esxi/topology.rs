//! Runtime names of paths, as ESXi gives them: adapter, channel, target and LUN, from the addresses
//! that a host knows.

use crate::esxi::esxtop::ADAPTER;
use crate::esxi::state::{Host, Record};

/// A path's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathName {
    /// Its address, as the host knows it.
    pub(crate) url: String,
    /// HOST:PORT.
    pub(crate) portal: String,
    /// The target's iSCSI name.
    pub(crate) target: String,
    /// Of the portals of a target, the number of this one: each session has a channel.
    pub(crate) channel: usize,
    /// Of the targets, the number of this one.
    pub(crate) number: usize,
    /// The LUN's number.
    pub(crate) lun: u64,
    /// The tag of the portal's group: as discovery said it, or 1.
    pub(crate) tag: u16,
    /// Whether the host logs in with CHAP.
    pub(crate) uses_chap: bool,
}

impl PathName {
    /// `vmhba64:C0:T0:L0`.
    pub(crate) fn runtime(&self) -> String {
        format!("{ADAPTER}:C{}:T{}:L{}", self.channel, self.number, self.lun)
    }

    /// The session's ISID.
    pub(crate) fn isid(&self) -> String {
        format!("00023d{:06x}", self.channel + 1)
    }

    /// The target as a path's identifier names it: session, name, portal group.
    pub(crate) fn target_identifier(&self) -> String {
        format!("{},{},t,{}", self.isid(), self.target, self.tag)
    }

    /// The identifier of a path to a device.
    pub(crate) fn uid(&self, host: &Host, device: &str) -> String {
        format!("{}-{}-{device}", host.record.iqn, self.target_identifier())
    }
}

/// Portal, target, LUN and whether CHAP is used, of `iscsi://[USER%PASSWORD@]HOST:PORT/TARGET/LUN`.
fn parse(url: &str) -> Option<(String, String, u64, bool)> {
    let rest = url.strip_prefix("iscsi://")?;
    let rest = rest.split('?').next().unwrap_or(rest);
    let mut parts = rest.rsplitn(3, '/');
    let (lun, target, place) = (parts.next()?, parts.next()?, parts.next()?);
    let (account, portal) = match place.rsplit_once('@') {
        Some((account, portal)) => (Some(account), portal),
        None => (None, place),
    };
    Some((portal.to_owned(), target.to_owned(), lun.parse().ok()?, account.is_some()))
}

/// The names of all paths of a host; addresses that are none are left out.
pub(crate) fn paths(record: &Record) -> Vec<PathName> {
    let mut targets: Vec<(String, Vec<String>)> = Vec::new();
    let mut names = Vec::new();
    for url in record.all_paths() {
        let Some((portal, target, lun, uses_chap)) = parse(&url) else { continue };
        let number = targets.iter().position(|(name, _)| *name == target).unwrap_or_else(|| {
            targets.push((target.clone(), Vec::new()));
            targets.len() - 1
        });
        let portals = &mut targets[number].1;
        let channel = portals.iter().position(|known| *known == portal).unwrap_or_else(|| {
            portals.push(portal.clone());
            portals.len() - 1
        });
        let tags = record.portals.iter().flat_map(|one| &one.tags);
        let tag = tags.clone().find(|(known, _)| *known == portal).map_or(1, |(_, tag)| *tag);
        names.push(PathName { url, portal, target, channel, number, lun, tag, uses_chap });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn addresses_are_taken_apart() {
        let parsed = |portal: &str, chap| Some((portal.to_owned(), "iqn.a:b".to_owned(), 7, chap));
        assert_eq!(parse("iscsi://192.0.2.1:3260/iqn.a:b/7"), parsed("192.0.2.1:3260", false));
        assert_eq!(
            parse("iscsi://u%p@[::1]:3260/iqn.a:b/7?target_user=u"),
            parsed("[::1]:3260", true)
        );
        for wrong in ["", "iscsi://", "iscsi://a/b", "iscsi://a/b/c", "http://a/b/1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
