//! Asymmetric logical unit access (ALUA, SPC-4 5.15): a path to a controller that does not serve
//! the LUN is kept, and not used until the array says that it is served there. The array decides
//! (implicit ALUA); nothing asks it to change.

use std::time::{Duration, Instant};

use super::{Identity, Loss, Lun, Path};
use crate::initiator::cdb;
use crate::initiator::session::{Data, Session, SessionError};
use crate::initiator::times::times;

/// NOT READY with one of these: ASYMMETRIC ACCESS STATE TRANSITION, TARGET PORT IN STANDBY STATE,
/// TARGET PORT IN UNAVAILABLE STATE.
const NOT_SERVED: [(i32, AccessState); 3] = [
    (0x040a, AccessState::Transitioning),
    (0x040b, AccessState::Standby),
    (0x040c, AccessState::Unavailable),
];

/// ASYMMETRIC ACCESS STATE CHANGED.
pub(super) const ACCESS_STATE_CHANGED: i32 = 0x2a06;

/// Between two looks at paths on which the LUN is not served, while it is on none.
const LOOK: Duration = Duration::from_millis(100);

/// While there are such paths, dead ones are tried so many times less often: the connection to a
/// controller that does not answer takes long.
const RARELY: u32 = 10;

/// Bytes of REPORT TARGET PORT GROUPS data that are asked for.
const REPORT_BYTES: u32 = 1024;

/// ASYMMETRIC ACCESS STATE of a target port group (SPC-4 table 279).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessState {
    /// Active/optimized; also where the LUN says nothing of it.
    ActiveOptimized,
    /// Active/non-optimized: used where no path is optimized.
    ActiveNonOptimized,
    /// Another controller serves it.
    Standby,
    /// Unavailable, or offline.
    Unavailable,
    /// On its way from one state to another.
    Transitioning,
}

impl AccessState {
    fn from_code(code: u8) -> Self {
        match code & 0x0f {
            0 => Self::ActiveOptimized,
            1 => Self::ActiveNonOptimized,
            2 => Self::Standby,
            0x0f => Self::Transitioning,
            _ => Self::Unavailable,
        }
    }

    /// Whether commands for the medium are carried out.
    pub fn serves(self) -> bool {
        matches!(self, Self::ActiveOptimized | Self::ActiveNonOptimized)
    }

    /// As ESXi abbreviates it.
    pub fn word(self) -> &'static str {
        match self {
            Self::ActiveOptimized => "AO",
            Self::ActiveNonOptimized => "ANO",
            Self::Standby => "STBY",
            Self::Unavailable => "UNAVAIL",
            Self::Transitioning => "TRANSITIONING",
        }
    }
}

/// What a path is good for, in ESXi's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Commands go there.
    Active,
    /// There is a session, and another controller serves the LUN.
    Standby,
    /// No session.
    Dead,
}

impl PathState {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
            Self::Dead => "dead",
        }
    }
}

/// The groups in REPORT TARGET PORT GROUPS data: number, state.
pub(crate) fn parse_groups(answer: &[u8]) -> Vec<(u16, AccessState)> {
    let mut groups = Vec::new();
    let mut rest = answer.get(4..).unwrap_or_default();
    let length = answer.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) as usize);
    rest = &rest[..length.min(rest.len())];
    while let Some(head) = rest.first_chunk::<8>() {
        groups.push((u16::from_be_bytes([head[2], head[3]]), AccessState::from_code(head[0])));
        rest = rest.get(8 + usize::from(head[7]) * 4..).unwrap_or_default();
    }
    groups
}

/// The target port group of the port that answered with this device identification page (SPC-4
/// 7.8.6.8).
fn own_group(page: &[u8]) -> Option<u16> {
    const PORT_GROUP: u8 = 5;
    let mut rest = page.get(4..)?;
    while let [_, kind, _, length, designator @ ..] = rest {
        if kind & 0x0f == PORT_GROUP
            && let Some(&[_, _, high, low]) = designator.first_chunk()
        {
            return Some(u16::from_be_bytes([high, low]));
        }
        rest = designator.get(usize::from(*length)..).unwrap_or_default();
    }
    None
}

/// How the LUN is served by the port of a session; active where it does not say.
///
/// # Errors When the session is lost.
fn ask(session: &mut Session) -> Result<AccessState, SessionError> {
    let mut optional = |cdb, length| match session.command(cdb, Data::In(vec![0; length])) {
        Err(SessionError::Lost) => Err(SessionError::Lost),
        other => Ok(other.unwrap_or_default()),
    };
    let own = own_group(&optional(cdb::inquiry_device_identification(), 255)?);
    let report = cdb::report_target_port_groups(REPORT_BYTES);
    let groups = parse_groups(&optional(report, REPORT_BYTES as usize)?);
    let state = groups.iter().find(|(number, _)| Some(*number) == own).map(|(_, state)| *state);
    Ok(state.unwrap_or(AccessState::ActiveOptimized))
}

/// What a command's end says of the path, if it is that the LUN is not served there.
pub(super) fn not_served(result: &Result<(), SessionError>) -> Option<AccessState> {
    let Err(SessionError::Command { key: 2, ascq, .. }) = result else { return None };
    NOT_SERVED.iter().find(|(code, _)| code == ascq).map(|(_, state)| *state)
}

