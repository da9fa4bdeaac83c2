//! The Kubernetes driver under test: its controller beside the array, its node part in a guest, and
//! calls to both as the container orchestrator makes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use guest::{Finished, Machine};
use harness::program::{Running, run};
use harness::{Array, Value, text};
use serde_json::json;
use tempfile::TempDir;

/// How long Go may take, which may have to fetch the modules of go.sum.
const BUILD_TIMEOUT: Duration = Duration::from_secs(900);

/// How long one call of the controller may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(160);

/// How often a call is repeated: a busy machine lets time limits of the driver pass.
const CALLS_MAX: usize = 5;

/// Codes of gRPC for what may succeed when it is tried again.
const DEADLINE_EXCEEDED: i32 = 4;
const ABORTED: i32 = 10;
pub(super) const INTERNAL: i32 = 13;

/// Where the kubelet of the guest would keep its files.
const KUBELET: &str = "/var/lib/kubelet";

/// Starts the node part as its container has it: the machine's root at /run/host, whose programs it
/// runs, and into which mounts go as `HostToContainer` has it. `csi METHOD JSON` calls it.
const NODE: &str = r#"
    mkdir -p /mnt/programs /run/host /run/csi /run/chap /var/lib/kubelet
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 share /mnt/programs
    cp /mnt/programs/gantry-csi /mnt/programs/csicall /run/csi
    cat >>/run/functions.sh <<'END'
csi() { /run/csi/csicall /run/csi/csi.sock "$@"; }
csi_start() {
    setsid /run/csi/gantry-csi --mode node --endpoint unix:///run/csi/csi.sock --host-root /run/host \
        --chap-keys /run/chap --verbose >>/var/csi.log 2>&1 &
    echo $! >/run/csi/pid
}
csi_kill() { kill -9 "$(cat /run/csi/pid)"; }
# disks NAA: names of the kernel's disks that are this volume.
disks() {
    for found in $(grep -lxs "$1" /sys/class/scsi_device/*/device/wwid); do
        ls "$(dirname "$found")/block"
    done
}
# map_of NAA: the name of its multipath map.
map_of() { grep -lxs "mpath-3${1#naa.}" /sys/block/dm-*/dm/uuid | cut -d / -f 4; }
END
    modprobe -a ext4 loop
    mount --make-rshared /
    mount --rbind / /run/host
    mount --make-rslave /run/host
"#;

/// What a failed call leaves to look at.
const LOOK: &str = "tail -n 20 /var/csi.log; dmesg | tail -n 30; multipath -ll; dmsetup info -c; \
     ps -o pid,stat,args | grep -v ']$'";

/// A volume as the orchestrator knows it.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) capability: Value,
    /// What the controller told at the last publish.
    pub(super) context: Value,
}

impl Volume {
    pub(super) fn staging(&self) -> String {
        format!("{KUBELET}/plugins/{}/globalmount", self.name)
    }

    pub(super) fn target(&self) -> String {
        format!("{KUBELET}/pods/{}/mount", self.name)
    }

    /// The identifier without its kind, as device mapper and udev have it.
    pub(super) fn digits(&self) -> &str {
        self.id.trim_start_matches("naa.")
    }

    pub(super) fn lun(&self) -> Result<&str> {
        text(&self.context, "/lun")
    }
}

/// A file system that one pod uses.
pub(super) fn file_system(kind: &str) -> Value {
    json!({"mount": {"fsType": kind}, "accessMode": {"mode": "SINGLE_NODE_SINGLE_WRITER"}})
}

/// A file system that several nodes read.
pub(super) fn read_only_file_system() -> Value {
    json!({"mount": {"fsType": "ext4"}, "accessMode": {"mode": "MULTI_NODE_READER_ONLY"}})
}

/// A raw block device that several nodes use.
pub(super) fn shared_block() -> Value {
    json!({"block": {}, "accessMode": {"mode": "MULTI_NODE_MULTI_WRITER"}})
}

