package controller

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"gantry.io/go/array"
)

// groupMembersMax is how many volumes the array takes snapshots of at one moment.
const groupMembersMax = 256

// GroupControllerGetCapabilities tells what is implemented.
func (s *Server) GroupControllerGetCapabilities(context.Context, *csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	rpc := &csi.GroupControllerServiceCapability_RPC{Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT}
	capability := &csi.GroupControllerServiceCapability{Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: rpc}}
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{capability}}, nil
}

// CreateVolumeGroupSnapshot takes snapshots of 1 to 256 volumes of one pool at one moment. The group is
// the common beginning of their names. Errors: ALREADY_EXISTS for the same name of other volumes,
// FAILED_PRECONDITION for volumes of several pools, RESOURCE_EXHAUSTED, NOT_FOUND.
func (s *Server) CreateVolumeGroupSnapshot(ctx context.Context, request *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	if err := checkName(request.GetName()); err != nil {
		return nil, err
	}
	if err := checkSnapshotParameters(request.GetParameters()); err != nil {
		return nil, err
	}
	sources := slices.Compact(slices.Sorted(slices.Values(request.GetSourceVolumeIds())))
	if len(sources) == 0 || len(sources) > groupMembersMax {
		return nil, status.Errorf(codes.InvalidArgument, "a group has 1 to %d volumes", groupMembersMax)
	}
	unlock, err := s.lock("group " + request.GetName())
	if err != nil {
		return nil, err
	}
	defer unlock()
	group := groupIDOf(request.GetName())
	members, err := s.groupMembers(ctx, group)
	if err != nil {
		return nil, grpcError(err)
	}
	if len(members) == 0 {
		members, err = s.takeGroup(ctx, request.GetName(), group, sources)
		if err != nil {
			return nil, grpcError(err)
		}
	}
	if err := checkGroup(request.GetName(), group, sources, members); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: describeGroup(group, members)}, nil
}

func (s *Server) groupMembers(ctx context.Context, group string) ([]array.Snapshot, error) {
	members, _, err := s.array.ListSnapshots(ctx, url.Values{"name": {group + "-*"}}, 0, "")
	return members, err
}

func (s *Server) takeGroup(ctx context.Context, name, group string, sources []string) ([]array.Snapshot, error) {
	pool := ""
	snapshots := make([]array.NewSnapshot, 0, len(sources))
	for _, id := range sources {
		volume, _, err := s.existingVolume(ctx, id)
		if err != nil {
			return nil, err
		}
		if pool != "" && pool != volume.Pool {
			return nil, status.Errorf(codes.FailedPrecondition,
				"the volumes lie in pools '%s' and '%s': only volumes of one pool have snapshots of one moment", pool, volume.Pool)
		}
		pool = volume.Pool
		snapshots = append(snapshots, array.NewSnapshot{
			Volume: volume.Name, Name: memberName(group, id), Tags: snapshotTags(name, id),
		})
	}
	made, err := s.array.CreateSnapshots(ctx, pool, snapshots)
	if array.IsProblem(err, "name-taken") {
		return nil, status.Error(codes.Aborted, "another instance of the driver is making this group: ask again")
	}
	return made, err
}

// checkGroup compares the members of a group with the wanted volumes (ALREADY_EXISTS).
func checkGroup(name, group string, sources []string, members []array.Snapshot) error {
	names := make(map[string]bool, len(sources))
	for _, id := range sources {
		names[memberName(group, id)] = true
	}
	if len(members) != len(sources) {
		return status.Errorf(codes.AlreadyExists, "there is a group of this name already, of %d volumes", len(members))
	}
	for index := range members {
		if member := &members[index]; !names[member.Name] || member.Tags[tagName] != name {
			return status.Error(codes.AlreadyExists, "there is a group of this name already, of other volumes")
		}
	}
	return nil
}

// DeleteVolumeGroupSnapshot deletes all snapshots of a group (FAILED_PRECONDITION while one is locked or mapped).
func (s *Server) DeleteVolumeGroupSnapshot(ctx context.Context, request *csi.DeleteVolumeGroupSnapshotRequest) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	id := request.GetGroupSnapshotId()
	members, err := s.namedGroup(ctx, id, request.GetSnapshotIds())
	if err != nil {
		return nil, err
	}
	if len(members) == 0 && groupID.MatchString(id) {
		if err := s.checkAbsence(ctx); err != nil {
			return nil, grpcError(err)
		}
	}
	for index := range members {
		err := s.array.DeleteSnapshot(ctx, members[index].Ref(), "")
		if err != nil && !array.IsProblem(err, "not-found") {
			return nil, grpcError(err)
		}
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// GetVolumeGroupSnapshot shows a group (NOT_FOUND).
func (s *Server) GetVolumeGroupSnapshot(ctx context.Context, request *csi.GetVolumeGroupSnapshotRequest) (*csi.GetVolumeGroupSnapshotResponse, error) {
	id := request.GetGroupSnapshotId()
	members, err := s.namedGroup(ctx, id, request.GetSnapshotIds())
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, status.Errorf(codes.NotFound, "the array has no group of snapshots %s", id)
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: describeGroup(id, members)}, nil
}

// namedGroup lists a group and refuses a missing ID and snapshot IDs that do not belong to it (INVALID_ARGUMENT).
func (s *Server) namedGroup(ctx context.Context, id string, snapshots []string) ([]array.Snapshot, error) {
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the group snapshot ID is missing")
	}
	if !groupID.MatchString(id) {
		return nil, nil
	}
	members, err := s.groupMembers(ctx, id)
	if err != nil {
		return nil, grpcError(err)
	}
	for _, snapshot := range snapshots {
		belongs := func(member array.Snapshot) bool { return member.NAA == snapshot }
		if len(members) > 0 && naa.MatchString(snapshot) && !slices.ContainsFunc(members, belongs) {
			if other, _, err := s.snapshot(ctx, snapshot); err == nil && other != nil {
				return nil, status.Errorf(codes.InvalidArgument, "snapshot %s does not belong to group %s", snapshot, id)
			}
		}
	}
	return members, nil
}

func describeGroup(id string, members []array.Snapshot) *csi.VolumeGroupSnapshot {
	group := &csi.VolumeGroupSnapshot{GroupSnapshotId: id, ReadyToUse: true}
	created := members[0].Created
	for index := range members {
		created = min(created, members[index].Created)
		group.Snapshots = append(group.Snapshots, describeSnapshot(&members[index]))
	}
	group.CreationTime = timestamppb.New(time.Unix(created, 0))
	return group
}
