//! Every shell block of README.md and docs/*.md does what it says, as printed.
//!
//! Whoever reads these pages pastes their blocks. Each page's blocks run one after the other in one
//! shell, with the binaries under test on the path, in namespaces of their own: addresses of
//! RFC 5737 are there, `/var/lib` and the home directory are empty and on tmpfs, and whatever a block starts ends
//! with the shell. Any command that fails, fails the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::binaries;
use harness::program::run;

/// Long enough for a page on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The pages' pools are as large as a reader's, so the blocks run on a file system of that size, in
/// memory: what the machine under the test has left makes no difference.
const DISK: &str = "256G";

/// What a block of a page is, by its first line.
enum Block {
    /// It runs here.
    Runs(&'static str),
    /// It does not, for this reason.
    NotHere(&'static str, &'static str),
}

use Block::{NotHere, Runs};

/// A page with shell blocks.
struct Page {
    path: &'static str,
    /// What its reader has done before.
    before: &'static str,
    blocks: &'static [Block],
    /// What stands for something that its reader knows, and the variable of `before` with that.
    stands_for: &'static [(&'static str, &'static str)],
}

/// A daemon with the volumes that pages talk of.
const ARRAY: &str = "
export GANTRY_DATA=/var/lib/gantry
gantryd --data $GANTRY_DATA --iscsi 192.0.2.10:3260 --iscsi 192.0.2.11:3260 --https 127.0.0.1:8443 &
gantry pool create p --device file:/var/lib/p.img --size 20G
for name in a b v; do gantry volume create p/$name --size 10G; done
gantry volume map p/a --host any
gantry snapshot create p/a a-monday
TARGET=$(gantry --json target show | sed -n 's/^ *\"name\": *\"\\(.*\\)\".*/\\1/p' | head -n 1)
NAA=$(gantry --json volume show p/a | sed -n 's/^ *\"naa\": *\"\\(.*\\)\".*/\\1/p')
test -n \"$TARGET\" -a -n \"$NAA\"
";

/// What docs/guides/README.md has its reader do first.
const GUIDED: &str = "
gantryd --data /var/lib/gantry --iscsi 192.0.2.10:3260 --iscsi 192.0.2.11:3260 --https 192.0.2.10:8443 &
gantry pool create fast --device file:/var/lib/gantry/fast.img --size 20G
TARGET=$(gantry --json target show | sed -n 's/^ *\"name\": *\"\\(.*\\)\".*/\\1/p' | head -n 1)
test -n \"$TARGET\"
";

const PAGES: [Page; 14] = [
    Page {
        path: "README.md",
        before: "",
        blocks: &[
            NotHere(
                "cargo xtask demo",
                "installs packages and builds; the second one runs this test",
            ),
            Runs("cargo build --release"),
            Runs("gantry pool add-device fast"),
            Runs("kill %1 && wait %1"),
            NotHere("esxcli iscsi software set", "needs ESXi"),
            NotHere(
                "iscsiadm --mode discovery",
                "needs the kernel's initiator: tests/guest runs it",
            ),
        ],
        stands_for: &[],
    },
    Page {
        path: "docs/operations.md",
        before: "echo a-secret-of-webhooks > key.txt; echo a-password > password.txt",
        blocks: &[
            NotHere(
                "apt install ./gantry",
                "needs systemd as process 1; `cargo xtask package` builds it",
            ),
            NotHere(
                "gantry pool show p",
                "needs a device that fails: tests/pool_resume.rs has one",
            ),
            NotHere(
                "gantry pool verify /srv/p.img",
                "needs a damaged journal: tests/pool_resume.rs has one",
            ),
            NotHere(
                "gantry pool create m --mirror 2",
                "needs file systems at /srv/a to /srv/d: tests/mirrors.rs does it elsewhere",
            ),
            NotHere(
                "gantry pool add-device m",
                "needs file systems at /srv/a and /srv/b: tests/mirrors.rs does it elsewhere",
            ),
            Runs("gantry pool add-device p"),
            NotHere("rbd create", "needs a Ceph cluster: `cargo xtask test --ceph` starts one"),
            NotHere(
                "gantry pool open p --break-lock",
                "needs a holder that is gone: tests/ceph.rs and the guest's scenario fence have one",
            ),
            NotHere(
                "gantry recovery-key show",
                "needs disks of a pool in /dev: tests/pool_import.rs imports files",
            ),
            Runs("gantry schedule create hourly"),
            Runs("gantry snapshot create p/a before-audit"),
            Runs("gantry task list"),
            Runs("gantry volume primitives p/v"),
            Runs("gantry volume limit p/v"),
            Runs("gantry target identification"),
            Runs("gantry alert webhook ops"),
            Runs("gantry support-bundle bundle.tar.gz"),
            Runs("gantry configuration export array.json"),
        ],
        stands_for: &[],
    },
    Page {
        path: "docs/controllers.md",
        before: "",
        blocks: &[
            NotHere(
                "gantry pool create vms --mirror 2",
                "needs disks that two machines share; tests/witness_device.rs has files",
            ),
            NotHere(
                "gantry pool set POOL --preferred-controller 1",
                "needs two controllers; tests/take_over.rs has them",
            ),
            NotHere(
                "gantryd --data /var/lib/gantry --iscsi 192.0.2.1:3260 --controller 1",
                "needs two machines; tests/controllers.rs has two data directories",
            ),
        ],
        stands_for: &[],
    },
    Page {
        path: "docs/rest.md",
        before: "
            cp $GANTRY_DATA/tls.crt .
            export GANTRY_TOKEN=$(gantry --json token create page --role viewer |
                sed -n 's/^ *\"secret\": *\"\\(.*\\)\".*/\\1/p')
            test -n \"$GANTRY_TOKEN\"",
        blocks: &[Runs("gantry --data /var/lib/gantry volume list")],
        stands_for: &[],
    },
    Page {
        path: "docs/offload-ledger.md",
        before: "",
        blocks: &[Runs("gantry offload list")],
        stands_for: &[],
    },
    Page {
        path: "docs/host-kit.md",
        before: "",
        blocks: &[Runs("export GANTRY_HOST_STATE"), Runs("gantry-host esxcli iscsi software set")],
        stands_for: &[("IQN", "$TARGET"), ("naa.6001...", "$NAA")],
    },
    Page {
        path: "docs/validate.md",
        before: "",
        blocks: &[NotHere(
            "gantry-host validate",
            "takes an hour; tests/validate.rs runs it at the scale 'tiny'",
        )],
        stands_for: &[],
    },
    Page {
        path: "docs/web.md",
        before: "",
        blocks: &[NotHere(
            "cargo xtask web",
            "fetches packages, and ends with a server for development",
        )],
        stands_for: &[],
    },
    Page {
        path: "docs/guides/README.md",
        before: "",
        blocks: &[Runs("gantryd --data /var/lib/gantry")],
        stands_for: &[],
    },
    Page {
        path: "docs/guides/kvm.md",
        before: "",
        blocks: &[
            Runs("gantry volume create fast/vm1"),
            NotHere("gantry host create kvm1", "needs libvirtd, and a user of its own for QEMU"),
            NotHere("apt install open-iscsi", "needs the kernel's initiator: tests/guest runs it"),
        ],
        stands_for: &[("IQN", "$TARGET")],
    },
    Page {
        path: "docs/guides/esxi.md",
        before: "",
        blocks: &[
            Runs("gantry host create esx1"),
            NotHere("esxcli iscsi software set", "needs ESXi; docs/host-kit.md has what runs here"),
        ],
        stands_for: &[],
    },
    Page {
        path: "docs/guides/proxmox.md",
        before: "",
        blocks: &[
            Runs("gantry host create pve1"),
            NotHere("pvesm add iscsi san", "needs a node of Proxmox VE"),
        ],
        stands_for: &[],
    },
    Page {
        path: "docs/guides/hyper-v.md",
        before: "",
        blocks: &[Runs("gantry host create hv1")],
        stands_for: &[],
    },
    Page {
        path: "docs/guides/xcp-ng.md",
        before: "",
        blocks: &[Runs("gantry host create xcp1")],
        stands_for: &[],
    },
];

/// What the fences of blocks that are no shell commands say.
const OTHER_LANGUAGES: [&str; 5] = ["text", "json", "yaml", "ini", "mermaid"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_owned()
}

/// README.md, the pages of docs and the guides, relative to the root.
fn pages() -> Result<Vec<String>> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/guides"] {
        for entry in fs::read_dir(root().join(folder))? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    Ok(pages)
}

