// Package controller is the CSI controller and group controller service: volumes, snapshots and LUN maps
// through the array's REST interface. It keeps no state: the array is the only record, so any number of
// instances may run, and be killed, at any time.
//
// Identifiers of volumes and snapshots are NAA identifiers, which the array never gives twice; a volume
// that was renamed on the array stays the same volume. The tag 'csi.name' holds the CSI name from the first
// moment on, and marks what the driver may delete; 'csi.unfinished' says that a call has still to change it.
package controller

import (
	"context"
	"net/url"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/go/array"
	"gantry.io/kubernetes-csi/internal/keylock"
	"gantry.io/kubernetes-csi/internal/zones"
)

const (
	// tagName holds the CSI name of a volume, snapshot or group of snapshots.
	tagName = "csi.name"
	// tagSource holds the NAA identifier of what a volume or snapshot was made from.
	tagSource = "csi.source"
	// tagUnfinished is on a volume that has yet to grow or to get its mutable parameters; it goes last.
	tagUnfinished = "csi.unfinished"
	// tagChapKey of a host holds the name of the key from which its CHAP secret was derived.
	tagChapKey = "csi.chap-key"

	// conflictsMax is how often a change is tried again that somebody else's change came before.
	conflictsMax = 16
	// lookupsMax is how often an object is looked for that was renamed while it was looked for.
	lookupsMax = 4
	// hintsMax bounds the memory for names of volumes; beyond it all are forgotten.
	hintsMax = 16384
)

// Options of the controller.
type Options struct {
	// Portals that nodes log in to (IP:PORT) instead of those that the array tells; empty for those.
	Portals []string
	// Zones are the parts of the cluster and the portals that each reaches; none if every node reaches all.
	Zones zones.Zones
	// ChapKeys derives the CHAP accounts of nodes; nil for none.
	ChapKeys ChapKeys
}

// ChapKeys derives the CHAP account of a node.
type ChapKeys interface {
	// Current is the name of the key for new accounts.
	Current() (string, error)
	// Account derives an initiator's account from a key.
	Account(key, initiator string) (user, secret string, err error)
}

// Server is the controller service.
type Server struct {
	csi.UnimplementedControllerServer
	csi.UnimplementedGroupControllerServer
	csi.UnimplementedSnapshotMetadataServer

	array   *array.Client
	options Options
	locks   keylock.Set

	// hints holds where volumes and snapshots were last seen, by NAA; each is checked when it is used.
	hints      map[string]array.Ref
	hintsMutex sync.Mutex

	target      string
	targetMutex sync.Mutex
}

// New makes the service.
func New(client *array.Client, options Options) *Server {
	return &Server{array: client, options: options, hints: make(map[string]array.Ref)}
}

// lock takes a key, or says that an operation on the same thing is under way (ABORTED).
func (s *Server) lock(key string) (func(), error) {
	unlock, ok := s.locks.TryLock(key)
	if !ok {
		return nil, status.Error(codes.Aborted, "an operation on the same object is under way")
	}
	return unlock, nil
}

// lockID takes the lock of the volume or snapshot (kind) of an ID. Errors: INVALID_ARGUMENT without an
// ID, ABORTED as lock.
func (s *Server) lockID(kind, id string) (func(), error) {
	if id == "" {
		return nil, status.Errorf(codes.InvalidArgument, "the %s ID is missing", kind)
	}
	return s.lock(kind + " " + id)
}

func (s *Server) remember(id string, ref array.Ref) {
	s.hintsMutex.Lock()
	defer s.hintsMutex.Unlock()
	if len(s.hints) >= hintsMax {
		clear(s.hints)
	}
	s.hints[id] = ref
}

func (s *Server) hint(id string) (array.Ref, bool) {
	s.hintsMutex.Lock()
	defer s.hintsMutex.Unlock()
	ref, known := s.hints[id]
	return ref, known
}

