package array

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// pageMax is the largest page that the array gives.
const pageMax = 1000

// ShowVolume asks for one volume or snapshot, and the ETag for If-Match.
func (c *Client) ShowVolume(ctx context.Context, ref Ref) (*Volume, string, error) {
	volume := &Volume{}
	got, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"volumes", ref.Pool, ref.Name}}, volume)
	return volume, got.etag, err
}

// ListVolumes asks for a page of volumes that fit a filter, sorted by POOL/NAME. A limit of 0 gives all;
// 'after' is the key of the last one of the page before. The key for the next page is empty on the last.
func (c *Client) ListVolumes(ctx context.Context, filter url.Values, limit int, after string) ([]Volume, string, error) {
	return listed[Volume](ctx, c, "volumes", filter, limit, after)
}

// ListSnapshots does the same for snapshots.
func (c *Client) ListSnapshots(ctx context.Context, filter url.Values, limit int, after string) ([]Snapshot, string, error) {
	return listed[Snapshot](ctx, c, "snapshots", filter, limit, after)
}

func listed[T any](ctx context.Context, c *Client, collection string, filter url.Values, limit int, after string) ([]T, string, error) {
	var all []T
	for {
		size := pageMax
		if limit > 0 {
			size = min(pageMax, limit-len(all))
		}
		query := url.Values{"limit": {strconv.Itoa(size)}}
		for field, values := range filter {
			query[field] = values
		}
		if after != "" {
			query.Set("after", after)
		}
		var page []T
		got, err := c.do(ctx, request{method: http.MethodGet, segments: []string{collection}, query: query}, &page)
		if err != nil {
			return nil, "", err
		}
		all = append(all, page...)
		after = got.next
		if after == "" || (limit > 0 && len(all) >= limit) {
			return all, after, nil
		}
	}
}

// CreateVolume makes an empty volume. Refusals: name-taken, pool-full, not-found (the pool).
func (c *Client) CreateVolume(ctx context.Context, volume NewVolume) (*Volume, error) {
	made := &Volume{}
	_, err := c.do(ctx, request{method: http.MethodPost, segments: []string{"volumes"}, body: volume}, made)
	return made, err
}

// CloneVolume makes a volume with the content of a volume or snapshot, in the same pool. Refusals:
// name-taken, no-space-to-share, not-found.
func (c *Client) CloneVolume(ctx context.Context, source Ref, clone NewClone) (*Volume, error) {
	made := &Volume{}
	_, err := c.do(ctx, request{method: http.MethodPost, segments: []string{"volumes", source.Pool, source.Name, "clones"}, body: clone}, made)
	return made, err
}

// RenameVolume gives a volume another name; nothing that hosts see changes. Refusals: changed,
// name-taken, in-schedule.
func (c *Client) RenameVolume(ctx context.Context, ref Ref, name, etag string) error {
	return c.change(ctx, http.MethodPost, []string{"volumes", ref.Pool, ref.Name, "rename"}, map[string]any{"name": name}, etag)
}

// RenameSnapshot gives a snapshot another name. Refusals: changed, name-taken.
func (c *Client) RenameSnapshot(ctx context.Context, ref Ref, name, etag string) error {
	return c.change(ctx, http.MethodPost, []string{"snapshots", ref.Pool, ref.Name, "rename"}, map[string]any{"name": name}, etag)
}

// ResizeVolume makes a volume larger: bytes, a multiple of 4,096. Refusals: changed, shrink-not-confirmed.
func (c *Client) ResizeVolume(ctx context.Context, ref Ref, sizeBytes int64, etag string) error {
	body := map[string]any{"size_bytes": sizeBytes}
	return c.change(ctx, http.MethodPatch, []string{"volumes", ref.Pool, ref.Name}, body, etag)
}

// DeleteVolume deletes a volume that nobody sees. Refusals: changed, still-mapped, in-schedule.
func (c *Client) DeleteVolume(ctx context.Context, ref Ref, etag string) error {
	return c.change(ctx, http.MethodDelete, []string{"volumes", ref.Pool, ref.Name}, nil, etag)
}

// SetVolumeTags sets all tags of a volume at once.
func (c *Client) SetVolumeTags(ctx context.Context, ref Ref, tags map[string]string, etag string) error {
	return c.change(ctx, http.MethodPut, []string{"volumes", ref.Pool, ref.Name, "tags"}, map[string]any{"tags": tags}, etag)
}

