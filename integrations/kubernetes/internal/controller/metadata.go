package controller

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/go/array"
)

const (
	// arrayBlock is the unit of the array's map: changes are multiples of it.
	arrayBlock = 4096
	// rangesMax is how many ranges the array is asked for at once, and how many a message has at most:
	// 16 KiB or less.
	rangesMax = 1000
)

// question is what a caller of the snapshot metadata service asks for.
type question struct {
	// base is the identifier of the older snapshot; empty for all that the other one holds.
	base, target string
	offset       int64
	maxResults   int32
}

// part is what one message of a stream says.
type part struct {
	capacity int64
	ranges   []*csi.BlockMetadata
}

// GetMetadataAllocated streams what a snapshot holds. Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE.
func (s *Server) GetMetadataAllocated(request *csi.GetMetadataAllocatedRequest, stream csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	asked := question{target: request.GetSnapshotId(), offset: request.GetStartingOffset(), maxResults: request.GetMaxResults()}
	return s.streamMetadata(stream.Context(), asked, func(p part) error {
		return stream.Send(&csi.GetMetadataAllocatedResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: p.capacity, BlockMetadata: p.ranges,
		})
	})
}

// GetMetadataDelta streams what differs between two snapshots of one volume, also where the newer one
// holds nothing any more. Errors: INVALID_ARGUMENT (also for snapshots of different volumes, and in the
// wrong order), NOT_FOUND, OUT_OF_RANGE.
func (s *Server) GetMetadataDelta(request *csi.GetMetadataDeltaRequest, stream csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	if request.GetBaseSnapshotId() == "" {
		return status.Error(codes.InvalidArgument, "the base snapshot ID is missing")
	}
	asked := question{
		base: request.GetBaseSnapshotId(), target: request.GetTargetSnapshotId(),
		offset: request.GetStartingOffset(), maxResults: request.GetMaxResults(),
	}
	return s.streamMetadata(stream.Context(), asked, func(p part) error {
		return stream.Send(&csi.GetMetadataDeltaResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: p.capacity, BlockMetadata: p.ranges,
		})
	})
}

// streamMetadata sends all that is asked for, in messages of as many ranges as the caller takes. A stream
// without ranges has one message, which tells the capacity.
func (s *Server) streamMetadata(ctx context.Context, asked question, send func(part) error) error {
	target, base, err := s.compared(ctx, asked)
	if err != nil {
		return grpcError(err)
	}
	most := rangesMax
	if asked.maxResults > 0 {
		most = min(most, int(asked.maxResults))
	}
	sent := false
	for offset := asked.offset - asked.offset%arrayBlock; ; {
		changes, err := s.array.ShowChanges(ctx, target.Ref(), nameOf(base), offset, rangesMax)
		if err == nil {
			err = checkSame(changes, target, base)
		}
		if err != nil {
			return metadataError(err)
		}
		for ranges := range slices.Chunk(joined(changes.Extents), most) {
			if err := send(part{capacity: target.SizeBytes, ranges: ranges}); err != nil {
				return err
			}
			sent = true
		}
		switch {
		case changes.NextOffset != nil:
			offset = *changes.NextOffset
		case sent:
			return nil
		default:
			return send(part{capacity: target.SizeBytes})
		}
	}
}

// compared finds the snapshots of a question, and checks it; base is nil if none is asked for.
func (s *Server) compared(ctx context.Context, asked question) (target, base *array.Snapshot, err error) {
	if asked.target == "" {
		return nil, nil, status.Error(codes.InvalidArgument, "the snapshot ID is missing")
	}
	if asked.maxResults < 0 {
		return nil, nil, status.Error(codes.InvalidArgument, "max_results is negative")
	}
	if target, err = s.existingSnapshot(ctx, asked.target); err != nil {
		return nil, nil, err
	}
	if asked.base != "" {
		if base, err = s.existingSnapshot(ctx, asked.base); err != nil {
			return nil, nil, err
		}
		if err := checkPair(target, base); err != nil {
			return nil, nil, err
		}
	}
	if asked.offset < 0 || asked.offset > target.SizeBytes {
		return nil, nil, status.Errorf(codes.OutOfRange,
			"starting_offset %d does not lie in the snapshot, which has %d bytes", asked.offset, target.SizeBytes)
	}
	return target, base, nil
}

// existingSnapshot finds a snapshot that must exist (NOT_FOUND); the driver need not have made it.
func (s *Server) existingSnapshot(ctx context.Context, id string) (*array.Snapshot, error) {
	snapshot, _, err := s.snapshot(ctx, id)
	if err == nil && snapshot == nil {
		err = status.Errorf(codes.NotFound, "the array has no snapshot %s", id)
	}
	return snapshot, err
}

// checkPair refuses snapshots of different volumes, and a base that is the newer one.
func checkPair(target, base *array.Snapshot) error {
	if base.Pool != target.Pool || !haveOneSource(target, base) {
		return status.Errorf(codes.InvalidArgument, "%s and %s are not snapshots of one volume", base.Ref(), target.Ref())
	}
	if base.Created > target.Created {
		return status.Errorf(codes.InvalidArgument, "the base %s is newer than %s: exchange them", base.Ref(), target.Ref())
	}
	return nil
}

// haveOneSource says whether two snapshots are of one volume: by the driver's tags, or while the volume
// exists by what the array says.
func haveOneSource(one, other *array.Snapshot) bool {
	if source := one.Tags[tagSource]; source != "" && other.Tags[tagSource] != "" {
		return source == other.Tags[tagSource]
	}
	return one.Volume != nil && other.Volume != nil && *one.Volume == *other.Volume
}

func nameOf(snapshot *array.Snapshot) string {
	if snapshot == nil {
		return ""
	}
	return snapshot.Name
}

// checkSame refuses a part of other snapshots: while the stream was under way they were renamed.
func checkSame(changes *array.Changes, target, base *array.Snapshot) error {
	if changes.NAA != target.NAA || (base != nil && changes.BaseNAA != base.NAA) {
		return status.Error(codes.Aborted, "a snapshot was renamed meanwhile: ask again from the last range on")
	}
	return nil
}

// metadataError keeps FAILED_PRECONDITION for arrays that do not track changes, after which callers make
// a full backup: of a damaged map that would be wrong.
func metadataError(err error) error {
	if array.IsProblem(err, "device-failed") {
		return status.Error(codes.DataLoss, err.Error())
	}
	return grpcError(err)
}

// joined makes ranges of extents. What holds nothing any more has changed, too, so neighbours become one.
func joined(extents []array.Extent) []*csi.BlockMetadata {
	var ranges []*csi.BlockMetadata
	for _, extent := range extents {
		if last := len(ranges) - 1; last >= 0 && ranges[last].ByteOffset+ranges[last].SizeBytes == extent.Offset {
			ranges[last].SizeBytes += extent.Length
			continue
		}
		ranges = append(ranges, &csi.BlockMetadata{ByteOffset: extent.Offset, SizeBytes: extent.Length})
	}
	return ranges
}
