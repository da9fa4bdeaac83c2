// Package service is the gRPC server of the plugin and the CSI identity service.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// callTimeout is the time for a call whose caller set no deadline.
const callTimeout = 2 * time.Minute

// Plugin is what is served; nil for a part that this process does not have.
type Plugin struct {
	// Name of the driver, a domain name of at most 63 characters.
	Name string
	// Version of the driver.
	Version    string
	Controller interface {
		csi.ControllerServer
		csi.GroupControllerServer
		csi.SnapshotMetadataServer
		Probe(context.Context) error
		// HasZones says whether volumes are not accessible from everywhere.
		HasZones() bool
	}
	Node csi.NodeServer
}

// Listen opens unix:///PATH, replacing a socket that is left there.
func Listen(endpoint string) (net.Listener, error) {
	path, found := strings.CutPrefix(endpoint, "unix://")
	if !found || !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("endpoint %q: give unix:///PATH", endpoint)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// Serve answers calls until the context ends, then finishes those that are under way.
func Serve(ctx context.Context, listener net.Listener, plugin Plugin) error {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(deadline, log), grpc.StreamInterceptor(logStream))
	csi.RegisterIdentityServer(server, &identity{plugin: plugin})
	if plugin.Controller != nil {
		csi.RegisterControllerServer(server, plugin.Controller)
		csi.RegisterGroupControllerServer(server, plugin.Controller)
		csi.RegisterSnapshotMetadataServer(server, plugin.Controller)
	}
	if plugin.Node != nil {
		csi.RegisterNodeServer(server, plugin.Node)
	}
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	return server.Serve(listener)
}

func deadline(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if _, has := ctx.Deadline(); !has {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		ctx = limited
	}
	return handler(ctx, request)
}

// log writes what was called, for which object, how long it took and how it ended. Requests are not
// logged: they may hold secrets.
func log(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	started := time.Now()
	answer, err := handler(ctx, request)
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	attributes := []any{"method", method, "object", object(request), "milliseconds", time.Since(started).Milliseconds()}
	if err != nil {
		attributes = append(attributes, "code", status.Code(err).String(), "error", status.Convert(err).Message())
		slog.Warn("call failed", attributes...)
		return answer, err
	}
	slog.Debug("call", attributes...)
	return answer, nil
}

// object is the identifier or name that a request is about; empty if it has none.
func object(request any) string {
	switch named := request.(type) {
	case interface{ GetVolumeId() string }:
		return named.GetVolumeId()
	case interface{ GetSnapshotId() string }:
		return named.GetSnapshotId()
	case interface{ GetGroupSnapshotId() string }:
		return named.GetGroupSnapshotId()
	case interface{ GetName() string }:
		return named.GetName()
	default:
		return ""
	}
}

type identity struct {
	csi.UnimplementedIdentityServer
	plugin Plugin
}

func (i *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.plugin.Name, VendorVersion: i.plugin.Version}, nil
}

func (i *identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	response := &csi.GetPluginCapabilitiesResponse{}
	expansion := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	response.Capabilities = append(response.Capabilities,
		&csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: expansion}})
	if i.plugin.Controller == nil {
		return response, nil
	}
	kinds := []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE,
	}
	if i.plugin.Controller.HasZones() {
		kinds = append(kinds, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	for _, kind := range kinds {
		service := &csi.PluginCapability_Service{Type: kind}
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}})
	}
	return response, nil
}

// Probe says 'not ready' while the array does not answer or refuses the token: a restart of the plugin
// would change nothing, so it is no error.
func (i *identity) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	ready := true
	if i.plugin.Controller != nil {
		if err := i.plugin.Controller.Probe(ctx); err != nil {
			slog.Warn("the array cannot be used", "error", status.Convert(err).Message())
			ready = false
		}
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(ready)}, nil
}
