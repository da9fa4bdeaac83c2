//! Data directory: the files and the socket of one array, and the lock on them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use access::Users;
use anyhow::{Context, Result, bail};
use array::{Configuration, Secrets};
use device::ReservationKey;
use ring::hmac;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::controller::Controller;
use crate::link::Known;
use crate::recovery_key::{self, KeptKey, RecoveryKey};
use crate::yielding;
use generations::Found;

mod generations;

#[cfg(test)]
mod tests;

const CONFIGURATION_NAME: &str = "gantry.json";
const SECRETS_NAME: &str = "secrets.json";
const USERS_NAME: &str = "users.json";
const RECOVERY_KEY_NAME: &str = "recovery-key.json";
const RESERVATION_KEY_NAME: &str = "reservation-key.json";
const CONTROLLER_NAME: &str = "controller.json";
const PEERS_NAME: &str = "link-peers.json";
const SOCKET_NAME: &str = "gantry.sock";
const LOCK_NAME: &str = "gantryd.lock";

/// How often the lock is tried, and the pause between two tries: a process that ends, or a child of it
/// before its exec, has a descriptor of the file for a moment longer.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// An array's directory, held by one daemon at a time.
pub(crate) struct DataDirectory {
    path: PathBuf,
    /// Faults of the files that were read at start.
    findings: Mutex<Vec<String>>,
    /// Whether the newest configuration was lost, so that an earlier one is in use.
    lost_configuration: AtomicBool,
    /// Held for its lock.
    _lock: File,
}