/// Programs and keys of the driver, and its controller when it runs.
pub(super) struct Driver {
    folder: TempDir,
    controller: Option<Running>,
}

impl Driver {
    /// Builds the programs from integrations/kubernetes, without a C library, as for its image.
    pub(super) fn build() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-csi-").tempdir()?;
        fs::create_dir(folder.path().join("programs"))?;
        fs::create_dir(folder.path().join("chap"))?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/kubernetes");
        let (sources, programs) = (sources.display().to_string(), folder.path().join("programs"));
        let programs = format!("{}/", programs.display());
        let words = ["CGO_ENABLED=0", "go", "-C", &sources, "build", "-ldflags=-s"];
        let packages = ["-o", &programs, "./cmd/gantry-csi", "./test/csicall"];
        run(Path::new("env"), &[&words[..], &packages].concat(), BUILD_TIMEOUT)?.success()?;
        Ok(Self { folder, controller: None })
    }

    /// Where the programs are.
    pub(super) fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("csi.sock")
    }

    /// Starts the controller for an array, with these portals and a key for CHAP.
    pub(super) fn start_controller(&mut self, array: &Array, portals: &str) -> Result<()> {
        let made = array.gantry_json(&["token", "create", "kubernetes", "--role", "operator"])?;
        let token = self.folder.path().join("token");
        fs::write(&token, text(&made, "/secret")?)?;
        let words = [
            "--mode=controller".to_owned(),
            format!("--endpoint=unix://{}", self.socket().display()),
            format!("--array-url=http://{}", array.http()),
            format!("--token-file={}", token.display()),
            format!("--portals={portals}"),
            format!("--chap-keys={}", self.folder.path().join("chap").display()),
        ];
        self.controller = Some(Running::start(&self.programs().join("gantry-csi"), &words)?);
        Ok(())
    }

    /// Adds a key for CHAP, on the controller's side and on a node's.
    pub(super) fn add_key(&self, machine: &mut Machine, name: &str) -> Result<()> {
        let key = format!("the key {name} of this test, 32 bytes and more");
        fs::write(self.folder.path().join("chap").join(name), &key)?;
        machine.sh(&format!("mkdir -p /run/chap; echo '{key}' >/run/chap/{name}"))?;
        Ok(())
    }

    /// What the controller said, for messages.
    pub(super) fn log(&self) -> String {
        let said = self.controller.as_ref().map(Running::complaints);
        said.and_then(Result::ok).unwrap_or_default()
    }

    /// Calls the controller.
    pub(super) fn call(&self, method: &str, request: &Value) -> Result<Value> {
        let (caller, socket) = (self.programs().join("csicall"), self.socket());
        let socket = socket.display().to_string();
        let answer = run(&caller, &[&socket, method, &request.to_string()], CALL_TIMEOUT)?;
        let answer = answer.success().with_context(|| self.log())?;
        Ok(answer.parse()?)
    }

    /// Makes a volume; a source is what it is a clone of.
    pub(super) fn create(
        &self,
        name: &str,
        size: u64,
        capability: Value,
        source: Option<&Volume>,
    ) -> Result<Volume> {
        let source = source.map(|volume| json!({"volume": {"volumeId": volume.id}}));
        // What has a file system of xfs has blocks of 4 KiB.
        let block_size = if capability["mount"]["fsType"] == "xfs" { "4096" } else { "512" };
        let request = json!({
            "name": name,
            "parameters": {"blockSize": block_size},
            "capacityRange": {"requiredBytes": size},
            "volumeCapabilities": [capability],
            "volumeContentSource": source,
        });
        let made = self.call("CreateVolume", &request)?;
        let id = text(&made, "/volume/volumeId")?.to_owned();
        Ok(Volume { id, name: name.to_owned(), capability, context: Value::Null })
    }

    /// Lets a node see a volume.
    pub(super) fn publish(&self, volume: &mut Volume, node: &str) -> Result<()> {
        let capability = &volume.capability;
        let request =
            json!({"volumeId": volume.id, "nodeId": node, "volumeCapability": capability});
        let published = self.call("ControllerPublishVolume", &request)?;
        let context = published.get("publishContext").context("a publish context")?;
        volume.context = context.clone();
        Ok(())
    }

    /// Takes it away again.
    pub(super) fn unpublish(&self, volume: &Volume, node: &str) -> Result<()> {
        let request = json!({"volumeId": volume.id, "nodeId": node});
        self.call("ControllerUnpublishVolume", &request)?;
        Ok(())
    }

    pub(super) fn delete(&self, volume: &Volume) -> Result<()> {
        self.call("DeleteVolume", &json!({"volumeId": volume.id}))?;
        Ok(())
    }
}

