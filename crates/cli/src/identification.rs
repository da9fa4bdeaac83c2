//! Subcommands for the vendor and product identification that hosts are told.

use anyhow::Result;
use api::{Identification, Volume};
use reqwest::Method;

use crate::arguments::IdentificationArguments;
use crate::commands::{Invocation, volume_route};
use crate::tables::identification_details;

const ROUTE: &str = "/v1/identification";

impl Invocation {
    pub(crate) fn identification(&self, wanted: &IdentificationArguments) -> Result<()> {
        match wanted.both() {
            None => self.show(&self.client.get(ROUTE)?, identification_details),
            Some(body) => self.changed::<Identification>(Method::PUT, ROUTE, &body, |now| {
                format!("Volumes tell vendor '{}' and product '{}'.", now.vendor, now.product)
            }),
        }
    }

    pub(crate) fn volume_identification(
        &self,
        path: &str,
        wanted: &IdentificationArguments,
    ) -> Result<()> {
        let route = format!("{}/identification", volume_route(path)?);
        match wanted.both() {
            None => self.delete(&route, &format!("Volume {path} tells what the array tells.")),
            Some(body) => self.changed::<Volume>(Method::PUT, &route, &body, |_| {
                format!(
                    "Volume {path} tells vendor '{}' and product '{}'.",
                    body.vendor, body.product
                )
            }),
        }
    }
}

impl IdentificationArguments {
    /// Each option requires the other.
    fn both(&self) -> Option<Identification> {
        let (vendor, product) = self.vendor.clone().zip(self.product.clone())?;
        Some(Identification { vendor, product })
    }
}
