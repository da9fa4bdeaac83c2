//! Route of changed blocks: asks a pool to compare two snapshots, and describes the difference.

use api::{CHANGES_MAX, ChangedExtent, ExtentState, Problem, SnapshotChanges};
use block::{MapExtent, MapState};
use store::{Comparison, Difference, Failure, Outcome};

use super::describe::hexadecimal;
use super::problems::{bad_request, failed, gone, internal};
use super::{Management, Parameters, PoolStep, Progress};
use crate::data_plane::DataPlane;
use crate::described::Described;

/// Extents of an answer to who names no limit.
const EXTENTS_DEFAULT: u64 = 1000;

/// What somebody asked for: the answer without what the pool says.
pub(super) struct Asked(SnapshotChanges);

impl Management {
    /// Asks what differs between two snapshots, or what one holds.
    pub(super) fn compare_snapshots(
        &self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (pool_name, name) = parameters.snapshot();
        let offset = number(parameters, "offset", 0)?;
        let limit = number(parameters, "limit", EXTENTS_DEFAULT)?;
        if !(1..=CHANGES_MAX).contains(&limit) {
            let detail = format!("'limit' is a number of extents from 1 to {CHANGES_MAX}");
            return Err(bad_request(&detail));
        }
        let base_name = parameters.0.get("base");
        let (pool, target) = self.find(plane, "snapshot", (pool_name, name))?;
        let base =
            base_name.map(|base| self.find(plane, "snapshot", (pool_name, base))).transpose()?;
        let naa = |id| {
            let volume = plane.volume((pool, id)).map(|(_, volume)| volume);
            volume.map(|volume| format!("naa.{}", hexadecimal(&volume.spec.naa))).ok_or_else(gone)
        };
        let asked = SnapshotChanges {
            pool: pool_name.to_owned(),
            snapshot: name.to_owned(),
            naa: naa(target)?,
            base: base_name.cloned(),
            base_naa: base.map(|(_, id)| naa(id)).transpose()?,
            size_bytes: plane.volume((pool, target)).ok_or_else(gone)?.1.spec.size_bytes,
            offset,
            extents: Vec::new(),
            next_offset: None,
            map_pages: 0,
        };
        let base = base.map(|(_, id)| id);
        let comparison = Comparison { base, target, from: offset, extents_max: limit as usize };
        let ticket = plane.compare(pool, comparison).ok_or_else(gone)?;
        Ok(Progress::Wait(ticket, PoolStep::Compare { pool, asked: Box::new(Asked(asked)) }))
    }
}

/// A number of the query.
fn number(parameters: &Parameters, name: &str, default: u64) -> Result<u64, Problem> {
    let Some(text) = parameters.0.get(name) else { return Ok(default) };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| bad_request(&format!("'{name}' is a whole number, not '{text}'")))
}

/// Describes what the pool answered.
pub(super) fn compared(
    asked: Asked,
    result: Result<Outcome, Failure>,
) -> Result<Progress, Problem> {
    let difference = match result.map_err(|failure| failed(&failure))? {
        Outcome::Difference(difference) => difference,
        Outcome::Response(_) | Outcome::Changed => {
            return Err(internal(&"the pool answered something else"));
        }
    };
    Ok(Progress::Answer(Ok(Described::later(move || describe(asked, &difference)))))
}

fn describe(Asked(asked): Asked, difference: &Difference) -> SnapshotChanges {
    SnapshotChanges {
        extents: difference.extents.iter().map(describe_extent).collect(),
        next_offset: difference.next,
        map_pages: difference.pages,
        ..asked
    }
}

fn describe_extent(extent: &MapExtent) -> ChangedExtent {
    ChangedExtent {
        offset: extent.range.offset,
        length: extent.range.length,
        state: match extent.state {
            MapState::Mapped => ExtentState::Data,
            MapState::Deallocated | MapState::Anchored => ExtentState::Zero,
        },
    }
}
