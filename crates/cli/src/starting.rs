//! Retry loop for a daemon that is still starting.
//!
//! Who starts a daemon and goes on at once meets no socket, one that nobody listens at, or pools
//! that are still being opened. Who misspelt the directory meets the same, and should learn it soon:
//! the wait is long only if somebody holds the lock of the data directory.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The file in the data directory that a daemon holds from its first moment to its last.
const LOCK_NAME: &str = "gantryd.lock";

/// How long nobody may have opened the data directory.
const UNOPENED: Duration = Duration::from_secs(3);

/// How long whoever has opened it may take until it answers.
const OPENED: Duration = Duration::from_secs(60);

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// After this the user is told what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a daemon may take to start.
pub(crate) struct Patience {
    lock: Option<PathBuf>,
    wanted: Option<Duration>,
}

/// A wait for one answer.
pub(crate) struct Waiting<'a> {
    patience: &'a Patience,
    since: Instant,
    is_told: bool,
}

impl Patience {
    /// For the daemon of a data directory; as long as wanted, in seconds.
    pub(crate) fn new(data: &Path, wanted: Option<u64>) -> Self {
        Self { lock: Some(data.join(LOCK_NAME)), wanted: wanted.map(Duration::from_secs) }
    }

    /// For daemons elsewhere, of which one cannot know whether they start.
    pub(crate) const fn none() -> Self {
        Self { lock: None, wanted: Some(Duration::ZERO) }
    }

    pub(crate) fn begin(&self) -> Waiting<'_> {
        Waiting { patience: self, since: Instant::now(), is_told: false }
    }

    fn most(&self) -> Duration {
        let is_held = || self.lock.as_deref().is_some_and(|lock| is_held(lock, "/proc/locks"));
        self.wanted.unwrap_or_else(|| if is_held() { OPENED } else { UNOPENED })
    }
}

impl Waiting<'_> {
    /// Pauses before another attempt, unless it took too long already.
    pub(crate) fn goes_on(&mut self, place: &str) -> bool {
        let (waited, most) = (self.since.elapsed(), self.patience.most());
        if waited >= most {
            return false;
        }
        if waited >= SILENCE && !self.is_told {
            self.is_told = true;
            let seconds = most.as_secs();
            eprintln!("gantry: waiting up to {seconds} s for the daemon at {place} to start");
        }
        thread::sleep(PAUSE);
        true
    }
}

/// Whether a process has locked a file (flock). Trying the lock would take it from a daemon that
/// starts at the same moment, so the kernel's list of locks is read instead.
fn is_held(path: &Path, locks: &str) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let Ok(list) = fs::read_to_string(locks) else { return false };
    let inode = file.ino().to_string();
    list.lines().any(|line| {
        let mut words = line.split_whitespace();
        // 1: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF
        words.nth(1) == Some("FLOCK")
            && words.nth(3).and_then(|place| place.rsplit(':').next()) == Some(inode.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_the_lock_is_waited_for_longer() {
        let folder = std::env::temp_dir().join(format!("gantry-starting-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let patience = Patience::new(&folder, None);
        assert_eq!(patience.most(), UNOPENED, "there is no lock");
        let lock = fs::File::create(folder.join(LOCK_NAME)).unwrap();
        assert_eq!(patience.most(), UNOPENED, "nobody holds it");
        lock.lock().unwrap();
        assert_eq!(patience.most(), OPENED);
        assert_eq!(Patience::new(&folder, Some(7)).most(), Duration::from_secs(7));
        assert_eq!(Patience::none().most(), Duration::ZERO);
        fs::remove_dir_all(folder).unwrap();
    }
}
