//! Security negotiation of login (RFC 7143 12): chooses the method and exchanges its keys.

use crate::chap::{ChapTerms, Exchange};
use crate::text::emit;

/// How an initiator proved who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthenticationMethod {
    /// AuthMethod=None: not at all.
    #[default]
    None,
    /// AuthMethod=CHAP.
    Chap,
}

impl AuthenticationMethod {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Chap => "CHAP",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Chap].into_iter().find(|method| method.name() == name)
    }
}

/// Proof that the owner demands of an initiator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// Whether AuthMethod=None will do.
    pub none_allowed: bool,
    /// The accounts of AuthMethod=CHAP; `None` if the method is not offered.
    pub chap: Option<ChapTerms>,
}

impl Requirement {
    /// No proof is demanded.
    pub fn none() -> Self {
        Self { none_allowed: true, chap: None }
    }
}

/// The initiator did not prove who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAuthentic;

/// The authentication of one login.
#[derive(Debug)]
pub(crate) struct Authentication {
    none_allowed: bool,
    chap: Option<Exchange>,
    chosen: Option<AuthenticationMethod>,
}

impl Authentication {
    pub(crate) fn new(requirement: Requirement) -> Self {
        let Requirement { none_allowed, chap } = requirement;
        Self { none_allowed, chap: chap.map(Exchange::new), chosen: None }
    }

    /// Settles the key AuthMethod: the first method of the initiator's list that is allowed.
    fn choose(&mut self, value: &str, reply: &mut Vec<u8>) -> Result<(), NotAuthentic> {
        if self.chosen.is_some() {
            return Err(NotAuthentic);
        }
        let allowed = |method: &AuthenticationMethod| match method {
            AuthenticationMethod::None => self.none_allowed,
            AuthenticationMethod::Chap => self.chap.is_some(),
        };
        let mut offered = value.split(',').filter_map(AuthenticationMethod::named);
        let method = offered.find(allowed).ok_or(NotAuthentic)?;
        self.chosen = Some(method);
        emit(reply, "AuthMethod", method.name());
        Ok(())
    }

    /// Takes the keys of one login request that belong to authentication, all at once.
    pub(crate) fn take(
        &mut self,
        keys: &[(&str, &str)],
        reply: &mut Vec<u8>,
    ) -> Result<(), NotAuthentic> {
        for (_, value) in keys.iter().filter(|(key, _)| *key == "AuthMethod") {
            self.choose(value, reply)?;
        }
        let chap_keys: Vec<_> =
            keys.iter().filter(|(key, _)| key.starts_with("CHAP_")).copied().collect();
        match (self.chosen, &mut self.chap) {
            _ if chap_keys.is_empty() => Ok(()),
            (Some(AuthenticationMethod::Chap), Some(exchange)) => exchange.take(&chap_keys, reply),
            _ => Err(NotAuthentic),
        }
    }

    /// Whether the security stage may be left or skipped.
    pub(crate) fn is_done(&self) -> bool {
        match self.chosen {
            Some(AuthenticationMethod::Chap) => self.chap.as_ref().is_some_and(Exchange::is_done),
            Some(AuthenticationMethod::None) | None => self.none_allowed,
        }
    }

    /// Answers an offer of methods after the security stage; `false` if it lacks the one in force.
    pub(crate) fn repeat(&self, value: &str, reply: &mut Vec<u8>) -> bool {
        let method = self.method();
        let is_offered = value.split(',').any(|name| name == method.name());
        if is_offered {
            emit(reply, "AuthMethod", method.name());
        }
        is_offered
    }

    /// How the initiator proved who it is.
    pub(crate) fn method(&self) -> AuthenticationMethod {
        self.chosen.unwrap_or_default()
    }
}

/// Whether a key belongs to the security stage.
pub(crate) fn is_security_key(key: &str) -> bool {
    key == "AuthMethod" || key.starts_with("CHAP_")
}
