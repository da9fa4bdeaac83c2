package controller

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"gantry.io/go/array"
)

var memberOfGroup = regexp.MustCompile(`^(grp-[0-9a-f]{32})-[0-9a-f]{16}$`)

// CreateSnapshot makes a snapshot, or finds the one that an earlier call made. Errors: ALREADY_EXISTS
// for the same name of another volume, RESOURCE_EXHAUSTED, NOT_FOUND.
func (s *Server) CreateSnapshot(ctx context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := checkName(request.GetName()); err != nil {
		return nil, err
	}
	if request.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the source volume ID is missing")
	}
	if err := checkSnapshotParameters(request.GetParameters()); err != nil {
		return nil, err
	}
	unlock, err := s.lock("snapshot " + request.GetName())
	if err != nil {
		return nil, err
	}
	defer unlock()
	snapshot, err := s.findOrTake(ctx, request.GetName(), request.GetSourceVolumeId())
	if err != nil {
		return nil, grpcError(err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: describeSnapshot(snapshot)}, nil
}

// checkSnapshotParameters refuses parameters of a class, of which there are none, but for the sidecars'.
func checkSnapshotParameters(parameters map[string]string) error {
	for key := range parameters {
		if !strings.HasPrefix(key, "csi.storage.k8s.io/") {
			return status.Errorf(codes.InvalidArgument, "parameter %q is not known: a snapshot class has none", key)
		}
	}
	return nil
}

func (s *Server) findOrTake(ctx context.Context, name, sourceID string) (*array.Snapshot, error) {
	var last error
	pool := ""
	for attempt := range conflictsMax {
		found, _, err := s.array.ListSnapshots(ctx, url.Values{"name": {snapshotName(name)}}, 0, "")
		if err != nil {
			return nil, err
		}
		for index := range found {
			if found[index].Tags[tagName] != "" {
				return checkSnapshot(&found[index], name, sourceID)
			}
		}
		source, _, err := s.existingVolume(ctx, sourceID)
		if err != nil {
			return nil, err
		}
		snapshot, err := s.take(ctx, source, name)
		if err == nil {
			return snapshot, nil
		}
		if !array.IsProblem(err, "name-taken", "changed", "not-there") {
			return nil, err
		}
		last, pool = err, source.Pool
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
	return nil, s.giveUp(ctx, pool, snapshotName(name), last)
}

// checkSnapshot returns a snapshot of the wanted name if it is of the wanted volume.
func checkSnapshot(snapshot *array.Snapshot, name, sourceID string) (*array.Snapshot, error) {
	if snapshot.Tags[tagName] != name || snapshot.Tags[tagSource] != sourceID {
		return nil, status.Errorf(codes.AlreadyExists, "there is a snapshot %s already, of another volume or name", snapshot.Ref())
	}
	return snapshot, nil
}

// snapshotTags are those of a snapshot of a volume from its first moment.
func snapshotTags(name, source string) map[string]string {
	return map[string]string{tagName: name, tagSource: source}
}

func (s *Server) take(ctx context.Context, source *array.Volume, name string) (*array.Snapshot, error) {
	wanted := array.NewSnapshot{Volume: source.Name, Name: snapshotName(name), Tags: snapshotTags(name, source.NAA)}
	made, err := s.array.CreateSnapshots(ctx, source.Pool, []array.NewSnapshot{wanted})
	if err != nil {
		return nil, err
	}
	if len(made) != 1 {
		return nil, status.Errorf(codes.Internal, "the array answered %d snapshots instead of one", len(made))
	}
	return &made[0], nil
}

// DeleteSnapshot deletes a snapshot that the driver made. Errors: FAILED_PRECONDITION while it is locked
// or mapped and for snapshots that the driver did not make, INVALID_ARGUMENT for one of a group.
func (s *Server) DeleteSnapshot(ctx context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id := request.GetSnapshotId()
	unlock, err := s.lockID("snapshot", id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for attempt := range conflictsMax {
		snapshot, etag, err := s.snapshot(ctx, id)
		if err != nil {
			return nil, grpcError(err)
		}
		if snapshot == nil {
			return &csi.DeleteSnapshotResponse{}, nil
		}
		if err := checkOwnSnapshot(snapshot); err != nil {
			return nil, err
		}
		err = s.array.DeleteSnapshot(ctx, snapshot.Ref(), etag)
		if err == nil || array.IsProblem(err, "not-found", "not-there") {
			return &csi.DeleteSnapshotResponse{}, nil
		}
		if !array.IsProblem(err, "changed") {
			return nil, grpcError(err)
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, grpcError(err)
		}
	}
	return nil, status.Error(codes.Aborted, "others keep changing the snapshot: ask again")
}

func checkOwnSnapshot(snapshot *array.Snapshot) error {
	if group := groupOf(snapshot); group != "" {
		return status.Errorf(codes.InvalidArgument, "the snapshot belongs to group %s and goes with it", group)
	}
	if snapshot.Tags[tagName] == "" {
		return status.Errorf(codes.FailedPrecondition,
			"the driver did not make %s, so it does not delete it: 'gantry snapshot delete %s' does", snapshot.Ref(), snapshot.Ref())
	}
	return nil
}

// groupOf is the group of a snapshot; empty if it has none.
func groupOf(snapshot *array.Snapshot) string {
	match := memberOfGroup.FindStringSubmatch(snapshot.Name)
	if match == nil || snapshot.Tags[tagName] == "" {
		return ""
	}
	return match[1]
}

// GetSnapshot shows one snapshot (NOT_FOUND).
func (s *Server) GetSnapshot(ctx context.Context, request *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	if request.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the snapshot ID is missing")
	}
	snapshot, _, err := s.snapshot(ctx, request.GetSnapshotId())
	if err != nil {
		return nil, grpcError(err)
	}
	if snapshot == nil || snapshot.Tags[tagName] == "" {
		return nil, status.Errorf(codes.NotFound, "the array has no snapshot %s that the driver made", request.GetSnapshotId())
	}
	return &csi.GetSnapshotResponse{Snapshot: describeSnapshot(snapshot)}, nil
}

// ListSnapshots lists the snapshots that the driver made, a page at a time, sorted by pool and name.
func (s *Server) ListSnapshots(ctx context.Context, request *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	after, err := parseToken(request.GetStartingToken())
	if err != nil {
		return nil, err
	}
	filter := url.Values{"tag": {tagName}}
	if id := request.GetSnapshotId(); id != "" {
		if !naa.MatchString(id) {
			return &csi.ListSnapshotsResponse{}, nil
		}
		filter.Set("naa", id)
	}
	if id := request.GetSourceVolumeId(); id != "" {
		if !naa.MatchString(id) {
			return &csi.ListSnapshotsResponse{}, nil
		}
		filter.Set("tag", tagSource+":"+id)
	}
	if err := checkMaxEntries(request.GetMaxEntries()); err != nil {
		return nil, err
	}
	found, next, err := s.array.ListSnapshots(ctx, filter, int(request.GetMaxEntries()), after)
	if err != nil {
		return nil, grpcError(err)
	}
	response := &csi.ListSnapshotsResponse{NextToken: formatToken(next)}
	for index := range found {
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: describeSnapshot(&found[index])})
	}
	return response, nil
}

func describeSnapshot(snapshot *array.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: snapshot.NAA, SourceVolumeId: snapshot.Tags[tagSource], SizeBytes: snapshot.SizeBytes,
		CreationTime: timestamppb.New(time.Unix(snapshot.Created, 0)), ReadyToUse: true, GroupSnapshotId: groupOf(snapshot),
	}
}
