package array

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// ChangesMax is the largest number of extents in one answer about changes.
const ChangesMax = 10000

// Changes is a part of what differs between two snapshots, or of what one holds.
type Changes struct {
	// NAA and BaseNAA tell of which snapshots the part is.
	NAA     string `json:"naa"`
	BaseNAA string `json:"base_naa"`
	// SizeBytes is the size of the snapshot.
	SizeBytes int64 `json:"size_bytes"`
	// Extents are in order and do not overlap; what lies between them is equal.
	Extents []Extent `json:"extents"`
	// NextOffset is where the next part begins; nil if this was the last.
	NextOffset *int64 `json:"next_offset"`
}

// Extent is a run of bytes, in multiples of 4,096.
type Extent struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	// State is 'data', or 'zero' where the snapshot holds nothing.
	State string `json:"state"`
}

// ShowChanges asks what differs between a snapshot and an older one of its pool, 'base', from an offset
// on (a multiple of 4,096), or what the snapshot holds if base is empty; at most limit extents, 1 to
// ChangesMax. Refusals: not-found, is-volume, device-failed.
func (c *Client) ShowChanges(ctx context.Context, ref Ref, base string, offset int64, limit int) (*Changes, error) {
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}, "limit": {strconv.Itoa(limit)}}
	if base != "" {
		query.Set("base", base)
	}
	changes := &Changes{}
	segments := []string{"snapshots", ref.Pool, ref.Name, "changes"}
	_, err := c.do(ctx, request{method: http.MethodGet, segments: segments, query: query}, changes)
	return changes, err
}
