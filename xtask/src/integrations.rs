//! Integrations with platforms: each one's own checks and test suites, against built binaries.

mod ansible;
mod cinder;
mod conformance;
mod forklift;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::{process, workspace};

/// What has a suite of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Platform {
    GoClient,
    Kubernetes,
    Proxmox,
    Ansible,
    Cinder,
    Terraform,
    Forklift,
    /// The same life of a volume through each of them.
    Conformance,
}

impl Platform {
    /// As it is named in the summary.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GoClient => "go client",
            Self::Kubernetes => "kubernetes",
            Self::Proxmox => "proxmox",
            Self::Ansible => "ansible",
            Self::Cinder => "cinder",
            Self::Terraform => "terraform",
            Self::Forklift => "forklift",
            Self::Conformance => "conformance",
        }
    }

    /// Runs its suite.
    pub(crate) fn test(self, binaries: &Path) -> Result<()> {
        match self {
            Self::GoClient => go_client(binaries),
            Self::Kubernetes => kubernetes(binaries),
            Self::Proxmox => proxmox(binaries),
            Self::Ansible => ansible::test(binaries),
            Self::Cinder => cinder::test(binaries),
            Self::Terraform => terraform(binaries),
            Self::Forklift => forklift::test(binaries),
            Self::Conformance => conformance::test(binaries),
        }
    }
}

/// The client of the REST interface that the other modules in Go share: formatting and vet. Its tests
/// are theirs.
fn go_client(binaries: &Path) -> Result<()> {
    go_module("integrations/go", &only(binaries))
}

/// The Kubernetes CSI driver: formatting, vet, unit tests, csi-sanity and the stress test, each with a
/// gantryd of its own.
fn kubernetes(binaries: &Path) -> Result<()> {
    go_module("integrations/kubernetes", &only(binaries))
}

/// The Terraform provider: formatting, vet, and the real terraform against a gantryd for each test.
fn terraform(binaries: &Path) -> Result<()> {
    go_module("integrations/terraform", &only(binaries))
}

/// Tells a suite where the binaries are.
fn only(binaries: &Path) -> [(&'static str, &OsStr); 1] {
    [("GANTRY_BIN_DIR", binaries.as_os_str())]
}

/// Checks and tests a module. Go fetches the modules of go.sum, and a newer Go if go.mod wants one.
fn go_module(folder: &str, variables: &[(&str, &OsStr)]) -> Result<()> {
    let folder = workspace::root().join(folder);
    let folder = folder.to_str().context("the path of the work tree is not UTF-8")?;
    let misformatted = process::output("gofmt", &["-l", folder])?;
    if !misformatted.is_empty() {
        bail!("'gofmt -w' has not seen\n{misformatted}");
    }
    process::run("go", &["-C", folder, "vet", "./..."])?;
    // Go does not know that another build of the daemon is another test.
    process::run_with("go", &["-C", folder, "test", "-count=1", "./..."], variables)
}

/// A project of Proxmox VE whose base classes the plugin's tests load.
struct BaseClasses {
    project: &'static str,
    /// The environment variable that names a work tree of it.
    variable: &'static str,
    /// The commit that is fetched otherwise.
    commit: &'static str,
}

const PVE_STORAGE: BaseClasses = BaseClasses {
    project: "pve-storage",
    variable: "GANTRY_PVE_STORAGE",
    commit: "0c56bad8b2a7d69e5ce2c243651fe830d6caa936",
};

const PVE_COMMON: BaseClasses = BaseClasses {
    project: "pve-common",
    variable: "GANTRY_PVE_COMMON",
    commit: "f665029eac78022e81810ab2e44eace57ade13fb",
};

/// The storage plugin for Proxmox VE: perlcritic, and tests that load the real PVE::Storage, each with
/// a gantryd of its own. Transcripts of every call are in target/proxmox/transcripts.
fn proxmox(binaries: &Path) -> Result<()> {
    let folder = workspace::root().join("integrations/proxmox");
    let folder = folder.to_str().context("the path of the work tree is not UTF-8")?;
    let [profile, modules, tests] =
        [".perlcriticrc", "lib", "t"].map(|name| format!("{folder}/{name}"));
    process::run("perlcritic", &["--quiet", "--profile", &profile, &modules, &tests])?;
    let storage = base_classes(&PVE_STORAGE)?;
    let common = base_classes(&PVE_COMMON)?;
    let transcripts = workspace::folder_of("proxmox").join("transcripts");
    if transcripts.exists() {
        fs::remove_dir_all(&transcripts)?;
    }
    fs::create_dir_all(&transcripts)?;
    let variables: [(&str, &OsStr); 4] = [
        ("GANTRY_BIN_DIR", binaries.as_os_str()),
        (PVE_STORAGE.variable, storage.as_os_str()),
        (PVE_COMMON.variable, common.as_os_str()),
        ("GANTRY_TRANSCRIPTS", transcripts.as_os_str()),
    ];
    process::run_with("prove", &[&tests], &variables)
}

/// A work tree: the one that the environment names, or one that is fetched into target/proxmox.
fn base_classes(wanted: &BaseClasses) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(wanted.variable).map(PathBuf::from) {
        if named.join("src/PVE").is_dir() {
            return Ok(named);
        }
        bail!(
            "{} names {}, which is no work tree of {}",
            wanted.variable,
            named.display(),
            wanted.project
        );
    }
    let folder = workspace::folder_of("proxmox").join(wanted.project);
    if !folder.join("src/PVE").is_dir() {
        fetch(wanted, &folder).with_context(|| {
            let BaseClasses { project, variable, .. } = wanted;
            format!(
                "the base classes of {project} are missing: set {variable} to a work tree of it"
            )
        })?;
    }
    Ok(folder)
}

fn fetch(wanted: &BaseClasses, folder: &Path) -> Result<()> {
    let path = folder.to_str().context("the path of the target folder is not UTF-8")?;
    let source = format!("https://github.com/proxmox/{}.git", wanted.project);
    process::run("git", &["init", "--quiet", path])?;
    process::run("git", &["-C", path, "fetch", "--quiet", "--depth=1", &source, wanted.commit])?;
    process::run("git", &["-C", path, "checkout", "--quiet", "FETCH_HEAD"])
}
