package test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	arrayclient "gantry.io/go/array"
	"gantry.io/go/arraytest"
	"gantry.io/kubernetes-csi/internal/controller"
	"gantry.io/kubernetes-csi/internal/fakenode"
	"gantry.io/kubernetes-csi/internal/node"
	"gantry.io/kubernetes-csi/internal/service"
	"gantry.io/kubernetes-csi/internal/zones"
)

const (
	driverName = "csi.gantry.io"
	nodeName   = "iqn.2004-10.com.ubuntu:01:csi-sanity"
)

// skips are the specs that do not apply, by the end of their full text, with the reason. Any other skip
// is a failure.
var skips = map[string]string{
	"ControllerPublishVolume should fail when publishing more volumes than the node max attach limit":                    "the limit is the scheduler's; the array's own is 16,384 LUN numbers of a host",
	"should succeed when creating a snapshot with accessibility requirements":                                            "a snapshot lies in its volume's pool; what is restored from it has the array's zones",
	"NodeGetVolumeHealth should return health for a valid volume":                                                        "the controller tells the health of volumes, and its spec is run",
	"NodeGetVolumeHealth should fail when no volume id is provided":                                                      "the controller tells the health of volumes, and its spec is run",
	"NodeGetStorageHealth should return appropriate response":                                                            "a node has no storage of its own",
	"pagination should detect volumes added between pages and accept tokens when the last volume from a page is deleted": "pending in csi-sanity itself; TestPagesWhileVolumesComeAndGo",
}

// reasonFor returns why a spec is skipped; empty if it should not be.
func reasonFor(spec string) string {
	for end, reason := range skips {
		if strings.HasSuffix(spec, end) {
			return reason
		}
	}
	return ""
}

// TestSanity runs csi-sanity against the driver and a real array, once for file systems and once for raw
// block; the node is a fake one. Afterwards nothing is left of it on the array or the node.
func TestSanity(t *testing.T) {
	array := arraytest.Start(t, "8G")
	machine := fakenode.New(nodeName)
	parts, err := zones.Parse(driverName, "near="+array.Portal+";far=192.0.2.1:3260")
	if err != nil {
		t.Fatal(err)
	}
	socket := serve(t, service.Plugin{
		Name: driverName, Version: "0.1.0",
		Controller: controller.New(array.Client(), controller.Options{Zones: parts}),
		Node:       node.New(machine, machine, node.Options{VolumesMax: 8, Zone: "near", ZoneKey: zones.Key(driverName)}),
	})
	folder := t.TempDir()
	for _, access := range []string{"mount", "block"} {
		config := sanity.NewTestConfig()
		config.Address = "unix://" + socket
		config.TargetPath = filepath.Join(folder, "target-"+access)
		config.StagingPath = filepath.Join(folder, "staging-"+access)
		config.TestVolumeSize = 64 << 20
		config.TestVolumeExpandSize = 128 << 20
		config.TestVolumeParameters = map[string]string{"pool": "p"}
		config.TestVolumeMutableParameters = map[string]string{"softPercent": "60", "hardPercent": "80", "iops": "5000", "bandwidth": "200Mi"}
		config.TestVolumeAccessType = access
		context := sanity.GinkgoTest(&config)
		defer context.Finalize()
	}
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.ReportAfterSuite("skips", func(report ginkgo.Report) { checkSkips(t, report) })
	ginkgo.RunSpecs(t, "csi-sanity")
	checkNothingLeft(t, array.Client(), machine)
}

func checkSkips(t *testing.T, report ginkgo.Report) {
	passed := 0
	for _, spec := range report.SpecReports {
		switch {
		case spec.State.Is(types.SpecStatePassed) && spec.LeafNodeType.Is(types.NodeTypeIt):
			passed++
		case spec.State.Is(types.SpecStateSkipped | types.SpecStatePending):
			reason := reasonFor(spec.FullText())
			if reason == "" {
				t.Errorf("skipped and not listed: %s: %s", spec.FullText(), spec.FailureMessage())
			}
			t.Logf("skipped: %s: %s", spec.FullText(), reason)
		}
	}
	t.Logf("%d specs passed", passed)
}

func checkNothingLeft(t *testing.T, client *arrayclient.Client, machine *fakenode.Node) {
	if left := machine.Leftovers(); len(left) > 0 {
		t.Errorf("left on the node: %v", left)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	volumes, _, err := client.ListVolumes(ctx, nil, 0, "")
	if err != nil || len(volumes) > 0 {
		t.Errorf("left on the array: %v %v", volumes, err)
	}
	snapshots, _, err := client.ListSnapshots(ctx, nil, 0, "")
	if err != nil || len(snapshots) > 0 {
		t.Errorf("left on the array: %v %v", snapshots, err)
	}
}
