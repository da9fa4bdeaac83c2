//! Users and their tokens: the value that is saved as `users.json`.

use std::collections::BTreeMap;

use api::{Role, Token, User};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::limits::{
    NAME_MAX, PARENTS_MAX, SECRET_BYTES, TOKEN_DAYS_MAX, TOKENS_MAX, TOKENS_PER_ADMIN_MAX,
    TOKENS_PER_USER_MAX, USERS_MAX,
};
use crate::{AccessError, PasswordHash};

#[cfg(test)]
mod tests;

/// Means of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// By being able to open the daemon's socket.
    Socket,
    /// By the cookie of a session.
    Session,
    /// By a token.
    Token,
}

impl Via {
    /// As the audit log writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Session => "session",
            Self::Token => "token",
        }
    }
}

/// Identity of an authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// Role that limits what the caller may do.
    pub role: Role,
    /// How the caller was authenticated.
    pub via: Via,
    /// The identifier of the token that was shown, if it was one.
    pub token: Option<String>,
    /// Whether nothing else is allowed before the password was changed.
    pub must_change_password: bool,
}

/// Everybody who may use the management interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    users: BTreeMap<String, StoredUser>,
    tokens: BTreeMap<String, StoredToken>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredUser {
    role: Role,
    password: PasswordHash,
    must_change_password: bool,
    created: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredToken {
    name: String,
    user: String,
    role: Role,
    created: u64,
    expires: Option<u64>,
    /// The token by which it was made, with which it ends. None of a token that a user made without
    /// one, and of those made before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// SHA-256 of the secret; a slow hash would add nothing to 256 random bits.
    digest: String,
}

/// Properties of a token that is to be made.
#[derive(Clone, Debug)]
pub struct NewTokenSpec<'a> {
    /// Name, which says what the token is for.
    pub name: &'a str,
    /// The user to whom the token belongs.
    pub user: &'a str,
    /// Role that limits what the token allows.
    pub role: Role,
    /// Days until it expires; `None` for never, or for as long as its parent.
    pub days: Option<u32>,
    /// The identifier of the token by which it is made, if it is made by one.
    pub parent: Option<&'a str>,
}

impl Users {
    /// Whether nobody has ever been made.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// All users by name.
    pub fn users(&self) -> impl Iterator<Item = User> {
        self.users.iter().map(|(name, user)| describe(name, user))
    }

    /// One user.
    pub fn user(&self, name: &str) -> Option<User> {
        self.users.get(name).map(|user| describe(name, user))
    }

    /// The hash of a user's password.
    pub fn password(&self, name: &str) -> Option<&PasswordHash> {
        self.users.get(name).map(|user| &user.password)
    }

    /// Adds a user. Times are seconds since 1970.
    ///
    /// # Errors
    /// When the name is no name or taken, or there are 256 users.
    pub fn add(
        &mut self,
        name: &str,
        role: Role,
        password: PasswordHash,
        must_change_password: bool,
        now: u64,
    ) -> Result<User, AccessError> {
        check_name(name)?;
        if self.users.contains_key(name) {
            return Err(AccessError::Exists(name.to_owned()));
        }
        if self.users.len() >= USERS_MAX {
            return Err(AccessError::TooManyUsers);
        }
        let user = StoredUser { role, password, must_change_password, created: now };
        let described = describe(name, &user);
        self.users.insert(name.to_owned(), user);
        Ok(described)
    }

    /// Gives a user another role; its tokens allow no more than that from now on.
    ///
    /// # Errors
    /// When there is no such user, or it is the last administrator.
    pub fn set_role(&mut self, name: &str, role: Role) -> Result<(), AccessError> {
        if role != Role::Admin {
            self.check_another_admin(name)?;
        }
        self.user_mut(name)?.role = role;
        Ok(())
    }

    /// Gives a user the password that the user chose.
    ///
    /// # Errors
    /// When there is no such user.
    pub fn choose_password(&mut self, name: &str, hash: PasswordHash) -> Result<(), AccessError> {
        let user = self.user_mut(name)?;
        (user.password, user.must_change_password) = (hash, false);
        Ok(())
    }

