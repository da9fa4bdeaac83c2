//! Links libiscsi, and says which package has it when it is missing.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if !Path::new("/usr/include/iscsi/iscsi.h").exists() {
        println!(
            "cargo:warning=libiscsi is missing: 'apt-get install libiscsi-dev' (or 'cargo xtask setup')"
        );
    }
    println!("cargo:rustc-link-lib=iscsi");
}