// SetThresholds says when somebody is told how full a volume is.
func (c *Client) SetThresholds(ctx context.Context, ref Ref, thresholds Thresholds, etag string) error {
	return c.change(ctx, http.MethodPut, []string{"volumes", ref.Pool, ref.Name, "thresholds"}, thresholds, etag)
}

// SetLimits says how much gets done on a volume; 0 takes a limit away.
func (c *Client) SetLimits(ctx context.Context, ref Ref, limits Limits, etag string) error {
	return c.change(ctx, http.MethodPatch, []string{"volumes", ref.Pool, ref.Name, "limits"}, limits, etag)
}

// MapVolumeAt does the same by a LUN number, 0 to 16,383. Refusals: changed, lun-taken, lun-resting,
// lun-held, lun-fixed.
func (c *Client) MapVolumeAt(ctx context.Context, ref Ref, host string, lun int, readOnly bool, etag string) (Map, error) {
	made := Map{}
	body := map[string]any{"read_only": readOnly, "lun": lun}
	_, err := c.do(ctx, request{method: http.MethodPut, segments: []string{"volumes", ref.Pool, ref.Name, "maps", host}, body: body, etag: etag}, &made)
	return made, err
}

// MapVolume lets a host see a volume, and returns its LUN number. Refusals: changed, luns-exhausted.
func (c *Client) MapVolume(ctx context.Context, ref Ref, host string, readOnly bool, etag string) (Map, error) {
	made := Map{}
	body := map[string]any{"read_only": readOnly}
	_, err := c.do(ctx, request{method: http.MethodPut, segments: []string{"volumes", ref.Pool, ref.Name, "maps", host}, body: body, etag: etag}, &made)
	return made, err
}

// UnmapVolume takes a volume away from a host. Refusals: changed, not-mapped.
func (c *Client) UnmapVolume(ctx context.Context, ref Ref, host, etag string) error {
	return c.change(ctx, http.MethodDelete, []string{"volumes", ref.Pool, ref.Name, "maps", host}, nil, etag)
}

// CreateSnapshots makes snapshots of 1 to 256 volumes of a pool, all of one moment: all or none.
func (c *Client) CreateSnapshots(ctx context.Context, pool string, snapshots []NewSnapshot) ([]Snapshot, error) {
	var made []Snapshot
	body := map[string]any{"pool": pool, "snapshots": snapshots}
	_, err := c.do(ctx, request{method: http.MethodPost, segments: []string{"snapshots"}, body: body}, &made)
	return made, err
}

// ShowSnapshot asks for one snapshot, and the ETag for If-Match.
func (c *Client) ShowSnapshot(ctx context.Context, ref Ref) (*Snapshot, string, error) {
	snapshot := &Snapshot{}
	got, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"snapshots", ref.Pool, ref.Name}}, snapshot)
	return snapshot, got.etag, err
}

// DeleteSnapshot deletes a snapshot. Refusals: changed, snapshot-locked, still-mapped.
func (c *Client) DeleteSnapshot(ctx context.Context, ref Ref, etag string) error {
	return c.change(ctx, http.MethodDelete, []string{"snapshots", ref.Pool, ref.Name}, nil, etag)
}

// SetSnapshotTags sets all tags of a snapshot at once.
func (c *Client) SetSnapshotTags(ctx context.Context, ref Ref, tags map[string]string, etag string) error {
	return c.change(ctx, http.MethodPut, []string{"snapshots", ref.Pool, ref.Name, "tags"}, map[string]any{"tags": tags}, etag)
}

// HostOf finds the host that an initiator belongs to; nil if there is none.
func (c *Client) HostOf(ctx context.Context, initiator string) (*Host, error) {
	hosts, _, err := listed[Host](ctx, c, "hosts", url.Values{"initiators": {initiator}}, 1, "")
	if err != nil || len(hosts) == 0 {
		return nil, err
	}
	return &hosts[0], nil
}

// ListHosts asks for all hosts.
func (c *Client) ListHosts(ctx context.Context) ([]Host, error) {
	hosts, _, err := listed[Host](ctx, c, "hosts", nil, 0, "")
	return hosts, err
}

// CreateHost makes a host. Refusals: name-taken, initiator-taken.
func (c *Client) CreateHost(ctx context.Context, host NewHost) (*Host, error) {
	made := &Host{}
	_, err := c.do(ctx, request{method: http.MethodPost, segments: []string{"hosts"}, body: host}, made)
	return made, err
}

