package test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	arrayclient "gantry.io/go/array"
	"gantry.io/go/arraytest"
	"gantry.io/kubernetes-csi/internal/chapkeys"
	"gantry.io/kubernetes-csi/internal/controller"
	"gantry.io/kubernetes-csi/internal/zones"
	"gantry.io/kubernetes-csi/test/iscsitest"
)

const otherNode = "iqn.2004-10.com.ubuntu:01:other"

func capability(mode csi.VolumeCapability_AccessMode_Mode, block bool) *csi.VolumeCapability {
	made := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
	if block {
		made.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	return made
}

var writer = capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, false)

func newVolume(name string, bytes int64) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities: []*csi.VolumeCapability{writer}, Parameters: map[string]string{"pool": "p"},
	}
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v, and %s was expected", err, code)
	}
}

func mustCreate(t *testing.T, server *controller.Server, request *csi.CreateVolumeRequest) string {
	t.Helper()
	answer, err := server.CreateVolume(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetVolume().GetVolumeId()
}

func mustPublish(t *testing.T, server *controller.Server, volume, node string) map[string]string {
	t.Helper()
	answer, err := server.ControllerPublishVolume(context.Background(),
		&csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: node, VolumeCapability: writer})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetPublishContext()
}

// TestController has what csi-sanity does not ask, on one array.
func TestController(t *testing.T) {
	array := arraytest.Start(t, "2G", "--lun-rest", "1")
	for name, test := range map[string]func(*testing.T, *arraytest.Array){
		"the same name with other parameters is refused":      otherParameters,
		"long and strange names are kept apart":               strangeNames,
		"what an interrupted call left is completed":          interrupted,
		"what is made has its tags from the first moment":     oneRequest,
		"what the driver did not make is not deleted":         foreignVolumes,
		"a renamed volume stays the same":                     renamed,
		"a volume for one node is not given to two":           oneNode,
		"a raw block volume is given to two nodes":            twoNodes,
		"a dead node is fenced":                               fenced,
		"snapshots of a group are of one moment":              groups,
		"thick volumes that do not fit are refused as full":   full,
		"zones say who reaches the array, and over what":      inZones,
		"limits of classes are set and changed":               limits,
		"tokens that are wrong are said to be, and not shown": wrongTokens,
	} {
		t.Run(name, func(t *testing.T) { test(t, array) })
	}
}

// inZones asks for volumes and capacity from zones that reach the array and from others.
func inZones(t *testing.T, array *arraytest.Array) {
	parts, err := zones.Parse(driverName, "a=192.0.2.1:3260,192.0.2.2:3260;b=192.0.2.3:3260")
	if err != nil {
		t.Fatal(err)
	}
	server, ctx := controller.New(array.Client(), controller.Options{Zones: parts}), context.Background()
	in := func(zone string) *csi.Topology { return zones.Segment(zones.Key(driverName), zone) }
	request := newVolume("pvc-in-a-zone", 16<<20)
	request.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{in("c")}}
	_, err = server.CreateVolume(ctx, request)
	wantCode(t, err, codes.ResourceExhausted)
	request.AccessibilityRequirements.Requisite = append(request.AccessibilityRequirements.Requisite, in("b"))
	answer, err := server.CreateVolume(ctx, request)
	if err != nil || len(answer.GetVolume().GetAccessibleTopology()) != 2 {
		t.Fatalf("%v: %v", answer, err)
	}
	published := mustPublish(t, server, answer.GetVolume().GetVolumeId(), nodeName)
	if published["portals.a"] != "192.0.2.1:3260,192.0.2.2:3260" || published["portals.b"] != "192.0.2.3:3260" {
		t.Errorf("%v", published)
	}
	for zone, free := range map[string]bool{"a": true, "c": false} {
		capacity, err := server.GetCapacity(ctx, &csi.GetCapacityRequest{AccessibleTopology: in(zone)})
		if err != nil || (capacity.GetAvailableCapacity() > 0) != free {
			t.Errorf("zone %s: %v %v", zone, capacity, err)
		}
	}
}

