use clap::{Arg, Command, CommandFactory};

use super::*;

/// What the command lines of releases took, a line for each: a subcommand, or one with a positional
/// argument (`<1>`), an option, or a word that an option takes; `VALUE` follows what takes a value.
const RELEASES: [&str; 1] = [include_str!("tests/0.1.0.txt")];

/// What a line is about, and what it says of it.
struct Line<'a> {
    command: Vec<&'a str>,
    argument: Option<&'a str>,
    word: Option<&'a str>,
    takes_value: bool,
    is_required: bool,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let is_argument = |word: &&str| word.starts_with(['-', '<']);
        let mut words = line.split(' ').skip(1).peekable();
        let mut command = Vec::new();
        while let Some(word) = words.next_if(|word| !is_argument(word)) {
            command.push(word);
        }
        let (argument, word) = match words.next().map(|argument| argument.split_once('=')) {
            Some(Some((argument, word))) => (Some(argument), Some(word)),
            _ => (line.split(' ').find(is_argument), None),
        };
        let says = |word| line.split(' ').any(|found| found == word);
        let (takes_value, is_required) = (says("VALUE"), says("required"));
        Self { command, argument, word, takes_value, is_required }
    }

    /// Why a command line does not take it any more.
    fn misfit(&self, whole: &Command) -> Option<String> {
        let mut command = whole;
        for name in &self.command {
            match command.find_subcommand(name) {
                Some(found) => command = found,
                None => return Some(format!("there is no subcommand {name}")),
            }
        }
        let name = self.argument?;
        let Some(argument) = argument(command, name) else {
            return Some(format!("there is no argument {name}"));
        };
        let values = argument.get_possible_values();
        match self.word {
            Some(word) if !values.iter().any(|value| value.matches(word, false)) => {
                Some(format!("{name} does not take {word}"))
            }
            Some(_) => None,
            None if argument.get_action().takes_values() != self.takes_value => {
                Some(format!("{name} takes a value, or takes none any more"))
            }
            None if argument.is_required_set() && !self.is_required => {
                Some(format!("{name} is required"))
            }
            None => None,
        }
    }
}

/// The argument of a name, an alias or a position.
fn argument<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_it = |argument: &&Arg| match name.strip_prefix("--") {
        Some(long) => {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            argument.get_long() == Some(long) || aliases.contains(&long)
        }
        None => argument.get_index().is_some_and(|index| name == format!("<{index}>")),
    };
    command.get_arguments().find(is_it)
}

/// A finished definition of the command line.
fn built() -> Command {
    let mut command = Arguments::command();
    command.build();
    command
}

#[test]
fn command_lines_of_a_release_are_still_taken() {
    let today = built();
    for release in RELEASES {
        assert!(release.lines().count() > 200);
        let misfit = |line| Some(format!("{line}: {}", Line::parse(line).misfit(&today)?));
        let misfits: Vec<String> = release.lines().filter_map(misfit).collect();
        assert_eq!(misfits, Vec::<String>::new());
    }
}

#[test]
fn nothing_new_is_required_by_a_command_of_a_release() {
    let today = built();
    for release in RELEASES {
        let lines: Vec<Line<'_>> = release.lines().map(Line::parse).collect();
        for line in lines.iter().filter(|line| line.argument.is_none()) {
            let names = line.command.iter();
            let command =
                names.fold(&today, |command, name| command.find_subcommand(name).unwrap());
            let same = lines.iter().filter(|other| other.command == line.command);
            let known: Vec<&Arg> =
                same.filter_map(|other| argument(command, other.argument?)).collect();
            let is_new = |found: &&Arg| !known.iter().any(|known| known.get_id() == found.get_id());
            let required = command.get_arguments().filter(|argument| argument.is_required_set());
            let new: Vec<&Arg> = required.filter(is_new).collect();
            assert!(new.is_empty(), "{:?}: {new:?}", line.command);
        }
    }
}

#[test]
fn a_line_that_is_not_taken_is_told() {
    let today = built();
    for (line, told) in [
        ("gantry pool destroy", "no subcommand destroy"),
        ("gantry pool create --colour VALUE", "no argument --colour"),
        ("gantry volume create --block-size=520", "does not take 520"),
        ("gantry volume create --size", "takes none"),
        ("gantry volume create --size VALUE", "is required"),
        ("gantry volume create <3> VALUE", "no argument <3>"),
    ] {
        let misfit = Line::parse(line).misfit(&today).unwrap_or_default();
        assert!(misfit.contains(told), "{line}: {misfit}");
    }
    assert_eq!(Line::parse("gantry volume create --reserved").misfit(&today), None);
}
