package controller

import (
	"context"
	"maps"
	"net/url"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/go/array"
)

// wanted is a volume as CreateVolume describes it.
type wanted struct {
	name      string
	arrayName string
	placement placement
	sizes     sizeRange
	mutable   map[string]string
	// pool is where it is made, once that is known.
	pool    string
	source  *source
	content *csi.VolumeContentSource
}

// source is what a volume is cloned from.
type source struct {
	id        string
	ref       array.Ref
	sizeBytes int64
}

// CreateVolume makes a volume, empty or with the content of a snapshot or volume, or finds the one that
// an earlier call made. Errors: ALREADY_EXISTS for the same name with other parameters,
// RESOURCE_EXHAUSTED in a full pool and for zones that do not reach the array, OUT_OF_RANGE, NOT_FOUND for the source.
func (s *Server) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	wanted, err := parseWanted(request)
	if err != nil {
		return nil, err
	}
	if !s.options.Zones.Meet(request.GetAccessibilityRequirements()) {
		return nil, status.Errorf(codes.ResourceExhausted, "the array is not reached from %v", request.GetAccessibilityRequirements().GetRequisite())
	}
	unlock, err := s.lock("name " + wanted.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	volume, err := s.findOrMake(ctx, wanted)
	if err != nil {
		return nil, grpcError(err)
	}
	return &csi.CreateVolumeResponse{Volume: s.describeVolume(volume, wanted.content)}, nil
}

