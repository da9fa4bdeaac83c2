// Command conformance calls the CSI driver for the conformance driver of tests/platforms: a step per line of
// standard input, an answer in JSON per line of standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// callTimeout is generous: the machine may be busy.
const callTimeout = 2 * time.Minute

// life holds what the driver answered in earlier steps.
type life struct {
	controller              csi.ControllerClient
	node                    string
	size, larger            int64
	volume, snapshot, clone string
}

var writer = &csi.VolumeCapability{
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
}

// answer is what a step gives.
type answer struct {
	Error   string            `json:"error,omitempty"`
	Context map[string]string `json:"context,omitempty"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance SOCKET NODE < STEPS")
		os.Exit(2)
	}
	connection, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l := &life{controller: csi.NewControllerClient(connection), node: os.Args[2], size: 1 << 30, larger: 2 << 30}
	steps := bufio.NewScanner(os.Stdin)
	for steps.Scan() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		var said answer
		if said.Context, err = l.step(ctx, steps.Text()); err != nil {
			said.Error = err.Error()
		}
		cancel()
		json.NewEncoder(os.Stdout).Encode(said)
	}
}

func (l *life) step(ctx context.Context, name string) (map[string]string, error) {
	switch name {
	case "create":
		var err error
		l.volume, err = l.create(ctx, "pvc-1", nil)
		return nil, err
	case "attach":
		published, err := l.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: l.volume, NodeId: l.node, VolumeCapability: writer})
		return published.GetPublishContext(), err
	case "snapshot":
		made, err := l.controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{SourceVolumeId: l.volume, Name: "snapshot-1"})
		l.snapshot = made.GetSnapshot().GetSnapshotId()
		return nil, err
	case "clone":
		source := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: l.snapshot}}}
		var err error
		l.clone, err = l.create(ctx, "pvc-2", source)
		return nil, err
	case "resize":
		_, err := l.controller.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: l.volume, CapacityRange: &csi.CapacityRange{RequiredBytes: l.larger}, VolumeCapability: writer})
		return nil, err
	case "detach":
		_, err := l.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: l.volume, NodeId: l.node})
		return nil, err
	case "delete":
		return nil, l.delete(ctx)
	default:
		return nil, fmt.Errorf("no step %q", name)
	}
}

func (l *life) create(ctx context.Context, name string, source *csi.VolumeContentSource) (string, error) {
	made, err := l.controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: l.size}, VolumeContentSource: source,
		VolumeCapabilities: []*csi.VolumeCapability{writer}, Parameters: map[string]string{"pool": "p"}})
	return made.GetVolume().GetVolumeId(), err
}

func (l *life) delete(ctx context.Context) error {
	if _, err := l.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: l.clone}); err != nil {
		return err
	}
	if _, err := l.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: l.snapshot}); err != nil {
		return err
	}
	_, err := l.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: l.volume})
	return err
}
