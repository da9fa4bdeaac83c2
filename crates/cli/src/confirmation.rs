//! Confirmation prompts before something is lost for good.

use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, Result, bail};
use clap::Args;

/// Whether to ask.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Confirmation {
    /// Do not ask. Nothing is asked either if the standard input is no terminal.
    #[arg(long, short)]
    yes: bool,
}

impl Confirmation {
    /// Asks on the terminal, unless it was told not to or there is none.
    ///
    /// # Errors
    /// When the answer is not yes.
    pub(crate) fn ask(self, question: &str) -> Result<()> {
        if self.yes || !io::stdin().is_terminal() {
            return Ok(());
        }
        terminal::complain!("{question} [y/N] ");
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
        if is_yes(&answer) {
            return Ok(());
        }
        bail!("nothing was changed")
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (answer, expected) in
            [("y\n", true), ("YES", true), ("", false), ("\n", false), ("no", false), ("yy", false)]
        {
            assert_eq!(is_yes(answer), expected, "{answer}");
        }
    }
}
