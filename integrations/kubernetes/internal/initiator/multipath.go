package initiator

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	blockFolder = "/sys/block"
	// mapPrefix begins the UUID of a multipath map; '3' stands for an NAA identifier.
	mapPrefix = "mpath-3"
	// assembleTimeout is how long multipathd may take to make a map.
	assembleTimeout = 15 * time.Second
)

// multipathMap is a device mapper's map over the paths of a volume.
type multipathMap struct {
	// node is the kernel's name, dm- and a number; alias is the name below /dev/mapper.
	node, alias string
}

func (m multipathMap) file() string { return "/dev/" + m.node }

// multipathRuns says whether multipathd answers.
func (i *Initiator) multipathRuns(ctx context.Context) bool {
	output, status, err := i.system.Run(ctx, "multipathd", "show", "daemon")
	return err == nil && status == 0 && strings.HasPrefix(strings.TrimSpace(output), "pid ")
}

// mapOf finds the map of a volume by the identifier in its UUID.
func (i *Initiator) mapOf(naa string) (multipathMap, bool, error) {
	nodes, err := i.system.List(blockFolder)
	if err != nil {
		return multipathMap{}, false, err
	}
	wanted := mapPrefix + strings.TrimPrefix(naa, "naa.")
	for _, node := range nodes {
		if !strings.HasPrefix(node, "dm-") {
			continue
		}
		uuid, err := i.system.Read(blockFolder + "/" + node + "/dm/uuid")
		if err != nil || uuid != wanted {
			continue
		}
		alias, err := i.system.Read(blockFolder + "/" + node + "/dm/name")
		return multipathMap{node: node, alias: alias}, err == nil, err
	}
	return multipathMap{}, false, nil
}

// assemble has multipathd make a map over the paths, also over a single one, and returns it when it
// has all of them.
func (i *Initiator) assemble(ctx context.Context, naa string, paths []disk) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, assembleTimeout)
	defer cancel()
	// The identifier goes into multipath's list, so that a single path gets a map too.
	if err := i.run(ctx, "multipath", "-a", paths[0].file()); err != nil {
		return "", err
	}
	for _, path := range paths {
		if err := i.run(ctx, "multipathd", "add", "path", path.name); err != nil {
			return "", err
		}
	}
	for {
		found, exists, err := i.mapOf(naa)
		if err != nil {
			return "", err
		}
		if exists && i.holdsAll(found, paths) {
			return found.file(), nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("multipathd made no map over the %d paths of %s within %s", len(paths), naa, assembleTimeout)
		}
		wait(ctx)
	}
}

func (i *Initiator) holdsAll(found multipathMap, paths []disk) bool {
	for _, path := range paths {
		if _, err := i.system.Link(blockFolder + "/" + found.node + "/slaves/" + path.name); err != nil {
			return false
		}
	}
	return true
}

// disassemble removes the map of a volume, if there is one. A map in use stays, and that is an error.
func (i *Initiator) disassemble(ctx context.Context, naa string) error {
	found, exists, err := i.mapOf(naa)
	if err != nil || !exists {
		return err
	}
	busy, err := i.system.IsBusy(found.file())
	if err != nil {
		return err
	}
	if busy {
		return fmt.Errorf("%s is in use on this node", found.alias)
	}
	if err := i.run(ctx, "blockdev", "--flushbufs", found.file()); err != nil {
		return err
	}
	disks, err := i.disksOf(naa)
	if err != nil {
		return err
	}
	if err := i.run(ctx, "multipath", "-f", found.alias); err != nil {
		return err
	}
	if len(disks) > 0 {
		return i.run(ctx, "multipath", "-w", disks[0].file())
	}
	return nil
}

func (i *Initiator) resizeMap(ctx context.Context, found multipathMap) error {
	return i.run(ctx, "multipathd", "resize", "map", found.alias)
}
