//! Help at every level of `esxcli`, and that its tables agree with each other.

use super::words::{Found, find};
use super::{NAMESPACES, TREE, formatter};
use crate::esxi::esxcli::output::Format;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn help(text: &str) -> String {
    match find(&TREE, &NAMESPACES, &words(text)) {
        Ok(Found::Help(help)) => help,
        Ok(Found::Command(word, _)) => panic!("{text} is {}", word.path),
        Err(error) => panic!("{text}: {error}"),
    }
}

#[test]
fn every_level_has_help_and_every_namespace_a_line() {
    let mut levels = std::collections::BTreeSet::new();
    for word in &TREE {
        let parts: Vec<&str> = word.path.split(' ').collect();
        (1..parts.len()).for_each(|count| {
            levels.insert(parts[..count].join(" "));
        });
        assert!(help(&format!("{} --help", word.path)).contains(word.does));
    }
    let known: Vec<&str> = NAMESPACES.iter().map(|(name, _)| *name).collect();
    assert_eq!(levels.iter().map(String::as_str).collect::<Vec<_>>(), known);
    for level in &levels {
        assert_eq!(help(level), help(&format!("{level} --help")));
        assert!(help(level).starts_with(&format!("Usage: esxcli {level} {{cmd}} [cmd options]\n")));
    }
    assert!(TREE.is_sorted_by_key(|word| word.path));
}

#[test]
fn help_lists_what_is_below() {
    assert_eq!(
        help("storage vmfs"),
        "Usage: esxcli storage vmfs {cmd} [cmd options]\n\nAvailable Namespaces:\n\
         \x20 extent                Devices of volumes.\n\
         \x20 lockmode              How volumes lock.\n\nAvailable Commands:\n\
         \x20 unmap                 Gives the free blocks of a volume back to the array.\n"
    );
    let top = help("");
    for part in ["{namespace}+ {cmd}", "  iscsi  ", "  storage  ", "  vm  ", "--formatter"] {
        assert!(top.contains(part), "{part} in {top}");
    }
    let set = help("iscsi software set --help");
    assert!(set.contains("  -e|--enabled=<bool>\n"), "{set}");
}

#[test]
fn options_are_understood_in_all_their_forms_and_wrong_ones_refused() {
    for text in ["-d naa.1", "-d=naa.1", "--device naa.1", "--device=naa.1"] {
        match find(&TREE, &NAMESPACES, &words(&format!("storage core path list {text}"))) {
            Ok(Found::Command(_, options)) => assert_eq!(options.get("device"), Some("naa.1")),
            _ => panic!("{text}"),
        }
    }
    for text in [
        "storage core path list -x naa.1",
        "storage core path list naa.1 -d naa.1",
        "storage core path list -d",
        "storage core path",
        "storage core nothing",
        "storage --device=naa.1",
        "iscsi software set",
        "iscsi software set -e maybe",
        "system settings advanced list --delta=1",
        "storage vmfs unmap -n many -l a",
    ] {
        let found = find(&TREE, &NAMESPACES, &words(text));
        assert!(!matches!(found, Ok(Found::Command(..))), "{text}");
        assert_eq!(found.is_ok(), text == "storage core path", "{text}");
    }
}

#[test]
fn the_formatter_stands_before_the_words() {
    for (text, format, rest) in [
        ("--formatter=csv iscsi software get", Format::Csv, 3),
        ("--formatter xml vm", Format::Xml, 1),
        ("--formatter=json", Format::Json, 0),
        ("vm process list", Format::People, 3),
        ("", Format::People, 0),
    ] {
        let words = words(text);
        let (found, left) = formatter(&words).unwrap();
        assert_eq!((found, left.len()), (format, rest), "{text}");
    }
    assert!(formatter(&words("--formatter=html vm")).is_err());
}
