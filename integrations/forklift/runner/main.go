// Command gantryflow runs Forklift's populator against an array, with gantry-host in the place of ESXi: the
// commands that the populator gives to esxcli go to the simulated host. It is built inside a work tree of
// Forklift.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/gantry"
	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/populator"
	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/vmware"
)

// noLease does the work at once: one populator runs per simulated host's command.
type noLease struct{}

func (noLease) WithLock(ctx context.Context, _ string, work func(context.Context) error) error {
	return work(ctx)
}

// outcome is what the program prints at its end.
type outcome struct {
	Progress  uint64                     `json:"progress"`
	XcopyUsed int                        `json:"xcopy_used"`
	Array     populator.StorageArrayInfo `json:"array"`
	Protocol  string                     `json:"protocol"`
}

func main() {
	address := flag.String("array", "", "address of the array's REST interface")
	token := flag.String("token-file", "", "file with a token of the role operator")
	handle := flag.String("handle", "", "volume handle of the target")
	source := flag.String("source", "", "'[DATASTORE] FOLDER/DISK.vmdk'")
	kit := flag.String("gantry-host", "", "the program gantry-host")
	state := flag.String("state", "", "folder of the simulated host")
	initiator := flag.String("initiator", "", "its iSCSI name")
	flag.Parse()
	esx := &simulatedESX{program: *kit, state: *state, adapter: vmware.HostAdapter{Name: "vmhba64", Id: *initiator, Driver: "iscsi_vmk"}}
	result, err := populate(*address, *token, *handle, *source, esx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(result)
}

func populate(address, tokenFile, handle, source string, esx *simulatedESX) (*outcome, error) {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	provider, err := gantry.NewGantryClonner(address, gantry.Credentials{Token: string(token)})
	if err != nil {
		return nil, err
	}
	copier, err := populator.NewWithRemoteEsxcli(&provider, esx, populator.CopyContext{CloneMethod: "vib"})
	if err != nil {
		return nil, err
	}
	progress, xcopyUsed, quit := make(chan uint64), make(chan int), make(chan error)
	target := populator.PersistentVolume{Name: "target", VolumeHandle: handle}
	go copier.Populate(context.Background(), "vm-1", "host-1", source, target, noLease{}, progress, xcopyUsed, quit)
	result := &outcome{Array: provider.GetStorageArrayInfo()}
	for {
		select {
		case result.Progress = <-progress:
		case result.XcopyUsed = <-xcopyUsed:
		case err := <-quit:
			result.Protocol = copier.GetCopyContext().StorageProtocol
			return result, err
		}
	}
}

// hostObject is how vSphere would name the simulated host.
func hostObject() *object.HostSystem {
	return object.NewHostSystem(nil, types.ManagedObjectReference{Type: "HostSystem", Value: "host-1"})
}

var errNotAsked = errors.New("the populator of VMDKs does not ask for this")
