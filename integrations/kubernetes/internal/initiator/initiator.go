// Package initiator attaches LUNs through open-iscsi and dm-multipath, and removes exactly their devices.
//
// Linux knows a LUN by its number, and keeps a disk whose LUN became another volume. So a device counts
// only if its NAA identifier (VPD page 83h, which sysfs shows as 'wwid') is the volume's: before it is
// used, and before it is removed. Sessions are logged in with node.session.scan=manual, so that no disk
// appears that nobody asked for.
package initiator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"gantry.io/kubernetes-csi/internal/publication"
)

const (
	// attachTimeout is how long the devices of a LUN may take to appear.
	attachTimeout = 45 * time.Second
	// pollTime is the time between two looks.
	pollTime = 100 * time.Millisecond
	// initiatorNameFile is where open-iscsi keeps the machine's name.
	initiatorNameFile = "/etc/iscsi/initiatorname.iscsi"
)

// Accounts derives the CHAP account of an initiator from a key.
type Accounts interface {
	Account(key, initiator string) (user, secret string, err error)
}

// Initiator is the machine's iSCSI initiator. One operation at a time changes sessions or devices.
type Initiator struct {
	system   System
	accounts Accounts
	mutex    sync.Mutex
	// settled says that multipathd knows what it should do with the array's disks.
	settled bool
}

// New makes an initiator; accounts may be nil where no CHAP is used.
func New(system System, accounts Accounts) *Initiator {
	return &Initiator{system: system, accounts: accounts}
}

// Name is the machine's initiator name.
func (i *Initiator) Name() (string, error) {
	text, err := i.system.Read(initiatorNameFile)
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "InitiatorName="); found && name != "" {
			return strings.TrimSpace(name), nil
		}
	}
	return "", fmt.Errorf("%s has no line InitiatorName=", initiatorNameFile)
}

// Attach logs in over all portals, at least one of which must answer, and returns the block device of
// the LUN: the multipath map where multipathd runs, else a path.
func (i *Initiator) Attach(ctx context.Context, volume publication.Publication) (string, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	multipath := i.multipathRuns(ctx)
	if multipath {
		i.provideSettings(ctx)
	}
	if err := i.logIn(ctx, volume, multipath); err != nil {
		return "", err
	}
	paths, err := i.findPaths(ctx, volume)
	if err != nil {
		return "", err
	}
	if multipath {
		return i.assemble(ctx, volume.NAA, paths)
	}
	if len(volume.Portals) > 1 {
		slog.Warn("multipathd does not run, so one path is used of several", "volume", volume.NAA, "portals", len(volume.Portals))
	}
	return paths[0].file(), nil
}

// findPaths scans for the LUN on each session, and returns the disks that are the volume.
func (i *Initiator) findPaths(ctx context.Context, volume publication.Publication) ([]disk, error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	sessions, err := i.liveSessions(volume.Target)
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		if err := i.removeStale(ctx, session, volume); err != nil {
			return nil, err
		}
		if err := i.scan(session, kernelLUN(volume.LUN)); err != nil {
			return nil, err
		}
	}
	var paths []disk
	for {
		if paths, err = i.verifiedPaths(sessions, volume); err != nil {
			return nil, err
		}
		if len(paths) == len(sessions) || ctx.Err() != nil {
			break
		}
		wait(ctx)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no disk of %s appeared as LUN %d within %s: is the volume mapped to this node?", volume.NAA, volume.LUN, attachTimeout)
	}
	if len(paths) < len(sessions) {
		slog.Warn("some sessions do not show the volume", "volume", volume.NAA, "paths", len(paths), "sessions", len(sessions))
	}
	return paths, nil
}

