//! Command tree of `esxcli`: what each command and its options are called, parsing, and `--help` at
//! every level.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};

use super::output::Output;
use crate::esxi::state::Host;

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Text,
    Number,
    Truth,
}

/// An option of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opt {
    short: &'static str,
    long: &'static str,
    kind: Kind,
    is_required: bool,
    does: &'static str,
}

/// An option without a value.
pub(super) const fn switch(short: &'static str, long: &'static str, does: &'static str) -> Opt {
    Opt { short, long, kind: Kind::Switch, is_required: false, does }
}

/// An option with text.
pub(super) const fn text(short: &'static str, long: &'static str, does: &'static str) -> Opt {
    Opt { short, long, kind: Kind::Text, is_required: false, does }
}

/// An option with a number.
pub(super) const fn number(short: &'static str, long: &'static str, does: &'static str) -> Opt {
    Opt { short, long, kind: Kind::Number, is_required: false, does }
}

/// An option with true or false.
pub(super) const fn truth(short: &'static str, long: &'static str, does: &'static str) -> Opt {
    Opt { short, long, kind: Kind::Truth, is_required: false, does }
}

impl Opt {
    /// The same option; a command without it is refused.
    pub(super) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    fn names(&self) -> String {
        format!("{}|--{}", self.short, self.long)
    }
}

/// A command: the last of its words is what it does, those before are namespaces.
pub(super) struct Word {
    pub(super) path: &'static str,
    pub(super) does: &'static str,
    pub(super) options: &'static [Opt],
    pub(super) run: fn(&mut Host, &Options) -> Result<Output>,
}

/// Options of a command as they were given, by their long names.
#[derive(Debug, Default)]
pub(super) struct Options(Vec<(&'static str, String)>);

impl Options {
    /// Parses `-o X`, `-o=X`, `--option X` and `--option=X`.
    fn parse(word: &Word, words: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(given) = words.next() {
            ensure!(given.starts_with('-'), "Error: Unknown command or argument {given}");
            let (name, value) = match given.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (given.as_str(), None),
            };
            let known = word.options.iter().find(|option| {
                option.short == name || name.strip_prefix("--") == Some(option.long)
            });
            let option = known.with_context(|| format!("Error: Invalid option {name}"))?;
            let value = match (option.kind, value) {
                (Kind::Switch, None) => String::new(),
                (Kind::Switch, Some(_)) => bail!("Error: {} takes no value", option.names()),
                (_, Some(value)) => value,
                (_, None) => words.next().with_context(|| format!("{name}: no value"))?.clone(),
            };
            option.check(&value)?;
            options.0.push((option.long, value));
        }
        for option in word.options.iter().filter(|option| option.is_required) {
            let given = options.get(option.long).is_some();
            ensure!(given, "Error: Missing required parameter {}", option.names());
        }
        Ok(options)
    }

    /// The first value of an option.
    pub(super) fn get(&self, long: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == long).map(|(_, value)| value.as_str())
    }

    /// A value that must be there.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn need(&self, long: &str) -> Result<&str> {
        self.get(long).with_context(|| format!("Error: Missing required parameter --{long}"))
    }

    /// Whether an option is given.
    pub(super) fn has(&self, long: &str) -> bool {
        self.get(long).is_some()
    }

    /// The value of an option for numbers, which is one: the parser looked.
    pub(super) fn number(&self, long: &str) -> Option<u64> {
        self.get(long).and_then(|value| value.parse().ok())
    }

    /// The value of an option for true and false.
    pub(super) fn truth(&self, long: &str) -> Option<bool> {
        self.get(long).and_then(parse_truth)
    }
}

fn parse_truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

impl Opt {
    fn check(&self, value: &str) -> Result<()> {
        let names = self.names();
        match self.kind {
            Kind::Switch | Kind::Text => Ok(()),
            Kind::Number => {
                ensure!(value.parse::<u64>().is_ok(), "Error: {names} {value} is not a number");
                Ok(())
            }
            Kind::Truth => {
                ensure!(parse_truth(value).is_some(), "Error: {names} {value} is not a boolean");
                Ok(())
            }
        }
    }
}

