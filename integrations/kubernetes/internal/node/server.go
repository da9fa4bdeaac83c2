// Package node is the CSI node service: it attaches volumes as block devices, formats and mounts them.
// What it does to the machine goes through the interfaces Initiator and FileSystem, so that it is tested
// without a kernel initiator. It keeps no state of its own: mounts and devices are found again by path
// and by NAA identifier.
package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/kubernetes-csi/internal/keylock"
	"gantry.io/kubernetes-csi/internal/publication"
	"gantry.io/kubernetes-csi/internal/zones"
)

const (
	// nodeIDMax is the longest node ID that Kubernetes takes, in bytes.
	nodeIDMax = 192
	// fileSystemDefault is made where the capability names none.
	fileSystemDefault = "ext4"
	// stagedDevice is the file in the staging folder over which a raw block device is mounted.
	stagedDevice = "device"
)

var naa = regexp.MustCompile(`^naa\.[0-9a-f]{32}$`)

// fileSystems that can be made, mounted and grown.
var fileSystems = []string{"ext4", "ext3", "xfs", "btrfs"}

// Initiator is the machine's iSCSI initiator and its block devices.
type Initiator interface {
	// Name is the machine's initiator name.
	Name() (string, error)
	// Attach logs in over all portals and returns the block device of the LUN, whose identity it has
	// compared with the NAA identifier.
	Attach(ctx context.Context, volume publication.Publication) (device string, err error)
	// Detach removes all devices that have the identifier, and no other ones; none is fine.
	Detach(ctx context.Context, naa string) error
	// StopWaiting lets commands fail that wait for paths where a volume has none left, so that it can be unmounted.
	StopWaiting(ctx context.Context, naa string) error
	// Rescan reads the size anew of all devices that have the identifier, and returns the one to use.
	Rescan(ctx context.Context, naa string) (device string, err error)
}

// FileSystem mounts and formats.
type FileSystem interface {
	// FormatAndMount mounts a device, and makes a file system before if the device is empty.
	FormatAndMount(device, target, kind string, options []string) error
	// Bind mounts a folder or device file over another path.
	Bind(source, target string, readOnly bool, options []string) error
	// Unmount takes a mount away; a path that is none is fine.
	Unmount(target string) error
	// IsMounted says whether something is mounted at a path; fs.ErrNotExist if there is no such path.
	IsMounted(path string) (bool, error)
	// Mounts are all paths at which the same thing is mounted as at this one, itself not among them.
	Mounts(path string) ([]string, error)
	// Grow makes the file system at a path as large as its device, if it is smaller.
	Grow(device, path string) error
	// Usage of the file system at a path, or the size of the device that is there.
	Usage(path string) (Usage, error)
}

// Usage of a file system in bytes and inodes, or of a device in bytes (Total alone).
type Usage struct {
	IsDevice                                 bool
	Total, Used, Available                   int64
	InodesTotal, InodesUsed, InodesAvailable int64
}

// Options of the node service.
type Options struct {
	// VolumesMax is how many volumes the node takes; 0 for no limit of its own.
	VolumesMax int64
	// Zone is the part of the cluster that the node is in, and ZoneKey the key of its segment; empty for none.
	Zone, ZoneKey string
}

// Server is the node service.
type Server struct {
	csi.UnimplementedNodeServer

	initiator  Initiator
	fileSystem FileSystem
	options    Options
	locks      keylock.Set
}

// New makes the service.
func New(initiator Initiator, fileSystem FileSystem, options Options) *Server {
	return &Server{initiator: initiator, fileSystem: fileSystem, options: options}
}

// NodeGetCapabilities tells what is implemented.
func (s *Server) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		rpc := &csi.NodeServiceCapability_RPC{Type: kind}
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: rpc}})
	}
	return response, nil
}

// NodeGetInfo tells the node's ID, which is its initiator name, and its zone.
func (s *Server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	name, err := s.initiator.Name()
	if err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "the node has no iSCSI initiator name (install open-iscsi): %v", err)
	}
	if len(name) > nodeIDMax {
		return nil, status.Errorf(codes.FailedPrecondition, "the initiator name has %d bytes and Kubernetes takes %d: shorten it", len(name), nodeIDMax)
	}
	return &csi.NodeGetInfoResponse{
		NodeId: name, MaxVolumesPerNode: s.options.VolumesMax, AccessibleTopology: zones.Segment(s.options.ZoneKey, s.options.Zone),
	}, nil
}

func (s *Server) lock(id string) (func(), error) {
	unlock, ok := s.locks.TryLock(id)
	if !ok {
		return nil, status.Error(codes.Aborted, "an operation on the same volume is under way")
	}
	return unlock, nil
}

