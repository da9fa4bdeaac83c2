//! Browser sessions: a cookie stands for a user for a limited time. Only its SHA-256 is kept.

use std::collections::BTreeMap;

use crate::limits::{SECRET_BYTES, SESSION_IDLE_SECONDS, SESSION_SECONDS, SESSIONS_MAX};
use crate::users::digest;

/// A browser that has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    /// Who logged in.
    pub user: String,
    /// Goes with every change, so that a foreign page cannot make one (it cannot read this).
    pub csrf: String,
    started: u64,
    used: u64,
}

/// All sessions.
#[derive(Debug, Default)]
pub struct BrowserSessions {
    sessions: BTreeMap<[u8; 32], BrowserSession>,
}

impl BrowserSession {
    fn is_over(&self, now: u64) -> bool {
        now >= self.started + SESSION_SECONDS || now >= self.used + SESSION_IDLE_SECONDS
    }
}

impl BrowserSessions {
    /// Begins a session, named by random bytes. Times are seconds since 1970.
    pub fn begin(&mut self, secret: &[u8; SECRET_BYTES], user: &str, csrf: String, now: u64) {
        self.sessions.retain(|_, session| !session.is_over(now));
        if self.sessions.len() >= SESSIONS_MAX {
            let idle = self.sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(key) = idle.map(|(&key, _)| key) {
                self.sessions.remove(&key);
            }
        }
        let session = BrowserSession { user: user.to_owned(), csrf, started: now, used: now };
        self.sessions.insert(digest(secret), session);
    }

    /// The session of a cookie, if it is not over; notes that it is used.
    pub fn find(&mut self, secret: &[u8], now: u64) -> Option<&BrowserSession> {
        let session = self.sessions.get_mut(&digest(secret))?;
        if session.is_over(now) {
            return None;
        }
        session.used = now;
        Some(session)
    }

    /// Ends a session.
    pub fn end(&mut self, secret: &[u8]) {
        self.sessions.remove(&digest(secret));
    }

    /// Ends all sessions of a user but this one.
    pub fn end_others_of(&mut self, user: &str, secret: Option<&[u8]>) {
        let kept = secret.map(digest);
        self.sessions.retain(|key, session| session.user != user || Some(*key) == kept);
    }

    /// Ends all sessions of a user.
    pub fn end_all_of(&mut self, user: &str) {
        self.sessions.retain(|_, session| session.user != user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; SECRET_BYTES] = [5; SECRET_BYTES];

    #[test]
    fn a_session_ends_when_it_is_not_used_and_at_last_anyway() {
        let mut sessions = BrowserSessions::default();
        sessions.begin(&SECRET, "ann", "c".into(), 0);
        let mut now = 0;
        while now + SESSION_IDLE_SECONDS - 1 < SESSION_SECONDS {
            now += SESSION_IDLE_SECONDS - 1;
            assert_eq!(sessions.find(&SECRET, now).unwrap().user, "ann");
        }
        assert_eq!(sessions.find(&SECRET, SESSION_SECONDS), None);
        sessions.begin(&SECRET, "ann", "c".into(), 0);
        assert_eq!(sessions.find(&SECRET, SESSION_IDLE_SECONDS), None);
    }

    #[test]
    fn another_cookie_finds_nothing_and_logging_out_ends_it() {
        let mut sessions = BrowserSessions::default();
        sessions.begin(&SECRET, "ann", "c".into(), 0);
        assert_eq!(sessions.find(&[6; 32], 1), None);
        assert_eq!(sessions.find(&[], 1), None);
        sessions.end(&SECRET);
        assert_eq!(sessions.find(&SECRET, 1), None);
    }

    #[test]
    fn a_user_keeps_the_session_that_changed_the_password() {
        let mut sessions = BrowserSessions::default();
        sessions.begin(&SECRET, "ann", String::new(), 0);
        sessions.begin(&[6; 32], "ann", String::new(), 0);
        sessions.begin(&[7; 32], "bob", String::new(), 0);
        sessions.end_others_of("ann", Some(&SECRET));
        let mut is_there = |secret| sessions.find(&[secret; 32], 1).is_some();
        assert_eq!((is_there(5), is_there(6), is_there(7)), (true, false, true));
        sessions.end_all_of("bob");
        assert_eq!(sessions.find(&[7; 32], 1), None);
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let mut sessions = BrowserSessions::default();
        for number in 0..2 * SESSIONS_MAX as u64 {
            let mut secret = SECRET;
            secret[..8].copy_from_slice(&number.to_le_bytes());
            sessions.begin(&secret, "ann", String::new(), number / 1000);
        }
        assert_eq!(sessions.sessions.len(), SESSIONS_MAX);
    }
}