/// The fenced blocks of a page: what the fence says, and what is in it.
fn blocks(path: &str) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("reading {path}"))?;
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                blocks.push((language.to_owned(), String::new()));
            }
        } else if let Some((_, block)) = blocks.last_mut().filter(|_| is_open) {
            block.push_str(line);
            block.push('\n');
        }
    }
    Ok(blocks)
}

#[test]
fn every_shell_block_is_run_or_has_a_reason_why_not() -> Result<()> {
    for path in pages()? {
        let mut known: Vec<&Block> =
            PAGES.iter().filter(|page| page.path == path).flat_map(|page| page.blocks).collect();
        for (language, block) in blocks(&path)? {
            if OTHER_LANGUAGES.contains(&language.as_str()) {
                continue;
            }
            assert_eq!(language, "sh", "{path}: a fence says what it holds\n{block}");
            ensure!(!known.is_empty(), "{path}: nothing is said of this block\n{block}");
            let first = match known.remove(0) {
                Runs(first) => first,
                NotHere(first, reason) => {
                    println!("{path}: '{first}' is not run: {reason}");
                    first
                }
            };
            assert!(block.starts_with(first), "{path}: '{first}' is expected, not\n{block}");
        }
        assert!(known.is_empty(), "{path}: a block is gone");
    }
    let named: BTreeSet<_> = PAGES.iter().map(|page| page.path.to_owned()).collect();
    assert!(pages()?.into_iter().collect::<BTreeSet<_>>().is_superset(&named));
    Ok(())
}