// volume finds a volume by its identifier, with its ETag; nil if the array does not have it. While a
// pool is not open its volumes are not listed, so then a volume that is not found may exist: UNAVAILABLE.
func (s *Server) volume(ctx context.Context, id string) (*array.Volume, string, error) {
	if !naa.MatchString(id) {
		return nil, "", nil
	}
	if ref, known := s.hint(id); known {
		volume, etag, err := s.array.ShowVolume(ctx, ref)
		if err == nil && volume.NAA == id {
			return volume, etag, nil
		}
		if err != nil && !array.IsProblem(err, "not-found") {
			return nil, "", err
		}
	}
	for attempt := range lookupsMax {
		found, _, err := s.array.ListVolumes(ctx, url.Values{"naa": {id}}, 1, "")
		if err != nil {
			return nil, "", err
		}
		if len(found) == 0 {
			return nil, "", s.checkAbsence(ctx)
		}
		volume, etag, err := s.array.ShowVolume(ctx, found[0].Ref())
		if err == nil && volume.NAA == id {
			s.remember(id, volume.Ref())
			return volume, etag, nil
		}
		if err != nil && !array.IsProblem(err, "not-found") {
			return nil, "", err
		}
		// It was deleted or renamed in between.
		if err := pause(ctx, attempt); err != nil {
			return nil, "", err
		}
	}
	return nil, "", status.Error(codes.Aborted, "the volume is renamed again and again: ask later")
}

// existingVolume is the same for callers that need it (NOT_FOUND; INVALID_ARGUMENT without an ID).
func (s *Server) existingVolume(ctx context.Context, id string) (*array.Volume, string, error) {
	if id == "" {
		return nil, "", status.Error(codes.InvalidArgument, "the volume ID is missing")
	}
	volume, etag, err := s.volume(ctx, id)
	if err != nil {
		return nil, "", grpcError(err)
	}
	if volume == nil || volume.Snapshot {
		return nil, "", status.Errorf(codes.NotFound, "the array has no volume %s", id)
	}
	return volume, etag, nil
}

// snapshot finds a snapshot by its identifier, with the same rules.
func (s *Server) snapshot(ctx context.Context, id string) (*array.Snapshot, string, error) {
	if !naa.MatchString(id) {
		return nil, "", nil
	}
	for attempt := range lookupsMax {
		found, _, err := s.array.ListSnapshots(ctx, url.Values{"naa": {id}}, 1, "")
		if err != nil {
			return nil, "", err
		}
		if len(found) == 0 {
			return nil, "", s.checkAbsence(ctx)
		}
		snapshot, etag, err := s.array.ShowSnapshot(ctx, found[0].Ref())
		if err == nil && snapshot.NAA == id {
			return snapshot, etag, nil
		}
		if err != nil && !array.IsProblem(err, "not-found") {
			return nil, "", err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, "", err
		}
	}
	return nil, "", status.Error(codes.Aborted, "the snapshot is renamed again and again: ask later")
}

// checkAbsence returns nil if what is not listed does not exist: all pools are open.
func (s *Server) checkAbsence(ctx context.Context) error {
	pools, err := s.array.ListPools(ctx)
	if err != nil {
		return err
	}
	for index := range pools {
		if !pools[index].IsOpen() {
			return status.Errorf(codes.Unavailable,
				"pool '%s' is %s, so it is not known whether the object exists: 'gantry pool show %s' says why",
				pools[index].Name, pools[index].State, pools[index].Name)
		}
	}
	return nil
}

// ControllerGetCapabilities tells what is implemented.
func (s *Server) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	types := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH,
		csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH,
	}
	capabilities := make([]*csi.ControllerServiceCapability, 0, len(types))
	for _, kind := range types {
		rpc := &csi.ControllerServiceCapability_RPC{Type: kind}
		capabilities = append(capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: capabilities}, nil
}

// HasZones says whether volumes are not accessible from everywhere.
func (s *Server) HasZones() bool { return s.options.Zones.Exist() }

// Probe says whether the array answers and takes the token.
func (s *Server) Probe(ctx context.Context) error {
	role, err := s.array.Role(ctx)
	if err != nil {
		return grpcError(err)
	}
	if role == "viewer" {
		return status.Error(codes.PermissionDenied, "the driver's token has the role viewer and needs operator")
	}
	return nil
}
