package initiator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gantry.io/kubernetes-csi/internal/publication"
)

const (
	// loginTimeout is the time for one login; open-iscsi alone tries a dead portal for two minutes.
	loginTimeout = 20 * time.Second
	// replacementSeconds is how long the kernel keeps the commands of a lost session before multipath gets
	// them for another path. Without multipath open-iscsi's own 120 s stay: there is no other path.
	replacementSeconds = "5"
	// loggedIn is the state of a session that takes commands.
	loggedIn = "LOGGED_IN"
	// sessionExists is iscsiadm's exit status for a session that is there (ISCSI_ERR_SESS_EXISTS).
	sessionExists = 15

	sessionFolder    = "/sys/class/iscsi_session"
	connectionFolder = "/sys/class/iscsi_connection"
)

var hostInLink = regexp.MustCompile(`/host([0-9]+)/`)

// session is an iSCSI session of the kernel.
type session struct {
	// name as in sysfs: session and a number.
	name string
	// target is the iSCSI name of the target.
	target string
	// host is the number of its SCSI host; each session has its own.
	host string
}

// sessions are those with a target, sorted by name; of every target if none is named.
func (i *Initiator) sessions(target string) ([]session, error) {
	names, err := i.system.List(sessionFolder)
	if err != nil {
		return nil, err
	}
	var found []session
	for _, name := range names {
		// A session may vanish between two looks.
		known, err := i.system.Read(sessionFolder + "/" + name + "/targetname")
		if err != nil || (target != "" && known != target) {
			continue
		}
		link, err := i.system.Link(sessionFolder + "/" + name)
		match := hostInLink.FindStringSubmatch(link)
		if err != nil || match == nil {
			continue
		}
		found = append(found, session{name: name, target: known, host: match[1]})
	}
	return found, nil
}

// liveSessions are those with a target that take commands. To scan one whose connection is lost would
// wait in the kernel until it is back or given up.
func (i *Initiator) liveSessions(target string) ([]session, error) {
	sessions, err := i.sessions(target)
	return slices.DeleteFunc(sessions, func(session session) bool { return !i.isLive(session) }), err
}

func (i *Initiator) isLive(session session) bool {
	state, err := i.system.Read(sessionFolder + "/" + session.name + "/state")
	return err == nil && state == loggedIn
}

// portalOf is the address (IP:PORT) that a session was logged in to; empty if it is gone.
func (i *Initiator) portalOf(session session) string {
	connection := connectionFolder + "/connection" + strings.TrimPrefix(session.name, "session") + ":0"
	address, err := i.system.Read(connection + "/persistent_address")
	if err != nil {
		return ""
	}
	port, err := i.system.Read(connection + "/persistent_port")
	if err != nil {
		return ""
	}
	return net.JoinHostPort(address, port)
}

// connected are the portals (IP:PORT) over which there is a session with a target.
func (i *Initiator) connected(target string) ([]string, error) {
	sessions, err := i.sessions(target)
	if err != nil {
		return nil, err
	}
	var portals []string
	for _, session := range sessions {
		if portal := i.portalOf(session); portal != "" {
			portals = append(portals, portal)
		}
	}
	return portals, nil
}

// logIn makes sure that there is a session over each portal, or over one of them if there is no
// multipathd. Portals that do not answer are left out as long as one does.
func (i *Initiator) logIn(ctx context.Context, volume publication.Publication, all bool) error {
	connected, err := i.connected(volume.Target)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(volume.Portals), func(portal string) bool { return slices.Contains(connected, portal) })
	settings, err := i.settings(volume.ChapKey)
	if err != nil {
		return err
	}
	if !all {
		return i.logInOnce(ctx, volume, missing, settings)
	}
	settings = append(settings, [2]string{"node.session.timeo.replacement_timeout", replacementSeconds})
	failures := make([]error, len(missing))
	var logins sync.WaitGroup
	for index, portal := range missing {
		logins.Go(func() { failures[index] = i.logInTo(ctx, volume, portal, settings) })
	}
	logins.Wait()
	failed := errors.Join(failures...)
	if failed != nil && allFailed(failures) && len(missing) == len(volume.Portals) {
		return errors.Join(errNoPortal, failed)
	}
	if failed != nil {
		slog.Warn("some portals could not be logged in to", "target", volume.Target, "error", failed.Error())
	}
	return nil
}