func otherParameters(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	source := mustCreate(t, server, newVolume("pvc-source", 16<<20))
	first := mustCreate(t, server, newVolume("pvc-same", 16<<20))
	if again := mustCreate(t, server, newVolume("pvc-same", 16<<20)); again != first {
		t.Errorf("the same call made %s and %s", first, again)
	}
	for what, change := range map[string]func(*csi.CreateVolumeRequest){
		"size":       func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 32 << 20 },
		"limit":      func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{LimitBytes: 8 << 20} },
		"thickness":  func(r *csi.CreateVolumeRequest) { r.Parameters["thick"] = "true" },
		"block size": func(r *csi.CreateVolumeRequest) { r.Parameters["blockSize"] = "4096" },
		"pool":       func(r *csi.CreateVolumeRequest) { r.Parameters["pool"] = "q" },
		"source": func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
				Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source}}}
		},
	} {
		request := newVolume("pvc-same", 16<<20)
		change(request)
		if _, err := server.CreateVolume(ctx, request); status.Code(err) != codes.AlreadyExists {
			t.Errorf("another %s: %v", what, err)
		}
	}
	for _, parameters := range []map[string]string{{"pol": "p"}, {"thick": "maybe"}, {"blockSize": "1024"}, {"pool": "missing"}} {
		request := newVolume("pvc-parameters", 16<<20)
		request.Parameters = parameters
		_, err := server.CreateVolume(ctx, request)
		wantCode(t, err, codes.InvalidArgument)
	}
	request := newVolume("pvc-too-large", 65<<40)
	_, err := server.CreateVolume(ctx, request)
	wantCode(t, err, codes.OutOfRange)
	request = newVolume("pvc-two-writers", 16<<20)
	request.VolumeCapabilities = []*csi.VolumeCapability{capability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, false)}
	_, err = server.CreateVolume(ctx, request)
	wantCode(t, err, codes.InvalidArgument)
}

func strangeNames(t *testing.T, array *arraytest.Array) {
	server := controller.New(array.Client(), controller.Options{})
	long := strings.Repeat("n", 127)
	ids := map[string]string{}
	for _, name := range []string{long + "1", long + "2", "größe 1", "größe 2", "../..", "-", "any", "snap-x", "vol-x", "a?b=c&d#e%2f"} {
		id := mustCreate(t, server, newVolume(name, 1<<20))
		if other, taken := ids[id]; taken {
			t.Errorf("%q and %q are one volume", name, other)
		}
		ids[id] = name
		if again := mustCreate(t, server, newVolume(name, 1<<20)); again != id {
			t.Errorf("%q is made anew by a repeated call", name)
		}
		if _, err := server.CreateSnapshot(context.Background(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: id}); err != nil {
			t.Errorf("snapshot %q: %v", name, err)
		}
	}
	_, err := server.CreateVolume(context.Background(), newVolume(strings.Repeat("n", 129), 1<<20))
	wantCode(t, err, codes.InvalidArgument)
	_, err = server.CreateVolume(context.Background(), newVolume("a\nb", 1<<20))
	wantCode(t, err, codes.InvalidArgument)
}

// interrupted makes what a driver leaves that was killed between two steps of a call: a volume with its
// tags that has yet to grow, or to get its mutable parameters.
func interrupted(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	id := mustCreate(t, server, newVolume("pvc-cut", 16<<20))
	source := arrayclient.Ref{Pool: "p", Name: "pvc-cut"}
	unfinished := map[string]string{"csi.name": "pvc-cut-clone", "csi.source": id, "csi.unfinished": "true"}
	if _, err := array.Client().CloneVolume(ctx, source, arrayclient.NewClone{Name: "pvc-cut-clone", Tags: unfinished}); err != nil {
		t.Fatal(err)
	}
	request := newVolume("pvc-cut-clone", 32<<20)
	request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
	request.MutableParameters = map[string]string{"softPercent": "50"}
	answer, err := server.CreateVolume(ctx, request)
	if err != nil || answer.GetVolume().GetCapacityBytes() != 32<<20 {
		t.Errorf("an unfinished clone: %v %v", answer, err)
	}
	clone, _, err := array.Client().ShowVolume(ctx, arrayclient.Ref{Pool: "p", Name: "pvc-cut-clone"})
	if err != nil || clone.Tags["csi.unfinished"] != "" || clone.Tags["csi.source"] != id || clone.Thresholds.SoftPercent != 50 {
		t.Errorf("the clone is not what was wanted: %+v %v", clone, err)
	}
	request.CapacityRange.RequiredBytes = 64 << 20
	_, err = server.CreateVolume(ctx, request)
	wantCode(t, err, codes.AlreadyExists)
	array.Run("volume", "create", "p/pvc-foreign", "--size", "16M")
	_, err = server.CreateVolume(ctx, newVolume("pvc-foreign", 16<<20))
	wantCode(t, err, codes.AlreadyExists)
	array.Run("snapshot", "create", "p/pvc-cut", "snap-foreign")
	_, err = server.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "foreign", SourceVolumeId: id})
	wantCode(t, err, codes.AlreadyExists)
}

