package initiator

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// repairTime is the time between two looks for paths that are missing.
const repairTime = time.Minute

// Repair adds paths that attached volumes are missing, because a portal was away when they were attached,
// until the context ends. Volumes without multipath have one path and need no other.
func (i *Initiator) Repair(ctx context.Context) {
	for ticker := time.NewTicker(repairTime); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
			if err := i.repairOnce(ctx); err != nil {
				slog.Warn("looking for missing paths", "error", err.Error())
			}
		}
	}
}

func (i *Initiator) repairOnce(ctx context.Context) error {
	reached, err := i.missingPortals(ctx)
	if err != nil {
		return err
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if !i.multipathRuns(ctx) {
		return nil
	}
	for target, portals := range reached {
		// The last volume may have gone meanwhile, and its records with it.
		sessions, err := i.sessions(target)
		if err != nil || len(sessions) == 0 {
			continue
		}
		for _, portal := range portals {
			if err := i.startSession(ctx, target, portal); err != nil {
				slog.Warn("a portal that came back", "portal", portal, "error", err.Error())
			}
		}
	}
	return i.addMissingPaths(ctx)
}

// missingPortals are those that volumes were attached over, by target, to which there is no session, and
// which answer. It holds no lock: a portal that is away takes a while.
func (i *Initiator) missingPortals(ctx context.Context) (map[string][]string, error) {
	sessions, err := i.sessions("")
	if err != nil || len(sessions) == 0 {
		return nil, err
	}
	output, status, err := i.system.Run(ctx, "iscsiadm", "--mode", "node")
	if err != nil || status != 0 {
		return nil, err // there are no records
	}
	missing := map[string][]string{}
	for line := range strings.SplitSeq(output, "\n") {
		// IP:PORT,GROUP TARGET
		address, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		portal, _, _ := strings.Cut(address, ",")
		isOver := func(known session) bool { return known.target == target && i.portalOf(known) == portal }
		ofTarget := func(known session) bool { return known.target == target }
		if target == "" || !slices.ContainsFunc(sessions, ofTarget) || slices.ContainsFunc(sessions, isOver) {
			continue
		}
		if i.system.Reaches(ctx, portal) {
			missing[target] = append(missing[target], portal)
		}
	}
	return missing, nil
}

// addMissingPaths scans, on each session, for the volumes that other sessions of the target show.
func (i *Initiator) addMissingPaths(ctx context.Context) error {
	sessions, err := i.sessions("")
	if err != nil {
		return err
	}
	disks, err := i.disks()
	if err != nil {
		return err
	}
	type place struct{ host, lun string }
	taken := make(map[place]bool, len(disks))
	for _, disk := range disks {
		taken[place{disk.host(), disk.lun()}] = true
	}
	live := slices.DeleteFunc(sessions, func(session session) bool { return !i.isLive(session) })
	for _, known := range disks {
		own := slices.IndexFunc(live, func(session session) bool { return session.host == known.host() })
		for _, session := range live {
			if own < 0 || session.target != live[own].target || taken[place{session.host, known.lun()}] {
				continue
			}
			if err := i.addPath(ctx, session, known); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPath adds a path over a session, which has none by that number, to the map that holds a disk of the
// same target.
func (i *Initiator) addPath(ctx context.Context, session session, known disk) error {
	naa := i.identity(known)
	found, exists, err := i.mapOf(naa)
	if err != nil || !exists || !i.holdsAll(found, []disk{known}) {
		return err
	}
	// The number may be another volume's by now.
	if err := i.system.Write(known.attribute("rescan"), "1"); err != nil || i.identity(known) != naa {
		return err
	}
	if err := i.scan(session, known.lun()); err != nil {
		return err
	}
	there, err := i.disksAt(session, known.lun())
	if err != nil {
		return err
	}
	for _, path := range there {
		if i.identity(path) != naa {
			return i.remove(path)
		}
		slog.Info("a path came back", "volume", naa, "disk", path.name)
		if err := i.addPaths(ctx, []disk{path}); err != nil {
			slog.Debug("multipathd takes it by itself", "disk", path.name, "error", err.Error())
		}
	}
	return nil
}
