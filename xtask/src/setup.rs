//! System packages: names what is missing, and installs it where it may.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::integrations::Platform;
use crate::process;

/// How one tells that a package is there.
enum Sign {
    /// A program on the path.
    Program(&'static str),
    /// A file below one of the library folders.
    Library(&'static str),
    /// A header.
    Header(&'static str),
    /// A module that Perl finds.
    Perl(&'static str),
    /// A module that Python finds.
    Python(&'static str),
}

struct Package {
    name: &'static str,
    sign: Sign,
    purpose: &'static str,
}

/// What gantry-host is linked with: all that the build needs beside Rust.
const LIBISCSI: Package = Package {
    name: "libiscsi-dev",
    sign: Sign::Header("iscsi/iscsi.h"),
    purpose: "the initiator that gantry-host is built on",
};

/// The first initiator's own programs.
const LIBISCSI_BIN: Package = Package {
    name: "libiscsi-bin",
    sign: Sign::Program("iscsi-test-cu"),
    purpose: "conformance tests of an independent initiator",
};

/// The second initiator, and what makes it one.
const QEMU_UTILS: Package = Package {
    name: "qemu-utils",
    sign: Sign::Program("qemu-img"),
    purpose: "a second independent initiator",
};
const QEMU_ISCSI: Package = Package {
    name: "qemu-block-extra",
    sign: Sign::Library("qemu/block-iscsi.so"),
    purpose: "iSCSI for qemu-utils",
};

const PACKAGES: [Package; 16] = [
    LIBISCSI_BIN,
    LIBISCSI,
    QEMU_UTILS,
    QEMU_ISCSI,
    Package {
        name: "qemu-system-x86",
        sign: Sign::Program("qemu-system-x86_64"),
        purpose: "the machine in which the Linux kernel's own initiator runs",
    },
    Package { name: "tgt", sign: Sign::Program("tgtd"), purpose: "the peer in benchmarks" },
    Package {
        name: "sg3-utils",
        sign: Sign::Program("sg_decode_sense"),
        purpose: "decoding sense data and pages by hand",
    },
    Package {
        name: "vmfs-tools",
        sign: Sign::Program("fsck.vmfs"),
        purpose: "an independent reader of the datastores that gantry-host writes",
    },
    Package {
        name: "iproute2",
        sign: Sign::Program("ip"),
        purpose: "addresses for the examples of the pages, in a network namespace",
    },
    Package { name: "clang", sign: Sign::Program("clang"), purpose: "fuzz targets" },
    Package {
        name: "pkg-config",
        sign: Sign::Program("pkg-config"),
        purpose: "finding libiscsi when building",
    },
    Package { name: "nodejs", sign: Sign::Program("node"), purpose: "building the web page" },
    Package { name: "npm", sign: Sign::Program("npm"), purpose: "the web page's pinned packages" },
    Package {
        name: "chromium",
        sign: Sign::Program("chromium"),
        purpose: "the browser in which the web page is tested",
    },
    Package {
        name: "default-jdk-headless",
        sign: Sign::Program("javac"),
        purpose: "a driver for an initiator in Java",
    },
    Package { name: "maven", sign: Sign::Program("mvn"), purpose: "fetching that initiator" },
];

/// Folders of programs, also those that an ordinary user's path lacks.
const PROGRAM_FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Makes every package present that a developer command needs, or fails with the one command that
/// does.
pub(crate) fn run() -> Result<()> {
    provide(&PACKAGES)
}

/// The same for building and running the three programs, and nothing else.
pub(crate) fn for_build() -> Result<()> {
    provide(&[LIBISCSI])
}

const GO: Package = Package {
    name: "golang-go",
    sign: Sign::Program("go"),
    purpose: "the driver for Kubernetes and the Terraform provider; 1.21 or newer, which fetches the version that they want",
};

/// The same for what is written in Go.
pub(crate) fn for_go() -> Result<()> {
    provide(&[GO])
}

/// The same for the suites of integrations with platforms.
pub(crate) fn for_integrations(platforms: &[Platform]) -> Result<()> {
    const VENV: Package = Package {
        name: "python3-venv",
        sign: Sign::Python("ensurepip"),
        purpose: "the environments in which suites install ansible-core and Cinder",
    };
    provide(&[LIBISCSI, LIBISCSI_BIN, GO, VENV, QEMU_UTILS, QEMU_ISCSI])?;
    if platforms.contains(&Platform::Proxmox) || platforms.contains(&Platform::Conformance) {
        return provide(&PERL);
    }
    Ok(())
}

/// Modules of Perl that the base classes of Proxmox VE load, and what reads the plugin's own.
const PERL: [Package; 21] = [
    perl("libanyevent-perl", "AnyEvent"),
    perl("libclone-perl", "Clone"),
    perl("libdevel-cycle-perl", "Devel::Cycle"),
    perl("libencode-locale-perl", "Encode::Locale"),
    perl("libfile-chdir-perl", "File::chdir"),
    perl("libfilesys-df-perl", "Filesys::Df"),
    perl("libio-socket-ssl-perl", "IO::Socket::SSL"),
    perl("libjson-perl", "JSON"),
    perl("libjson-xs-perl", "JSON::XS"),
    perl("liblinux-inotify2-perl", "Linux::Inotify2"),
    perl("libnet-dbus-perl", "Net::DBus"),
    perl("libnet-ip-perl", "Net::IP"),
    perl("libnetaddr-ip-perl", "NetAddr::IP"),
    perl("libperl-critic-perl", "Perl::Critic"),
    perl("libposix-strptime-perl", "POSIX::strptime"),
    perl("libsocket6-perl", "Socket6"),
    perl("libstring-shellquote-perl", "String::ShellQuote"),
    perl("libtimedate-perl", "Date::Parse"),
    perl("liburi-perl", "URI"),
    perl("libwww-perl", "LWP::UserAgent"),
    perl("libxml-libxml-perl", "XML::LibXML"),
];

const fn perl(name: &'static str, module: &'static str) -> Package {
    Package { name, sign: Sign::Perl(module), purpose: "the storage plugin for Proxmox VE" }
}

/// The same for a Ceph cluster on this machine.
pub(crate) fn for_ceph() -> Result<()> {
    const PACKAGES: [Package; 4] = [
        Package {
            name: "ceph-mon",
            sign: Sign::Program("ceph-mon"),
            purpose: "the monitor of a cluster",
        },
        Package { name: "ceph-osd", sign: Sign::Program("ceph-osd"), purpose: "its storage" },
        Package { name: "ceph-common", sign: Sign::Program("rbd"), purpose: "making images" },
        Package {
            name: "librbd1",
            sign: Sign::Library("librbd.so.1"),
            purpose: "the library that gantryd loads for devices rbd:",
        },
    ];
    provide(&PACKAGES)
}

/// The same for fio beside it.
pub(crate) fn for_fio() -> Result<()> {
    provide(&[Package {
        name: "fio",
        sign: Sign::Program("fio"),
        purpose: "what the pool engine is measured against",
    }])
}

/// The same for building and starting container images.
pub(crate) fn for_containers() -> Result<()> {
    const PACKAGES: [Package; 3] = [
        Package {
            name: "mmdebstrap",
            sign: Sign::Program("mmdebstrap"),
            purpose: "the libraries of an image",
        },
        Package { name: "umoci", sign: Sign::Program("umoci"), purpose: "its layout" },
        Package { name: "runc", sign: Sign::Program("runc"), purpose: "starting it in a test" },
    ];
    provide(&PACKAGES)?;
    provide(&[GO])
}

/// The same for the arrays that ours is compared with.
pub(crate) fn for_arrays() -> Result<()> {
    const PACKAGES: [Package; 1] = [Package {
        name: "istgt",
        sign: Sign::Program("istgt"),
        purpose: "an array for comparison",
    }];
    provide(&PACKAGES)
}

fn provide(packages: &[Package]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|package| !is_present(&package.sign)).collect();
    if missing.is_empty() {
        terminal::progress!("setup: all {} system packages are there\n", packages.len());
        return Ok(());
    }
    for package in &missing {
        terminal::progress!("setup: {} is missing ({})\n", package.name, package.purpose);
    }
    let names: Vec<_> = missing.iter().map(|package| package.name).collect();
    if !may_install() {
        bail!(
            "run 'sudo apt-get install {}' (Debian, Ubuntu), then this command again",
            names.join(" ")
        );
    }
    install(&names)?;
    match missing.iter().find(|package| !is_present(&package.sign)) {
        None => Ok(()),
        Some(package) => bail!("{} was installed, and its files are not found", package.name),
    }
}

fn may_install() -> bool {
    rustix::process::geteuid().is_root() && is_program("apt-get")
}

fn install(names: &[&str]) -> Result<()> {
    let quiet = [("DEBIAN_FRONTEND", "noninteractive".as_ref())];
    process::run_with("apt-get", &["update", "-qq"], &quiet)?;
    let arguments = ["install", "-y", "-qq", "--no-install-recommends"];
    process::run_with("apt-get", &[&arguments, names].concat(), &quiet)
}

fn is_present(sign: &Sign) -> bool {
    match sign {
        Sign::Program(name) => is_program(name),
        Sign::Header(name) => ["/usr/include", "/usr/local/include"]
            .iter()
            .any(|folder| Path::new(folder).join(name).exists()),
        Sign::Perl(module) => succeeds("perl", &[&format!("-M{module}"), "-e", "1"]),
        Sign::Python(module) => succeeds("python3", &["-c", &format!("import {module}")]),
        Sign::Library(name) => library_folders().iter().any(|folder| folder.join(name).exists()),
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(PROGRAM_FOLDERS.iter().map(PathBuf::from));
    folders.into_iter().any(|folder| folder.join(name).exists())
}

fn library_folders() -> Vec<PathBuf> {
    let multiarch = Command::new("gcc").arg("-print-multiarch").output().ok();
    let multiarch = multiarch.and_then(|output| String::from_utf8(output.stdout).ok());
    let plain = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    let named = multiarch.map(|name| Path::new("/usr/lib").join(name.trim()));
    plain.into_iter().chain(named).collect()
}
