//! Mutual exclusion: changes of a pool that exclude others, one at a time for each pool.

use std::collections::HashMap;

use api::Problem;

use crate::problems::conflict;

/// Pools that are claimed, and what for.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    claimed: HashMap<String, Purpose>,
    /// Claimed by the call that is being carried out.
    new: Option<String>,
}

/// What a pool is claimed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is made.
    Create,
    /// It is closed and forgotten.
    Delete,
    /// One of its devices grows.
    Extend,
    /// A device joins it.
    AddDevice,
    /// A device joins or leaves one of its mirrors.
    Members,
    /// A device begins or ends to leave it.
    RemoveDevice,
    /// It is opened anew.
    Resume,
    /// It is closed for another controller.
    Switch,
    /// It is given away.
    Export,
}

impl Purpose {
    /// What goes on.
    const fn text(self) -> &'static str {
        match self {
            Self::Create => "is just being created",
            Self::Delete => "is just being deleted",
            Self::Extend => "has a device that is just being extended",
            Self::AddDevice => "is just being joined by another device",
            Self::Members => "has a mirror that is just being changed",
            Self::RemoveDevice => "has a device that just begins or ends to leave",
            Self::Resume => "is just being resumed",
            Self::Switch => "is just being given to another controller",
            Self::Export => "is just being exported",
        }
    }

    /// Whether volumes may be made, changed and deleted meanwhile.
    const fn admits_volumes(self) -> bool {
        match self {
            Self::Create | Self::Delete | Self::Resume | Self::Switch | Self::Export => false,
            Self::Extend | Self::AddDevice | Self::Members | Self::RemoveDevice => true,
        }
    }
}

impl Claims {
    /// Claims a pool for the call that is being carried out.
    ///
    /// # Errors
    /// While somebody else has it.
    pub fn claim(&mut self, pool: &str, purpose: Purpose) -> Result<(), Problem> {
        self.check_free(pool)?;
        self.claimed.insert(pool.to_owned(), purpose);
        self.new = Some(pool.to_owned());
        Ok(())
    }

    /// Refuses where a pool is claimed.
    ///
    /// # Errors
    /// What for.
    pub fn check_free(&self, pool: &str) -> Result<(), Problem> {
        self.claimed.get(pool).map_or(Ok(()), |purpose| Err(taken(pool, *purpose)))
    }

    /// Refuses where volumes of a pool may not be changed now.
    ///
    /// # Errors
    /// Why not.
    pub fn check_volumes(&self, pool: &str) -> Result<(), Problem> {
        let purpose = self.claimed.get(pool).filter(|purpose| !purpose.admits_volumes());
        purpose.map_or(Ok(()), |purpose| Err(taken(pool, *purpose)))
    }

    /// Whether a pool is claimed for that.
    pub fn is_claimed(&self, pool: &str, purpose: Purpose) -> bool {
        self.claimed.get(pool) == Some(&purpose)
    }

    /// What the call that was carried out has claimed: whoever waits for its end gives it back.
    pub fn take_new(&mut self) -> Option<String> {
        self.new.take()
    }

    /// Whoever had a pool has come to an end.
    pub fn release(&mut self, pool: &str) {
        self.claimed.remove(pool);
    }
}

fn taken(pool: &str, purpose: Purpose) -> Problem {
    conflict(&format!("pool '{pool}' {}: wait until that has ended", purpose.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_of_a_pool_excludes_others_until_it_has_ended() {
        let mut claims = Claims::default();
        assert_eq!(claims.claim("p", Purpose::Extend), Ok(()));
        assert_eq!(claims.take_new().as_deref(), Some("p"));
        let refusal = claims.claim("p", Purpose::Delete).unwrap_err();
        assert_eq!(refusal.status, 409);
        assert!(refusal.detail.contains("being extended"), "{}", refusal.detail);
        assert_eq!(claims.take_new(), None, "what was refused claims nothing");
        assert_eq!(claims.check_volumes("p"), Ok(()), "volumes come and go meanwhile");
        assert_eq!(claims.claim("q", Purpose::Delete), Ok(()));
        assert!(claims.check_volumes("q").is_err());
        claims.release("p");
        assert_eq!(claims.claim("p", Purpose::Delete), Ok(()));
    }
}
