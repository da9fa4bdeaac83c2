package controller

import (
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// sizeStep is what the array's sizes are multiples of, in bytes.
	sizeStep = 4096
	// sizeRound is what sizes are rounded up to where the limit allows it, in bytes.
	sizeRound = 1 << 20
	// sizeDefault is the size of a volume of which none was said, in bytes.
	sizeDefault = 1 << 30
	// sizeMax is the array's largest volume, in bytes.
	sizeMax = 64 << 40
)

// placement is what the parameters of a storage class say.
type placement struct {
	// pool is the array's pool; empty if the class does not say.
	pool string
	// thick is nil if the class does not say.
	thick *bool
	// blockSize is 512, 512e or 4096; empty if the class does not say.
	blockSize string
}

// parsePlacement reads the parameters of a storage class (INVALID_ARGUMENT).
func parsePlacement(parameters map[string]string) (placement, error) {
	parsed := placement{}
	for key, value := range parameters {
		switch {
		case key == "pool":
			parsed.pool = value
		case key == "thick":
			thick, err := strconv.ParseBool(value)
			if err != nil {
				return placement{}, status.Errorf(codes.InvalidArgument, "parameter thick is %q: say true or false", value)
			}
			parsed.thick = &thick
		case key == "blockSize":
			if value != "512" && value != "512e" && value != "4096" {
				return placement{}, status.Errorf(codes.InvalidArgument, "parameter blockSize is %q: say 512, 512e or 4096", value)
			}
			parsed.blockSize = value
		case strings.HasPrefix(key, "csi.storage.k8s.io/"):
			// For the sidecars.
		default:
			return placement{}, status.Errorf(codes.InvalidArgument, "parameter %q is not known: there are pool, thick, blockSize, %s", key, strings.Join(limitKeys, ", "))
		}
	}
	return parsed, nil
}

// sizeRange is a capacity range: bytes, the limit 0 if there is none.
type sizeRange struct{ required, limit int64 }

// parseRange refuses ranges that no volume fits (INVALID_ARGUMENT, OUT_OF_RANGE).
func parseRange(capacity *csi.CapacityRange) (sizeRange, error) {
	parsed := sizeRange{required: capacity.GetRequiredBytes(), limit: capacity.GetLimitBytes()}
	if parsed.required < 0 || parsed.limit < 0 {
		return parsed, status.Error(codes.InvalidArgument, "a capacity is negative")
	}
	if parsed.limit > 0 && parsed.limit < parsed.required {
		return parsed, status.Errorf(codes.InvalidArgument, "the limit of %d bytes is below the required %d", parsed.limit, parsed.required)
	}
	if parsed.required > sizeMax {
		return parsed, status.Errorf(codes.OutOfRange, "a volume has at most 64 TiB, and %d bytes are required", parsed.required)
	}
	return parsed, nil
}

// size chooses a size in the range that is at least so many bytes (OUT_OF_RANGE).
func (r sizeRange) size(least int64) (int64, error) {
	wanted := max(r.required, least)
	if wanted == 0 {
		wanted = sizeDefault
		if r.limit > 0 {
			wanted = min(wanted, max(r.limit/sizeStep*sizeStep, sizeStep))
		}
	}
	for _, step := range []int64{sizeRound, sizeStep} {
		size := (wanted + step - 1) / step * step
		if r.limit == 0 || size <= r.limit {
			return size, nil
		}
	}
	return 0, status.Errorf(codes.OutOfRange,
		"no size that is a multiple of %d bytes, at least %d and at most %d", sizeStep, wanted, r.limit)
}

// contains says whether an existing size fits the range.
func (r sizeRange) contains(size int64) bool {
	return size >= r.required && (r.limit == 0 || size <= r.limit)
}

// checkCapabilities refuses what a volume cannot be used for (INVALID_ARGUMENT).
func checkCapabilities(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "volume capabilities are missing")
	}
	for _, capability := range capabilities {
		if err := checkCapability(capability); err != nil {
			return err
		}
	}
	return nil
}

func checkCapability(capability *csi.VolumeCapability) error {
	if capability == nil {
		return status.Error(codes.InvalidArgument, "the volume capability is missing")
	}
	if capability.GetBlock() == nil && capability.GetMount() == nil {
		return status.Error(codes.InvalidArgument, "the access type is missing: block or mount")
	}
	mode := capability.GetAccessMode().GetMode()
	if mode == csi.VolumeCapability_AccessMode_UNKNOWN {
		return status.Error(codes.InvalidArgument, "the access mode is missing")
	}
	if isShared(mode) && !isReadOnly(mode) && capability.GetBlock() == nil {
		return status.Error(codes.InvalidArgument,
			"several nodes may write to a raw block volume only: a file system that two nodes mount is destroyed")
	}
	return nil
}

// isShared says whether several nodes may have the volume at once.
func isShared(mode csi.VolumeCapability_AccessMode_Mode) bool {
	switch mode {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	default:
		return false
	}
}

func isReadOnly(mode csi.VolumeCapability_AccessMode_Mode) bool {
	return mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY ||
		mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
}