    /// Gives a user a password that somebody else chose; the user's tokens end.
    ///
    /// # Errors
    /// When there is no such user.
    pub fn reset_password(&mut self, name: &str, hash: PasswordHash) -> Result<(), AccessError> {
        let user = self.user_mut(name)?;
        (user.password, user.must_change_password) = (hash, true);
        self.tokens.retain(|_, token| token.user != name);
        Ok(())
    }

    /// Says whether a user must choose another password before anything else.
    ///
    /// # Errors
    /// When there is no such user.
    pub fn set_must_change_password(&mut self, name: &str, must: bool) -> Result<(), AccessError> {
        self.user_mut(name)?.must_change_password = must;
        Ok(())
    }

    /// Whether an administrator has a password of their own, and not only the first one.
    pub fn has_own_password(&self) -> bool {
        let own = |user: &StoredUser| user.role == Role::Admin && !user.must_change_password;
        self.users.values().any(own)
    }

    /// Removes a user and its tokens.
    ///
    /// # Errors
    /// When there is no such user, or it is the last administrator.
    pub fn remove(&mut self, name: &str) -> Result<(), AccessError> {
        self.check_another_admin(name)?;
        self.users.remove(name).ok_or_else(|| AccessError::NoUser(name.to_owned()))?;
        self.tokens.retain(|_, token| token.user != name);
        Ok(())
    }

