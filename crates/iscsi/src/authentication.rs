//! The security stage of login (RFC 7143 12): which method, and its exchange of keys.

use crate::text::emit;

/// How an initiator may prove who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationMethod {
    /// AuthMethod=None: not at all.
    None,
}

impl AuthenticationMethod {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
        }
    }
}

/// No method that the initiator offers is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoCommonMethod;

/// The authentication of one login.
#[derive(Debug)]
pub(crate) struct Authentication {
    allowed: Vec<AuthenticationMethod>,
    chosen: Option<AuthenticationMethod>,
}

impl Authentication {
    pub(crate) fn new(allowed: Vec<AuthenticationMethod>) -> Self {
        Self { allowed, chosen: None }
    }

    /// Settles the key AuthMethod: the first method of the initiator's list that is allowed.
    pub(crate) fn choose(
        &mut self,
        value: &str,
        reply: &mut Vec<u8>,
    ) -> Result<(), NoCommonMethod> {
        let allowed = |name: &str| self.allowed.iter().find(|method| method.name() == name);
        let method = *value.split(',').find_map(allowed).ok_or(NoCommonMethod)?;
        self.chosen = Some(method);
        emit(reply, "AuthMethod", method.name());
        Ok(())
    }

    /// Whether the security stage may be left or skipped.
    pub(crate) fn is_done(&self) -> bool {
        match self.chosen {
            Some(AuthenticationMethod::None) => true,
            None => self.allowed.contains(&AuthenticationMethod::None),
        }
    }
}