// oneRequest counts what the array is asked for a volume, a clone, a snapshot and a group of snapshots:
// each is made by one request that changes something, with its tags.
func oneRequest(t *testing.T, array *arraytest.Array) {
	var changes []string
	back, err := url.Parse(array.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(back)
	counting := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet {
			changes = append(changes, request.Method+" "+request.URL.Path)
		}
		proxy.ServeHTTP(writer, request)
	}))
	defer counting.Close()
	client, err := arrayclient.New(arrayclient.Options{URL: counting.URL, TokenFile: array.TokenFile})
	if err != nil {
		t.Fatal(err)
	}
	server, ctx := controller.New(client, controller.Options{}), context.Background()
	id := mustCreate(t, server, newVolume("pvc-at-once", 16<<20))
	request := newVolume("pvc-at-once-too", 16<<20)
	request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
	mustCreate(t, server, request)
	if _, err := server.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "at-once", SourceVolumeId: id}); err != nil {
		t.Fatal(err)
	}
	group := &csi.CreateVolumeGroupSnapshotRequest{Name: "all-at-once", SourceVolumeIds: []string{id}}
	if _, err := server.CreateVolumeGroupSnapshot(ctx, group); err != nil {
		t.Fatal(err)
	}
	wanted := []string{"POST /v1/volumes", "POST /v1/volumes/p/pvc-at-once/clones", "POST /v1/snapshots", "POST /v1/snapshots"}
	if !slices.Equal(changes, wanted) {
		t.Errorf("the array was asked for %v", changes)
	}
	tagged, _, err := array.Client().ListSnapshots(ctx, url.Values{"tag": {"csi.source:" + id}}, 0, "")
	if err != nil || len(tagged) != 2 {
		t.Errorf("%d snapshots have their source: %v", len(tagged), err)
	}
}

func foreignVolumes(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	array.Run("volume", "create", "p/database", "--size", "16M")
	array.Run("snapshot", "create", "p/database", "monday")
	volume, _, err := array.Client().ShowVolume(ctx, arrayclient.Ref{Pool: "p", Name: "database"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume.NAA})
	wantCode(t, err, codes.FailedPrecondition)
	snapshot, _, err := array.Client().ShowSnapshot(ctx, arrayclient.Ref{Pool: "p", Name: "monday"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot.NAA})
	wantCode(t, err, codes.FailedPrecondition)
	if _, err := server.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: snapshot.NAA}); err != nil {
		wantCode(t, err, codes.FailedPrecondition)
	}
	if _, _, err := array.Client().ShowSnapshot(ctx, snapshot.Ref()); err != nil {
		t.Errorf("the snapshot is gone: %v", err)
	}
	mustPublish(t, server, volume.NAA, nodeName) // a volume that was there before may be used
}

func renamed(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	id := mustCreate(t, server, newVolume("pvc-old", 16<<20))
	array.Run("volume", "rename", "p/pvc-old", "pvc-new")
	array.Run("volume", "create", "p/pvc-old", "--size", "16M")
	mustPublish(t, server, id, nodeName)
	if _, err := server.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id}); err != nil {
		t.Error(err)
	}
	if _, err := server.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id}); err != nil {
		t.Error(err)
	}
	left, _, err := array.Client().ListVolumes(ctx, url.Values{"name": {"pvc-*"}, "naa": {id}}, 0, "")
	if err != nil || len(left) > 0 {
		t.Errorf("the renamed volume is there: %v %v", left, err)
	}
	if _, _, err := array.Client().ShowVolume(ctx, arrayclient.Ref{Pool: "p", Name: "pvc-old"}); err != nil {
		t.Errorf("another volume of the old name was deleted: %v", err)
	}
}

