//! Shell completions and manual pages.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;

/// Prints a script that completes words of the command line.
pub(crate) fn print_completions(shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gantry", &mut script);
    terminal::say_part!("{}", String::from_utf8_lossy(&script));
}

/// Writes one page for each subcommand.
pub(crate) fn write_pages(folder: &Path) -> Result<()> {
    let command = Arguments::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("writing manual pages into {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_has_a_manual_page() {
        let folder = std::env::temp_dir().join(format!("gantry-manuals-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        write_pages(&folder).unwrap();
        for page in ["gantry.1", "gantry-pool.1", "gantry-schedule-create.1"] {
            assert!(folder.join(page).exists(), "{page}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_command_line_is_free_of_contradictions() {
        Arguments::command().debug_assert();
    }
}