#[test]
fn the_readme_leads_from_nothing_to_a_checked_pool() -> Result<()> {
    run_page("README.md", "")
}

#[test]
fn the_pages_about_running_an_array_do_what_they_say() -> Result<()> {
    ["docs/operations.md", "docs/rest.md", "docs/offload-ledger.md"]
        .iter()
        .try_for_each(|path| run_page(path, ARRAY))
}

#[test]
fn the_guides_steps_on_the_array_do_what_they_say() -> Result<()> {
    ["docs/guides/README.md"].iter().try_for_each(|path| run_page(path, ""))?;
    let guides = ["kvm", "esxi", "proxmox", "hyper-v", "xcp-ng"];
    let paths = guides.map(|name| format!("docs/guides/{name}.md"));
    paths.iter().try_for_each(|path| run_page(path, GUIDED))
}

#[test]
fn the_host_kits_five_minutes_do_what_they_say() -> Result<()> {
    run_page("docs/host-kit.md", ARRAY)
}

/// Runs the blocks of a page as a shell would to which they are pasted.
fn run_page(path: &str, array: &str) -> Result<()> {
    let page = PAGES.iter().find(|page| page.path == path).context("the page is in the table")?;
    let runs = |block: &str| {
        page.blocks.iter().any(|known| matches!(known, Runs(first) if block.starts_with(first)))
    };
    let shell = blocks(path)?.into_iter().map(|(_, block)| block).filter(|block| runs(block));
    let mut pasted = shell.collect::<Vec<_>>().join("\n");
    for (word, variable) in page.stands_for {
        pasted = pasted.replace(word, variable);
    }
    let folder = tempfile::tempdir()?;
    let sandbox = sandbox(folder.path())?;
    let script = folder.path().join("page.sh");
    fs::write(&script, format!("{sandbox}{array}\n{}\n{pasted}\n", page.before))?;
    let script = script.to_str().context("a temporary path is text")?;
    let namespaces = ["--net", "--mount", "--uts", "--pid", "--mount-proc", "--kill-child"];
    let user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
    let arguments = [user, &namespaces, &["--fork", "bash", script]].concat();
    let finished = run(Path::new("unshare"), &arguments, TIMEOUT)?;
    finished.success().with_context(|| path.to_owned()).map(drop)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What comes before the first block: addresses, folders, and a work tree whose binaries are built.
fn sandbox(folder: &Path) -> Result<String> {
    let inside = |name: &str| folder.join(name);
    for name in ["disk", "bin"] {
        fs::create_dir_all(inside(name))?;
    }
    let gantry = binaries::binary("gantry")?.canonicalize()?;
    let built = gantry.parent().context("a program lies in a folder")?;
    // The binaries under test are what the build would give.
    fs::write(inside("bin/cargo"), "#!/bin/sh\ntest \"$*\" = 'build --release'\n")?;
    fs::write(inside("hosts"), "127.0.0.1 localhost array\n")?;
    let folder = folder.display();
    Ok(format!(
        "set -emE
         trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR
         chmod +x {folder}/bin/cargo
         ip link set lo up
         for n in 10 11; do ip address add 192.0.2.$n/32 dev lo; done
         hostname array
         mount --bind {folder}/hosts /etc/hosts
         mount -t tmpfs -o size={DISK} tmpfs {folder}/disk
         mkdir -p {folder}/disk/var-lib {folder}/disk/home {folder}/disk/tree/target
         ln -s {built} {folder}/disk/tree/target/release
         mount --bind {folder}/disk/var-lib /var/lib
         export HOME={folder}/disk/home TMPDIR={folder}/disk PATH={folder}/bin:{built}:$PATH
         unset GANTRY_DATA GANTRY_URL GANTRY_TOKEN GANTRY_HOST_STATE
         cd {folder}/disk/tree\n",
        built = built.display()
    ))
}
