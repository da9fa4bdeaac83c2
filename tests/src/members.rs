//! Members of mirrors as an administrator sees them, and scrubs that are waited for.

use anyhow::{Context, Result, bail, ensure};

use crate::waiting::wait_until;
use crate::{Array, Value, number, text};

/// All members of a pool as `pool show` tells of them.
///
/// # Errors
/// When the daemon does not answer.
pub fn members(array: &Array, pool: &str) -> Result<Vec<Value>> {
    let pool = array.gantry_json(&["pool", "show", pool])?;
    let mirrors = pool["mirrors"].as_array().context("mirrors")?;
    let members = mirrors.iter().map(|mirror| mirror["members"].as_array());
    Ok(members.flatten().flatten().cloned().collect())
}

/// The state of a member whose device has a name that ends so; `None` if there is none.
///
/// # Errors
/// When the daemon does not answer.
pub fn state_of(array: &Array, pool: &str, device: &str) -> Result<Option<String>> {
    let members = members(array, pool)?;
    let ends = |member: &&Value| text(member, "/device").is_ok_and(|name| name.ends_with(device));
    members.iter().find(ends).map(|member| Ok(text(member, "/state")?.to_owned())).transpose()
}

/// Blocks that were healed on any member since the pool was opened.
///
/// # Errors
/// When the daemon does not answer.
pub fn healed(array: &Array, pool: &str) -> Result<u64> {
    members(array, pool)?.iter().map(|member| number(member, "/healed_blocks")).sum()
}

/// Scrubs a pool from the beginning to the end.
///
/// # Errors
/// When that is refused, or takes too long.
pub fn scrub(array: &Array, pool: &str) -> Result<Value> {
    // One that is under way has gone by some places already.
    array.try_gantry(&["scrub", "stop", pool])?;
    array.gantry(&["scrub", "start", pool])?;
    let mut last = Value::Null;
    wait_until("a scrub ends", || {
        last = array.gantry_json(&["scrub", "show", pool])?;
        Ok(last["running"] == false)
    })?;
    ensure!(last["complete"] == true, "{last}");
    Ok(last)
}

/// Scrubs a pool until a scrub finds nothing, so many times at most; none may leave anything bad.
/// Returns how many blocks were healed. Beside hosts that copy, references to a block can move behind
/// a scrub, so that only the next one finds it.
///
/// # Errors
/// When it is not so.
pub fn scrub_until_clean(array: &Array, pool: &str, most: u32) -> Result<u64> {
    let before = healed(array, pool)?;
    let mut last = before;
    for _ in 0..most {
        let scrub = scrub(array, pool)?;
        ensure!(number(&scrub, "/bad_blocks")? == 0, "bad blocks are left: {scrub}");
        let now = healed(array, pool)?;
        if now == last && number(&scrub, "/bad_pages")? == 0 {
            return Ok(last - before);
        }
        last = now;
    }
    bail!("{most} scrubs, and each has found something")
}