// removeStale removes the disk of a session's LUN if it is another volume, and maps of other volumes that
// hold it, whatever it is now: udev may have had the kernel ask it again. What somebody uses stays, and the
// volume is not attached: no command may reach it through the old disk.
func (i *Initiator) removeStale(ctx context.Context, session session, volume publication.Publication) error {
	disks, err := i.disksAt(session, kernelLUN(volume.LUN))
	if err != nil {
		return err
	}
	for _, disk := range disks {
		if err := i.removeAbove(ctx, disk, volume.NAA); err != nil {
			return fmt.Errorf("LUN %d was another volume on this node: %w", volume.LUN, err)
		}
		if i.identity(disk) == volume.NAA {
			continue
		}
		slog.Warn("a disk of this LUN is another volume and is removed", "disk", disk.name, "identity", i.identity(disk), "wanted", volume.NAA)
		if err := i.remove(disk); err != nil {
			return fmt.Errorf("LUN %d is %s on this node, which is another volume: %w", volume.LUN, disk.name, err)
		}
	}
	return nil
}

// verifiedPaths are the disks of the LUN that tell the volume's identifier when they are asked anew.
func (i *Initiator) verifiedPaths(sessions []session, volume publication.Publication) ([]disk, error) {
	var paths []disk
	for _, session := range sessions {
		disks, err := i.disksAt(session, kernelLUN(volume.LUN))
		if err != nil {
			return nil, err
		}
		for _, disk := range disks {
			if i.identity(disk) != volume.NAA {
				continue
			}
			// The kernel asks for VPD page 83h again.
			if err := i.system.Write(disk.attribute("rescan"), "1"); err != nil {
				return nil, err
			}
			if now := i.identity(disk); now != volume.NAA {
				return nil, fmt.Errorf("%s was %s and is now %s: the LUN was given to another volume", disk.name, volume.NAA, now)
			}
			paths = append(paths, disk)
		}
	}
	return paths, nil
}

// Detach removes the multipath map and the disks that have the identifier, and logs out of sessions
// that have no disk left.
func (i *Initiator) Detach(ctx context.Context, naa string) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if err := i.disassemble(ctx, naa); err != nil {
		return err
	}
	disks, err := i.disksOf(naa)
	if err != nil {
		return err
	}
	for _, disk := range disks {
		// Nobody has it open, so nothing is lost that could still be written; a path may be dead.
		if err := i.run(ctx, "blockdev", "--flushbufs", disk.file()); err != nil {
			slog.Warn("flushing a disk before its removal", "disk", disk.name, "error", err.Error())
		}
		if err := i.remove(disk); err != nil {
			return err
		}
	}
	i.forget(ctx, naa)
	return i.logOutIdle(ctx, disks)
}

// Rescan reads the size of the volume's disks anew, and returns the device to use.
func (i *Initiator) Rescan(ctx context.Context, naa string) (string, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	disks, err := i.disksOf(naa)
	if err != nil {
		return "", err
	}
	if len(disks) == 0 {
		return "", fmt.Errorf("this node has no disk %s", naa)
	}
	for _, disk := range disks {
		if err := i.system.Write(disk.attribute("rescan"), "1"); err != nil {
			return "", err
		}
	}
	found, exists, err := i.mapOf(naa)
	if err != nil || !exists {
		return disks[0].file(), err
	}
	return found.file(), i.resizeMap(ctx, found)
}

// remove takes a disk away that nobody uses. It writes nothing: the disk may be another volume by now.
func (i *Initiator) remove(disk disk) error {
	busy, err := i.system.IsBusy(disk.file())
	if err != nil {
		return err
	}
	if busy {
		return fmt.Errorf("%s is in use on this node", disk.name)
	}
	return i.system.Write(disk.attribute("delete"), "1")
}

// run runs a program that must succeed; the error shows what it printed, and not its arguments.
func (i *Initiator) run(ctx context.Context, program string, arguments ...string) error {
	output, status, err := i.system.Run(ctx, program, arguments...)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	if status != 0 {
		return fmt.Errorf("%s failed with status %d: %s", program, status, strings.TrimSpace(output))
	}
	return nil
}

// wait pauses between two looks.
func wait(ctx context.Context) {
	timer := time.NewTimer(pollTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

var errNoPortal = errors.New("no portal of the target could be logged in to")