func oneNode(t *testing.T, array *arraytest.Array) {
	ctx := context.Background()
	for round := range 20 {
		servers := [2]*controller.Server{
			controller.New(array.Client(), controller.Options{}), controller.New(array.Client(), controller.Options{}),
		}
		id := mustCreate(t, servers[0], newVolume(fmt.Sprintf("pvc-one-%d", round), 1<<20))
		failures := make(chan error, 2)
		for index, node := range []string{nodeName, otherNode} {
			go func() {
				_, err := servers[index].ControllerPublishVolume(ctx,
					&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: writer})
				failures <- err
			}()
		}
		refused := 0
		for range 2 {
			if err := <-failures; err != nil {
				wantCode(t, err, codes.FailedPrecondition)
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d of 2 instances were refused", refused)
		}
	}
}

func twoNodes(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	shared := capability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, true)
	request := newVolume("pvc-shared", 16<<20)
	request.VolumeCapabilities = []*csi.VolumeCapability{shared}
	id := mustCreate(t, server, request)
	for _, node := range []string{nodeName, otherNode} {
		answer, err := server.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: shared})
		if err != nil {
			t.Fatal(err)
		}
		checkIdentity(t, array, answer.GetPublishContext(), node, id)
	}
	shown, err := server.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
	if err != nil || len(shown.GetStatus().GetPublishedNodeIds()) != 2 {
		t.Errorf("published to %v: %v", shown, err)
	}
}

func checkIdentity(t *testing.T, array *arraytest.Array, published map[string]string, node, id string) {
	t.Helper()
	var lun int
	if _, err := fmt.Sscan(published["lun"], &lun); err != nil {
		t.Fatal(err)
	}
	found, err := iscsitest.Identify(array.Portal, published["target"], node, lun)
	if err != nil || found != id {
		t.Errorf("LUN %d of %s is %s and not %s: %v", lun, node, found, id, err)
	}
}

// fenced takes a volume from a node that does not answer, and gives it to another one.
func fenced(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	id := mustCreate(t, server, newVolume("pvc-fenced", 16<<20))
	before := mustPublish(t, server, id, nodeName)
	checkIdentity(t, array, before, nodeName, id)
	if _, err := server.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: nodeName}); err != nil {
		t.Fatal(err)
	}
	checkIdentity(t, array, mustPublish(t, server, id, otherNode), otherNode, id)
	var lun int
	fmt.Sscan(before["lun"], &lun)
	if found, err := iscsitest.Identify(array.Portal, before["target"], nodeName, lun); err == nil && found == id {
		t.Errorf("the old node still sees %s", id)
	}
	for range 2 { // idempotent, and of what does not exist
		if _, err := server.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: nodeName}); err != nil {
			t.Error(err)
		}
	}
	missing := &csi.ControllerUnpublishVolumeRequest{VolumeId: "naa." + strings.Repeat("0", 32), NodeId: nodeName}
	if _, err := server.ControllerUnpublishVolume(ctx, missing); err != nil {
		t.Error(err)
	}
}

func groups(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	ids := []string{mustCreate(t, server, newVolume("pvc-g1", 1<<20)), mustCreate(t, server, newVolume("pvc-g2", 1<<20))}
	request := &csi.CreateVolumeGroupSnapshotRequest{Name: "groupsnapshot-1", SourceVolumeIds: ids}
	made, err := server.CreateVolumeGroupSnapshot(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	group := made.GetGroupSnapshot()
	again, err := server.CreateVolumeGroupSnapshot(ctx, request)
	if err != nil || again.GetGroupSnapshot().GetGroupSnapshotId() != group.GetGroupSnapshotId() || len(group.GetSnapshots()) != 2 {
		t.Errorf("%v and %v: %v", made, again, err)
	}
	_, err = server.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: "groupsnapshot-1", SourceVolumeIds: ids[:1]})
	wantCode(t, err, codes.AlreadyExists)
	member := group.GetSnapshots()[0]
	if member.GetGroupSnapshotId() != group.GetGroupSnapshotId() {
		t.Errorf("%v does not name its group", member)
	}
	_, err = server.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: member.GetSnapshotId()})
	wantCode(t, err, codes.InvalidArgument)
	shown, err := server.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()})
	if err != nil || len(shown.GetGroupSnapshot().GetSnapshots()) != 2 {
		t.Errorf("%v: %v", shown, err)
	}
	for range 2 {
		if _, err := server.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()}); err != nil {
			t.Error(err)
		}
	}
	_, err = server.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()})
	wantCode(t, err, codes.NotFound)
}

