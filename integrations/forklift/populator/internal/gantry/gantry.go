// Package gantry is the storage provider for Gantry arrays: it maps target volumes to the ESXi host that
// copies by XCOPY, over the array's REST interface.
//
// The ESXi host keeps the host object that the array has for its initiators, since an initiator belongs
// to one host object. The tag TagMapped of a volume names the host to which the populator mapped it; it
// is set before the mapping and removed after it, so that a populator that starts again after a crash
// tells its own mapping from one that an administrator made.
package gantry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/logger"
	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/populator"
	"k8s.io/klog/v2"
)

const (
	// CACertificateEnv is the environment variable with the certificates (PEM) that are trusted
	// instead of the system's.
	CACertificateEnv = "STORAGE_CA_CERTIFICATE"
	// TagMapped is the tag that holds the host to which the populator mapped a volume.
	TagMapped = "forklift-xcopy"

	contextGroup = "gantryGroup"
	contextHost  = "gantryHost"
	contextSeers = "gantrySeers"

	// anyHost is the name under which volumes are mapped to every initiator.
	anyHost = "any"
	// hostNameMax is the longest name of a host.
	hostNameMax = 63
	// conflictsMax is how often a change is tried that others come before.
	conflictsMax = 8
	// callTimeout bounds one call of the populator, with all of its requests.
	callTimeout = 3 * time.Minute
)

var naaPattern = regexp.MustCompile(`^naa\.6[0-9a-f]{31}$`)

// Credentials say who asks, and which certificate is trusted.
type Credentials struct {
	Token         string
	Username      string
	Password      string
	SkipVerify    bool
	CACertificate string
}

// GantryClonner is the storage provider.
type GantryClonner struct {
	array     *client
	arrayInfo populator.StorageArrayInfo
	log       klog.Logger
}

var (
	_ populator.VMDKCapable              = &GantryClonner{}
	_ populator.StorageArrayInfoProvider = &GantryClonner{}
)

