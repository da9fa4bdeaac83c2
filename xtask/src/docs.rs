//! Generated pages: written by `cargo xtask docs`, compared by `cargo xtask check`.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::{process, test, workspace};

const SCSI_REFERENCE: &str = "docs/reference/scsi.md";

/// A page, and the program that prints it when it gets an argument.
struct Page {
    path: &'static str,
    program: &'static str,
    argument: &'static str,
}

const PAGES: [Page; 2] = [
    Page { path: SCSI_REFERENCE, program: "gantryd", argument: "--print-scsi-reference" },
    Page {
        path: "docs/reference/gantry-host.md",
        program: "gantry-host",
        argument: "print-reference",
    },
];

/// Writes every generated page.
pub(crate) fn write() -> Result<()> {
    test::build_for_tests()?;
    for page in &PAGES {
        let path = workspace::root().join(page.path);
        let folder = path.parent().expect("a page lies in a folder");
        fs::create_dir_all(folder)?;
        fs::write(&path, page.print()?).with_context(|| format!("writing {}", page.path))?;
        terminal::progress!("docs: wrote {}\n", page.path);
    }
    Ok(())
}

/// Fails when a page differs from what the code says now.
pub(crate) fn compare() -> Result<()> {
    test::build_for_tests()?;
    for page in &PAGES {
        let committed = fs::read_to_string(workspace::root().join(page.path)).unwrap_or_default();
        if committed != page.print()? {
            bail!("{} is not current: run 'cargo xtask docs' and commit it", page.path);
        }
        check_tests(page.path, &committed)?;
    }
    Ok(())
}

/// Fails when a page names a test that does not exist: `FILE: TEST`.
fn check_tests(name: &str, page: &str) -> Result<()> {
    let named = page.split('`').filter_map(|text| text.split_once(": "));
    for (file, test) in named.filter(|(file, _)| !file.contains([' ', '|'])) {
        let path = match file.strip_prefix("scsi/") {
            Some(file) => format!("crates/scsi/src/tests/{file}.rs"),
            None => format!("tests/tests/{file}.rs"),
        };
        let source = fs::read_to_string(workspace::root().join(&path)).unwrap_or_default();
        if !source.contains(&format!("fn {test}(")) {
            bail!("{name} names a test that is not in {path}: {test}");
        }
    }
    Ok(())
}

impl Page {
    /// By the programs that are built with the tests.
    fn print(&self) -> Result<String> {
        let program = test::tested_folder().join(self.program);
        process::output(&program.display().to_string(), &[self.argument])
    }
}