/// Takes the lock; `false` if another process keeps it.
fn takes_lock(file: &File) -> bool {
    (0..LOCK_TRIES).any(|tried| {
        if tried > 0 {
            thread::sleep(LOCK_PAUSE);
        }
        flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

impl DataDirectory {
    /// Opens or creates the directory, and makes sure no other daemon has it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("cannot create the data directory {}", path.display()))?;
        let lock_path = path.join(LOCK_NAME);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .with_context(|| format!("cannot write in the data directory {}", path.display()))?;
        if !takes_lock(&lock) {
            bail!(
                "another gantryd uses {}: stop it first, or choose another --data",
                path.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
            findings: Mutex::default(),
            lost_configuration: AtomicBool::new(false),
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path.join(SOCKET_NAME)
    }

    /// Reads the configuration; makes a new one at first start.
    pub(crate) fn load(&self) -> Result<Configuration> {
        let parse = |text: &[u8]| {
            let configuration: Configuration = generations::parse_json(text)?;
            if configuration.version_is_known() {
                Ok(configuration)
            } else {
                Err("was written by a newer gantryd: use that version".to_owned())
            }
        };
        match self.load_generations(CONFIGURATION_NAME, parse)? {
            Some(configuration) if !configuration.uuid.is_empty() => Ok(configuration.upgraded()),
            Some(configuration) => self.with_uuid(configuration.upgraded()),
            None => self.with_uuid(Configuration::new(new_target_name()?)),
        }
    }

    /// Gives the array a name in the world.
    fn with_uuid(&self, mut configuration: Configuration) -> Result<Configuration> {
        configuration.uuid = format!("{:032x}", u128::from_be_bytes(random_uuid()?));
        self.save(&configuration)?;
        Ok(configuration)
    }

    /// Reads the recovery key, or makes it at the first start.
    pub(crate) fn load_recovery_key(&self) -> Result<KeptKey> {
        match self.load_generations(RECOVERY_KEY_NAME, generations::parse_json)? {
            Some(kept) => Ok(kept),
            None => {
                let kept = KeptKey { key: RecoveryKey::new(random_bytes()?), shown: false };
                self.save_recovery_key(&kept)?;
                Ok(kept)
            }
        }
    }

    /// Replaces the recovery key as one step.
    pub(crate) fn save_recovery_key(&self, kept: &KeptKey) -> Result<()> {
        self.save_generation(RECOVERY_KEY_NAME, &json(kept)?)
    }

    /// The key that block devices are reserved with: of this directory and this machine, so that what a
    /// crash left is known as one's own, and a copy of the directory on another machine has another key;
    /// and of the controller, since several begin with copies of one directory, and machines may be
    /// clones of each other.
    pub(crate) fn load_reservation_key(&self, controller: u16) -> Result<ReservationKey> {
        let kept = self.load_generations(RESERVATION_KEY_NAME, generations::parse_json)?;
        let secret: u128 = match kept {
            Some(secret) => secret,
            None => {
                let secret = u128::from_be_bytes(random_bytes()?);
                self.save_generation(RESERVATION_KEY_NAME, &json(&secret)?)?;
                secret
            }
        };
        let machine = recovery_key::machine().unwrap_or_default();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.to_be_bytes());
        let owner = match controller {
            0 => machine,
            number => format!("{machine}, controller {number}"),
        };
        let digest = hmac::sign(&key, owner.as_bytes());
        let [first, ..] = digest.as_ref().as_chunks::<8>().0 else {
            bail!("a digest of no bytes");
        };
        ReservationKey::new(u64::from_be_bytes(*first)).context("the reservation key is 0")
    }

    /// Reads which controller of its array the daemon is; the only one, unless it was said otherwise.
    pub(crate) fn load_controller(&self) -> Result<Controller> {
        let kept = self.load_generations(CONTROLLER_NAME, generations::parse_json)?;
        Ok(kept.unwrap_or_default())
    }

    /// Replaces that as one step.
    pub(crate) fn save_controller(&self, controller: &Controller) -> Result<()> {
        self.save_generation(CONTROLLER_NAME, &json(controller)?)
    }

    /// Reads what is known of other controllers; nothing before they are paired.
    pub(crate) fn load_peers(&self) -> Result<Known> {
        Ok(self.load_generations(PEERS_NAME, generations::parse_json)?.unwrap_or_default())
    }

    /// Replaces that as one step.
    pub(crate) fn save_peers(&self, known: &Known) -> Result<()> {
        self.save_generation(PEERS_NAME, &json(known)?)
    }

    /// Replaces the configuration as one step: after a crash the old or the new one is there.
    pub(crate) fn save(&self, configuration: &Configuration) -> Result<()> {
        self.save_generation(CONFIGURATION_NAME, &json(configuration)?)
    }

    /// Reads the secrets; there are none before the first is set.
    pub(crate) fn load_secrets(&self) -> Result<Secrets> {
        self.load_confidential(SECRETS_NAME)
    }

    /// Replaces the secrets as one step.
    pub(crate) fn save_secrets(&self, secrets: &Secrets) -> Result<()> {
        self.save_generation(SECRETS_NAME, &json(secrets)?)
    }

    /// Reads who may use the management interface; nobody before the first start.
    pub(crate) fn load_users(&self) -> Result<Users> {
        self.load_confidential(USERS_NAME)
    }

    /// Replaces the users and their tokens as one step.
    pub(crate) fn save_users(&self, users: &Users) -> Result<()> {
        self.save_generation(USERS_NAME, &json(users)?)
    }

    fn load_confidential<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T> {
        Ok(self.load_generations(name, generations::parse_json)?.unwrap_or_default())
    }

    /// The newest generation of a file that is intact; `None` if there is no file.
    fn load_generations<T>(
        &self,
        name: &str,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let Some(Found { value, is_earlier, findings }) =
            generations::load(&self.path, name, parse)?
        else {
            return Ok(None);
        };
        findings.iter().for_each(|finding| tracing::error!("{finding}"));
        self.findings().extend(findings);
        if is_earlier && name == CONFIGURATION_NAME {
            self.lost_configuration.store(true, Ordering::Relaxed);
        }
        Ok(Some(value))
    }

    /// Whether the configuration that was read is an earlier one than the newest there was.
    pub(crate) fn lost_configuration(&self) -> bool {
        self.lost_configuration.load(Ordering::Relaxed)
    }

    /// Faults of the files that were read at start, in sentences.
    pub(crate) fn findings(&self) -> MutexGuard<'_, Vec<String>> {
        // A list is whole between any two statements that hold the lock.
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save_generation(&self, name: &str, text: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        generations::save(&self.path, name, text)
            .with_context(|| format!("cannot save {}", path.display()))
    }

    /// Replaces a file, which nobody but the owner may read, as one step.
    pub(crate) fn replace(&self, name: &str, text: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let new = self.path.join(format!("{name}.new"));
        let write = || -> std::io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(text)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().with_context(|| format!("cannot save {}", path.display()))
    }
}

/// JSON of something that may be long, written by a thread that yields to the reactor.
fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = yielding::Buffer::default();
    serde_json::to_writer_pretty(&mut text, value)?;
    Ok(text.0)
}

fn new_target_name() -> Result<String> {
    Ok(format!("iqn.2026-11.io.gantry:{:012x}", random_u64()? & 0xffff_ffff_ffff))
}

/// A number that nobody can guess.
pub(crate) fn random_u64() -> Result<u64> {
    getrandom::u64().map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))
}

/// Bytes that nobody can guess.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
    Ok(bytes)
}

/// 16 bytes that name one pool or device in the world.
pub(crate) fn random_uuid() -> Result<[u8; 16]> {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&random_u64()?.to_ne_bytes());
    uuid[8..].copy_from_slice(&random_u64()?.to_ne_bytes());
    Ok(uuid)
}
