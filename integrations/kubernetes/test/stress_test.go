package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/go/arraytest"
	"gantry.io/kubernetes-csi/test/iscsitest"
)

const (
	stressWorkers = 32
	stressNodes   = 8
	// callsMax bounds the repetitions of one call; the driver is killed several times a second.
	callsMax = 400
)

var (
	stressVolumes = flag.Int("volumes", 300, "volumes that the stress test creates, clones among them")
	stressSeed    = flag.Uint64("seed", 0, "seed of the stress test; 0 for another one each time")
)

// stress is a run of the stress test.
type stress struct {
	t           *testing.T
	array       *arraytest.Array
	controllers []csi.ControllerClient
	made        atomic.Int64
	repeated    atomic.Int64
	identified  atomic.Int64
	kills       atomic.Int64

	mutex sync.Mutex
	// luns has which volume a node sees by which number, from the publish to the unpublish.
	luns map[string]string
}

// TestStress creates, publishes, clones, snapshots and deletes volumes with 32 workers over two drivers
// that are killed at random moments. Every LUN is asked over the wire for its identity. In the end
// nothing is left on the array but the nodes' hosts.
func TestStress(t *testing.T) {
	seed := *stressSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with: go test ./test -run TestStress -args -volumes %d -seed %d", *stressVolumes, seed)
	s := &stress{t: t, array: arraytest.Start(t, "8G", "--lun-rest", "1"), luns: map[string]string{}}
	program := filepath.Join(t.TempDir(), "gantry-csi")
	if output, err := exec.Command("go", "build", "-o", program, "../cmd/gantry-csi").CombinedOutput(); err != nil {
		t.Fatalf("building the driver: %v: %s", err, output)
	}
	ctx, stop := context.WithCancel(context.Background())
	var killers sync.WaitGroup
	for index := range 2 {
		socket := filepath.Join(shortFolder(t), "csi.sock")
		random := rand.New(rand.NewPCG(seed, uint64(1000+index)))
		killers.Go(func() { s.runAndKill(ctx, program, socket, random) })
		s.controllers = append(s.controllers, csi.NewControllerClient(connect(t, socket)))
	}
	var workers sync.WaitGroup
	for worker := range stressWorkers {
		workers.Go(func() { s.work(worker, rand.New(rand.NewPCG(seed, uint64(worker)))) })
	}
	workers.Wait()
	stop()
	killers.Wait()
	s.checkNothingLeft()
	t.Logf("%d volumes, %d LUNs identified over the wire, %d kills, %d repeated calls",
		s.made.Load(), s.identified.Load(), s.kills.Load(), s.repeated.Load())
}

func shortFolder(t *testing.T) string {
	folder, err := os.MkdirTemp("", "gantry-csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// runAndKill runs the driver and kills it at random moments, again and again.
func (s *stress) runAndKill(ctx context.Context, program, socket string, random *rand.Rand) {
	for ctx.Err() == nil {
		driver := exec.Command(program, "--mode", "controller", "--endpoint", "unix://"+socket,
			"--array-url", s.array.URL, "--token-file", s.array.TokenFile)
		if err := driver.Start(); err != nil {
			s.t.Errorf("starting the driver: %v", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(50+random.IntN(500)) * time.Millisecond):
			s.kills.Add(1)
		}
		driver.Process.Kill()
		driver.Wait()
	}
}

func (s *stress) work(worker int, random *rand.Rand) {
	for round := 0; s.made.Load() < int64(*stressVolumes) && !s.t.Failed(); round++ {
		s.life(fmt.Sprintf("pvc-%d-%d", worker, round), random)
	}
}

// life of a volume, a snapshot of it, and a clone of either.
func (s *stress) life(name string, random *rand.Rand) {
	volume := s.create(name, nil, random)
	node := nodeOf(random)
	s.publish(volume, node, random)
	s.refuseDelete(volume, random)
	snapshot := s.snapshot("snapshot-"+name, volume, random)
	content := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot}}}
	if random.IntN(2) == 0 {
		content = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume}}}
	}
	clone := s.create(name+"-clone", content, random)
	cloneNode := nodeOf(random)
	s.publish(clone, cloneNode, random)
	ends := []func(){
		func() { s.unpublish(volume, node, random); s.delete(volume, random) },
		func() { s.unpublish(clone, cloneNode, random); s.delete(clone, random) },
		func() { s.deleteSnapshot(snapshot, random) },
	}
	random.Shuffle(len(ends), func(a, b int) { ends[a], ends[b] = ends[b], ends[a] })
	for _, end := range ends {
		end()
	}
}

func nodeOf(random *rand.Rand) string {
	return "iqn.2004-10.com.ubuntu:node-" + strconv.Itoa(random.IntN(stressNodes))
}

// call repeats what a container orchestrator repeats, over whichever driver.
func call[A any](s *stress, random *rand.Rand, what string, do func(context.Context, csi.ControllerClient) (A, error)) (A, error) {
	var last error
	for range callsMax {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		answer, err := do(ctx, s.controllers[random.IntN(len(s.controllers))])
		cancel()
		switch status.Code(err) {
		case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Canceled:
			s.repeated.Add(1)
			last = err
			time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		default:
			return answer, err
		}
	}
	var none A
	return none, fmt.Errorf("%s: no answer after %d calls: %w", what, callsMax, last)
}

