//! A container of an OCI image, unpacked by umoci and started by runc, with the network of the machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::run;

const PATIENCE: Duration = Duration::from_secs(60);

/// A container, in a folder that goes with it.
pub struct Container {
    folder: TempDir,
    name: String,
    process: Option<Child>,
}

impl Container {
    /// Unpacks the image of this version in the layout that an environment variable names; the name
    /// is the container's.
    ///
    /// # Errors
    /// When the variable is not set, or umoci fails.
    pub fn unpack(variable: &str, name: &str) -> Result<Self> {
        let image = std::env::var(variable);
        let image = image
            .with_context(|| format!("{variable} is not set: 'cargo xtask test --container'"))?;
        let folder = tempfile::tempdir()?;
        let tagged = format!("{image}:{}", env!("CARGO_PKG_VERSION"));
        let bundle = folder.path().join("bundle");
        let words = ["unpack", "--image", &tagged, bundle.to_str().context("a printable path")?];
        run(Path::new("umoci"), &words, PATIENCE)?.success()?;
        // The way to what is beside the bundle, whatever the mask of this process is.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let name = format!("{name}-{}", std::process::id());
        Ok(Self { folder, name, process: None })
    }

    /// A folder beside the bundle that belongs to a user of the container.
    ///
    /// # Errors
    /// When it is there already, or we are not root.
    pub fn folder_of(&self, user: u32, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder)?;
        chown(&folder, Some(user), Some(user))?;
        Ok(folder)
    }

    /// Changes what the runtime is told (config.json of the bundle). It has no terminal and no
    /// network of its own.
    ///
    /// # Errors
    /// When the file is not as umoci writes it, or 'change' fails.
    pub fn configure(&self, change: impl FnOnce(&mut Value) -> Result<()>) -> Result<()> {
        let path = self.folder.path().join("bundle/config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
        config["process"]["terminal"] = json!(false);
        config["process"]["rlimits"] = json!([]);
        let namespaces = config["linux"]["namespaces"].as_array().context("namespaces")?;
        let kept = namespaces.iter().filter(|kind| kind["type"] != "network");
        config["linux"]["namespaces"] = kept.cloned().collect();
        change(&mut config)?;
        Ok(fs::write(path, config.to_string())?)
    }

    fn runc(&self, words: &[&str]) -> Result<String> {
        let state = self.folder.path().join("state");
        let state = state.to_str().context("a printable path")?;
        run(Path::new("runc"), &[&["--root", state], words].concat(), PATIENCE)?.success()
    }

    /// Starts it; whether its program is ready is for the caller to see.
    ///
    /// # Errors
    /// When runc cannot be started.
    pub fn start(&mut self) -> Result<()> {
        let log = fs::File::create(self.folder.path().join("log"))?;
        let child = Command::new("runc")
            .arg("--root")
            .arg(self.folder.path().join("state"))
            .args(["run", "--bundle"])
            .arg(self.folder.path().join("bundle"))
            .arg(&self.name)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(child);
        Ok(())
    }

    /// What it has said since it was started.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Runs a program in it; what that printed.
    ///
    /// # Errors
    /// When it does not run, or the program is not there or fails.
    pub fn exec(&self, words: &[&str]) -> Result<String> {
        self.runc(&[&["exec", &self.name], words].concat())
    }

    /// Stops it as an orchestrator does.
    ///
    /// # Errors
    /// When its program ends with a failure.
    pub fn stop(&mut self) -> Result<()> {
        self.runc(&["kill", &self.name, "TERM"])?;
        let mut process = self.process.take().context("it runs")?;
        let status = process.wait()?;
        ensure!(status.success(), "{status}: {}", self.log());
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

/// A mount of a folder of the machine.
pub fn bind(source: &Path, destination: &str, options: &[&str]) -> Value {
    let options = [&["rbind"], options].concat();
    json!({"destination": destination, "type": "bind", "source": source, "options": options})
}
