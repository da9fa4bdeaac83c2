package provider

import (
	"context"
	"net/url"
	"strings"

	"gantry.io/go/array"
)

// unit is what has an NAA identifier: a volume or a snapshot.
type unit struct {
	ref  array.Ref
	size int64
	maps []array.Map
	// snapshot says which it is.
	snapshot bool
}

// mapOf is how a host or group sees it; false if it does not.
func (u unit) mapOf(host string) (array.Map, bool) {
	for _, candidate := range u.maps {
		if candidate.Host == host {
			return candidate, true
		}
	}
	return array.Map{}, false
}

// findUnit finds a volume or snapshot by its NAA identifier, whatever its name is now, and the ETag as a
// volume. pool is where it was last, if known.
func findUnit(ctx context.Context, client *array.Client, naa, pool string) (unit, string, error) {
	filter := url.Values{"naa": {naa}}
	volumes, _, err := client.ListVolumes(ctx, filter, 1, "")
	if err != nil {
		return unit{}, "", err
	}
	if len(volumes) == 1 {
		return shownUnit(ctx, client, volumes[0].Ref(), naa)
	}
	snapshots, _, err := client.ListSnapshots(ctx, filter, 1, "")
	if err != nil {
		return unit{}, "", err
	}
	if len(snapshots) == 1 {
		return shownUnit(ctx, client, snapshots[0].Ref(), naa)
	}
	if pool == "" {
		return unit{}, "", errGone
	}
	return unit{}, "", lost(ctx, client, pool)
}

func shownUnit(ctx context.Context, client *array.Client, ref array.Ref, naa string) (unit, string, error) {
	found, etag, err := client.ShowVolume(ctx, ref)
	if array.IsProblem(err, "not-found") || (err == nil && found.NAA != naa) {
		// It was renamed or deleted just now.
		return unit{}, "", &array.Problem{Type: "urn:gantry:problem:changed", Detail: ref.String() + " is just being changed by somebody else"}
	}
	if err != nil {
		return unit{}, "", err
	}
	return unit{ref: found.Ref(), size: found.SizeBytes, maps: found.Maps, snapshot: found.Snapshot}, etag, nil
}

// findVolume is the volume with that identifier.
func findVolume(ctx context.Context, client *array.Client, naa, pool string) (*array.Volume, string, error) {
	found, _, err := client.ListVolumes(ctx, url.Values{"naa": {naa}}, 1, "")
	if err != nil {
		return nil, "", err
	}
	if len(found) == 0 {
		return nil, "", lost(ctx, client, pool)
	}
	volume, etag, err := client.ShowVolume(ctx, found[0].Ref())
	if err == nil && volume.NAA != naa {
		err = errGone
	}
	return volume, etag, gone(err)
}

// findSnapshot is the snapshot with that identifier.
func findSnapshot(ctx context.Context, client *array.Client, naa, pool string) (*array.Snapshot, string, error) {
	found, _, err := client.ListSnapshots(ctx, url.Values{"naa": {naa}}, 1, "")
	if err != nil {
		return nil, "", err
	}
	if len(found) == 0 {
		return nil, "", lost(ctx, client, pool)
	}
	snapshot, etag, err := client.ShowSnapshot(ctx, found[0].Ref())
	if err == nil && snapshot.NAA != naa {
		err = errGone
	}
	return snapshot, etag, gone(err)
}

// gone makes one error of all that say so.
func gone(err error) error {
	if array.IsProblem(err, "not-found", "not-there") {
		return errGone
	}
	return err
}

// refOf reads POOL/NAME.
func refOf(text string) (array.Ref, bool) {
	pool, name, found := strings.Cut(text, "/")
	return array.Ref{Pool: pool, Name: name}, found && pool != "" && name != "" && !strings.Contains(name, "/")
}