    /// All tokens by identifier.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.tokens.iter().map(|(id, token)| describe_token(id, token))
    }

    /// Adds a token whose secret is these random bytes. One that is made by another token allows no
    /// more than that one, lasts no longer and ends with it. Tokens whose time is over make room.
    ///
    /// # Errors
    /// When its user does not exist, its user or its parent may do less or its parent ends earlier, a
    /// number is out of range, its user has as many tokens as one user may have, or there are 16,384.
    pub fn add_token(
        &mut self,
        spec: &NewTokenSpec<'_>,
        secret: &[u8; SECRET_BYTES],
        now: u64,
    ) -> Result<Token, AccessError> {
        check_name(spec.name)?;
        let owner = self.users.get(spec.user);
        let owner = owner.ok_or_else(|| AccessError::NoUser(spec.user.to_owned()))?;
        let owner_role = owner.role;
        if spec.role > owner_role {
            return Err(AccessError::TokenRole);
        }
        if spec.days.is_some_and(|days| !(1..=TOKEN_DAYS_MAX).contains(&days)) {
            return Err(AccessError::TokenDays);
        }
        let expires = spec.days.map(|days| now + u64::from(days) * 86_400);
        let expires = self.bounded_by_parent(spec, expires)?;
        self.tokens.retain(|_, token| token.expires.is_none_or(|expires| now < expires));
        self.check_quota(spec.user, owner_role)?;
        let digest = hexadecimal(&digest(secret));
        let id = digest[..16].to_owned();
        let token = StoredToken {
            name: spec.name.to_owned(),
            user: spec.user.to_owned(),
            role: spec.role,
            created: now,
            expires,
            parent: spec.parent.map(str::to_owned),
            digest,
        };
        let described = describe_token(&id, &token);
        self.tokens.insert(id, token);
        Ok(described)
    }

    /// When a token ends that is made by another one.
    fn bounded_by_parent(
        &self,
        spec: &NewTokenSpec<'_>,
        expires: Option<u64>,
    ) -> Result<Option<u64>, AccessError> {
        let Some(id) = spec.parent else { return Ok(expires) };
        let parent = self.tokens.get(id).filter(|parent| parent.user == spec.user);
        let parent = parent.ok_or_else(|| AccessError::NoToken(id.to_owned()))?;
        if spec.role > parent.role {
            return Err(AccessError::TokenRole);
        }
        if self.ancestors(id).count() > PARENTS_MAX {
            return Err(AccessError::TokenDepth);
        }
        match (expires, parent.expires) {
            (Some(wanted), Some(end)) if wanted > end => Err(AccessError::TokenTooLong { end }),
            (wanted, end) => Ok(wanted.or(end)),
        }
    }

    /// A token and those by which it was made, each made by the next.
    fn ancestors(&self, id: &str) -> impl Iterator<Item = (&String, &StoredToken)> {
        let first = self.tokens.get_key_value(id);
        let next = |(_, token): &(&String, &StoredToken)| {
            token.parent.as_ref().and_then(|parent| self.tokens.get_key_value(parent))
        };
        // Bounded, for a file that names a token as its own ancestor.
        std::iter::successors(first, next).take(PARENTS_MAX + 1)
    }

    /// Refuses one more token of a user who has as many as one may have. What users who are no
    /// administrators can have together leaves administrators theirs.
    fn check_quota(&self, user: &str, role: Role) -> Result<(), AccessError> {
        let max = match role {
            Role::Admin => TOKENS_PER_ADMIN_MAX,
            Role::Viewer | Role::Operator => TOKENS_PER_USER_MAX,
        };
        if self.tokens.values().filter(|token| token.user == user).count() >= max {
            return Err(AccessError::TooManyTokensOfUser { user: user.to_owned(), max });
        }
        if self.tokens.len() >= TOKENS_MAX { Err(AccessError::TooManyTokens) } else { Ok(()) }
    }

    /// Whether a token is another one, or was made by it, be it through others.
    pub fn descends(&self, id: &str, ancestor: &str) -> bool {
        self.ancestors(id).any(|(id, _)| id == ancestor)
    }

    /// Removes a token, and those that were made by it.
    ///
    /// # Errors
    /// When there is none of that identifier.
    pub fn remove_token(&mut self, id: &str) -> Result<(), AccessError> {
        if !self.tokens.contains_key(id) {
            return Err(AccessError::NoToken(id.to_owned()));
        }
        let made: Vec<String> =
            self.tokens.keys().filter(|other| self.descends(other, id)).cloned().collect();
        made.iter().for_each(|id| drop(self.tokens.remove(id)));
        Ok(())
    }

    /// Whose secret of a token it is, if it is one and has not expired, and neither has one by which
    /// it was made.
    pub fn identify_token(&self, secret: &[u8], now: u64) -> Option<Identity> {
        let digest = hexadecimal(&digest(secret));
        let id = &digest[..16];
        let token = self.tokens.get(id)?;
        let equal: bool = token.digest.as_bytes().ct_eq(digest.as_bytes()).into();
        let has_time = |token: &StoredToken| token.expires.is_none_or(|expires| now < expires);
        let last = self.ancestors(id).last();
        // Whose parent is not there, or never ends, is nobody's.
        let is_rooted = last.is_some_and(|(_, token)| token.parent.is_none());
        let valid = equal && is_rooted && self.ancestors(id).all(|(_, token)| has_time(token));
        let user = self.users.get(&token.user).filter(|_| valid)?;
        Some(Identity {
            user: token.user.clone(),
            role: token.role.min(user.role),
            via: Via::Token,
            token: Some(id.to_owned()),
            // The token's maker had proven more than a password that must be changed.
            must_change_password: false,
        })
    }

    /// The identity of a user who has a session.
    pub fn identify_session(&self, user: &str) -> Option<Identity> {
        let stored = self.users.get(user)?;
        Some(Identity {
            user: user.to_owned(),
            role: stored.role,
            via: Via::Session,
            token: None,
            must_change_password: stored.must_change_password,
        })
    }

    fn user_mut(&mut self, name: &str) -> Result<&mut StoredUser, AccessError> {
        self.users.get_mut(name).ok_or_else(|| AccessError::NoUser(name.to_owned()))
    }

    /// Fails if without this user nobody would be an administrator.
    fn check_another_admin(&self, name: &str) -> Result<(), AccessError> {
        let user = self.users.get(name).ok_or_else(|| AccessError::NoUser(name.to_owned()))?;
        let mut others = self.users.iter().filter(|(other, _)| *other != name);
        if user.role == Role::Admin && !others.any(|(_, other)| other.role == Role::Admin) {
            Err(AccessError::LastAdmin(name.to_owned()))
        } else {
            Ok(())
        }
    }
}

fn describe(name: &str, user: &StoredUser) -> User {
    User {
        name: name.to_owned(),
        role: user.role,
        must_change_password: user.must_change_password,
        created: user.created,
    }
}

fn describe_token(id: &str, token: &StoredToken) -> Token {
    Token {
        id: id.to_owned(),
        name: token.name.clone(),
        user: token.user.clone(),
        role: token.role,
        created: token.created,
        expires: token.expires,
        parent: token.parent.clone(),
    }
}

fn check_name(name: &str) -> Result<(), AccessError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(fits) {
        Ok(())
    } else {
        Err(AccessError::Name(name.chars().take(80).collect()))
    }
}

/// SHA-256 of a secret.
pub(crate) fn digest(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