func full(t *testing.T, array *arraytest.Array) {
	server := controller.New(array.Client(), controller.Options{})
	request := newVolume("pvc-thick", 100<<30)
	request.Parameters["thick"] = "true"
	_, err := server.CreateVolume(context.Background(), request)
	wantCode(t, err, codes.ResourceExhausted)
}

func wrongTokens(t *testing.T, array *arraytest.Array) {
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "token")
	const wrong = "0123456789abcdef0123456789abcdef"
	for content, code := range map[string]codes.Code{wrong: codes.Unauthenticated, "": codes.Unauthenticated, "two\nlines": codes.Unauthenticated} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		client, err := arrayclient.New(arrayclient.Options{URL: array.URL, TokenFile: file})
		if err != nil {
			t.Fatal(err)
		}
		_, err = controller.New(client, controller.Options{}).CreateVolume(ctx, newVolume("pvc-token", 1<<20))
		wantCode(t, err, code)
		if content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("the token is in the error: %v", err)
		}
	}
	client, err := arrayclient.New(arrayclient.Options{URL: array.URL, TokenFile: array.Token("viewer")})
	if err != nil {
		t.Fatal(err)
	}
	viewer := controller.New(client, controller.Options{})
	_, err = viewer.CreateVolume(ctx, newVolume("pvc-token", 1<<20))
	wantCode(t, err, codes.PermissionDenied)
	if err := viewer.Probe(ctx); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a viewer's token: %v", err)
	}
}

// TestPoolAway has a pool that is not open: its volumes are not listed, and still are not taken for deleted.
func TestPoolAway(t *testing.T) {
	array := arraytest.Start(t, "1G")
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	id := mustCreate(t, server, newVolume("pvc-away", 1<<20))
	snapshot, err := server.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "away", SourceVolumeId: id})
	if err != nil {
		t.Fatal(err)
	}
	array.Stop()
	file := filepath.Join(array.Folder, "p.img")
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	array.Resume()
	_, err = server.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.Unavailable)
	_, err = server.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot.GetSnapshot().GetSnapshotId()})
	wantCode(t, err, codes.Unavailable)
	_, err = server.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: nodeName})
	wantCode(t, err, codes.Unavailable)
	_, err = server.CreateVolume(ctx, newVolume("pvc-away", 1<<20))
	wantCode(t, err, codes.Unavailable)
	array.Stop()
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	array.Resume()
	if again := mustCreate(t, server, newVolume("pvc-away", 1<<20)); again != id {
		t.Errorf("%s was made again as %s", id, again)
	}
}

// TestArrayAway has an array that is not there, and one that does not answer.
func TestArrayAway(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret-of-the-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	const closed = "http://127.0.0.1:1" // a port that is given to nobody
	released := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	defer silent.Close()
	defer close(released)
	for address, code := range map[string]codes.Code{closed: codes.Unavailable, silent.URL: codes.DeadlineExceeded} {
		client, err := arrayclient.New(arrayclient.Options{URL: address, TokenFile: token})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if code == codes.DeadlineExceeded {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		}
		_, err = controller.New(client, controller.Options{}).CreateVolume(ctx, newVolume("pvc-1", 1<<20))
		cancel()
		wantCode(t, err, code)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the token is in the error: %v", err)
		}
	}
	if _, err := arrayclient.New(arrayclient.Options{URL: "http://192.0.2.10:8480", TokenFile: token}); err == nil {
		t.Error("a token would be sent in clear")
	}
}

// TestControllerAway has an array with two controllers, one of which does not answer.
func TestControllerAway(t *testing.T) {
	array := arraytest.Start(t, "1G")
	urls := "http://127.0.0.1:1, " + array.URL + "/"
	client, err := arrayclient.New(arrayclient.Options{URL: urls, TokenFile: array.TokenFile})
	if err != nil {
		t.Fatal(err)
	}
	for name := range 3 {
		began := time.Now()
		volume := newVolume(fmt.Sprintf("pvc-%d", name), 1<<20)
		if _, err := controller.New(client, controller.Options{}).CreateVolume(t.Context(), volume); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); name > 0 && waited > 10*time.Second {
			t.Errorf("the one that does not answer was asked again: %v", waited)
		}
	}
	if _, err := arrayclient.New(arrayclient.Options{URL: array.URL + ",", TokenFile: array.TokenFile}); err == nil {
		t.Error("an empty address")
	}
}

