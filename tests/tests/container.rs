//! The OCI image of the daemon, unpacked by umoci and started by runc as an orchestrator does: a user
//! of its own, no capabilities, a read-only root, its data directory a bind mount.
//!
//! `cargo xtask test --container` builds the image and names its layout in GANTRY_TEST_IMAGE.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::container::{Container, bind};
use harness::pdu::{RawSession, cdb10};
use harness::waiting::wait_until;
use harness::{Value, text};
use serde_json::json;

/// The image's user.
const USER: u32 = 64_800;

const NAME: &str = "iqn.2026-01.org.example:contained";

/// What the one who starts it decides: other ports, no capabilities.
fn configure(config: &mut Value, data: &Path, iscsi: SocketAddr) -> Result<()> {
    let given = config["process"]["args"].as_array().context("arguments")?;
    let defaults = ["--iscsi", "0.0.0.0:3260", "--https", "0.0.0.0:8443"];
    ensure!(given[3..] == defaults.map(|word| json!(word)), "{given:?}");
    let (iscsi, http) = (iscsi.to_string(), free_address()?.to_string());
    let words = ["/usr/sbin/gantryd", "--data", "/var/lib/gantry"];
    let words = [&words[..], &["--iscsi", &iscsi, "--http", &http]].concat();
    config["process"]["args"] = json!(words);
    ensure!(config["process"]["user"]["uid"] == USER, "{:#}", config["process"]["user"]);
    config["process"]["capabilities"] = json!({});
    config["root"]["readonly"] = json!(true);
    for mount in config["mounts"].as_array_mut().context("mounts")? {
        if mount["destination"] == "/var/lib/gantry" {
            *mount = bind(data, "/var/lib/gantry", &["rw", "nosuid", "nodev", "noexec"]);
        }
    }
    Ok(())
}

/// The command line, in the container.
fn gantry(container: &Container, words: &[&str]) -> Result<String> {
    container.exec(&[&["/usr/bin/gantry"], words].concat())
}

fn start(container: &mut Container) -> Result<()> {
    container.start()?;
    wait_until("the daemon", || Ok(gantry(container, &["target", "show"]).is_ok()))
        .with_context(|| container.log())
}

fn stop(container: &mut Container) -> Result<()> {
    container.stop()?;
    ensure!(container.log().contains("stopped"), "{}", container.log());
    Ok(())
}

#[test]
#[ignore = "needs an image, and root: cargo xtask test --container"]
fn an_image_serves_hosts_stops_in_order_and_finds_its_pool_again() -> Result<()> {
    let mut container = Container::unpack("GANTRY_TEST_IMAGE", "gantry-test")?;
    let (data, iscsi) = (container.folder_of(USER, "data")?, free_address()?);
    container.configure(|config| configure(config, &data, iscsi))?;
    start(&mut container)?;
    let device = "file:/var/lib/gantry/p.img";
    gantry(&container, &["pool", "create", "p", "--device", device, "--size", "1G"])?;
    gantry(&container, &["volume", "create", "p/v", "--size", "64M"])?;
    gantry(&container, &["volume", "map", "p/v", "--host", "any", "--lun", "0"])?;
    let target: Value = serde_json::from_str(&gantry(&container, &["target", "show", "--json"])?)?;
    let target = text(&target, "/name")?.to_owned();
    let written = [0x5a; 4096];
    let mut session = RawSession::log_in(iscsi, NAME, &target)?;
    session.write(0, &cdb10(0x2a, 0, 8, 8), &written)?.good()?;
    stop(&mut container)?;
    start(&mut container)?;
    let mut session = RawSession::log_in(iscsi, NAME, &target)?;
    ensure!(session.read(0, &cdb10(0x28, 0, 8, 8), 4096)?.good()? == written);
    // Nothing of the image can be written, and there is no shell to be had.
    ensure!(container.exec(&["/bin/sh"]).is_err());
    stop(&mut container)
}
