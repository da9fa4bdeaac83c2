//! The reference page of `gantry-host`, from what the program itself knows.

use std::fmt::Write;

use clap::{Arg, Command};
use host::esxi::esxcli;
use host::esxi::mover::Fallback;
use host::esxi::scsidevs;
use host::esxi::settings::ADVANCED;
use host::esxi::vmkfstools;

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn argument(argument: &Arg) -> String {
    let value = argument.get_value_names().map(|names| format!(" {}", names.join(" ")));
    let value = value.filter(|_| argument.get_action().takes_values()).unwrap_or_default();
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        _ => value.trim().to_owned(),
    }
}

fn describe(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    if !text.is_empty() && !text.ends_with('.') {
        text.push('.');
    }
    let possible = argument.get_possible_values();
    if argument.get_action().takes_values() && !possible.is_empty() {
        let names: Vec<&str> = possible.iter().map(|value| value.get_name()).collect();
        let _ = write!(text, " One of: {}.", names.join(", "));
    }
    let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.filter(|value| value.len() < 12).collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " Default: {}.", defaults.join(", "));
    }
    cell(text.trim())
}

fn command(out: &mut String, path: &str, command: &Command) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let path = format!("{path} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(out, "### `{path}`\n\n{about}.\n");
    let own = |argument: &&Arg| !argument.is_global_set() && argument.get_id() != "help";
    let arguments: Vec<&Arg> = command.get_arguments().filter(own).collect();
    if !arguments.is_empty() {
        let _ = writeln!(out, "| argument | meaning |\n|---|---|");
        for known in arguments {
            let _ = writeln!(out, "| `{}` | {} |", cell(&argument(known)), describe(known));
        }
        let _ = writeln!(out);
    }
    command.get_subcommands().for_each(|sub| self::command(out, &path, sub));
}

fn table(out: &mut String, heads: [&str; 2], rows: &[(String, String)]) {
    let _ = writeln!(out, "| {} | {} |\n|---|---|", heads[0], heads[1]);
    for (first, second) in rows {
        let _ = writeln!(out, "| {} | {} |", cell(first), cell(second));
    }
    let _ = writeln!(out);
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(first, second)| (format!("`{first}`"), (*second).to_owned())).collect()
}

/// The page.
pub(crate) fn page(root: &Command) -> String {
    let mut out = String::from(
        "# gantry-host\n\nWritten by `cargo xtask docs`. What the subcommands are for: \
         [host-kit.md](../host-kit.md).\n\n## Subcommands\n\n",
    );
    let globals: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    let _ = writeln!(out, "| before or behind every word | meaning |\n|---|---|");
    for known in globals {
        let _ = writeln!(out, "| `{}` | {} |", argument(known), describe(known));
    }
    let _ = writeln!(out);
    root.get_subcommands().for_each(|sub| command(&mut out, "gantry-host", sub));
    let _ = writeln!(out, "## Subcommands of `esxcli`\n");
    let _ = writeln!(
        out,
        "`--help` shows what there is at each level; `--formatter=csv`, `json` or `xml` before the \
         subcommand prints for programs. What is in brackets may be left out.\n"
    );
    let words = esxcli::subcommands().map(|(words, does)| (format!("`{words}`"), does.to_owned()));
    table(&mut out, ["subcommand", "what it does"], &words.collect::<Vec<_>>());
    let _ = writeln!(out, "## Options of `esxcfg-scsidevs`\n");
    table(&mut out, ["option", "what it lists"], &pairs(&scsidevs::OPTIONS));
    let _ = writeln!(out, "## Options of `vmkfstools`\n");
    table(&mut out, ["option", "what it does"], &pairs(&vmkfstools::OPTIONS));
    let _ = writeln!(
        out,
        "## Settings\n\nFor `esxcli system settings advanced` and `esxcfg-advcfg`.\n"
    );
    let settings = ADVANCED.iter().map(|setting| {
        let range = format!("{}, {} to {}", setting.default, setting.min, setting.max);
        (format!("`{}`", setting.path), format!("{} (default {range})", setting.description))
    });
    table(&mut out, ["path", "meaning"], &settings.collect::<Vec<_>>());
    let _ = writeln!(
        out,
        "## Why a clone is not offloaded\n\nThe first reason that applies is the one that is told.\n"
    );
    for reason in Fallback::ALL {
        let _ = writeln!(out, "- {reason}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_vmkfstools_names_every_option() {
        let root = <crate::Arguments as clap::CommandFactory>::command();
        let found = root.find_subcommand("vmkfstools").and_then(Command::get_about);
        let about = found.expect("it says what it is").to_string();
        let named: Vec<&str> = about.split([' ', ',', '.']).collect();
        let letters = vmkfstools::OPTIONS.iter().filter_map(|(option, _)| option.get(..2));
        for letter in letters.filter(|letter| *letter != "--") {
            assert!(named.contains(&letter), "{letter} is not in '{about}'");
        }
    }
}
