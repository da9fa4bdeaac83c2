package initiator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"
)

const (
	blockFolder = "/sys/block"
	// mapPrefix begins the UUID of a multipath map; '3' stands for an NAA identifier.
	mapPrefix = "mpath-3"
	// assembleTimeout is how long multipathd may take to make a map.
	assembleTimeout = 30 * time.Second
	// removeTimeout is how long a map may be held open by those that only look, as udev does.
	removeTimeout = 30 * time.Second
	// settingsFile is where multipathd finds what it should do with the array's disks.
	settingsFile = "/etc/multipath/conf.d/gantry-csi.conf"
)

// settings for the array's disks. Those that multipathd has built in fail the commands of a file system
// as soon as all paths are lost, and make devices of the partitions in a virtual machine's disk.
const settings = `# Written by gantry-csi, which leaves it alone where another file has a device "GANTRY".
devices {
    device {
        vendor "GANTRY"
        product ".*"
        path_grouping_policy group_by_prio
        prio alua
        hardware_handler "1 alua"
        path_checker tur
        failback immediate
        # A minute of patience for an array that restarts, and errors after that.
        no_path_retry 12
        fast_io_fail_tmo 5
        # A path that comes back as another volume is no path any more.
        recheck_wwid yes
        # The partitions in a raw volume are its user's.
        skip_kpartx yes
    }
}
`

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

// provideSettings tells multipathd what to do with the array's disks, unless its administrator has.
// Without them volumes can be used, too.
func (i *Initiator) provideSettings(ctx context.Context) {
	if i.settled {
		return
	}
	if err := i.installSettings(ctx); err != nil {
		slog.Warn("multipathd was not told how to treat the array's disks", "file", settingsFile, "error", err.Error())
		return
	}
	i.settled = true
}

func (i *Initiator) installSettings(ctx context.Context) error {
	known, err := i.system.ReadRoot(settingsFile)
	if err == nil && known == strings.TrimSpace(settings) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		config, status, err := i.system.Run(ctx, "multipathd", "show", "config")
		if err != nil || status != 0 {
			return fmt.Errorf("multipathd show config ended with %d: %v", status, err)
		}
		if strings.Contains(config, `"GANTRY"`) {
			return nil
		}
	}
	if err := i.system.WriteRoot(settingsFile, settings); err != nil {
		return err
	}
	return i.run(ctx, "multipathd", "reconfigure")
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
	for {
		found, exists, err := i.mapOf(naa)
		if err != nil {
			return "", err
		}
		if exists && i.holdsAll(found, paths) {
			return found.file(), nil
		}
		failed := i.addPaths(ctx, paths)
		if ctx.Err() != nil {
			return "", errors.Join(fmt.Errorf("multipathd made no map over the %d paths of %s within %s", len(paths), naa, assembleTimeout), failed)
		}
		wait(ctx)
	}
}

// addPaths tells multipathd of paths, which is harmless for those that it has. It refuses one of which udev
// has not told it everything yet.
func (i *Initiator) addPaths(ctx context.Context, paths []disk) error {
	var failed error
	for _, path := range paths {
		failed = errors.Join(failed, i.run(ctx, "multipathd", "add", "path", path.name))
	}
	return failed
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
	if err := i.checkUnused(found); err != nil {
		return err
	}
	if err := i.run(ctx, "blockdev", "--flushbufs", found.file()); err != nil {
		return err
	}
	return i.removeMap(ctx, found)
}

// StopWaiting lets commands fail that wait in a map whose last path was removed, as multipathd does with
// one that became another volume: it forgets to end the queueing, and a mount on it would stay for ever. It
// waits for no attach that is under way.
func (i *Initiator) StopWaiting(ctx context.Context, naa string) error {
	found, exists, err := i.mapOf(naa)
	if err != nil || !exists {
		return err
	}
	paths, err := i.system.List(blockFolder + "/" + found.node + "/slaves")
	if err != nil || len(paths) > 0 {
		return err
	}
	slog.Warn("a map without paths waits no longer", "volume", naa, "map", found.alias)
	return i.run(ctx, "dmsetup", "message", found.alias, "0", "fail_if_no_path")
}

func (i *Initiator) checkUnused(found multipathMap) error {
	busy, err := i.system.IsBusy(found.file())
	if err == nil && busy {
		err = fmt.Errorf("%s is in use on this node", found.alias)
	}
	return err
}

// removeMap removes a map that nobody uses. Programs that only look, such as udev's, hold it for moments;
// in a map without paths they would wait as long as it queues, so it does no longer.
func (i *Initiator) removeMap(ctx context.Context, found multipathMap) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		failed := i.run(ctx, "dmsetup", "message", found.alias, "0", "fail_if_no_path")
		failed = errors.Join(failed, i.run(ctx, "multipath", "-f", found.alias))
		if _, err := i.system.Read(blockFolder + "/" + found.node + "/dm/uuid"); err != nil {
			return nil
		}
		if ctx.Err() != nil || i.checkUnused(found) != nil {
			return errors.Join(failed, fmt.Errorf("the map %s cannot be removed", found.alias))
		}
		wait(ctx)
	}
}

// removeAbove removes the multipath maps that hold a disk and are not a volume's, unless they are used. It
// writes nothing: the disk may be another volume by now.
func (i *Initiator) removeAbove(ctx context.Context, disk disk, naa string) error {
	holders, err := i.system.List(blockFolder + "/" + disk.name + "/holders")
	if err != nil {
		return err
	}
	for _, node := range holders {
		uuid, err := i.system.Read(blockFolder + "/" + node + "/dm/uuid")
		if err != nil || !strings.HasPrefix(uuid, mapPrefix) || uuid == mapPrefix+strings.TrimPrefix(naa, "naa.") {
			continue
		}
		alias, err := i.system.Read(blockFolder + "/" + node + "/dm/name")
		if err != nil {
			continue
		}
		slog.Warn("a map of another volume holds a disk of this LUN and is removed", "map", alias, "disk", disk.name, "wanted", naa)
		found := multipathMap{node: node, alias: alias}
		if err := i.checkUnused(found); err != nil {
			return err
		}
		if err := i.removeMap(ctx, found); err != nil {
			return err
		}
		i.forget(ctx, "naa."+strings.TrimPrefix(uuid, mapPrefix))
	}
	return nil
}

// forget takes a volume from multipath's list of those that get a map though they have one path.
func (i *Initiator) forget(ctx context.Context, naa string) {
	if !i.multipathRuns(ctx) {
		return
	}
	if err := i.run(ctx, "multipath", "-w", "3"+strings.TrimPrefix(naa, "naa.")); err != nil {
		slog.Warn("multipath keeps a volume in its list", "volume", naa, "error", err.Error())
	}
}

func (i *Initiator) resizeMap(ctx context.Context, found multipathMap) error {
	return i.run(ctx, "multipathd", "resize", "map", found.alias)
}