/// What the words before the options name.
pub(super) enum Found {
    /// A command and its options.
    Command(&'static Word, Options),
    /// Help, to be printed.
    Help(String),
}

fn is_help(word: &str) -> bool {
    matches!(word, "--help" | "-h" | "-?")
}

/// Finds what is asked for; a namespace without a command asks for its help.
///
/// # Errors
/// Unknown words and options.
pub(super) fn find(
    tree: &'static [Word],
    namespaces: &[(&str, &str)],
    words: &[String],
) -> Result<Found> {
    let count = words.iter().take_while(|word| !word.starts_with('-')).count();
    let (path, rest) = words.split_at(count);
    let path = path.join(" ");
    let asks = rest.iter().any(|word| is_help(word));
    if let Some(word) = tree.iter().find(|word| word.path == path) {
        return Ok(if asks {
            Found::Help(command_help(word))
        } else {
            Found::Command(word, Options::parse(word, rest)?)
        });
    }
    let known = path.is_empty() || namespaces.iter().any(|(name, _)| *name == path);
    ensure!(known, "Error: Unknown command or namespace {path}");
    if let Some(other) = rest.iter().find(|word| !is_help(word)) {
        bail!("Error: Invalid option {other}");
    }
    Ok(Found::Help(namespace_help(tree, namespaces, &path)))
}

/// The next word below a namespace of a longer path.
fn below<'a>(path: &'a str, namespace: &str) -> Option<(&'a str, bool)> {
    let rest = match namespace {
        "" => path,
        _ => path.strip_prefix(namespace)?.strip_prefix(' ')?,
    };
    Some(rest.split_once(' ').map_or((rest, true), |(first, _)| (first, false)))
}

fn line(out: &mut String, name: &str, does: &str) {
    let _ = writeln!(out, "  {name:<20}  {does}");
}

fn namespace_help(tree: &[Word], namespaces: &[(&str, &str)], namespace: &str) -> String {
    let mut out = match namespace {
        "" => "Usage: esxcli [options] {namespace}+ {cmd} [cmd options]\n\nOptions:\n".to_owned(),
        _ => format!("Usage: esxcli {namespace} {{cmd}} [cmd options]\n"),
    };
    if namespace.is_empty() {
        line(&mut out, "--formatter=NAME", "Print for programs: csv, json or xml.");
        line(&mut out, "-?|-h|--help", "Print what there is at this level.");
    }
    let under: BTreeSet<&str> = tree
        .iter()
        .filter_map(|word| below(word.path, namespace))
        .filter_map(|(name, is_last)| (!is_last).then_some(name))
        .collect();
    if !under.is_empty() {
        out += "\nAvailable Namespaces:\n";
    }
    for name in under {
        let path = format!("{namespace} {name}");
        let does = namespaces.iter().find(|(known, _)| *known == path.trim_start());
        line(&mut out, name, does.map_or("", |(_, does)| does));
    }
    let commands: Vec<_> = tree
        .iter()
        .filter_map(|word| Some((below(word.path, namespace)?, word.does)))
        .filter(|((_, is_last), _)| *is_last)
        .collect();
    if !commands.is_empty() {
        out += "\nAvailable Commands:\n";
    }
    commands.into_iter().for_each(|((name, _), does)| line(&mut out, name, does));
    out
}

fn command_help(word: &Word) -> String {
    let name = word.path.rsplit(' ').next().unwrap_or(word.path);
    let mut out = format!("Usage: esxcli {} [cmd options]\n\nDescription:\n", word.path);
    line(&mut out, name, word.does);
    if !word.options.is_empty() {
        out += "\nCmd options:\n";
    }
    for option in word.options {
        let kind = match option.kind {
            Kind::Switch => "",
            Kind::Text => "=<str>",
            Kind::Number => "=<long>",
            Kind::Truth => "=<bool>",
        };
        let required = if option.is_required { " (required)" } else { "" };
        let _ = writeln!(out, "  {}{kind}", option.names());
        let _ = writeln!(out, "  {:<20}  {}{required}", "", option.does);
    }
    out
}

/// A command with its options, on one line.
pub(super) fn usage(word: &Word) -> String {
    let mut out = word.path.to_owned();
    for option in word.options {
        let value = match option.kind {
            Kind::Switch => "",
            Kind::Text => " TEXT",
            Kind::Number => " N",
            Kind::Truth => " true|false",
        };
        let _ = if option.is_required {
            write!(out, " {}{value}", option.short)
        } else {
            write!(out, " [{}{value}]", option.short)
        };
    }
    out
}
