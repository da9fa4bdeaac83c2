package test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"gantry.io/go/arraytest"
	"gantry.io/kubernetes-csi/internal/controller"
	"gantry.io/kubernetes-csi/internal/service"
	"gantry.io/kubernetes-csi/test/iscsitest"
)

const (
	changedVolumeBytes = 32 << 20
	changedBlock       = 4096
)

// backup is a driver that is served, and a volume of it that a node writes.
type backup struct {
	client  csi.SnapshotMetadataClient
	server  *controller.Server
	volume  string
	disk    *iscsitest.Disk
	content []byte
	number  int
}

func newBackup(t *testing.T, array *arraytest.Array, name string) *backup {
	t.Helper()
	server := controller.New(array.Client(), controller.Options{})
	socket := serve(t, service.Plugin{Name: "csi.gantry.io", Version: "0.1.0", Controller: server})
	b := &backup{client: csi.NewSnapshotMetadataClient(connect(t, socket)), server: server, content: make([]byte, changedVolumeBytes)}
	b.volume = mustCreate(t, server, newVolume(name, changedVolumeBytes))
	published := mustPublish(t, server, b.volume, nodeName)
	lun, err := strconv.Atoi(published["lun"])
	if err != nil {
		t.Fatalf("%v: %v", published, err)
	}
	b.disk, err = iscsitest.Open(array.Portal, published["target"], nodeName, lun)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.disk.Close)
	return b
}

func (b *backup) write(t *testing.T, offset int64, data []byte) {
	t.Helper()
	if err := b.disk.Write(offset, data); err != nil {
		t.Fatal(err)
	}
	copy(b.content[offset:], data)
}

func (b *backup) unmap(t *testing.T, offset, length int64) {
	t.Helper()
	if err := b.disk.Unmap(offset, length); err != nil {
		t.Fatal(err)
	}
	clear(b.content[offset : offset+length])
}

// snapshot takes one, and returns its identifier and what the volume holds.
func (b *backup) snapshot(t *testing.T) (string, []byte) {
	t.Helper()
	b.number++
	made, err := b.server.CreateSnapshot(context.Background(), &csi.CreateSnapshotRequest{
		Name: "snapshot-" + b.volume + strconv.Itoa(b.number), SourceVolumeId: b.volume})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetSnapshot().GetSnapshotId(), slices.Clone(b.content)
}

type message interface {
	GetBlockMetadataType() csi.BlockMetadataType
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}

// collect takes a stream to its end, and checks what CSI says of every message. It returns the blocks
// that are told, and the number of messages.
func collect(t *testing.T, receive func() (message, error), from int64, most int) (map[int64]bool, int, error) {
	t.Helper()
	told, messages, behind := map[int64]bool{}, 0, int64(0)
	for {
		got, err := receive()
		if errors.Is(err, io.EOF) {
			return told, messages, nil
		}
		if err != nil {
			return told, messages, err
		}
		messages++
		if got.GetBlockMetadataType() != csi.BlockMetadataType_VARIABLE_LENGTH || got.GetVolumeCapacityBytes() != changedVolumeBytes {
			t.Fatalf("message %v", got)
		}
		if ranges := got.GetBlockMetadata(); most > 0 && len(ranges) > most {
			t.Fatalf("%d ranges in a message", len(ranges))
		}
		for _, one := range got.GetBlockMetadata() {
			end := one.GetByteOffset() + one.GetSizeBytes()
			if one.GetByteOffset() < behind || one.GetSizeBytes() <= 0 || end <= from || end > changedVolumeBytes {
				t.Fatalf("range %v after byte %d, asked from %d", one, behind, from)
			}
			behind = end
			for at := one.GetByteOffset(); at < end; at += changedBlock {
				told[at/changedBlock] = true
			}
		}
	}
}

