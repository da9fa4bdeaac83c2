//! The OCI image of the CSI driver, started by runc as the manifests tell Kubernetes to: the
//! controller without capabilities and with a read-only root, the node's part with all of them.
//!
//! `cargo xtask test --container` builds the image, names its layout in GANTRY_TEST_CSI_IMAGE, and a
//! program that calls CSI in GANTRY_TEST_CSICALL.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::Value;
use harness::array::Array;
use harness::container::{Container, bind};
use harness::program::run;
use harness::text;
use serde_json::json;

/// The user that the manifests give the controller.
const USER: u32 = 65_532;

/// Generous: the machine may be busy.
const CALL_TIMEOUT: Duration = Duration::from_secs(160);

/// What a node's part must be allowed to do here; Kubernetes gives it all capabilities.
const CAPABILITIES: [&str; 5] =
    ["CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_MKNOD", "CAP_DAC_OVERRIDE", "CAP_FOWNER"];

/// Arguments of the image's program, which the image does not say.
fn arguments(config: &mut Value, words: &[&str]) -> Result<()> {
    ensure!(config["process"]["args"] == json!(["/usr/local/bin/gantry-csi"]), "{config:#}");
    config["process"]["args"] = json!([&["/usr/local/bin/gantry-csi"], words].concat());
    Ok(())
}

fn add_mounts(config: &mut Value, mounts: &[Value]) -> Result<()> {
    let all = config["mounts"].as_array_mut().context("mounts")?;
    all.extend_from_slice(mounts);
    Ok(())
}

/// Calls the driver over its socket.
fn call(socket: &Path, method: &str, request: &Value) -> Result<Value> {
    let caller = std::env::var("GANTRY_TEST_CSICALL");
    let caller = PathBuf::from(caller.context("GANTRY_TEST_CSICALL is not set")?);
    let socket = socket.to_str().context("a printable path")?;
    let answer = run(&caller, &[socket, method, &request.to_string()], CALL_TIMEOUT)?.success()?;
    Ok(answer.parse()?)
}

/// A folder with a token of the role operator, as Kubernetes mounts a secret.
fn token(container: &Container, array: &Array) -> Result<PathBuf> {
    let folder = container.folder_of(USER, "token")?;
    let made = array.gantry_json(&["token", "create", "kubernetes", "--role", "operator"])?;
    fs::write(folder.join("token"), text(&made, "/secret")?)?;
    chown(folder.join("token"), Some(USER), Some(USER))?;
    Ok(folder)
}

#[test]
#[ignore = "needs an image, and root: cargo xtask test --container"]
fn the_image_is_a_controller_without_rights_that_makes_volumes() -> Result<()> {
    let array = Array::start()?;
    array.create_pool("p", "1G")?;
    let mut container = Container::unpack("GANTRY_TEST_CSI_IMAGE", "gantry-csi-controller")?;
    let (socket, token) = (container.folder_of(USER, "csi")?, token(&container, &array)?);
    let url = format!("--array-url=http://{}", array.http());
    container.configure(|config| {
        arguments(config, &["--mode=controller", "--endpoint=unix:///csi/csi.sock", &url])?;
        config["process"]["user"] = json!({"uid": USER, "gid": USER});
        config["process"]["capabilities"] = json!({});
        config["process"]["noNewPrivileges"] = json!(true);
        config["root"]["readonly"] = json!(true);
        let token = bind(&token, "/etc/gantry", &["ro"]);
        add_mounts(config, &[bind(&socket, "/csi", &["rw"]), token])
    })?;
    container.start()?;
    let request = json!({
        "name": "pvc-1", "capacityRange": {"requiredBytes": "16777216"},
        "volumeCapabilities": [{"block": {}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}}],
    });
    let made = call(&socket.join("csi.sock"), "CreateVolume", &request)
        .with_context(|| container.log())?;
    let shown = array.gantry_json(&["volume", "show", "p/pvc-1"])?;
    ensure!(made["volume"]["volumeId"] == shown["naa"], "{made:#}, {shown:#}");
    container.stop()
}

