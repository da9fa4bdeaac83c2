package controller

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/go/array"
)

// attributes are what a volume attributes class says of a volume.
type attributes struct {
	thresholds array.Thresholds
	limits     array.Limits
}

// attributesOf are those that a volume has.
func attributesOf(volume *array.Volume) attributes {
	return attributes{thresholds: volume.Thresholds, limits: volume.Limits}
}

// attributeKeys are the parameters of a volume attributes class.
var attributeKeys = []string{"softPercent", "hardPercent", "iops", "bandwidth", "burstMilliseconds"}

// limitKeys are those of them that a storage class may have, too.
var limitKeys = []string{"iops", "bandwidth", "burstMilliseconds"}

// splitLimits takes the limits out of the parameters of a storage class. What a volume attributes
// class says of the same goes first.
func splitLimits(parameters, mutable map[string]string) (placement, attributes map[string]string) {
	placement, attributes = maps.Clone(parameters), map[string]string{}
	for _, key := range limitKeys {
		if value, ok := placement[key]; ok {
			attributes[key] = value
			delete(placement, key)
		}
	}
	maps.Copy(attributes, mutable)
	return placement, attributes
}

// parseMutable reads the parameters of a volume attributes class over what a volume has
// (INVALID_ARGUMENT). Ranges of limits are the array's to check.
func parseMutable(parameters map[string]string, from attributes) (attributes, error) {
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if err := from.set(key, parameters[key]); err != nil {
			return from, err
		}
	}
	if from.thresholds.SoftPercent > from.thresholds.HardPercent {
		return from, status.Errorf(codes.InvalidArgument, "softPercent %d is above hardPercent %d",
			from.thresholds.SoftPercent, from.thresholds.HardPercent)
	}
	return from, nil
}

func (a *attributes) set(key, value string) error {
	refused := func(how string) error {
		return status.Errorf(codes.InvalidArgument, "mutable parameter %s is %q: %s", key, value, how)
	}
	switch key {
	case "softPercent", "hardPercent":
		percent, err := strconv.Atoi(value)
		if err != nil || percent < 1 || percent > 100 {
			return refused("say a whole percentage from 1 to 100")
		}
		if key == "softPercent" {
			a.thresholds.SoftPercent = percent
		} else {
			a.thresholds.HardPercent = percent
		}
	case "iops":
		limit, ok := parseLimit(value, 10, 10_000_000)
		if !ok {
			return refused("say a number of I/Os per second from 10 to 10000000, or none")
		}
		a.limits.IOPS = limit
	case "bandwidth":
		limit, ok := parseLimit(value, 1<<20, 1<<40)
		if !ok {
			return refused("say bytes per second from 1Mi to 1Ti, such as 200Mi, or none")
		}
		a.limits.BytesPerSecond = limit
	case "burstMilliseconds":
		burst, err := strconv.ParseInt(value, 10, 64)
		if err != nil || burst < 10 || burst > 600_000 {
			return refused("say a number of milliseconds from 10 to 600000")
		}
		a.limits.BurstMilliseconds = burst
	default:
		return status.Errorf(codes.InvalidArgument, "mutable parameter %q is not known: there are %s", key, strings.Join(attributeKeys, ", "))
	}
	return nil
}

// parseLimit reads a number with an optional unit (Ki, Mi, Gi, Ti), or none, which is 0.
func parseLimit(text string, least, most int64) (int64, bool) {
	if text == "none" {
		return 0, true
	}
	factor := int64(1)
	for unit, bytes := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, factor = number, bytes
		}
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 0 || number > most/factor || number*factor < least {
		return 0, false
	}
	return number * factor, true
}

// setAttributes makes one change on the way to what is wanted, and says whether there was one: what
// comes after it has another version.
func (s *Server) setAttributes(ctx context.Context, volume *array.Volume, wanted attributes, etag string) (bool, error) {
	switch {
	case wanted.thresholds != volume.Thresholds:
		return true, s.array.SetThresholds(ctx, volume.Ref(), wanted.thresholds, etag)
	case wanted.limits != volume.Limits:
		return true, s.array.SetLimits(ctx, volume.Ref(), wanted.limits, etag)
	default:
		return false, nil
	}
}