// ShowHost asks for one host, and the ETag for If-Match.
func (c *Client) ShowHost(ctx context.Context, name string) (*Host, string, error) {
	host := &Host{}
	got, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"hosts", name}}, host)
	return host, got.etag, err
}

// ChangeHost changes initiators or the CHAP account; sessions of another account are asked to log in
// anew. Refusals: changed, initiator-taken.
func (c *Client) ChangeHost(ctx context.Context, name string, change HostChange, etag string) error {
	return c.change(ctx, http.MethodPatch, []string{"hosts", name}, change, etag)
}

// SetHostLimits says how much a host gets done on all volumes together, and its share; 0 takes a limit
// away. Refusals: changed.
func (c *Client) SetHostLimits(ctx context.Context, name string, limits HostLimits, etag string) error {
	return c.change(ctx, http.MethodPatch, []string{"hosts", name, "limits"}, limits, etag)
}

// DeleteHost forgets a host. Refusals: changed, host-in-use, host-in-group.
func (c *Client) DeleteHost(ctx context.Context, name, etag string) error {
	return c.change(ctx, http.MethodDelete, []string{"hosts", name}, nil, etag)
}

// ShowGroup asks for one group of hosts, and the ETag for If-Match.
func (c *Client) ShowGroup(ctx context.Context, name string) (*Group, string, error) {
	group := &Group{}
	got, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"groups", name}}, group)
	return group, got.etag, err
}

// CreateGroup makes a group that is not there. Refusals: already-there, not-found (a host).
func (c *Client) CreateGroup(ctx context.Context, name string, hosts []string) error {
	body := map[string]any{"hosts": hosts}
	_, err := c.do(ctx, request{method: http.MethodPut, segments: []string{"groups", name}, body: body, onlyNew: true}, nil)
	return err
}

// SetGroup changes the hosts of a group. Refusals: changed, not-there, not-found (a host).
func (c *Client) SetGroup(ctx context.Context, name string, hosts []string, etag string) error {
	return c.change(ctx, http.MethodPut, []string{"groups", name}, map[string]any{"hosts": hosts}, etag)
}

// DeleteGroup forgets a group. Refusals: changed, host-in-use.
func (c *Client) DeleteGroup(ctx context.Context, name, etag string) error {
	return c.change(ctx, http.MethodDelete, []string{"groups", name}, nil, etag)
}

// SetGroupTags sets all tags of a group at once.
func (c *Client) SetGroupTags(ctx context.Context, group string, tags map[string]string, etag string) error {
	return c.change(ctx, http.MethodPut, []string{"groups", group, "tags"}, map[string]any{"tags": tags}, etag)
}

// SetHostTags sets all tags of a host at once.
func (c *Client) SetHostTags(ctx context.Context, host string, tags map[string]string, etag string) error {
	return c.change(ctx, http.MethodPut, []string{"hosts", host, "tags"}, map[string]any{"tags": tags}, etag)
}

// ListPools asks for all pools.
func (c *Client) ListPools(ctx context.Context) ([]Pool, error) {
	pools, _, err := listed[Pool](ctx, c, "pools", nil, 0, "")
	return pools, err
}

// ShowPool asks for one pool.
func (c *Client) ShowPool(ctx context.Context, name string) (*Pool, error) {
	pool := &Pool{}
	_, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"pools", name}}, pool)
	return pool, err
}

// ListPortals asks for all portals of the target.
func (c *Client) ListPortals(ctx context.Context) ([]Portal, error) {
	portals, _, err := listed[Portal](ctx, c, "portals", nil, 0, "")
	return portals, err
}

// TargetName asks for the iSCSI name of the target.
func (c *Client) TargetName(ctx context.Context) (string, error) {
	target := struct {
		Name string `json:"name"`
	}{}
	_, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"target"}}, &target)
	return target.Name, err
}

// Role asks what the token allows: viewer, operator or admin.
func (c *Client) Role(ctx context.Context) (string, error) {
	me := struct {
		Role string `json:"role"`
	}{}
	_, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"me"}}, &me)
	return me.Role, err
}

func (c *Client) change(ctx context.Context, method string, segments []string, body any, etag string) error {
	_, err := c.do(ctx, request{method: method, segments: segments, body: body, etag: etag}, nil)
	return err
}
