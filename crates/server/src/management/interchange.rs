//! The route of configuration import; `control` takes the file.

use api::Problem;
use control::import::Import;

use super::hosts::fold_initiator;
use super::problems::bad_request;
use super::{Management, Parameters, Progress};
use crate::data_plane::DataPlane;

impl Management {
    pub(super) fn import(
        &mut self,
        plane: &DataPlane,
        parameters: &Parameters,
        file: api::Configuration,
    ) -> Result<Progress, Problem> {
        let dry_run = flag(parameters, "dry_run")?;
        file.portals.iter().try_for_each(|portal| self.check_group(portal))?;
        let import = Import::new(file, dry_run, fold_initiator)?;
        if dry_run { self.try_out(plane, &import) } else { self.make(plane, &import) }
    }
}

/// A yes or no in a request's query; no when left out.
pub(super) fn flag(parameters: &Parameters, name: &str) -> Result<bool, Problem> {
    match parameters.get(name) {
        "" | "false" => Ok(false),
        "true" => Ok(true),
        _ => Err(bad_request(&format!("{name} is true or false"))),
    }
}