#[test]
#[ignore = "needs an image, and root: cargo xtask test --container"]
fn the_image_has_what_a_node_formats_and_mounts_with_and_runs_the_machine_s_programs() -> Result<()>
{
    let mut container = Container::unpack("GANTRY_TEST_CSI_IMAGE", "gantry-csi-node")?;
    let (socket, iscsi) = (container.folder_of(0, "csi")?, container.folder_of(0, "iscsi")?);
    let name = "iqn.2026-01.org.example:node";
    fs::write(iscsi.join("initiatorname.iscsi"), format!("InitiatorName={name}\n"))?;
    container.configure(|config| {
        arguments(
            config,
            &["--mode=node", "--endpoint=unix:///csi/csi.sock", "--host-root=/host"],
        )?;
        config["process"]["capabilities"] = json!({
            "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES,
        });
        config["linux"]["resources"]["devices"] = json!([{"allow": true, "access": "rwm"}]);
        let devices = bind(Path::new("/dev"), "/dev", &["rw"]);
        config["mounts"].as_array_mut().context("mounts")?.retain(|mount| {
            let destination = mount["destination"].as_str().unwrap_or_default();
            !destination.starts_with("/dev")
        });
        let host = bind(Path::new("/"), "/host", &["ro"]);
        let iscsi = bind(&iscsi, "/etc/iscsi", &["ro"]);
        add_mounts(config, &[bind(&socket, "/csi", &["rw"]), devices, host, iscsi])
    })?;
    container.start()?;
    let told = call(&socket.join("csi.sock"), "NodeGetInfo", &json!({}))
        .with_context(|| container.log())?;
    ensure!(told["nodeId"] == name, "{told:#}");
    for (kind, size) in [("ext4", 64), ("ext3", 64), ("xfs", 320), ("btrfs", 128)] {
        let disk = fs::File::create(socket.join(kind))?;
        disk.set_len(size << 20)?;
        let place = format!("/csi/{kind}");
        container.exec(&[&format!("mkfs.{kind}"), &place])?;
        let found = container.exec(&["blkid", "-p", "-s", "TYPE", "-o", "value", &place])?;
        ensure!(found.trim() == kind, "{found}");
    }
    mounts_and_grows(&container, &socket)?;
    // open-iscsi and multipath are the machine's: they are run in its root folder.
    ensure!(container.exec(&["iscsiadm", "--version"]).is_err());
    let release = container.exec(&["chroot", "/host", "/bin/cat", "/etc/os-release"])?;
    ensure!(release == fs::read_to_string("/etc/os-release")?, "{release}");
    container.stop()
}

/// What a node does with the file system of a volume, on a file.
fn mounts_and_grows(container: &Container, folder: &Path) -> Result<()> {
    fs::File::options().write(true).open(folder.join("ext4"))?.set_len(128 << 20)?;
    container.exec(&["fsck", "-f", "-y", "/csi/ext4"])?;
    container.exec(&["resize2fs", "/csi/ext4"])?;
    container.exec(&["mkdir", "/csi/there", "/csi/again"])?;
    container.exec(&["mount", "-t", "ext4", "-o", "loop", "/csi/ext4", "/csi/there"])?;
    container.exec(&["mount", "--bind", "/csi/there", "/csi/again"])?;
    let size = container.exec(&["findmnt", "-n", "-b", "-o", "SIZE", "/csi/again"])?;
    ensure!(size.trim().parse::<u64>()? > 100 << 20, "{size}");
    container.exec(&["umount", "/csi/again"])?;
    container.exec(&["umount", "/csi/there"])?;
    for program in ["xfs_growfs", "btrfs", "mountpoint", "lsblk"] {
        container.exec(&[program, if program == "btrfs" { "version" } else { "-V" }])?;
    }
    Ok(())
}
