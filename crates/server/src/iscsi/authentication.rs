//! Authentication terms of a login: which CHAP proof an initiator must give.

use iscsi::{
    ChapAccount, ChapAlgorithm, ChapCredential, ChapSecret, ChapTerms, LoginRequest, LoginStatus,
    Requirement,
};

use crate::data_directory::random_bytes;
use crate::reactor::Reactor;

/// Bytes of a challenge: as many as the longest hash has.
const CHALLENGE_BYTES: usize = 32;

impl Reactor {
    /// A host with a CHAP account is let in with CHAP only. Discovery wants the account of
    /// discovery, if there is one; that of the initiator's own host will do as well, because most
    /// initiators have one account for everything.
    pub(super) fn requirement(&self, request: &LoginRequest) -> Result<Requirement, LoginStatus> {
        let own = self.account_of_host(&request.initiator_name)?;
        if !request.discovery {
            return requirement(own.is_none(), own.into_iter().collect());
        }
        let wanted = self.management.configuration.discovery_chap_name.is_some();
        let discovery = self.management.secrets.discovery.as_ref().map(account);
        requirement(!wanted, discovery.into_iter().chain(own).collect())
    }

    /// The account of the initiator's host. A secret that was lost keeps everybody out.
    fn account_of_host(&self, initiator: &str) -> Result<Option<ChapAccount>, LoginStatus> {
        let configuration = &self.management.configuration;
        let Some(name) = configuration.host_of(initiator) else { return Ok(None) };
        if configuration.hosts[name].chap_name.is_none() {
            return Ok(None);
        }
        let chap = self.management.secrets.hosts.get(name);
        if chap.is_none() {
            tracing::error!(host = name, "its CHAP secret is lost: set it again");
        }
        chap.map(|chap| Some(account(chap))).ok_or(LoginStatus::AuthenticationFailure)
    }
}

fn requirement(none_allowed: bool, accounts: Vec<ChapAccount>) -> Result<Requirement, LoginStatus> {
    if accounts.is_empty() {
        return Ok(Requirement { none_allowed, chap: None });
    }
    let random = random_bytes::<{ CHALLENGE_BYTES + 1 }>().map_err(|error| {
        tracing::error!(%error, "no challenge for CHAP");
        LoginStatus::TargetError
    })?;
    let chap = ChapTerms {
        algorithms: ChapAlgorithm::ALL.to_vec(),
        identifier: random[0],
        challenge: random[1..].to_vec(),
        accounts,
    };
    Ok(Requirement { none_allowed, chap: Some(chap) })
}

fn account(chap: &array::Chap) -> ChapAccount {
    let credential = |credential: &array::Credential| ChapCredential {
        name: credential.name.clone(),
        secret: ChapSecret::new(credential.secret.expose()),
    };
    ChapAccount {
        initiator: credential(&chap.initiator),
        target: chap.target.as_ref().map(credential),
    }
}
