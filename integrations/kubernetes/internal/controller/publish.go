package controller

import (
	"context"
	"maps"
	"net/netip"
	"net/url"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/go/array"
	"gantry.io/kubernetes-csi/internal/publication"
)

// hostPrefix begins the names of hosts that the driver makes.
const hostPrefix = "csi-"

// ControllerPublishVolume maps a volume to the host of a node, which is made if need be. Errors:
// FAILED_PRECONDITION if another node has it and the access mode allows only one, ALREADY_EXISTS if the
// node has it the other way (read-only or not), NOT_FOUND.
func (s *Server) ControllerPublishVolume(ctx context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetNodeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the node ID is missing")
	}
	if err := checkCapability(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	unlock, err := s.lock("volume " + request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, _, err := s.existingVolume(ctx, request.GetVolumeId()); err != nil {
		return nil, err
	}
	if !initiator.MatchString(request.GetNodeId()) {
		return nil, status.Errorf(codes.NotFound, "no node %q: a node ID is an iSCSI initiator name", request.GetNodeId())
	}
	host, err := s.ensureHost(ctx, request.GetNodeId())
	if err != nil {
		return nil, grpcError(err)
	}
	mode := request.GetVolumeCapability().GetAccessMode().GetMode()
	readOnly := request.GetReadonly() || isReadOnly(mode)
	volume, lun, err := s.mapOnce(ctx, request.GetVolumeId(), host.Name, readOnly, isShared(mode))
	if err != nil {
		return nil, grpcError(err)
	}
	published, err := s.describePublication(ctx, volume, lun, host)
	if err != nil {
		return nil, grpcError(err)
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: published.Context()}, nil
}

// mapOnce maps a volume in one step with the check of who else sees it (If-Match), so that two
// instances of the driver never give a volume to two nodes.
func (s *Server) mapOnce(ctx context.Context, id, host string, readOnly, shared bool) (*array.Volume, int, error) {
	for attempt := range conflictsMax {
		volume, etag, err := s.existingVolume(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		if known, mapped := volume.MapOf(host); mapped {
			if known.ReadOnly != readOnly {
				return nil, 0, status.Errorf(codes.AlreadyExists, "the node has the volume with read-only %t already", known.ReadOnly)
			}
			return volume, known.LUN, nil
		}
		if !shared && len(volume.Maps) > 0 {
			return nil, 0, status.Errorf(codes.FailedPrecondition,
				"the volume is mapped to %s, and the access mode allows one node only", volume.Maps[0].Host)
		}
		made, err := s.array.MapVolume(ctx, volume.Ref(), host, readOnly, etag)
		if err == nil {
			return volume, made.LUN, nil
		}
		if !array.IsProblem(err, "changed", "not-there") {
			return nil, 0, err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, status.Error(codes.Aborted, "others keep changing the volume: ask again")
}

// ensureHost finds or makes the host object of a node. Another call may be making it meanwhile.
func (s *Server) ensureHost(ctx context.Context, node string) (*array.Host, error) {
	for attempt := range conflictsMax {
		host, err := s.array.HostOf(ctx, node)
		if err != nil {
			return nil, err
		}
		if host == nil {
			host, err = s.makeHost(ctx, node)
			if array.IsProblem(err, "name-taken", "initiator-taken") {
				if err := pause(ctx, attempt); err != nil {
					return nil, err
				}
				continue
			}
			return host, err
		}
		if len(host.Initiators) > 1 {
			return nil, status.Errorf(codes.FailedPrecondition,
				"initiator %s belongs to host '%s' of the array together with others, which would see the volume too: give the node a host of its own",
				node, host.Name)
		}
		return s.renewChap(ctx, host, node)
	}
	return nil, status.Errorf(codes.FailedPrecondition,
		"the array has a host '%s' that is not the node %s: rename the node's initiator, or delete the host", hostName(node), node)
}

func (s *Server) makeHost(ctx context.Context, node string) (*array.Host, error) {
	key, chap, err := s.chapAccount(node)
	if err != nil {
		return nil, err
	}
	host, err := s.array.CreateHost(ctx, array.NewHost{Name: hostName(node), Initiators: []string{node}, Chap: chap})
	if err != nil || chap == nil {
		return host, err
	}
	return s.tagChapKey(ctx, host, key)
}

// renewChap gives a node that has no volumes the account of the current key. One that has volumes
// keeps its account, since its sessions end with a change.
func (s *Server) renewChap(ctx context.Context, host *array.Host, node string) (*array.Host, error) {
	key, chap, err := s.chapAccount(node)
	if err != nil || chap == nil || (host.ChapUser != nil && host.Tags[tagChapKey] == key) {
		return host, err
	}
	if host.ChapUser != nil && *host.ChapUser != chap.User {
		return nil, status.Errorf(codes.FailedPrecondition,
			"host '%s' of the array has a CHAP account that the driver did not make: remove it there, or run the driver without CHAP keys", host.Name)
	}
	mapped, _, err := s.array.ListVolumes(ctx, url.Values{"hosts": {host.Name}}, 1, "")
	if err != nil || len(mapped) > 0 {
		return host, err
	}
	// The tag goes last: after an interruption the account is set once more.
	if err := s.array.ChangeHost(ctx, host.Name, array.HostChange{Chap: chap}, ""); err != nil {
		return nil, err
	}
	return s.tagChapKey(ctx, host, key)
}

func (s *Server) tagChapKey(ctx context.Context, host *array.Host, key string) (*array.Host, error) {
	tags := maps.Clone(host.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[tagChapKey] = key
	host.Tags = tags
	return host, s.array.SetHostTags(ctx, host.Name, tags, "")
}

func (s *Server) chapAccount(node string) (string, *array.Chap, error) {
	if s.options.ChapKeys == nil {
		return "", nil, nil
	}
	key, err := s.options.ChapKeys.Current()
	if err != nil {
		return "", nil, status.Errorf(codes.FailedPrecondition, "CHAP keys: %v", err)
	}
	user, secret, err := s.options.ChapKeys.Account(key, node)
	if err != nil {
		return "", nil, status.Errorf(codes.FailedPrecondition, "CHAP keys: %v", err)
	}
	return key, &array.Chap{User: user, Secret: secret}, nil
}

// hostName is readable at its end, where initiator names differ.
func hostName(node string) string {
	readable := strings.Map(func(letter rune) rune {
		if arrayName.MatchString("a" + string(letter)) {
			return letter
		}
		return '-'
	}, node)
	if name := hostPrefix + readable; len(name) <= arrayNameMax {
		return name
	}
	room := arrayNameMax - len(hostPrefix) - digestLength - len("-")
	return hostPrefix + digest(node) + "-" + readable[len(readable)-room:]
}

func (s *Server) describePublication(ctx context.Context, volume *array.Volume, lun int, host *array.Host) (publication.Publication, error) {
	target, err := s.targetName(ctx)
	if err != nil {
		return publication.Publication{}, err
	}
	portals, err := s.portals(ctx)
	if err != nil {
		return publication.Publication{}, err
	}
	key := ""
	if s.options.ChapKeys != nil {
		key = host.Tags[tagChapKey]
	}
	return publication.Publication{Target: target, Portals: portals, Zones: s.options.Zones.Portals(), LUN: lun, NAA: volume.NAA, ChapKey: key}, nil
}

func (s *Server) targetName(ctx context.Context) (string, error) {
	s.targetMutex.Lock()
	defer s.targetMutex.Unlock()
	if s.target != "" {
		return s.target, nil
	}
	name, err := s.array.TargetName(ctx)
	s.target = name
	return name, err
}

// portals are those that nodes can log in to: not wildcard addresses, which say nothing to others.
func (s *Server) portals(ctx context.Context) ([]string, error) {
	if len(s.options.Portals) > 0 {
		return s.options.Portals, nil
	}
	if s.HasZones() {
		return s.options.Zones.All(), nil
	}
	all, err := s.array.ListPortals(ctx)
	if err != nil {
		return nil, err
	}
	var usable []string
	for _, portal := range all {
		address, err := netip.ParseAddrPort(portal.Address)
		if err == nil && !address.Addr().IsUnspecified() && portal.Redirect == nil {
			usable = append(usable, portal.Address)
		}
	}
	if len(usable) == 0 {
		return nil, status.Error(codes.FailedPrecondition,
			"the array names no portal with an address of its own: start gantryd with --iscsi IP:PORT, or the driver with --portals")
	}
	return usable, nil
}

// ControllerUnpublishVolume takes a volume away from a node, or from all if none is named. The array
// does not ask the node, so this fences one that died. A volume that does not exist is not published.
func (s *Server) ControllerUnpublishVolume(ctx context.Context, request *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	id := request.GetVolumeId()
	unlock, err := s.lockID("volume", id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	volume, _, err := s.volume(ctx, id)
	if err != nil {
		return nil, grpcError(err)
	}
	if volume == nil {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	hosts, err := s.hostsToUnmap(ctx, volume, request.GetNodeId())
	if err != nil {
		return nil, grpcError(err)
	}
	for _, host := range hosts {
		err := s.array.UnmapVolume(ctx, volume.Ref(), host, "")
		if err != nil && !array.IsProblem(err, "not-mapped", "not-found") {
			return nil, grpcError(err)
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (s *Server) hostsToUnmap(ctx context.Context, volume *array.Volume, node string) ([]string, error) {
	if node == "" {
		hosts := make([]string, 0, len(volume.Maps))
		for _, seen := range volume.Maps {
			hosts = append(hosts, seen.Host)
		}
		return hosts, nil
	}
	if !initiator.MatchString(node) {
		return nil, nil
	}
	host, err := s.array.HostOf(ctx, node)
	if err != nil || host == nil {
		return nil, err
	}
	if _, mapped := volume.MapOf(host.Name); !mapped {
		return nil, nil
	}
	return []string{host.Name}, nil
}

// ValidateVolumeCapabilities confirms capabilities and parameters that a volume has.
func (s *Server) ValidateVolumeCapabilities(ctx context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID is missing")
	}
	if len(request.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume capabilities are missing")
	}
	volume, _, err := s.existingVolume(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	placement, err := parsePlacement(request.GetParameters())
	if err == nil {
		err = checkCapabilities(request.GetVolumeCapabilities())
	}
	if err == nil && !matchesPlacement(volume, placement) {
		err = status.Error(codes.InvalidArgument, "the volume has another pool, block size or thickness")
	}
	if err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.GetVolumeContext(), VolumeCapabilities: request.GetVolumeCapabilities(),
		Parameters: request.GetParameters(), MutableParameters: request.GetMutableParameters(),
	}}, nil
}
