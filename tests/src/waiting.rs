//! Polling with patience: waits until something is so; how long it takes says nothing.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until something is so.
///
/// # Errors
/// When asking fails, or it is not so within a minute.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(begun.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