func (b *backup) allocated(t *testing.T, request *csi.GetMetadataAllocatedRequest) (map[int64]bool, int, error) {
	t.Helper()
	stream, err := b.client.GetMetadataAllocated(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	return collect(t, func() (message, error) { return stream.Recv() }, request.GetStartingOffset(), int(request.GetMaxResults()))
}

func (b *backup) delta(t *testing.T, request *csi.GetMetadataDeltaRequest) (map[int64]bool, int, error) {
	t.Helper()
	stream, err := b.client.GetMetadataDelta(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	return collect(t, func() (message, error) { return stream.Recv() }, request.GetStartingOffset(), int(request.GetMaxResults()))
}

// different are the blocks in which two contents differ.
func different(before, after []byte) map[int64]bool {
	blocks := map[int64]bool{}
	for at := 0; at < len(after); at += changedBlock {
		if !bytes.Equal(before[at:at+changedBlock], after[at:at+changedBlock]) {
			blocks[int64(at/changedBlock)] = true
		}
	}
	return blocks
}

func from(blocks map[int64]bool, offset int64) map[int64]bool {
	rest := maps.Clone(blocks)
	maps.DeleteFunc(rest, func(block int64, _ bool) bool { return block < offset/changedBlock })
	return rest
}

// TestSnapshotMetadata writes over iSCSI as a node does, and compares what the driver streams with it.
func TestSnapshotMetadata(t *testing.T) {
	array := arraytest.Start(t, "1G", "--lun-rest", "1")
	b := newBackup(t, array, "pvc-changed")
	empty, nothing := b.snapshot(t)
	random := rand.New(rand.NewPCG(7, 7))
	fill := func() []byte {
		data := make([]byte, changedBlock*(1+random.IntN(4)))
		for index := range data {
			data[index] = byte(1 + random.IntN(255))
		}
		return data
	}
	somewhere := func() int64 { return int64(random.IntN(changedVolumeBytes/changedBlock-4)) * changedBlock }
	for range 100 {
		b.write(t, somewhere(), fill())
	}
	first, before := b.snapshot(t)
	for range 60 {
		b.write(t, somewhere(), fill())
	}
	b.unmap(t, somewhere(), 4*changedBlock)
	time.Sleep(1100 * time.Millisecond) // the array tells seconds
	second, after := b.snapshot(t)

	told, messages, err := b.allocated(t, &csi.GetMetadataAllocatedRequest{SnapshotId: empty})
	if err != nil || len(told) > 0 || messages != 1 {
		t.Errorf("an empty snapshot: %d blocks in %d messages, %v", len(told), messages, err)
	}
	for snapshot, content := range map[string][]byte{first: before, second: after} {
		expected := different(nothing, content)
		for _, most := range []int32{0, 1, 7, 20000} {
			told, _, err := b.allocated(t, &csi.GetMetadataAllocatedRequest{SnapshotId: snapshot, MaxResults: most})
			if err != nil || !maps.Equal(told, expected) {
				t.Errorf("%d blocks instead of %d, %v", len(told), len(expected), err)
			}
		}
	}
	expected := different(before, after)
	for _, start := range []int64{0, 1, 4096, 10_000_000, changedVolumeBytes - 1, changedVolumeBytes} {
		told, _, err := b.delta(t, &csi.GetMetadataDeltaRequest{
			BaseSnapshotId: first, TargetSnapshotId: second, StartingOffset: start, MaxResults: 5})
		if err != nil || !maps.Equal(told, from(expected, start)) {
			t.Errorf("from %d: %d blocks instead of %d, %v", start, len(told), len(from(expected, start)), err)
		}
	}
	told, _, err = b.delta(t, &csi.GetMetadataDeltaRequest{BaseSnapshotId: empty, TargetSnapshotId: second})
	if err != nil || !maps.Equal(told, different(nothing, after)) {
		t.Errorf("from nothing: %d blocks, %v", len(told), err)
	}
	refusedMetadata(t, array, b, first, second)
	deletedMeanwhile(t, b, second)
}

// refusedMetadata has what a backup program may get wrong.
func refusedMetadata(t *testing.T, array *arraytest.Array, b *backup, first, second string) {
	t.Helper()
	other := newBackup(t, array, "pvc-other")
	stranger, _ := other.snapshot(t)
	missing := "naa.60000000000000000000000000000000"
	for what, request := range map[string]struct {
		*csi.GetMetadataAllocatedRequest
		code codes.Code
	}{
		"no ID":             {&csi.GetMetadataAllocatedRequest{}, codes.InvalidArgument},
		"a negative number": {&csi.GetMetadataAllocatedRequest{SnapshotId: first, MaxResults: -1}, codes.InvalidArgument},
		"a missing one":     {&csi.GetMetadataAllocatedRequest{SnapshotId: missing}, codes.NotFound},
		"no identifier":     {&csi.GetMetadataAllocatedRequest{SnapshotId: "../../pools"}, codes.NotFound},
		"a volume":          {&csi.GetMetadataAllocatedRequest{SnapshotId: b.volume}, codes.NotFound},
		"a negative offset": {&csi.GetMetadataAllocatedRequest{SnapshotId: first, StartingOffset: -1}, codes.OutOfRange},
		"a large offset":    {&csi.GetMetadataAllocatedRequest{SnapshotId: first, StartingOffset: changedVolumeBytes + 1}, codes.OutOfRange},
	} {
		t.Run("allocated, "+what, func(t *testing.T) {
			_, _, err := b.allocated(t, request.GetMetadataAllocatedRequest)
			wantCode(t, err, request.code)
		})
	}
	for what, request := range map[string]struct {
		*csi.GetMetadataDeltaRequest
		code codes.Code
	}{
		"no base":         {&csi.GetMetadataDeltaRequest{TargetSnapshotId: first}, codes.InvalidArgument},
		"no target":       {&csi.GetMetadataDeltaRequest{BaseSnapshotId: first}, codes.InvalidArgument},
		"a missing base":  {&csi.GetMetadataDeltaRequest{BaseSnapshotId: missing, TargetSnapshotId: first}, codes.NotFound},
		"another volume":  {&csi.GetMetadataDeltaRequest{BaseSnapshotId: stranger, TargetSnapshotId: second}, codes.InvalidArgument},
		"the wrong order": {&csi.GetMetadataDeltaRequest{BaseSnapshotId: second, TargetSnapshotId: first}, codes.InvalidArgument},
		"an offset":       {&csi.GetMetadataDeltaRequest{BaseSnapshotId: first, TargetSnapshotId: second, StartingOffset: 1 << 40}, codes.OutOfRange},
		"a volume's base": {&csi.GetMetadataDeltaRequest{BaseSnapshotId: b.volume, TargetSnapshotId: second}, codes.NotFound},
	} {
		t.Run("delta, "+what, func(t *testing.T) {
			_, _, err := b.delta(t, request.GetMetadataDeltaRequest)
			wantCode(t, err, request.code)
		})
	}
}

// deletedMeanwhile reads one message, then the snapshot goes: the stream tells everything, or ends with an
// error, but never as if all had been told.
func deletedMeanwhile(t *testing.T, b *backup, snapshot string) {
	t.Helper()
	request := &csi.GetMetadataAllocatedRequest{SnapshotId: snapshot, MaxResults: 1}
	_, all, err := b.allocated(t, request)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := b.client.GetMetadataAllocated(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.server.DeleteSnapshot(context.Background(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot}); err != nil {
		t.Fatal(err)
	}
	messages := 0
	for ; err == nil; messages++ {
		_, err = stream.Recv()
	}
	// All may have been on its way before the snapshot went.
	if !errors.Is(err, io.EOF) {
		wantCode(t, err, codes.NotFound)
	} else if messages != all {
		t.Errorf("the stream ended as if %d messages of %d were all", messages, all)
	}
}
