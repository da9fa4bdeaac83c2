package gantry

import (
	"context"
	"net/http"
	"net/url"
)

// volume is a volume of the array, with what the provider reads of it.
type volume struct {
	Pool     string            `json:"pool"`
	Name     string            `json:"name"`
	NAA      string            `json:"naa"`
	Snapshot bool              `json:"snapshot"`
	Tags     map[string]string `json:"tags"`
	Maps     []struct {
		// Host is a host, a group, or 'any'.
		Host     string `json:"host"`
		ReadOnly bool   `json:"read_only"`
	} `json:"maps"`
}

// hosts are the hosts and groups to which the volume is mapped.
func (v *volume) hosts() []string {
	names := make([]string, 0, len(v.Maps))
	for _, mapped := range v.Maps {
		names = append(names, mapped.Host)
	}
	return names
}

// host is a host object of the array: the initiators of one machine.
type host struct {
	Name       string   `json:"name"`
	Initiators []string `json:"initiators"`
}

// group is several hosts that see the same volumes.
type group struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"`
}

// pool is a pool, whose volumes are known while it is open.
type pool struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

func (c *client) list(ctx context.Context, collection string, filter url.Values, result any) error {
	_, err := c.do(ctx, request{method: http.MethodGet, segments: []string{collection}, query: filter}, result)
	return err
}

// showVolume asks for a volume and the ETag for If-Match.
func (c *client) showVolume(ctx context.Context, poolName, name string) (*volume, string, error) {
	shown := &volume{}
	etag, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"volumes", poolName, name}}, shown)
	return shown, etag, err
}

// setTags sets all tags of a volume, if nobody changed the volume since the ETag.
func (c *client) setTags(ctx context.Context, v *volume, tags map[string]string, etag string) error {
	return c.change(ctx, http.MethodPut, []string{"volumes", v.Pool, v.Name, "tags"}, map[string]any{"tags": tags}, etag)
}

// mapTo maps a volume to a host or group.
func (c *client) mapTo(ctx context.Context, v *volume, hostName string) error {
	body := map[string]any{"read_only": false}
	return c.change(ctx, http.MethodPut, []string{"volumes", v.Pool, v.Name, "maps", hostName}, body, "")
}

// unmapFrom takes a volume away from a host or group.
func (c *client) unmapFrom(ctx context.Context, v *volume, hostName string) error {
	return c.change(ctx, http.MethodDelete, []string{"volumes", v.Pool, v.Name, "maps", hostName}, nil, "")
}

// createHost makes a host of initiators that no host has.
func (c *client) createHost(ctx context.Context, name string, initiators []string) error {
	return c.change(ctx, http.MethodPost, []string{"hosts"}, map[string]any{"name": name, "initiators": initiators}, "")
}

// setInitiators replaces the initiators of a host.
func (c *client) setInitiators(ctx context.Context, name string, initiators []string) error {
	return c.change(ctx, http.MethodPatch, []string{"hosts", name}, map[string]any{"initiators": initiators}, "")
}

// targetName asks for the array's iSCSI name.
func (c *client) targetName(ctx context.Context) (string, error) {
	shown := struct {
		Name string `json:"name"`
	}{}
	_, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"target"}}, &shown)
	return shown.Name, err
}

// caller is what the array says of whoever asks.
type caller struct {
	// Role is viewer, operator or admin.
	Role string `json:"role"`
	// MustChangePassword says that nothing else is allowed before.
	MustChangePassword bool `json:"must_change_password"`
}

// me asks what the credentials allow.
func (c *client) me(ctx context.Context) (caller, error) {
	shown := caller{}
	_, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"me"}}, &shown)
	return shown, err
}

// version asks for the array's version.
func (c *client) version(ctx context.Context) (string, error) {
	described := struct {
		Info struct {
			Version string `json:"version"`
		} `json:"info"`
	}{}
	_, err := c.do(ctx, request{method: http.MethodGet, segments: []string{"openapi.json"}}, &described)
	return described.Info.Version, err
}

func (c *client) change(ctx context.Context, method string, segments []string, body any, etag string) error {
	_, err := c.do(ctx, request{method: method, segments: segments, body: body, etag: etag}, nil)
	return err
}
