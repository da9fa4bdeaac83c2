//! Deliberate mistakes stay out of the product: no room but those of the simulator names them, and the
//! engine has no feature that could switch one on.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::workspace;

/// The rooms that make, hunt and name mistakes; nothing of them is in the product.
const SET_APART: [&str; 3] = ["crates/mutants/", "crates/hunt/", "crates/sim/"];

/// What a mistake was, or would be, named by.
const NAMES: [&str; 5] = ["PlantedBug", "planted!", "planted-bugs", "mutants", "mod bugs"];

/// Where the engine could have a feature.
const MANIFEST: &str = "crates/store/Cargo.toml";

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut paths = workspace::sources("rs")?;
    paths.extend(workspace::sources("toml")?);
    for path in paths.iter().filter(|path| is_product(path)) {
        let text = fs::read_to_string(workspace::root().join(path))?;
        let finding = |name| format!("{}: names `{name}`", path.display());
        findings.extend(named(&text).map(finding));
        if path.to_string_lossy() == MANIFEST && text.contains("[features]") {
            findings.push(format!("{MANIFEST}: the engine has no features"));
        }
    }
    Ok(findings)
}

fn is_product(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.starts_with("crates/") && !SET_APART.iter().any(|folder| text.starts_with(folder))
}

fn named(text: &str) -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| text.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_the_product_is_found() {
        let source = "if planted!(pool.bugs, SingleSuperblock) { 0 } else { 1 }";
        assert_eq!(named(source).collect::<Vec<_>>(), ["planted!"]);
        assert_eq!(named("let slot = generation % 2;").count(), 0);
    }

    #[test]
    fn rooms_of_the_simulator_are_not_the_product() {
        assert!(is_product(Path::new("crates/store/src/checkpoint.rs")));
        assert!(!is_product(Path::new("crates/sim/src/planted.rs")));
        assert!(!is_product(Path::new("xtask/src/check/mistakes.rs")));
    }
}
