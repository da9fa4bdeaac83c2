//! CHAP accounts as administrators set them, and the one that discovery sessions must prove.

use api::{Discovery, Problem};
use array::{Chap, Configuration, Credential, Secret, Secrets};

use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::problems::{bad_request, refused};

/// Checks names and secrets; no refusal repeats a secret.
///
/// # Errors
/// When a name or a secret is none, or half of a mutual account is missing.
pub fn parse(chap: api::Chap) -> Result<Chap, Problem> {
    let credential = |name: String, secret: api::Secret| {
        let secret = Secret::new(secret.0).map_err(|error| refused(&error))?;
        Ok::<_, Problem>(Credential { name, secret })
    };
    let target = match (chap.mutual_user, chap.mutual_secret) {
        (Some(name), Some(secret)) => Some(credential(name, secret)?),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(bad_request(&"mutual CHAP needs a name and a secret: give both"));
        }
    };
    let chap = Chap { initiator: credential(chap.user, chap.secret)?, target };
    chap.check().map_err(|error| refused(&error))?;
    Ok(chap)
}

/// A change of what discovery sessions must prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryChange {
    /// They must prove this.
    Set(Chap),
    /// They must prove nothing.
    Delete,
}

impl ConfigurationChange for DiscoveryChange {
    fn apply(&self, draft: &mut Draft, _: u64, _: &dyn View) -> Result<Applied, Problem> {
        let Draft { array, secrets } = draft;
        let answer = match self {
            Self::Set(chap) => {
                array.discovery_chap_name = Some(chap.initiator.name.clone());
                secrets.discovery = Some(chap.clone());
                secrets.sealed_discovery = None;
                Answer::of(&describe_discovery(array, secrets))?
            }
            Self::Delete => {
                array.discovery_chap_name = None;
                (secrets.discovery, secrets.sealed_discovery) = (None, None);
                Answer::DONE
            }
        };
        Ok(Applied::new(Touched::Nobody, answer))
    }
}

/// What discovery sessions must prove, without secrets.
pub fn describe_discovery(array: &Configuration, secrets: &Secrets) -> Discovery {
    Discovery {
        chap_user: array.discovery_chap_name.clone(),
        mutual: secrets.discovery.as_ref().is_some_and(|chap| chap.target.is_some()),
    }
}

#[cfg(test)]
mod tests;