// NewGantryClonner connects to the array and checks that the credentials allow what is to come: the role
// operator.
func NewGantryClonner(hostname string, credentials Credentials) (GantryClonner, error) {
	array, err := newClient(hostname, credentials)
	if err != nil {
		return GantryClonner{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	me, err := array.me(ctx)
	if err != nil {
		return GantryClonner{}, fmt.Errorf("logging in to the array: %w", err)
	}
	if me.MustChangePassword {
		return GantryClonner{}, errors.New("the array's user has a first password, which must be changed before anything else: log in to the array once and change it, or give a token")
	}
	if me.Role == "viewer" {
		return GantryClonner{}, errors.New("the array's token or user has the role viewer: mapping volumes takes the role operator")
	}
	clonner := GantryClonner{array: array, log: logger.New("gantry")}
	clonner.arrayInfo = populator.StorageArrayInfo{Vendor: "Gantry", Product: "Gantry"}
	if clonner.arrayInfo.Version, err = array.version(ctx); err != nil {
		clonner.log.Info("failed to get the array's version for metrics", "err", err)
	}
	return clonner, nil
}

// GetStorageArrayInfo returns metadata about the array for metric labels.
func (c *GantryClonner) GetStorageArrayInfo() populator.StorageArrayInfo {
	return c.arrayInfo
}

// EnsureClonnerIgroup finds the host object of the ESXi host's initiators. Only if no host has one of
// them, a host of the group's name is made. Adapters that are not iSCSI are left out.
func (c *GantryClonner) EnsureClonnerIgroup(initiatorGroup string, adapterIDs []string) (populator.MappingContext, error) {
	initiators := iscsiNames(adapterIDs)
	if len(initiators) == 0 {
		return nil, fmt.Errorf("none of the adapters %v is iSCSI, and the array speaks only iSCSI: the source datastore is on another array", adapterIDs)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	name, err := c.ensureHost(ctx, initiatorGroup, initiators)
	if err != nil {
		return nil, err
	}
	seers, err := c.seersOf(ctx, name)
	if err != nil {
		return nil, err
	}
	c.log.Info("initiator group ready", "group", initiatorGroup, "host", name)
	return populator.MappingContext{contextGroup: initiatorGroup, contextHost: name, contextSeers: seers}, nil
}

func iscsiNames(adapterIDs []string) []string {
	var names []string
	for _, id := range adapterIDs {
		lower := strings.ToLower(id)
		isISCSI := strings.HasPrefix(lower, "iqn.") || strings.HasPrefix(lower, "eui.") || strings.HasPrefix(lower, "naa.")
		if isISCSI && !slices.Contains(names, id) {
			names = append(names, id)
		}
	}
	return names
}

// ensureHost returns the name of the host that has the first known initiator. Another populator may be
// making the same host meanwhile.
func (c *GantryClonner) ensureHost(ctx context.Context, initiatorGroup string, initiators []string) (string, error) {
	own := hostName(initiatorGroup)
	for range conflictsMax {
		for _, initiator := range initiators {
			var found []host
			if err := c.array.list(ctx, "hosts", url.Values{"initiators": {initiator}}, &found); err != nil {
				return "", fmt.Errorf("looking for the host of initiator %s: %w", initiator, err)
			}
			if len(found) > 0 {
				return found[0].Name, nil
			}
		}
		err := c.array.createHost(ctx, own, initiators)
		if isProblem(err, "name-taken") {
			// A host of this name without these initiators: those of the ESXi host have changed.
			err = c.array.setInitiators(ctx, own, initiators)
		}
		if err == nil {
			return own, nil
		}
		if !isProblem(err, "initiator-taken", "changed", "not-found") {
			return "", fmt.Errorf("making host %s for initiators %v: %w", own, initiators, err)
		}
	}
	return "", fmt.Errorf("others keep changing the hosts of the initiators %v", initiators)
}

// hostName makes a name that the array takes from that of an initiator group, which may hold a path of
// vSphere's inventory.
func hostName(initiatorGroup string) string {
	name := strings.Map(func(letter rune) rune {
		switch {
		case letter >= 'a' && letter <= 'z', letter >= 'A' && letter <= 'Z', letter >= '0' && letter <= '9', strings.ContainsRune("-_.", letter):
			return letter
		default:
			return '-'
		}
	}, initiatorGroup)
	if name == initiatorGroup && len(name) <= hostNameMax {
		return name
	}
	sum := sha256.Sum256([]byte(initiatorGroup))
	digest := hex.EncodeToString(sum[:8])
	return name[:min(len(name), hostNameMax-len(digest)-1)] + "-" + digest
}

// seersOf are the names under which a volume may be mapped so that the host sees it.
func (c *GantryClonner) seersOf(ctx context.Context, name string) ([]string, error) {
	var groups []group
	if err := c.array.list(ctx, "groups", url.Values{"hosts": {name}}, &groups); err != nil {
		return nil, fmt.Errorf("looking for the groups of host %s: %w", name, err)
	}
	seers := []string{name, anyHost}
	for _, found := range groups {
		seers = append(seers, found.Name)
	}
	return seers, nil
}

// ResolvePVToLUN finds the volume of a persistent volume: the volume handle is its NAA identifier, which
// is never used again.
func (c *GantryClonner) ResolvePVToLUN(pv populator.PersistentVolume) (populator.LUN, error) {
	if !naaPattern.MatchString(pv.VolumeHandle) {
		return populator.LUN{}, fmt.Errorf("the volume handle %q of %s is not that of a Gantry array (naa. and 32 hexadecimal digits): another CSI driver made the volume", pv.VolumeHandle, pv.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	found, err := c.find(ctx, pv.VolumeHandle)
	if err != nil {
		return populator.LUN{}, err
	}
	if found == nil {
		return populator.LUN{}, c.missing(ctx, pv)
	}
	target, err := c.array.targetName(ctx)
	if err != nil {
		return populator.LUN{}, fmt.Errorf("asking for the array's iSCSI name: %w", err)
	}
	c.log.Info("LUN resolved", "volume", found.Pool+"/"+found.Name, "naa", found.NAA)
	return populator.LUN{
		Name: found.Pool + "/" + found.Name, NAA: found.NAA, SerialNumber: strings.TrimPrefix(found.NAA, "naa."),
		IQN: target, VolumeHandle: pv.VolumeHandle, Protocol: "iscsi",
	}, nil
}

// find looks for a volume; nil if there is none of that identifier.
func (c *GantryClonner) find(ctx context.Context, naa string) (*volume, error) {
	var found []volume
	if err := c.array.list(ctx, "volumes", url.Values{"naa": {naa}}, &found); err != nil {
		return nil, fmt.Errorf("looking for volume %s: %w", naa, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	if found[0].Snapshot {
		return nil, fmt.Errorf("%s is the snapshot %s/%s, which cannot be written", naa, found[0].Pool, found[0].Name)
	}
	return &found[0], nil
}

// missing says that a volume is not there, and names the pools that are not open, whose volumes are not
// known.
func (c *GantryClonner) missing(ctx context.Context, pv populator.PersistentVolume) error {
	var pools []pool
	if err := c.array.list(ctx, "pools", nil, &pools); err != nil {
		return fmt.Errorf("looking for the pools: %w", err)
	}
	var closed []string
	for _, candidate := range pools {
		if candidate.State != "ready" && candidate.State != "read-only" {
			closed = append(closed, fmt.Sprintf("%s (%s)", candidate.Name, candidate.State))
		}
	}
	if len(closed) > 0 {
		return fmt.Errorf("the array has no volume %s for %s in an open pool; not open: %s", pv.VolumeHandle, pv.Name, strings.Join(closed, ", "))
	}
	return fmt.Errorf("the array has no volume %s for %s: it was deleted, or is on another array", pv.VolumeHandle, pv.Name)
}

// CurrentMappedGroups returns the hosts and groups to which the volume is mapped, without the one to
// which a populator mapped it that did not come to its end.
func (c *GantryClonner) CurrentMappedGroups(targetLUN populator.LUN, _ populator.MappingContext) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	found, err := c.existing(ctx, targetLUN)
	if err != nil {
		return nil, err
	}
	mine := found.Tags[TagMapped]
	return slices.DeleteFunc(found.hosts(), func(name string) bool { return name == mine }), nil
}

func (c *GantryClonner) existing(ctx context.Context, lun populator.LUN) (*volume, error) {
	found, err := c.find(ctx, lun.NAA)
	if err == nil && found == nil {
		err = fmt.Errorf("volume %s (%s) is not on the array any more", lun.Name, lun.NAA)
	}
	return found, err
}

// MapTarget maps the volume to the ESXi host, unless the host sees it already.
func (c *GantryClonner) MapTarget(targetLUN populator.LUN, mapping populator.MappingContext) (populator.LUN, error) {
	esx, err := esxHost(mapping)
	if err != nil {
		return targetLUN, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.unmapFromOther(ctx, targetLUN, esx); err != nil {
		return targetLUN, err
	}
	found, err := c.existing(ctx, targetLUN)
	if err != nil {
		return targetLUN, err
	}
	seers, _ := mapping[contextSeers].([]string)
	if slices.ContainsFunc(found.hosts(), func(name string) bool { return slices.Contains(seers, name) }) {
		c.log.V(2).Info("the host sees the volume already", "volume", targetLUN.Name, "host", esx)
		return targetLUN, nil
	}
	if err := c.mark(ctx, found, esx); err != nil {
		return targetLUN, err
	}
	if err := c.array.mapTo(ctx, found, esx); err != nil {
		return targetLUN, fmt.Errorf("mapping volume %s to host %s: %w", targetLUN.Name, esx, err)
	}
	c.log.Info("volume mapped", "volume", targetLUN.Name, "host", esx)
	return targetLUN, nil
}

// unmapFromOther undoes what a populator left that copied on another ESXi host.
func (c *GantryClonner) unmapFromOther(ctx context.Context, lun populator.LUN, esx string) error {
	found, err := c.existing(ctx, lun)
	if err != nil {
		return err
	}
	if left := found.Tags[TagMapped]; left != "" && left != esx {
		return c.withdraw(ctx, found)
	}
	return nil
}

// UnmapTarget takes the volume away from the ESXi host if the populator mapped it there.
func (c *GantryClonner) UnmapTarget(targetLUN populator.LUN, mapping populator.MappingContext) error {
	if _, err := esxHost(mapping); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	found, err := c.find(ctx, targetLUN.NAA)
	if err != nil || found == nil || found.Tags[TagMapped] == "" {
		return err
	}
	return c.withdraw(ctx, found)
}

// withdraw unmaps a volume from the host of its tag, then removes the tag.
func (c *GantryClonner) withdraw(ctx context.Context, found *volume) error {
	mine := found.Tags[TagMapped]
	err := c.array.unmapFrom(ctx, found, mine)
	if err != nil && !isProblem(err, "not-mapped", "not-found") {
		return fmt.Errorf("unmapping volume %s/%s from host %s: %w", found.Pool, found.Name, mine, err)
	}
	c.log.Info("volume unmapped", "volume", found.Pool+"/"+found.Name, "host", mine)
	return c.mark(ctx, found, "")
}

// mark sets the tag of a volume, or removes it for an empty name; other tags stay, also those that
// somebody sets meanwhile.
func (c *GantryClonner) mark(ctx context.Context, v *volume, name string) error {
	for range conflictsMax {
		now, etag, err := c.array.showVolume(ctx, v.Pool, v.Name)
		if err != nil {
			return fmt.Errorf("looking at volume %s/%s: %w", v.Pool, v.Name, err)
		}
		if now.Tags[TagMapped] == name {
			return nil
		}
		tags := map[string]string{}
		for key, value := range now.Tags {
			tags[key] = value
		}
		if name == "" {
			delete(tags, TagMapped)
		} else {
			tags[TagMapped] = name
		}
		if err := c.array.setTags(ctx, now, tags, etag); !isProblem(err, "changed") {
			if err != nil {
				err = fmt.Errorf("setting tag %s of volume %s/%s: %w", TagMapped, v.Pool, v.Name, err)
			}
			return err
		}
	}
	return fmt.Errorf("others keep changing volume %s/%s", v.Pool, v.Name)
}

// Map maps the volume to a host or group of the array, or to the ESXi host if the clonner's group is
// named. What is mapped already stays as it is.
func (c *GantryClonner) Map(initiatorGroup string, targetLUN populator.LUN, mapping populator.MappingContext) (populator.LUN, error) {
	if isClonner(initiatorGroup, mapping) {
		return c.MapTarget(targetLUN, mapping)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	found, err := c.existing(ctx, targetLUN)
	if err != nil || slices.Contains(found.hosts(), initiatorGroup) {
		return targetLUN, err
	}
	if err := c.array.mapTo(ctx, found, initiatorGroup); err != nil {
		return targetLUN, fmt.Errorf("mapping volume %s to %s: %w", targetLUN.Name, initiatorGroup, err)
	}
	return targetLUN, nil
}

// UnMap takes the volume away from a host or group of the array, or from the ESXi host if the clonner's
// group is named. What is not mapped is no error.
func (c *GantryClonner) UnMap(initiatorGroup string, targetLUN populator.LUN, mapping populator.MappingContext) error {
	if isClonner(initiatorGroup, mapping) {
		return c.UnmapTarget(targetLUN, mapping)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	found, err := c.find(ctx, targetLUN.NAA)
	if err != nil || found == nil {
		return err
	}
	if err := c.array.unmapFrom(ctx, found, initiatorGroup); err != nil && !isProblem(err, "not-mapped") {
		return fmt.Errorf("unmapping volume %s from %s: %w", targetLUN.Name, initiatorGroup, err)
	}
	return nil
}

func isClonner(initiatorGroup string, mapping populator.MappingContext) bool {
	named, _ := mapping[contextGroup].(string)
	return named != "" && named == initiatorGroup
}

func esxHost(mapping populator.MappingContext) (string, error) {
	name, _ := mapping[contextHost].(string)
	if name == "" {
		return "", errors.New("the mapping context does not name the ESXi host: EnsureClonnerIgroup goes before")
	}
	return name, nil
}
