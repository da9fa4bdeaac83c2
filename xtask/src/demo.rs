//! Shows every offload against the same work done by the host.
use anyhow::Result;
use clap::Args;
#[derive(Debug, Args)]
pub(crate) struct Options {}
pub(crate) fn run(_: &Options) -> Result<()> {
    Ok(())
}