impl Path {
    /// Whether commands may go there.
    pub(super) fn is_usable(&self) -> bool {
        self.session.is_some() && self.access.serves()
    }

    /// Whether there is a session to a controller that does not serve the LUN.
    pub(super) fn is_waiting(&self) -> bool {
        self.session.is_some() && !self.access.serves()
    }

    pub(super) fn state(&self) -> PathState {
        match &self.session {
            Some(_) if self.access.serves() => PathState::Active,
            Some(_) => PathState::Standby,
            None => PathState::Dead,
        }
    }
}

impl Lun {
    /// The paths that the next commands take: the optimized ones, or if there is none all that
    /// serve.
    pub(super) fn is_preferred(&self, path: usize) -> bool {
        let is_optimized =
            |path: &Path| path.is_usable() && path.access == AccessState::ActiveOptimized;
        let path = &self.paths[path];
        is_optimized(path) || (path.is_usable() && !self.paths.iter().any(is_optimized))
    }

    /// The LUN is not served on a path. Commands go another way; under a reservation there is none.
    pub(super) fn leave(&mut self, path: usize, access: AccessState) -> bool {
        if self.pinned || self.paths.len() == 1 {
            return false;
        }
        self.paths[path].access = access;
        self.note_outage();
        true
    }

    /// Finds out on which of the paths that were just connected the LUN is served; it is asked for its
    /// identity there, of which a standby tells less.
    ///
    /// # Errors
    /// When no path tells its size.
    pub(super) fn begin_where_it_is_served(&mut self) -> Result<(), SessionError> {
        self.look_at_access();
        let serving = (0..self.paths.len()).find(|path| self.is_preferred(*path));
        if let Some(path) = serving
            && path != self.current
            && let Some(session) = self.paths[path].session.as_mut()
        {
            (self.identity, self.current) = (Identity::ask(session)?, path);
        }
        if self.identity.size_bytes == 0 {
            return Err(SessionError::Unsupported("the LUN is served on none of the paths given"));
        }
        self.note_outage();
        Ok(())
    }

    /// Asks on every path how the LUN is served there, where nothing is under way.
    pub(super) fn look_at_access(&mut self) {
        if self.identity.tpgs == 0 {
            return;
        }
        for path in 0..self.paths.len() {
            self.look_at_access_on(path);
        }
        self.has_access_news = false;
    }

    /// Those on which it is not served are looked at when the array said that something changed,
    /// and all the time while it is served on none.
    pub(super) fn look_at_waiting(&mut self) {
        let is_due = self.has_access_news
            || (self.is_down() && self.access_seen.is_none_or(|seen| seen.elapsed() >= LOOK));
        if !is_due || !self.paths.iter().any(Path::is_waiting) {
            return;
        }
        (self.has_access_news, self.access_seen) = (false, Some(Instant::now()));
        for path in 0..self.paths.len() {
            if self.paths[path].is_waiting() {
                self.look_at_access_on(path);
            }
        }
    }

    pub(super) fn look_at_access_on(&mut self, path: usize) {
        let Some(session) = self.paths[path].session.as_mut() else { return };
        if session.in_flight() > 0 {
            return;
        }
        match ask(session) {
            Ok(access) => self.paths[path].access = access,
            Err(_) => self.fail_over(path, Loss::Closed),
        }
    }

    /// Between two attempts to connect dead paths while the LUN is served on none.
    pub(super) fn reconnect_pause(&self) -> Duration {
        let rarely = self.paths.iter().any(Path::is_waiting);
        times().reconnect * if rarely { RARELY } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_whatever_comes() {
        use AccessState::{ActiveNonOptimized, ActiveOptimized, Standby};
        let mut answer = vec![0, 0, 0, 24];
        answer.extend([0x80, 0x0f, 0, 1, 0, 2, 0, 1, 0, 0, 0, 1]);
        answer.extend([0x02, 0x0f, 1, 0, 0, 2, 0, 1, 0, 0, 1, 0]);
        assert_eq!(parse_groups(&answer), [(1, ActiveOptimized), (256, Standby)]);
        assert!(parse_groups(&[0, 0, 1]).is_empty() && parse_groups(&[]).is_empty());
        let cut = [255, 255, 255, 255, 1, 0, 0, 7, 0, 0, 0, 255];
        assert_eq!(parse_groups(&cut), [(7, ActiveNonOptimized)]);
    }

    #[test]
    fn the_own_group_is_found_behind_other_designators() {
        let name = [&[1, 3, 0, 16][..], &[6; 16]].concat();
        let page = [&[0, 0x83, 0, 36][..], &name, &[1, 0x14, 0, 4, 0, 0, 0, 9]].concat();
        let group = [0x51, 0x95, 0, 4, 0, 0, 1, 2];
        assert_eq!(own_group(&[&page[..], &group].concat()), Some(0x102));
        assert_eq!(own_group(&page), None);
        for length in 0..page.len() {
            assert_eq!(own_group(&page[..length]), None);
        }
    }
}
