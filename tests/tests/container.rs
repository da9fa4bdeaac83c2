//! The OCI image of the daemon, unpacked by umoci and started by runc as an orchestrator does: a user
//! of its own, no capabilities, a read-only root, its data directory a bind mount.
//!
//! `cargo xtask test --container` builds the image and names its layout in GANTRY_TEST_IMAGE.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::pdu::{RawSession, cdb10};
use harness::program::run;
use harness::waiting::wait_until;
use harness::{Value, text};
use serde_json::json;
use tempfile::TempDir;

/// The image's user.
const USER: u32 = 64_800;

const NAME: &str = "iqn.2026-01.org.example:contained";

const PATIENCE: Duration = Duration::from_secs(60);

/// A container, in a folder that goes with it.
struct Container {
    folder: TempDir,
    name: String,
    process: Option<Child>,
    iscsi: SocketAddr,
}

impl Container {
    /// Unpacks the image, and gives it a data directory.
    fn unpack() -> Result<Self> {
        let image = std::env::var("GANTRY_TEST_IMAGE");
        let image =
            image.context("GANTRY_TEST_IMAGE is not set: 'cargo xtask test --container'")?;
        let folder = tempfile::tempdir()?;
        let tagged = format!("{image}:{}", env!("CARGO_PKG_VERSION"));
        let bundle = folder.path().join("bundle");
        let words = ["unpack", "--image", &tagged, bundle.to_str().context("a printable path")?];
        run(Path::new("umoci"), &words, PATIENCE)?.success()?;
        let data = folder.path().join("data");
        fs::create_dir(&data)?;
        chown(&data, Some(USER), Some(USER))?;
        // The way to the data directory, whatever the mask of this process is.
        let opened = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(folder.path(), opened)?;
        let name = format!("gantry-test-{}", std::process::id());
        let container = Self { folder, name, process: None, iscsi: free_address()? };
        container.configure(&data)?;
        Ok(container)
    }

    fn bundle(&self) -> PathBuf {
        self.folder.path().join("bundle")
    }

    /// What the one who starts it decides: network of the machine, other ports, no capabilities.
    fn configure(&self, data: &Path) -> Result<()> {
        let path = self.bundle().join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let given = config["process"]["args"].as_array().context("arguments")?;
        let defaults = ["--iscsi", "0.0.0.0:3260", "--https", "0.0.0.0:8443"];
        ensure!(given[3..] == defaults.map(|word| json!(word)), "{given:?}");
        let (iscsi, http) = (self.iscsi.to_string(), free_address()?.to_string());
        let words = ["/usr/sbin/gantryd", "--data", "/var/lib/gantry"];
        let words = [&words[..], &["--iscsi", &iscsi, "--http", &http]].concat();
        config["process"]["args"] = json!(words);
        ensure!(config["process"]["user"]["uid"] == USER, "{:#}", config["process"]["user"]);
        config["process"]["terminal"] = json!(false);
        config["process"]["capabilities"] = json!({});
        config["process"]["rlimits"] = json!([]);
        config["root"]["readonly"] = json!(true);
        let kept = |kind: &Value| kind["type"] != "network";
        let namespaces = config["linux"]["namespaces"].as_array().context("namespaces")?;
        config["linux"]["namespaces"] =
            namespaces.iter().filter(|kind| kept(kind)).cloned().collect();
        for mount in config["mounts"].as_array_mut().context("mounts")? {
            if mount["destination"] == "/var/lib/gantry" {
                *mount = json!({
                    "destination": "/var/lib/gantry", "type": "bind", "source": data,
                    "options": ["rbind", "rw", "nosuid", "nodev", "noexec"],
                });
            }
        }
        Ok(fs::write(path, config.to_string())?)
    }

    fn runc(&self, words: &[&str]) -> Result<String> {
        let state = self.folder.path().join("state");
        let state = state.to_str().context("a printable path")?;
        run(Path::new("runc"), &[&["--root", state], words].concat(), PATIENCE)?.success()
    }

    fn start(&mut self) -> Result<()> {
        let log = fs::File::create(self.folder.path().join("log"))?;
        let child = Command::new("runc")
            .arg("--root")
            .arg(self.folder.path().join("state"))
            .args(["run", "--bundle"])
            .arg(self.bundle())
            .arg(&self.name)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(child);
        wait_until("the daemon", || Ok(self.gantry(&["target", "show"]).is_ok()))
            .with_context(|| self.log())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The command line, in the container.
    fn gantry(&self, words: &[&str]) -> Result<String> {
        let words = [&["exec", &self.name, "/usr/bin/gantry"], words].concat();
        self.runc(&words)
    }

    /// As an orchestrator stops it; its exit code is that of the daemon.
    fn stop(&mut self) -> Result<()> {
        self.runc(&["kill", &self.name, "TERM"])?;
        let mut process = self.process.take().context("it runs")?;
        let status = process.wait()?;
        ensure!(status.success(), "{status}: {}", self.log());
        ensure!(self.log().contains("stopped"), "{}", self.log());
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only for one that has ended already.
            let _ = self.runc(&["delete", "--force", &self.name]);
            let _ = process.wait();
        }
    }
}

#[test]
#[ignore = "needs an image, and root: cargo xtask test --container"]
fn an_image_serves_hosts_stops_in_order_and_finds_its_pool_again() -> Result<()> {
    let mut container = Container::unpack()?;
    container.start()?;
    let device = "file:/var/lib/gantry/p.img";
    container.gantry(&["pool", "create", "p", "--device", device, "--size", "1G"])?;
    container.gantry(&["volume", "create", "p/v", "--size", "64M"])?;
    container.gantry(&["volume", "map", "p/v", "--host", "any", "--lun", "0"])?;
    let target: Value = serde_json::from_str(&container.gantry(&["target", "show", "--json"])?)?;
    let target = text(&target, "/name")?.to_owned();
    let written = [0x5a; 4096];
    let mut session = RawSession::log_in(container.iscsi, NAME, &target)?;
    session.write(0, &cdb10(0x2a, 0, 8, 8), &written)?.good()?;
    container.stop()?;
    container.start()?;
    let mut session = RawSession::log_in(container.iscsi, NAME, &target)?;
    ensure!(session.read(0, &cdb10(0x28, 0, 8, 8), 4096)?.good()? == written);
    // Nothing of the image can be written, and there is no shell to be had.
    ensure!(container.runc(&["exec", &container.name, "/bin/sh"]).is_err());
    container.stop()
}
