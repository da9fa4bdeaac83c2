use clap::{Arg, CommandFactory};

use super::*;

/// What the daemons of releases took, a line for each: an option, or a word that an option takes;
/// `VALUE` follows one that takes a value.
const RELEASES: [&str; 1] = [include_str!("tests/0.1.0.txt")];

/// Why a line of a release is not taken any more.
fn misfit(line: &str) -> Option<String> {
    let command = Options::command();
    let said = line.split(' ').nth(1).unwrap();
    let (name, word) = said.split_once('=').map_or((said, None), |(name, word)| (name, Some(word)));
    let long = name.trim_start_matches('-');
    let is_it = |argument: &&Arg| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long() == Some(long) || aliases.contains(&long)
    };
    let Some(argument) = command.get_arguments().find(is_it) else {
        return Some(format!("there is no {name}"));
    };
    let values = argument.get_possible_values();
    match word {
        Some(word) if values.iter().any(|value| value.matches(word, false)) => None,
        Some(word) => Some(format!("{name} does not take {word}")),
        None if argument.get_action().takes_values() == line.ends_with(" VALUE") => None,
        None => Some(format!("{name} takes a value, or takes none any more")),
    }
}

#[test]
fn options_of_a_release_are_still_taken() {
    for release in RELEASES {
        let misfits: Vec<String> = release.lines().filter_map(misfit).collect();
        assert_eq!(misfits, Vec::<String>::new());
        assert!(release.lines().count() > 30);
    }
}

#[test]
fn no_option_is_required_that_a_release_did_not_have() {
    let required = |argument: &&Arg| argument.is_required_set();
    let command = Options::command();
    let names: Vec<&str> =
        command.get_arguments().filter(required).filter_map(Arg::get_long).collect();
    assert!(names.iter().all(|name| *name == "data"), "{names:?}");
}

#[test]
fn an_option_that_is_not_taken_is_told() {
    for (line, told) in [
        ("gantryd --colour VALUE", "there is no --colour"),
        ("gantryd --io=aio", "does not take aio"),
        ("gantryd --data", "takes a value"),
    ] {
        assert!(misfit(line).unwrap_or_default().contains(told), "{line}");
    }
}

#[test]
fn a_log_goes_only_where_it_is_understood() {
    for (words, is_right) in [
        ("--log text", true),
        ("--log journald", true),
        ("--log journald --log-address unix:/run/a", true),
        ("--log syslog --log-address udp:192.0.2.1:514", true),
        ("--log journald --log-address udp:192.0.2.1:514", false),
        ("--log json --log-address unix:/dev/log", false),
        ("--log-address unix:/dev/log", false),
    ] {
        let line = format!("gantryd --data d {words}");
        let options = Options::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(options.check_log().is_ok(), is_right, "{words}");
    }
}

#[test]
fn memory_is_read_as_people_write_it_and_has_a_least_size() {
    assert_eq!(parse_memory("2G"), Ok(2 << 30));
    assert_eq!(parse_memory("256m"), Ok(256 << 20));
    for text in ["", "G", "2", "255M", "-1G", "99999999999T", "1.5G"] {
        assert!(parse_memory(text).is_err(), "{text}");
    }
}
