//! Checkpoints between runs of the program: each measurement in a file of its own, so that an
//! interrupted validation goes on where it was.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Order;
use super::bench::Bench;

/// What a folder's measurements belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    luns: Vec<String>,
    scale: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept<T> {
    seconds: f64,
    what: T,
}

/// A folder of measurements.
pub(crate) struct Store {
    folder: PathBuf,
    identity: Identity,
    is_new: bool,
    milliseconds: AtomicU64,
}

impl Store {
    /// Opens the folder of an order.
    ///
    /// # Errors
    /// When it holds measurements of other LUNs or sizes.
    pub(crate) fn open(order: &Order, bench: &Bench) -> Result<Self> {
        let luns = bench.words().luns.into_iter().map(|lun| lun.name).collect();
        let identity = Identity { luns, scale: order.scale.name().to_owned() };
        Self::at(order.out.join("runs"), identity)
    }

    fn at(folder: PathBuf, identity: Identity) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("--out: {}", folder.display()))?;
        let path = folder.join("identity.json");
        let is_new = !path.exists();
        if !is_new {
            let found: Identity = serde_json::from_slice(&fs::read(&path)?)
                .with_context(|| format!("{}", path.display()))?;
            if found != identity {
                bail!(
                    "--out: {} has measurements of other LUNs or sizes; choose another folder",
                    folder.display()
                );
            }
        }
        Ok(Self { folder, identity, is_new, milliseconds: AtomicU64::new(0) })
    }

    /// Whether nothing was measured for this folder yet.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Says whose measurements follow.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(crate) fn begin(&self) -> Result<()> {
        let text = serde_json::to_vec_pretty(&self.identity)?;
        Ok(fs::write(self.folder.join("identity.json"), text)?)
    }

    /// Seconds that the kept work took.
    pub(crate) fn seconds(&self) -> f64 {
        self.milliseconds.load(Ordering::Relaxed) as f64 / 1e3
    }

    fn count(&self, seconds: f64) {
        self.milliseconds.fetch_add((seconds * 1e3) as u64, Ordering::Relaxed);
    }

    /// What was kept under a name; if nothing was, does the work and keeps what came of it.
    ///
    /// # Errors
    /// The work's, which is not kept.
    pub(crate) fn kept<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let path = self.folder.join(format!("{}.json", file_name(name)));
        if let Ok(bytes) = fs::read(&path) {
            let kept: Kept<T> =
                serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))?;
            self.count(kept.seconds);
            return Ok(kept.what);
        }
        let started = Instant::now();
        let made = work();
        let seconds = started.elapsed().as_secs_f64();
        self.count(seconds);
        let kept = Kept { seconds, what: made? };
        let temporary = path.with_extension("new");
        fs::write(&temporary, serde_json::to_vec(&kept)?)?;
        fs::rename(temporary, path)?;
        Ok(kept.what)
    }
}

/// Letters and digits; everything else becomes a dash.
fn file_name(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(lun: &str) -> Identity {
        Identity { luns: vec![lun.to_owned()], scale: "tiny".to_owned() }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("validate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn work_is_done_once_and_failures_are_tried_again() {
        let folder = folder("kept");
        let store = Store::at(folder.clone(), identity("a")).expect("a new folder");
        assert!(store.is_new());
        store.begin().expect("it can be written");
        assert!(store.kept::<u32>("Q1-off, 4 MB-0", || bail!("no")).is_err());
        assert_eq!(store.kept("Q1-off, 4 MB-0", || Ok(7)).expect("it works now"), 7);
        let again = Store::at(folder.clone(), identity("a")).expect("the same folder");
        assert!(!again.is_new());
        assert_eq!(again.kept::<u32>("Q1-off, 4 MB-0", || bail!("not again")).expect("kept"), 7);
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn measurements_of_another_lun_are_not_mixed_in() {
        let folder = folder("other");
        Store::at(folder.clone(), identity("a")).and_then(|store| store.begin()).expect("new");
        assert!(Store::at(folder.clone(), identity("b")).is_err());
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
