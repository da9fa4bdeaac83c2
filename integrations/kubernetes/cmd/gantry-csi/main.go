// Command gantry-csi is the CSI driver for Gantry arrays: one program for the controller, which talks to
// the array's REST interface, and for each node, which talks to open-iscsi and mounts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gantry.io/go/array"
	"gantry.io/kubernetes-csi/internal/chapkeys"
	"gantry.io/kubernetes-csi/internal/controller"
	"gantry.io/kubernetes-csi/internal/filesystem"
	"gantry.io/kubernetes-csi/internal/initiator"
	"gantry.io/kubernetes-csi/internal/node"
	"gantry.io/kubernetes-csi/internal/service"
	"gantry.io/kubernetes-csi/internal/zones"
)

// version is set when the program is linked.
var version = "0.1.0"

type options struct {
	endpoint, mode, driverName  string
	array                       array.Options
	portals, chapKeys, hostRoot string
	zones, zone                 string
	volumesMax                  int64
	verbose, showVersion        bool
}

func parse() options {
	var o options
	flag.StringVar(&o.endpoint, "endpoint", "unix:///csi/csi.sock", "the socket on which calls arrive")
	flag.StringVar(&o.mode, "mode", "", "controller (needs the array's REST interface) or node (needs open-iscsi)")
	flag.StringVar(&o.driverName, "driver-name", "csi.gantry.io", "name of the driver; of several arrays each has its own")
	flag.StringVar(&o.array.URL, "array-url", "", "controller: management interface of the array, https://ADDRESS:PORT")
	flag.StringVar(&o.array.CAFile, "array-ca", "", "controller: certificates (PEM) to trust instead of the system's")
	flag.StringVar(&o.array.TokenFile, "token-file", "/etc/gantry/token", "controller: file with a token of the role operator")
	flag.StringVar(&o.portals, "portals", "", "controller: portals that nodes log in to, IP:PORT,..., instead of those that the array tells")
	flag.StringVar(&o.chapKeys, "chap-keys", "", "folder with keys of at least 32 bytes from which each node's CHAP account is derived; none for no CHAP")
	flag.StringVar(&o.zones, "zones", "", "controller: parts of the cluster with the portals that their nodes reach, NAME=IP:PORT,...;NAME=...; none if every node reaches all")
	flag.StringVar(&o.zone, "zone", "", "node: the part of the cluster that it is in, one of the controller's --zones")
	flag.StringVar(&o.hostRoot, "host-root", "", "node: where the machine's root is mounted, whose iscsiadm and multipath are used")
	flag.Int64Var(&o.volumesMax, "volumes-max", 0, "node: volumes that it takes; 0 for no limit")
	flag.BoolVar(&o.verbose, "verbose", false, "log every call, not only those that fail")
	flag.BoolVar(&o.showVersion, "version", false, "print the version and end")
	flag.Parse()
	return o
}

func main() {
	o := parse()
	if o.showVersion {
		fmt.Println(version)
		return
	}
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "gantry-csi:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	plugin := service.Plugin{Name: o.driverName, Version: version}
	switch o.mode {
	case "controller":
		client, err := array.New(o.array)
		if err != nil {
			return err
		}
		settings := controller.Options{Portals: split(o.portals)}
		if settings.Zones, err = zones.Parse(o.driverName, o.zones); err != nil {
			return fmt.Errorf("--zones: %w", err)
		}
		if settings.Zones.Exist() && len(settings.Portals) > 0 {
			return errors.New("--portals and --zones: the portals of zones are said with them")
		}
		if o.chapKeys != "" {
			settings.ChapKeys = chapkeys.Folder(o.chapKeys)
		}
		plugin.Controller = controller.New(client, settings)
	case "node":
		if o.zone != "" {
			if err := zones.CheckName(o.zone); err != nil {
				return fmt.Errorf("--zone: %w", err)
			}
		}
		machine := initiator.Machine{Root: o.hostRoot}
		var accounts initiator.Accounts
		if o.chapKeys != "" {
			accounts = chapkeys.Folder(o.chapKeys)
		}
		attaching := initiator.New(machine, accounts)
		go attaching.Repair(ctx)
		plugin.Node = node.New(attaching, filesystem.New(o.hostRoot), node.Options{
			VolumesMax: o.volumesMax, Zone: o.zone, ZoneKey: zones.Key(o.driverName),
		})
	default:
		return errors.New("--mode: say controller or node")
	}
	listener, err := service.Listen(o.endpoint)
	if err != nil {
		return err
	}
	slog.Info("serving", "mode", o.mode, "driver", o.driverName, "version", version, "endpoint", o.endpoint)
	return service.Serve(ctx, listener, plugin)
}

func split(list string) []string {
	var words []string
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}
