//! Import check between the folders of a large room that is one crate.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::workspace;

/// A room's sources, and its folders: each may use itself and those above it.
const LAYERS: [(&str, &[&str]); 1] = [("crates/host/src/", &["initiator", "esxi", "validate"])];

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in workspace::sources("rs")? {
        if let Some(above) = layers_above(&path) {
            let text = fs::read_to_string(workspace::root().join(&path))?;
            let place = |(line, layer)| {
                format!("{}:{line}: may not use the folder {layer}", path.display())
            };
            findings.extend(uses_of(&text, above).into_iter().map(place));
        }
    }
    Ok(findings)
}

/// The folders that a file may not use; `None` for a file in none of them.
fn layers_above(path: &Path) -> Option<&'static [&'static str]> {
    LAYERS.iter().find_map(|(sources, layers)| {
        let inner = path.to_str()?.strip_prefix(sources)?;
        let folder = inner.split(['/', '.']).next()?;
        let own = layers.iter().position(|layer| *layer == folder)?;
        layers.get(own + 1..)
    })
}

fn uses_of(text: &str, layers: &'static [&'static str]) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let uses = |layer: &&&str| line.contains(&format!("crate::{layer}"));
        found.extend(layers.iter().filter(uses).map(|layer| (number, *layer)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_may_use_itself_and_those_before_it() {
        let above = |path| layers_above(Path::new(path));
        assert_eq!(above("crates/host/src/initiator/cdb.rs"), Some(&["esxi", "validate"][..]));
        assert_eq!(above("crates/host/src/esxi.rs"), Some(&["validate"][..]));
        assert_eq!(above("crates/host/src/validate/model.rs"), Some(&[][..]));
        assert_eq!(above("crates/host/src/main.rs"), None);
        assert_eq!(above("crates/store/src/map.rs"), None);
    }

    #[test]
    fn a_use_of_a_later_folder_is_found_with_its_line() {
        let text = "use crate::initiator::cdb;\nfn a() { crate::validate::run() }\n";
        assert_eq!(uses_of(text, &["validate"]), [(2, "validate")]);
        assert!(uses_of(text, &["esxi"]).is_empty());
    }
}