func allFailed(failures []error) bool {
	return !slices.Contains(failures, nil)
}

// logInOnce logs in to one of the missing portals, unless there is a session over another one.
func (i *Initiator) logInOnce(ctx context.Context, volume publication.Publication, missing []string, settings [][2]string) error {
	if len(missing) < len(volume.Portals) {
		return nil
	}
	failed := errNoPortal
	for _, portal := range missing {
		err := i.logInTo(ctx, volume, portal, settings)
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (i *Initiator) logInTo(ctx context.Context, volume publication.Publication, portal string, settings [][2]string) error {
	record := []string{"--mode", "node", "--targetname", volume.Target, "--portal", portal}
	if err := i.run(ctx, "iscsiadm", append(slices.Clone(record), "--op", "new")...); err != nil {
		return fmt.Errorf("portal %s: %w", portal, err)
	}
	for _, setting := range settings {
		update := append(slices.Clone(record), "--op", "update", "--name", setting[0], "--value", setting[1])
		if err := i.run(ctx, "iscsiadm", update...); err != nil {
			return fmt.Errorf("portal %s: setting %s: %w", portal, setting[0], err)
		}
	}
	if !i.system.Reaches(ctx, portal) {
		return fmt.Errorf("portal %s does not answer", portal)
	}
	return i.startSession(ctx, volume.Target, portal)
}

// startSession logs in to a portal as its record says.
func (i *Initiator) startSession(ctx context.Context, target, portal string) error {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	output, status, err := i.system.Run(ctx, "iscsiadm", "--mode", "node", "--targetname", target, "--portal", portal, "--login")
	if err == nil && status != 0 && status != sessionExists {
		err = fmt.Errorf("iscsiadm failed with status %d: %s", status, strings.TrimSpace(output))
	}
	if err != nil {
		return fmt.Errorf("portal %s: logging in: %w", portal, err)
	}
	return nil
}

// settings of a node record: nothing appears or returns by itself, and who it is.
func (i *Initiator) settings(chapKey string) ([][2]string, error) {
	settings := [][2]string{
		{"node.startup", "manual"},
		{"node.session.scan", "manual"},
		{"node.session.initial_login_retry_max", "2"},
	}
	if chapKey == "" {
		return append(settings, [2]string{"node.session.auth.authmethod", "None"}), nil
	}
	if i.accounts == nil {
		return nil, errors.New("the array wants CHAP, and this node has no CHAP keys (--chap-keys)")
	}
	name, err := i.Name()
	if err != nil {
		return nil, err
	}
	user, secret, err := i.accounts.Account(chapKey, name)
	if err != nil {
		return nil, fmt.Errorf("CHAP key %s: %w", chapKey, err)
	}
	return append(settings,
		[2]string{"node.session.auth.authmethod", "CHAP"},
		[2]string{"node.session.auth.username", user},
		[2]string{"node.session.auth.password", secret}), nil
}

// logOutIdle ends the sessions of removed disks that have no disk any more, and with the last session of a
// target forgets its records, which hold the CHAP secret.
func (i *Initiator) logOutIdle(ctx context.Context, removed []disk) error {
	sessions, err := i.sessions("")
	if err != nil {
		return err
	}
	for _, session := range sessions {
		if !slices.ContainsFunc(removed, func(disk disk) bool { return disk.host() == session.host }) {
			continue
		}
		left, err := i.disksOn(session.host)
		if err != nil || len(left) > 0 {
			continue
		}
		sid := strings.TrimPrefix(session.name, "session")
		if err := i.run(ctx, "iscsiadm", "--mode", "session", "--sid", sid, "--logout"); err != nil {
			return fmt.Errorf("logging out of %s: %w", session.name, err)
		}
		others, err := i.sessions(session.target)
		if err != nil || len(others) > 0 {
			continue
		}
		if err := i.run(ctx, "iscsiadm", "--mode", "node", "--targetname", session.target, "--op", "delete"); err != nil {
			slog.Warn("node records stay", "target", session.target, "error", err.Error())
		}
	}
	return nil
}