/// Starts the node part in a guest.
pub(super) fn start_node(machine: &mut Machine) -> Result<()> {
    machine.sh(NODE)?;
    machine.sh("csi_start")?;
    node(machine, "NodeGetCapabilities", &json!({}))?;
    Ok(())
}

/// Calls the node part, which may refuse.
pub(super) fn try_node(machine: &mut Machine, method: &str, request: &Value) -> Result<Finished> {
    machine.try_sh(&format!("csi {method} '{request}'"))
}

/// Calls the node part, and repeats a call that failed, as the kubelet does.
pub(super) fn node(machine: &mut Machine, method: &str, request: &Value) -> Result<Value> {
    for _ in 0..CALLS_MAX {
        let answer = try_node(machine, method, request)?;
        match answer.status {
            0 => return Ok(answer.output.parse()?),
            ABORTED | DEADLINE_EXCEEDED | INTERNAL => println!("  again: {answer}"),
            _ => bail!("{answer}\n{}", machine.try_sh(LOOK)?),
        }
    }
    bail!("{method} fails again and again:\n{}", machine.try_sh(LOOK)?)
}

pub(super) fn stage_request(volume: &Volume) -> Value {
    json!({
        "volumeId": volume.id,
        "publishContext": volume.context,
        "stagingTargetPath": volume.staging(),
        "volumeCapability": volume.capability,
    })
}

/// Stages a volume, and publishes it to a pod. The kubelet makes the folders.
pub(super) fn attach(machine: &mut Machine, volume: &Volume) -> Result<()> {
    let (staging, target) = (volume.staging(), volume.target());
    machine.sh(&format!("mkdir -p {staging} $(dirname {target})"))?;
    node(machine, "NodeStageVolume", &stage_request(volume))?;
    let mut request = stage_request(volume);
    request["targetPath"] = json!(target);
    node(machine, "NodePublishVolume", &request)?;
    Ok(())
}

pub(super) fn unstage_request(volume: &Volume) -> Value {
    json!({"volumeId": volume.id, "stagingTargetPath": volume.staging()})
}

/// Takes a volume from a pod, and from the node.
pub(super) fn detach(machine: &mut Machine, volume: &Volume) -> Result<()> {
    let request = json!({"volumeId": volume.id, "targetPath": volume.target()});
    node(machine, "NodeUnpublishVolume", &request)?;
    node(machine, "NodeUnstageVolume", &unstage_request(volume))?;
    nothing_is_left(machine, volume)
}

/// Neither a disk nor a map of the volume is there, nor its mounts.
pub(super) fn nothing_is_left(machine: &mut Machine, volume: &Volume) -> Result<()> {
    let (id, name) = (&volume.id, &volume.name);
    let left = machine.sh(&format!(
        "disks {id}; map_of {id} || :; grep '/{name}/' /proc/mounts || :; \
         multipath -ll 2>/dev/null | grep {} || :; ls -d {} || :; grep '^/.*{}' /etc/multipath/wwids || :",
        volume.digits(),
        format_args!("/dev/disk/by-id/*{}*", volume.digits()),
        volume.digits(),
    ))?;
    let left: Vec<_> = left.lines().filter(|line| !line.contains("No such file")).collect();
    ensure!(left.is_empty(), "left of {name}, {id}: {left:?}");
    Ok(())
}