func parseWanted(request *csi.CreateVolumeRequest) (*wanted, error) {
	if err := checkName(request.GetName()); err != nil {
		return nil, err
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	parameters, mutable := splitLimits(request.GetParameters(), request.GetMutableParameters())
	placement, err := parsePlacement(parameters)
	if err != nil {
		return nil, err
	}
	sizes, err := parseRange(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	widest := attributes{thresholds: array.Thresholds{SoftPercent: 1, HardPercent: 100}}
	if _, err := parseMutable(mutable, widest); err != nil {
		return nil, err
	}
	return &wanted{
		name: request.GetName(), arrayName: volumeName(request.GetName()), placement: placement,
		sizes: sizes, mutable: mutable, content: request.GetVolumeContentSource(),
	}, nil
}

// findOrMake is repeated when another instance comes in between.
func (s *Server) findOrMake(ctx context.Context, wanted *wanted) (*array.Volume, error) {
	var last error
	for attempt := range conflictsMax {
		found, _, err := s.array.ListVolumes(ctx, url.Values{"name": {wanted.arrayName}}, 0, "")
		if err != nil {
			return nil, err
		}
		volume, err := s.pickOrMake(ctx, wanted, found)
		if err == nil && !isFinished(volume, wanted.name) {
			volume, err = s.complete(ctx, wanted, volume.Ref())
		}
		if err == nil {
			s.remember(volume.NAA, volume.Ref())
			return volume, nil
		}
		if !array.IsProblem(err, "name-taken", "changed", "not-there") {
			return nil, err
		}
		last = err
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
	return nil, s.giveUp(ctx, wanted.pool, wanted.arrayName, last)
}

// pickOrMake makes the volume unless one of those that were found is meant. One that was just made is what
// was wanted, and known by its tags, unless it has yet to grow or to get its mutable parameters.
func (s *Server) pickOrMake(ctx context.Context, wanted *wanted, found []array.Volume) (*array.Volume, error) {
	if volume := pick(found, wanted); volume != nil {
		return s.complete(ctx, wanted, volume.Ref())
	}
	if err := s.resolveSource(ctx, wanted); err != nil {
		return nil, err
	}
	return s.makeVolume(ctx, wanted)
}

// isFinished says whether a volume has the CSI name, and no call has still to change it.
func isFinished(volume *array.Volume, name string) bool {
	_, unfinished := volume.Tags[tagUnfinished]
	return volume.Tags[tagName] == name && !unfinished
}

// giveUp says why a name could not be taken: something else has it (ALREADY_EXISTS), or somebody keeps
// making and deleting it (ABORTED).
func (s *Server) giveUp(ctx context.Context, pool, name string, last error) error {
	if array.IsProblem(last, "name-taken") && pool != "" {
		if _, _, err := s.array.ShowVolume(ctx, array.Ref{Pool: pool, Name: name}); err == nil {
			return last
		}
	}
	return status.Error(codes.Aborted, "others keep changing objects of this name: ask again")
}

// pick chooses among the volumes of the wanted name, at most one a pool, the one that has the CSI name;
// else one in the pool where it would be made; else none.
func pick(found []array.Volume, wanted *wanted) *array.Volume {
	for index := range found {
		if found[index].Tags[tagName] == wanted.name {
			return &found[index]
		}
	}
	for index := range found {
		if wanted.placement.pool == "" || found[index].Pool == wanted.placement.pool {
			return &found[index]
		}
	}
	return nil
}

// resolveSource finds the content source (NOT_FOUND).
func (s *Server) resolveSource(ctx context.Context, wanted *wanted) error {
	switch content := wanted.content.GetType().(type) {
	case nil:
		return nil
	case *csi.VolumeContentSource_Snapshot:
		snapshot, _, err := s.snapshot(ctx, content.Snapshot.GetSnapshotId())
		if err != nil {
			return err
		}
		if snapshot == nil {
			return status.Errorf(codes.NotFound, "the array has no snapshot %s", content.Snapshot.GetSnapshotId())
		}
		wanted.source = &source{id: snapshot.NAA, ref: snapshot.Ref(), sizeBytes: snapshot.SizeBytes}
		return nil
	case *csi.VolumeContentSource_Volume:
		volume, _, err := s.existingVolume(ctx, content.Volume.GetVolumeId())
		if err != nil {
			return err
		}
		wanted.source = &source{id: volume.NAA, ref: volume.Ref(), sizeBytes: volume.SizeBytes}
		return nil
	default:
		return status.Error(codes.InvalidArgument, "the content source is neither a snapshot nor a volume")
	}
}

// sourceID is the identifier of the content source as the caller gave it; empty for none.
func sourceID(content *csi.VolumeContentSource) string {
	if snapshot := content.GetSnapshot(); snapshot != nil {
		return snapshot.GetSnapshotId()
	}
	return content.GetVolume().GetVolumeId()
}

func (s *Server) makeVolume(ctx context.Context, wanted *wanted) (*array.Volume, error) {
	thick := wanted.placement.thick != nil && *wanted.placement.thick
	if wanted.source != nil {
		if pool := wanted.placement.pool; pool != "" && pool != wanted.source.ref.Pool {
			return nil, status.Errorf(codes.InvalidArgument,
				"the source lies in pool '%s': a clone shares its blocks and cannot be in pool '%s'", wanted.source.ref.Pool, pool)
		}
		if _, err := wanted.sizes.size(wanted.source.sizeBytes); err != nil {
			return nil, err
		}
		wanted.pool = wanted.source.ref.Pool
		clone := array.NewClone{Name: wanted.arrayName, Thick: thick, Tags: wanted.tags(wanted.source.sizeBytes)}
		return s.array.CloneVolume(ctx, wanted.source.ref, clone)
	}
	pool, err := s.choosePool(ctx, wanted.placement.pool)
	if err != nil {
		return nil, err
	}
	wanted.pool = pool
	size, err := wanted.sizes.size(0)
	if err != nil {
		return nil, err
	}
	blockSize := wanted.placement.blockSize
	if blockSize == "" {
		blockSize = "512"
	}
	volume, err := s.array.CreateVolume(ctx, array.NewVolume{
		Pool: pool, Name: wanted.arrayName, SizeBytes: size, Thick: thick, BlockSize: blockSize, Tags: wanted.tags(size),
	})
	if array.IsProblem(err, "not-found") {
		return nil, status.Errorf(codes.InvalidArgument, "parameter pool: %v", err)
	}
	return volume, err
}

// tags are those of a volume from its first moment, which has this size then.
func (w *wanted) tags(size int64) map[string]string {
	tags := map[string]string{tagName: w.name}
	if w.source != nil {
		tags[tagSource] = w.source.id
	}
	if len(w.mutable) > 0 || !w.sizes.contains(size) {
		tags[tagUnfinished] = "true"
	}
	return tags
}

// choosePool is the only pool if none was named (INVALID_ARGUMENT): a choice among several would differ
// between two calls for the same name.
func (s *Server) choosePool(ctx context.Context, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	pools, err := s.array.ListPools(ctx)
	if err != nil {
		return "", err
	}
	if len(pools) != 1 {
		return "", status.Errorf(codes.InvalidArgument, "the array has %d pools: name one in the storage class, parameter pool", len(pools))
	}
	return pools[0].Name, nil
}

// complete brings a volume of the wanted name to what was wanted, if an earlier call made it and did not
// finish; ALREADY_EXISTS if it is something else.
func (s *Server) complete(ctx context.Context, wanted *wanted, ref array.Ref) (*array.Volume, error) {
	volume, etag, err := s.array.ShowVolume(ctx, ref)
	if array.IsProblem(err, "not-found") {
		return nil, &array.Problem{Type: "urn:gantry:problem:not-there", Status: 412, Detail: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	if volume.Snapshot || !matchesPlacement(volume, wanted.placement) {
		return nil, incompatible(volume, "another pool, block size or thickness, or a snapshot")
	}
	if err := checkOwn(wanted, volume); err != nil {
		return nil, err
	}
	size, err := s.finalSize(volume, wanted)
	if err != nil || isFinished(volume, wanted.name) {
		return volume, err
	}
	if size > volume.SizeBytes {
		// The ETag changes with it, so the volume is looked at once more.
		if err := s.array.ResizeVolume(ctx, ref, size, etag); err != nil {
			return nil, err
		}
		return s.complete(ctx, wanted, ref)
	}
	return s.mark(ctx, wanted, volume, etag)
}

// finalSize is the size that a volume has or, unless it is finished, will have.
func (s *Server) finalSize(volume *array.Volume, wanted *wanted) (int64, error) {
	if wanted.sizes.contains(volume.SizeBytes) {
		return volume.SizeBytes, nil
	}
	if isFinished(volume, wanted.name) || sourceID(wanted.content) == "" {
		return 0, incompatible(volume, "it has another size")
	}
	return wanted.sizes.size(volume.SizeBytes)
}

// mark writes thresholds and limits, then the tags without the one that says that the volume is not finished.
func (s *Server) mark(ctx context.Context, wanted *wanted, volume *array.Volume, etag string) (*array.Volume, error) {
	if len(wanted.mutable) > 0 {
		attributes, err := parseMutable(wanted.mutable, attributesOf(volume))
		if err != nil {
			return nil, err
		}
		changed, err := s.setAttributes(ctx, volume, attributes, etag)
		if err != nil {
			return nil, err
		}
		if changed {
			return s.complete(ctx, wanted, volume.Ref())
		}
	}
	tags := maps.Clone(volume.Tags)
	delete(tags, tagUnfinished)
	if err := s.array.SetVolumeTags(ctx, volume.Ref(), tags, etag); err != nil {
		return nil, err
	}
	volume.Tags = tags
	return volume, nil
}

func matchesPlacement(volume *array.Volume, placement placement) bool {
	return (placement.pool == "" || placement.pool == volume.Pool) &&
		(placement.thick == nil || *placement.thick == volume.Thick) &&
		(placement.blockSize == "" || placement.blockSize == volume.BlockSize)
}

// checkOwn says that a volume was made for the wanted name and content (ALREADY_EXISTS).
func checkOwn(wanted *wanted, volume *array.Volume) error {
	name, own := volume.Tags[tagName]
	switch {
	case !own:
		return incompatible(volume, "it was not made by the driver")
	case name != wanted.name:
		return incompatible(volume, "it has another CSI name")
	case volume.Tags[tagSource] != sourceID(wanted.content):
		return incompatible(volume, "it has another content source")
	}
	return nil
}

func incompatible(volume *array.Volume, why string) error {
	return status.Errorf(codes.AlreadyExists, "there is a volume %s already, and it is not the one that is asked for: %s", volume.Ref(), why)
}

// DeleteVolume deletes a volume that the driver made. Errors: FAILED_PRECONDITION while nodes see it, and
// for volumes that the driver did not make.
func (s *Server) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := request.GetVolumeId()
	unlock, err := s.lockID("volume", id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for attempt := range conflictsMax {
		volume, etag, err := s.volume(ctx, id)
		if err != nil {
			return nil, grpcError(err)
		}
		if volume == nil {
			return &csi.DeleteVolumeResponse{}, nil
		}
		if volume.Snapshot || volume.Tags[tagName] == "" {
			return nil, status.Errorf(codes.FailedPrecondition,
				"the driver did not make %s, so it does not delete it: 'gantry volume delete %s' does", volume.Ref(), volume.Ref())
		}
		err = s.array.DeleteVolume(ctx, volume.Ref(), etag)
		if err == nil || array.IsProblem(err, "not-found", "not-there") {
			return &csi.DeleteVolumeResponse{}, nil
		}
		if !array.IsProblem(err, "changed") {
			return nil, grpcError(err)
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, grpcError(err)
		}
	}
	return nil, status.Error(codes.Aborted, "others keep changing the volume: ask again")
}

func (s *Server) describeVolume(volume *array.Volume, content *csi.VolumeContentSource) *csi.Volume {
	return &csi.Volume{
		VolumeId: volume.NAA, CapacityBytes: volume.SizeBytes, ContentSource: content, AccessibleTopology: s.options.Zones.Accessible(),
	}
}

// ControllerExpandVolume makes a volume larger while nodes use it; the node then reads its size anew.
func (s *Server) ControllerExpandVolume(ctx context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID is missing")
	}
	if request.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "the capacity range is missing")
	}
	sizes, err := parseRange(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	unlock, err := s.lock("volume " + request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	for attempt := range conflictsMax {
		volume, etag, err := s.existingVolume(ctx, request.GetVolumeId())
		if err != nil {
			return nil, err
		}
		if sizes.contains(volume.SizeBytes) {
			return &csi.ControllerExpandVolumeResponse{CapacityBytes: volume.SizeBytes, NodeExpansionRequired: true}, nil
		}
		size, err := sizes.size(volume.SizeBytes)
		if err != nil {
			return nil, err
		}
		err = s.array.ResizeVolume(ctx, volume.Ref(), size, etag)
		if err != nil && !array.IsProblem(err, "changed", "not-there") {
			return nil, grpcError(err)
		}
		if err == nil {
			return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: true}, nil
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, grpcError(err)
		}
	}
	return nil, status.Error(codes.Aborted, "others keep changing the volume: ask again")
}

// ControllerModifyVolume sets the thresholds at which somebody is told how full a volume is, and the
// limits of what gets done on it.
func (s *Server) ControllerModifyVolume(ctx context.Context, request *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	for attempt := range conflictsMax {
		volume, etag, err := s.existingVolume(ctx, request.GetVolumeId())
		if err != nil {
			return nil, err
		}
		attributes, err := parseMutable(request.GetMutableParameters(), attributesOf(volume))
		if err != nil {
			return nil, err
		}
		changed, err := s.setAttributes(ctx, volume, attributes, etag)
		if err == nil && !changed {
			return &csi.ControllerModifyVolumeResponse{}, nil
		}
		if err == nil {
			continue
		}
		if !array.IsProblem(err, "changed", "not-there") {
			return nil, grpcError(err)
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, grpcError(err)
		}
	}
	return nil, status.Error(codes.Aborted, "others keep changing the volume: ask again")
}
