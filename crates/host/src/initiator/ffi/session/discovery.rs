//! SendTargets discovery (RFC 7143 appendix C) and REPORT LUNS: from a portal's address to the
//! addresses of LUNs.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::Instant;

use super::{Data, Session, SessionError, UnitTest, noted};
use crate::initiator::cdb;
use crate::initiator::ffi;
use crate::initiator::times::times;

/// Targets, and portals of each, that are taken from one answer.
const TARGETS_MAX: usize = 1024;

/// LUNs of a target that are looked at: ESXi's Disk.MaxLUN.
const LUNS_MAX: usize = 1024;

/// A target at a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTarget {
    /// Its iSCSI name.
    pub name: String,
    /// ADDRESS:PORT.
    pub portal: String,
    /// The tag of the portal's group.
    pub tag: u16,
}

/// What a callback is lent until the context is destroyed.
#[derive(Default)]
struct Answer {
    status: Option<c_int>,
    targets: Vec<FoundTarget>,
}

/// Asks a portal for its targets; address: HOST:PORT.
///
/// # Errors
/// When it does not answer within the time-out of logins, or refuses.
pub fn send_targets(address: &str, initiator: &str) -> Result<Vec<FoundTarget>, SessionError> {
    let refused = |reason: String| SessionError::Connect { url: address.to_owned(), reason };
    let mut session = Session::new(address, initiator)?;
    let portal = CString::new(address).map_err(|_| SessionError::Url(address.to_owned()))?;
    let deadline = Instant::now() + times().login;
    let (mut connected, mut logged_in) = (None::<c_int>, None::<c_int>);
    let mut answer = Answer::default();
    let context = session.context;
    // SAFETY: the context is valid. Each callback writes to a variable of this function, and
    // libiscsi acts only in `serve_until` and `destroy`, both called while these live.
    let asked = unsafe {
        ffi::iscsi_set_session_type(context, ffi::SESSION_DISCOVERY);
        ffi::iscsi_set_noautoreconnect(context, 1);
        ffi::iscsi_set_timeout(context, 0);
        ffi::iscsi_connect_async(context, portal.as_ptr(), noted, (&raw mut connected).cast()) == 0
            && session.serve_until(&raw const connected, deadline)
            && connected == Some(0)
            && ffi::iscsi_login_async(context, noted, (&raw mut logged_in).cast()) == 0
            && session.serve_until(&raw const logged_in, deadline)
            && logged_in == Some(0)
            && ffi::iscsi_discovery_async(context, found, (&raw mut answer).cast()) == 0
            && session.serve_until(&raw const answer.status, deadline)
            && answer.status == Some(0)
    };
    let reason = match asked {
        true => None,
        false if Instant::now() >= deadline => Some("no answer to the discovery".to_owned()),
        false => Some(session.last_error()),
    };
    if reason.is_some() {
        // A late answer must not be written to this function's memory.
        session.destroy();
    }
    drop(session);
    reason.map_or(Ok(answer.targets), |reason| Err(refused(reason)))
}

/// The answer to SendTargets.
extern "C" fn found(
    _: *mut ffi::Context,
    status: c_int,
    addresses: *mut c_void,
    answer: *mut c_void,
) {
    // SAFETY: `answer` is what was lent; the list is libiscsi's and valid until this returns.
    unsafe {
        let answer = &mut *answer.cast::<Answer>();
        answer.status = Some(status);
        let mut address = match status {
            0 => addresses.cast::<ffi::DiscoveryAddress>(),
            _ => std::ptr::null_mut(),
        };
        while !address.is_null() && answer.targets.len() < TARGETS_MAX {
            let name = text((*address).target_name);
            let mut portal = (*address).portals;
            while !portal.is_null() && answer.targets.len() < TARGETS_MAX {
                let place = text((*portal).portal);
                let (portal_address, tag) = place.rsplit_once(',').unwrap_or((&place, "1"));
                answer.targets.push(FoundTarget {
                    name: name.clone(),
                    portal: portal_address.to_owned(),
                    tag: tag.parse().unwrap_or(1),
                });
                portal = (*portal).next;
            }
            address = (*address).next;
        }
    }
}

/// A C string that may be missing.
///
/// # Safety
/// It is null, or ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Session {
    /// The numbers of the disks among the LUNs of a target, in order; the URL names any of them.
    ///
    /// # Errors
    /// When the target cannot be reached or does not answer REPORT LUNS.
    pub fn disks(url: &str, initiator: &str) -> Result<Vec<u16>, SessionError> {
        let mut session = Self::new(url, initiator)?;
        session.log_in(url, super::HeaderDigest::None, UnitTest::Never)?;
        session.lun = 0;
        let length = 8 + LUNS_MAX * 8;
        let answer = session.command(cdb::report_luns(length as u32), Data::In(vec![0; length]))?;
        let mut disks = Vec::new();
        for lun in parse_luns(&answer) {
            session.lun = c_int::from(lun);
            // Byte 0 of standard INQUIRY data: qualifier 0 (connected), type 0 (direct access).
            let answer = session.command(cdb::inquiry(36), Data::In(vec![0; 36]));
            if answer.is_ok_and(|data| data[0] == 0) {
                disks.push(lun);
            }
        }
        Ok(disks)
    }
}

/// LUN numbers in REPORT LUNS data (SAM-5 4.7): peripheral and flat addressing; others are left
/// out.
fn parse_luns(answer: &[u8]) -> BTreeSet<u16> {
    let length = answer.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) as usize);
    let entries = answer.get(8..).unwrap_or_default();
    let entries = &entries[..length.min(entries.len())];
    let number = |entry: &[u8]| match entry[0] >> 6 {
        0 if entry[0] == 0 => Some(u16::from(entry[1])),
        1 => Some(u16::from(entry[0] & 0x3f) << 8 | u16::from(entry[1])),
        _ => None,
    };
    entries.chunks_exact(8).filter_map(number).take(LUNS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::parse_luns;

    #[test]
    fn luns_are_read_in_both_addressing_methods_and_within_the_list() {
        let mut answer = vec![0; 8 + 6 * 8];
        answer[3] = 5 * 8;
        for (number, bytes) in
            [[0, 0], [0, 7], [0x41, 0], [0xc1, 2], [1, 3], [0, 9]].iter().enumerate()
        {
            answer[8 + number * 8..10 + number * 8].copy_from_slice(bytes);
        }
        assert_eq!(parse_luns(&answer).into_iter().collect::<Vec<_>>(), [0, 7, 256]);
        answer[0] = 0xff;
        assert_eq!(parse_luns(&answer).len(), 4, "a length beyond the data");
        assert!(parse_luns(&[]).is_empty() && parse_luns(&[0, 0, 0, 8, 0]).is_empty());
    }
}