// TestOverTLS trusts the certificate that the array made for itself, and no other.
func TestOverTLS(t *testing.T) {
	address := arraytest.FreeAddress(t)
	array := arraytest.Start(t, "", "--https", address)
	certificate := filepath.Join(array.Folder, "data", "tls.crt")
	for file, trusted := range map[string]bool{certificate: true, "": false} {
		client, err := arrayclient.New(arrayclient.Options{URL: "https://" + address, TokenFile: array.TokenFile, CAFile: file})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err = controller.New(client, controller.Options{}).Probe(ctx)
		cancel()
		if (err == nil) != trusted {
			t.Errorf("certificate %q: %v", file, err)
		}
	}
	if _, err := arrayclient.New(arrayclient.Options{URL: "https://" + address, CAFile: array.TokenFile}); err == nil {
		t.Error("a file without certificates is taken")
	}
}

// TestChap gives nodes accounts, and new ones when they have no volumes.
func TestChap(t *testing.T) {
	array := arraytest.Start(t, "1G")
	keys := chapkeys.Folder(t.TempDir())
	writeKey := func(name, text string) {
		if err := os.WriteFile(filepath.Join(string(keys), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeKey("2026-11", strings.Repeat("k", 32))
	server, ctx := controller.New(array.Client(), controller.Options{ChapKeys: keys}), context.Background()
	first := mustCreate(t, server, newVolume("pvc-1", 1<<20))
	second := mustCreate(t, server, newVolume("pvc-2", 1<<20))
	published := mustPublish(t, server, first, nodeName)
	if key := published["chapKey"]; key != "2026-11" {
		t.Errorf("key %q", key)
	}
	for _, value := range published {
		if _, secret, err := keys.Account("2026-11", nodeName); err != nil || strings.Contains(value, secret) {
			t.Errorf("the secret is in the publish context: %v", err)
		}
	}
	host, err := array.Client().HostOf(ctx, nodeName)
	if err != nil || host == nil || host.ChapUser == nil || *host.ChapUser != nodeName {
		t.Fatalf("%v: %v", host, err)
	}
	if found, err := iscsitest.Identify(array.Portal, published["target"], nodeName, 0); err == nil {
		t.Errorf("logged in without a proof, and saw %s", found)
	}
	writeKey("2026-12", strings.Repeat("l", 32))
	if key := mustPublish(t, server, second, nodeName)["chapKey"]; key != "2026-11" {
		t.Errorf("the account of a node with volumes became that of key %q", key)
	}
	if _, err := server.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: first}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: second}); err != nil {
		t.Fatal(err)
	}
	if key := mustPublish(t, server, second, nodeName)["chapKey"]; key != "2026-12" {
		t.Errorf("key %q after the node was idle", key)
	}
}

// TestPagesWhileVolumesComeAndGo is the pagination that is pending in csi-sanity.
func TestPagesWhileVolumesComeAndGo(t *testing.T) {
	array := arraytest.Start(t, "1G")
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	ids := map[string]string{}
	for _, name := range []string{"pvc-b", "pvc-d", "pvc-f"} {
		ids[name] = mustCreate(t, server, newVolume(name, 1<<20))
	}
	page, err := server.ListVolumes(ctx, &csi.ListVolumesRequest{MaxEntries: 2})
	if err != nil || len(page.GetEntries()) != 2 || page.GetNextToken() == "" {
		t.Fatalf("%v: %v", page, err)
	}
	if _, err := server.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: ids["pvc-d"]}); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, server, newVolume("pvc-a", 1<<20))
	mustCreate(t, server, newVolume("pvc-e", 1<<20))
	rest, err := server.ListVolumes(ctx, &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: page.GetNextToken()})
	if err != nil || len(rest.GetEntries()) != 2 || rest.GetNextToken() != "" || rest.GetEntries()[1].GetVolume().GetVolumeId() != ids["pvc-f"] {
		t.Errorf("%v: %v", rest, err)
	}
}