func invalid(sentence string) error { return status.Error(codes.InvalidArgument, sentence) }

// failed gives an error of the machine a code; the end of the context keeps its own.
func failed(what string, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Errorf(codes.DeadlineExceeded, "%s: %v", what, err)
	case errors.Is(err, context.Canceled):
		return status.Errorf(codes.Canceled, "%s: %v", what, err)
	default:
		return status.Errorf(codes.Internal, "%s: %v", what, err)
	}
}

// NodeStageVolume attaches the volume, and mounts it in the staging folder: the file system itself, or
// the device file.
func (s *Server) NodeStageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	id, staging := request.GetVolumeId(), request.GetStagingTargetPath()
	if id == "" || staging == "" || request.GetVolumeCapability() == nil {
		return nil, invalid("the volume ID, the staging path or the volume capability is missing")
	}
	volume, err := publication.Parse(request.GetPublishContext())
	if err != nil {
		return nil, invalid(err.Error())
	}
	if volume.NAA != id {
		return nil, invalid("the publish context is that of another volume")
	}
	if volume, err = volume.In(s.options.Zone); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	unlock, err := s.lock(id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if mounted, err := s.isStaged(staging, request.GetVolumeCapability()); err != nil || mounted {
		return &csi.NodeStageVolumeResponse{}, err
	}
	device, err := s.initiator.Attach(ctx, volume)
	if err != nil {
		return nil, failed("attaching "+id, err)
	}
	if err := s.stage(device, staging, request.GetVolumeCapability()); err != nil {
		return nil, failed("staging "+id, err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (s *Server) isStaged(staging string, capability *csi.VolumeCapability) (bool, error) {
	path := staging
	if capability.GetBlock() != nil {
		path = filepath.Join(staging, stagedDevice)
	}
	mounted, err := s.fileSystem.IsMounted(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, failed("looking at the staging path", err)
	}
	return mounted, nil
}

func (s *Server) stage(device, staging string, capability *csi.VolumeCapability) error {
	if capability.GetBlock() != nil {
		target := filepath.Join(staging, stagedDevice)
		if err := makeFile(target); err != nil {
			return err
		}
		return s.fileSystem.Bind(device, target, false, nil)
	}
	kind := capability.GetMount().GetFsType()
	if kind == "" {
		kind = fileSystemDefault
	}
	if !slices.Contains(fileSystems, kind) {
		return errors.New("file system '" + kind + "' is not one of ext4, ext3, xfs, btrfs")
	}
	options := slices.Clone(capability.GetMount().GetMountFlags())
	if kind == "xfs" {
		options = append(options, "nouuid") // a clone has the UUID of its source
	}
	mode := capability.GetAccessMode().GetMode()
	readOnly := mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY || mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	if readOnly {
		options = append(options, "ro")
	}
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return err
	}
	if err := s.fileSystem.FormatAndMount(device, staging, kind, options); err != nil {
		return err
	}
	if readOnly {
		return nil
	}
	return s.fileSystem.Grow(device, staging) // a clone may be larger than its source
}

// NodeUnstageVolume unmounts the volume and removes its devices.
func (s *Server) NodeUnstageVolume(ctx context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	id, staging := request.GetVolumeId(), request.GetStagingTargetPath()
	if id == "" || staging == "" {
		return nil, invalid("the volume ID or the staging path is missing")
	}
	if !naa.MatchString(id) {
		return nil, invalid("the volume ID is none of this driver")
	}
	unlock, err := s.lock(id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.initiator.StopWaiting(ctx, id); err != nil {
		return nil, failed("looking at the paths of "+id, err)
	}
	// The file system first: what is called like our device file in it is its user's.
	file := filepath.Join(staging, stagedDevice)
	for _, path := range []string{staging, file} {
		if err := s.fileSystem.Unmount(path); err != nil {
			return nil, failed("unmounting the staging path", err)
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) && !isNotFolder(err) {
		return nil, failed("removing the staged device file", err)
	}
	if err := s.initiator.Detach(ctx, id); err != nil {
		return nil, failed("detaching "+id, err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// isNotFolder says that the staging path is not a folder, so that there is no file in it.
func isNotFolder(err error) bool {
	var failure *fs.PathError
	return errors.As(err, &failure) && failure.Err.Error() == "not a directory"
}

// NodePublishVolume mounts a staged volume at the target path.
func (s *Server) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	id, staging, target := request.GetVolumeId(), request.GetStagingTargetPath(), request.GetTargetPath()
	if id == "" || staging == "" || target == "" || request.GetVolumeCapability() == nil {
		return nil, invalid("the volume ID, the staging path, the target path or the volume capability is missing")
	}
	unlock, err := s.lock(id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	staged, err := s.isStaged(staging, request.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if !staged {
		return nil, status.Error(codes.FailedPrecondition, "the volume is not staged on this node")
	}
	source := staging
	if request.GetVolumeCapability().GetBlock() != nil {
		source = filepath.Join(staging, stagedDevice)
	}
	if err := s.checkSingleWriter(source, target, request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if err := s.publish(source, target, request); err != nil {
		return nil, failed("publishing "+id, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// checkSingleWriter refuses a second target path of a volume that only one may use.
func (s *Server) checkSingleWriter(source, target string, capability *csi.VolumeCapability) error {
	if capability.GetAccessMode().GetMode() != csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		return nil
	}
	mounts, err := s.fileSystem.Mounts(source)
	if err != nil {
		return failed("looking for other mounts", err)
	}
	for _, mount := range mounts {
		if mount != target {
			return status.Errorf(codes.FailedPrecondition, "the volume is published at %s already, and its access mode allows one path only", mount)
		}
	}
	return nil
}

func (s *Server) publish(source, target string, request *csi.NodePublishVolumeRequest) error {
	mounted, err := s.fileSystem.IsMounted(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if mounted {
		return nil
	}
	if request.GetVolumeCapability().GetBlock() != nil {
		err = makeFile(target)
	} else {
		err = os.MkdirAll(target, 0o750)
	}
	if err != nil {
		return err
	}
	return s.fileSystem.Bind(source, target, request.GetReadonly(), request.GetVolumeCapability().GetMount().GetMountFlags())
}

func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}

// NodeUnpublishVolume unmounts the target path and removes it.
func (s *Server) NodeUnpublishVolume(ctx context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	id, target := request.GetVolumeId(), request.GetTargetPath()
	if id == "" || target == "" {
		return nil, invalid("the volume ID or the target path is missing")
	}
	unlock, err := s.lock(id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.initiator.StopWaiting(ctx, id); err != nil {
		return nil, failed("looking at the paths of "+id, err)
	}
	if err := s.fileSystem.Unmount(target); err != nil {
		return nil, failed("unmounting the target path", err)
	}
	// Not RemoveAll: what is left in the folder is not the volume's, and not ours.
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, failed("removing the target path", err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats tells how full the file system is, or how large the device (NOT_FOUND).
func (s *Server) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if request.GetVolumeId() == "" || request.GetVolumePath() == "" {
		return nil, invalid("the volume ID or the volume path is missing")
	}
	if err := s.checkMounted(request.GetVolumeId(), request.GetVolumePath()); err != nil {
		return nil, err
	}
	usage, err := s.fileSystem.Usage(request.GetVolumePath())
	if err != nil {
		return nil, failed("reading the usage", err)
	}
	bytes := &csi.VolumeUsage{Unit: csi.VolumeUsage_BYTES, Total: usage.Total, Used: usage.Used, Available: usage.Available}
	response := &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{bytes}}
	if !usage.IsDevice {
		response.Usage = append(response.Usage, &csi.VolumeUsage{
			Unit: csi.VolumeUsage_INODES, Total: usage.InodesTotal, Used: usage.InodesUsed, Available: usage.InodesAvailable,
		})
	}
	return response, nil
}

// checkMounted says that the volume is not there (NOT_FOUND) where nothing is mounted.
func (s *Server) checkMounted(id, path string) error {
	mounted, err := s.fileSystem.IsMounted(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("looking at the volume path", err)
	}
	if !mounted || !naa.MatchString(id) {
		return status.Errorf(codes.NotFound, "the volume %s is not mounted at %s", id, path)
	}
	return nil
}

// NodeExpandVolume reads the volume's size anew and grows the file system, while it is used.
func (s *Server) NodeExpandVolume(ctx context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	id, path := request.GetVolumeId(), request.GetVolumePath()
	if id == "" || path == "" {
		return nil, invalid("the volume ID or the volume path is missing")
	}
	if err := s.checkMounted(id, path); err != nil {
		return nil, err
	}
	unlock, err := s.lock(id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	device, err := s.initiator.Rescan(ctx, id)
	if err != nil {
		return nil, failed("reading the size of "+id, err)
	}
	usage, err := s.fileSystem.Usage(path)
	if err != nil {
		return nil, failed("reading the usage", err)
	}
	if !usage.IsDevice {
		if err := s.fileSystem.Grow(device, path); err != nil {
			return nil, failed("growing the file system", err)
		}
	}
	slog.Info("expanded", "volume", id, "device", device)
	return &csi.NodeExpandVolumeResponse{CapacityBytes: request.GetCapacityRange().GetRequiredBytes()}, nil
}
