// Package flow plays Forklift's populator against a real gantryd, with gantry-host as the ESXi host that
// copies.
package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry.io/go/array"
	"gantry.io/go/arraytest"

	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/gantry"
	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/populator"
)

const (
	// diskBytes is the size of the disks that are copied.
	diskBytes = 64 << 20
	// targetBytes is the size of the volumes that they are copied to.
	targetBytes = 96 << 20
	nodeIQN     = "iqn.1994-05.com.redhat:node1"
)

// bench is an array with an ESXi host that has a datastore on it, with the disk ds/vm/vm.vmdk.
type bench struct {
	*arraytest.Array
	t      *testing.T
	client *array.Client
	target string
	state  string
	// iqn is the ESXi host's initiator, esx its host object.
	iqn, esx string
}

func start(t *testing.T) *bench {
	t.Helper()
	made := arraytest.Start(t, "4G")
	b := &bench{Array: made, t: t, client: made.Client(), state: filepath.Join(made.Folder, "esx"), esx: "esx1"}
	target, err := b.client.TargetName(t.Context())
	b.must(err)
	b.target = target
	b.iqn = strings.TrimSpace(b.host("host-create", "esx1"))
	_, err = b.client.CreateHost(t.Context(), array.NewHost{Name: b.esx, Initiators: []string{b.iqn}})
	b.must(err)
	_, err = b.client.CreateHost(t.Context(), array.NewHost{Name: "node1", Initiators: []string{nodeIQN}})
	b.must(err)
	source := b.volume("datastore", 1<<30)
	b.mapTo(source, b.esx)
	b.host("esxcli", "iscsi", "adapter", "discovery", "sendtarget", "add", "-A", "vmhba64", "-a", b.Portal)
	b.host("rescan")
	b.host("vmkfstools", "-C", "vmfs5", "-S", "ds", source.NAA+":1")
	b.host("file", "mkdir", "/vmfs/volumes/ds/vm")
	b.host("vmkfstools", "-c", "64m", "-d", "thin", "/vmfs/volumes/ds/vm/vm.vmdk")
	b.host("vm", "run", "ds/vm/vm.vmdk", "--pattern", "sequential-write1m", "--seconds", "60", "--operations", "24")
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// volume makes a volume as the CSI driver does.
func (b *bench) volume(name string, size int64) *array.Volume {
	b.t.Helper()
	made, err := b.client.CreateVolume(b.t.Context(), array.NewVolume{Pool: "p", Name: name, SizeBytes: size, Tags: map[string]string{"csi": "yes"}})
	b.must(err)
	return made
}

// target is a volume for a disk, which the node sees, and which holds something that has to go.
func (b *bench) dirtyTarget(name string) *array.Volume {
	b.t.Helper()
	made := b.volume(name, targetBytes)
	lun := b.mapTo(made, "node1")
	b.kit("fill", b.url(lun), "--length", "64M", "--initiator", nodeIQN)
	return b.shown(made)
}

func (b *bench) mapTo(volume *array.Volume, host string) int {
	b.t.Helper()
	mapped, err := b.client.MapVolume(b.t.Context(), volume.Ref(), host, false, "")
	b.must(err)
	return mapped.LUN
}

func (b *bench) shown(volume *array.Volume) *array.Volume {
	b.t.Helper()
	shown, _, err := b.client.ShowVolume(context.Background(), volume.Ref())
	b.must(err)
	return shown
}

func (b *bench) url(lun int) string {
	text, _ := json.Marshal(lun)
	return "iscsi://" + b.Portal + "/" + b.target + "/" + string(text)
}

// host runs a command of the ESXi host, which has to succeed.
func (b *bench) host(words ...string) string {
	b.t.Helper()
	return b.kit(append([]string{"--state", b.state}, words...)...)
}

func (b *bench) kit(words ...string) string {
	b.t.Helper()
	output, err := b.tried(words...)
	if err != nil {
		b.t.Fatalf("gantry-host %s: %v: %s", strings.Join(words, " "), err, output)
	}
	return output
}

// tried runs gantry-host, and returns its standard output, or both when it fails.
func (b *bench) tried(words ...string) (string, error) {
	command := exec.Command(filepath.Join(os.Getenv("GANTRY_BIN_DIR"), "gantry-host"), words...)
	var output, complaint bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaint
	if err := command.Run(); err != nil {
		return output.String() + complaint.String(), err
	}
	return output.String(), nil
}

// compare reads the target as the node does and compares it with the disk; behind it the target is as it
// was, zeros.
func (b *bench) compare(target *array.Volume, lun int) {
	b.t.Helper()
	disk := strings.TrimSpace(b.host("file", "hash", "/vmfs/volumes/ds/vm/vm.vmdk"))
	hashed := struct {
		SHA256 string `json:"sha256"`
	}{}
	text := b.kit("--json", "hash", b.url(lun), "--length", "64M", "--initiator", nodeIQN)
	b.must(json.Unmarshal([]byte(text), &hashed))
	if hashed.SHA256 != disk || disk == "" {
		b.t.Errorf("%s is %s, the disk %s", target.Name, hashed.SHA256, disk)
	}
	b.kit("check", b.url(lun), "--zero", "--offset", "64M", "--length", "32M", "--initiator", nodeIQN)
}

// restored says that the target's maps and tags are as before.
func (b *bench) restored(before *array.Volume) {
	b.t.Helper()
	after := b.shown(before)
	was, _ := json.Marshal([]any{before.Maps, before.Tags})
	is, _ := json.Marshal([]any{after.Maps, after.Tags})
	if string(was) != string(is) {
		b.t.Errorf("%s had %s, has %s", before.Name, was, is)
	}
}

// provider is Forklift's storage provider with the operator's token.
func (b *bench) provider() *gantry.GantryClonner {
	b.t.Helper()
	token, err := os.ReadFile(b.TokenFile)
	b.must(err)
	made, err := gantry.NewGantryClonner(b.URL, gantry.Credentials{Token: string(token)})
	b.must(err)
	return &made
}

func persistent(volume *array.Volume) populator.PersistentVolume {
	return populator.PersistentVolume{Name: "pv-" + volume.Name, VolumeHandle: volume.NAA}
}

// clone is what the VIB does on the host.
func (b *bench) clone(naa, mapping string) (string, error) {
	b.host("esxcli", "storage", "core", "adapter", "rescan", "-t", "add", "-a")
	report, err := b.tried("--state", b.state, "vmkfstools", "-i", "/vmfs/volumes/ds/vm/vm.vmdk", "-d", "rdm:/vmfs/devices/disks/"+naa,
		"/vmfs/volumes/ds/vm/"+mapping)
	if err == nil {
		b.host("vmkfstools", "-U", "/vmfs/volumes/ds/vm/"+mapping)
	}
	return report, err
}