func (s *stress) must(what string, err error) {
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
}

var stressCapability = &csi.VolumeCapability{
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
}

func (s *stress) create(name string, content *csi.VolumeContentSource, random *rand.Rand) string {
	size := int64(16 << 20)
	if content != nil {
		size *= 2
	}
	answer, err := call(s, random, "create", func(ctx context.Context, c csi.ControllerClient) (*csi.CreateVolumeResponse, error) {
		return c.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeContentSource: content,
			VolumeCapabilities: []*csi.VolumeCapability{stressCapability}, Parameters: map[string]string{"pool": "p"},
		})
	})
	s.must("creating "+name, err)
	if answer.GetVolume().GetCapacityBytes() != size {
		s.t.Errorf("%s has %d bytes instead of %d", name, answer.GetVolume().GetCapacityBytes(), size)
	}
	s.made.Add(1)
	return answer.GetVolume().GetVolumeId()
}

func (s *stress) publish(volume, node string, random *rand.Rand) {
	answer, err := call(s, random, "publish", func(ctx context.Context, c csi.ControllerClient) (*csi.ControllerPublishVolumeResponse, error) {
		return c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: node, VolumeCapability: stressCapability})
	})
	s.must("publishing "+volume, err)
	if err != nil {
		return
	}
	context := answer.GetPublishContext()
	lun, err := strconv.Atoi(context["lun"])
	s.must("LUN number", err)
	s.claim(node, lun, volume)
	found, err := iscsitest.Identify(s.array.Portal, context["target"], node, lun)
	if err != nil || found != volume {
		s.t.Errorf("LUN %d of %s is %s and not %s: %v", lun, node, found, volume, err)
	}
	s.identified.Add(1)
}

// claim notes whose number it is, which nobody else may have.
func (s *stress) claim(node string, lun int, volume string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := node + " " + strconv.Itoa(lun)
	if other, taken := s.luns[key]; taken && other != volume {
		s.t.Errorf("LUN %d of %s is %s and %s", lun, node, other, volume)
	}
	s.luns[key] = volume
}

func (s *stress) release(node, volume string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for key, other := range s.luns {
		if other == volume {
			delete(s.luns, key)
		}
	}
}

func (s *stress) unpublish(volume, node string, random *rand.Rand) {
	s.release(node, volume)
	_, err := call(s, random, "unpublish", func(ctx context.Context, c csi.ControllerClient) (*csi.ControllerUnpublishVolumeResponse, error) {
		return c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: volume, NodeId: node})
	})
	s.must("unpublishing "+volume, err)
}

// refuseDelete deletes a volume that a node has, which must not work.
func (s *stress) refuseDelete(volume string, random *rand.Rand) {
	_, err := call(s, random, "delete", func(ctx context.Context, c csi.ControllerClient) (*csi.DeleteVolumeResponse, error) {
		return c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume})
	})
	if status.Code(err) != codes.FailedPrecondition {
		s.t.Errorf("deleting %s while it is published: %v", volume, err)
	}
}

func (s *stress) delete(volume string, random *rand.Rand) {
	_, err := call(s, random, "delete", func(ctx context.Context, c csi.ControllerClient) (*csi.DeleteVolumeResponse, error) {
		return c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume})
	})
	s.must("deleting "+volume, err)
}

func (s *stress) snapshot(name, volume string, random *rand.Rand) string {
	answer, err := call(s, random, "snapshot", func(ctx context.Context, c csi.ControllerClient) (*csi.CreateSnapshotResponse, error) {
		return c.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
	})
	s.must("snapshot of "+volume, err)
	if answer.GetSnapshot().GetSourceVolumeId() != volume {
		s.t.Errorf("%s is a snapshot of %s and not of %s", name, answer.GetSnapshot().GetSourceVolumeId(), volume)
	}
	return answer.GetSnapshot().GetSnapshotId()
}

func (s *stress) deleteSnapshot(snapshot string, random *rand.Rand) {
	_, err := call(s, random, "delete snapshot", func(ctx context.Context, c csi.ControllerClient) (*csi.DeleteSnapshotResponse, error) {
		return c.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
	})
	s.must("deleting "+snapshot, err)
}

func (s *stress) checkNothingLeft() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := s.array.Client()
	volumes, _, err := client.ListVolumes(ctx, nil, 0, "")
	snapshots, _, err2 := client.ListSnapshots(ctx, nil, 0, "")
	hosts, err3 := client.ListHosts(ctx)
	if err := errors.Join(err, err2, err3); err != nil {
		s.t.Fatal(err)
	}
	for index := range volumes {
		s.t.Errorf("left: volume %s, maps %v", volumes[index].Ref(), volumes[index].Maps)
	}
	for index := range snapshots {
		s.t.Errorf("left: snapshot %s", snapshots[index].Ref())
	}
	if len(hosts) > stressNodes {
		s.t.Errorf("%d hosts for %d nodes", len(hosts), stressNodes)
	}
}
