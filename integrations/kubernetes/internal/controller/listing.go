package controller

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"gantry.io/go/array"
)

// tokenPrefix begins what a page token encodes, so that foreign ones are noticed.
const tokenPrefix = "after:"

func formatToken(next string) string {
	if next == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(tokenPrefix + next))
}

// parseToken returns the key behind which a page begins (ABORTED, as the specification wants it).
func parseToken(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	after, ours := strings.CutPrefix(string(text), tokenPrefix)
	if err != nil || !ours || !strings.Contains(after, "/") {
		return "", status.Error(codes.Aborted, "the token is none of this driver: begin from the first page")
	}
	return after, nil
}

func checkMaxEntries(entries int32) error {
	if entries < 0 {
		return status.Error(codes.InvalidArgument, "max_entries is negative")
	}
	return nil
}

// page asks for a page of volumes.
func (s *Server) page(ctx context.Context, entries int32, token string) ([]array.Volume, string, error) {
	if err := checkMaxEntries(entries); err != nil {
		return nil, "", err
	}
	after, err := parseToken(token)
	if err != nil {
		return nil, "", err
	}
	volumes, next, err := s.array.ListVolumes(ctx, nil, int(entries), after)
	return volumes, formatToken(next), grpcError(err)
}

// ListVolumes lists all volumes of the array, sorted by pool and name, with the nodes that see them.
func (s *Server) ListVolumes(ctx context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	volumes, next, err := s.page(ctx, request.GetMaxEntries(), request.GetStartingToken())
	if err != nil {
		return nil, err
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for index := range volumes {
		volume := &volumes[index]
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: s.describeVolume(volume, nil),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: publishedNodes(volume, nodes)},
		})
	}
	return response, nil
}

// nodes are the initiators of each host.
func (s *Server) nodes(ctx context.Context) (map[string][]string, error) {
	hosts, err := s.array.ListHosts(ctx)
	if err != nil {
		return nil, grpcError(err)
	}
	nodes := make(map[string][]string, len(hosts))
	for _, host := range hosts {
		nodes[host.Name] = host.Initiators
	}
	return nodes, nil
}

func publishedNodes(volume *array.Volume, nodes map[string][]string) []string {
	var published []string
	for _, seen := range volume.Maps {
		published = append(published, nodes[seen.Host]...)
	}
	return published
}

// ControllerGetVolume shows one volume and the nodes that see it (NOT_FOUND).
func (s *Server) ControllerGetVolume(ctx context.Context, request *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	volume, _, err := s.existingVolume(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: s.describeVolume(volume, nil),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: publishedNodes(volume, nodes)},
	}, nil
}

// GetCapacity tells the free space of the pools that a storage class means, in bytes; none for a zone that
// does not reach the array. Thin volumes may be larger than that, up to 64 TiB.
func (s *Server) GetCapacity(ctx context.Context, request *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	placement, err := parsePlacement(request.GetParameters())
	if err != nil {
		return nil, err
	}
	if capabilities := request.GetVolumeCapabilities(); len(capabilities) > 0 && checkCapabilities(capabilities) != nil {
		return &csi.GetCapacityResponse{}, nil
	}
	if topology := request.GetAccessibleTopology(); topology != nil && !s.options.Zones.Reaches(topology) {
		return &csi.GetCapacityResponse{}, nil
	}
	pools, err := s.array.ListPools(ctx)
	if err != nil {
		return nil, grpcError(err)
	}
	var free, largest int64
	for index := range pools {
		pool := &pools[index]
		if pool.State == "ready" && pool.Space != nil && (placement.pool == "" || placement.pool == pool.Name) {
			unpromised := max(0, pool.Space.FreeBytes-pool.Space.PromisedBytes)
			free += unpromised
			largest = max(largest, unpromised)
		}
	}
	if placement.thick == nil || !*placement.thick {
		largest = sizeMax
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: free, MaximumVolumeSize: wrapperspb.Int64(largest), MinimumVolumeSize: wrapperspb.Int64(sizeStep),
	}, nil
}

// ControllerGetVolumeHealth tells what the array knows to be wrong with a volume (NOT_FOUND).
func (s *Server) ControllerGetVolumeHealth(ctx context.Context, request *csi.ControllerGetVolumeHealthRequest) (*csi.ControllerGetVolumeHealthResponse, error) {
	volume, _, err := s.existingVolume(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	pools, err := s.array.ListPools(ctx)
	if err != nil {
		return nil, grpcError(err)
	}
	health := &csi.VolumeHealth{VolumeId: volume.NAA, HealthStatuses: conditions(volume, pools)}
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: health}, nil
}

// ControllerListVolumeHealth lists the volumes with which something is wrong. A page looks at
// max_entries volumes, so it may have fewer entries and a next one.
func (s *Server) ControllerListVolumeHealth(ctx context.Context, request *csi.ControllerListVolumeHealthRequest) (*csi.ControllerListVolumeHealthResponse, error) {
	volumes, next, err := s.page(ctx, request.GetMaxEntries(), request.GetStartingToken())
	if err != nil {
		return nil, err
	}
	pools, err := s.array.ListPools(ctx)
	if err != nil {
		return nil, grpcError(err)
	}
	response := &csi.ControllerListVolumeHealthResponse{NextToken: next}
	for index := range volumes {
		if found := conditions(&volumes[index], pools); len(found) > 0 {
			response.Entries = append(response.Entries, &csi.VolumeHealth{VolumeId: volumes[index].NAA, HealthStatuses: found})
		}
	}
	return response, nil
}

// conditions are those of the volume's pool and its own.
func conditions(volume *array.Volume, pools []array.Pool) []*csi.VolumeHealth_VolumeHealthEntry {
	var found []*csi.VolumeHealth_VolumeHealthEntry
	add := func(kind csi.VolumeHealthErrorType, reason, message string) {
		found = append(found, &csi.VolumeHealth_VolumeHealthEntry{Status: kind, Reason: reason, Message: message})
	}
	for index := range pools {
		pool := &pools[index]
		if pool.Name != volume.Pool {
			continue
		}
		if pool.State == "read-only" {
			reason := ""
			if pool.Reason != nil {
				reason = *pool.Reason
			}
			add(csi.VolumeHealthErrorType_DEGRADED, "PoolReadOnly", "the pool takes no writes: "+reason)
		}
		if pool.JournalLoss != nil {
			add(csi.VolumeHealthErrorType_DATA_LOSS, "JournalLoss",
				fmt.Sprintf("%d commits of the pool's journal cannot be applied", pool.JournalLoss.Commits))
		}
		for _, mirror := range pool.Mirrors {
			if mirror.Degraded {
				add(csi.VolumeHealthErrorType_DEGRADED, "MirrorDegraded", "a member of a mirror of the pool lacks something")
				break
			}
		}
		if pool.Fill == "hard" {
			add(csi.VolumeHealthErrorType_DEGRADED, "PoolAlmostFull", "the pool is at its hard threshold")
		}
	}
	return found
}
