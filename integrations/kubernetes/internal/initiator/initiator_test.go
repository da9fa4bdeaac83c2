package initiator

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gantry.io/kubernetes-csi/internal/publication"
)

type accounts struct{}

func (accounts) Account(key, initiator string) (string, string, error) {
	return initiator, "secret-of-" + key, nil
}

func publicationOf(naa string, lun int, portals ...string) publication.Publication {
	return publication.Publication{Target: target, Portals: portals, LUN: lun, NAA: naa}
}

func attached(t *testing.T, machine *fakeMachine, volume publication.Publication) string {
	t.Helper()
	device, err := New(machine, accounts{}).Attach(context.Background(), volume)
	if err != nil {
		t.Fatal(err)
	}
	return device
}

func TestAPathAppearsAndGoesWithItsSession(t *testing.T) {
	machine := newMachine()
	machine.luns["0"] = volumeA
	initiator := New(machine, nil)
	volume := publicationOf(volumeA, 0, "192.0.2.1:3260", "192.0.2.2:3260")
	device := attached(t, machine, volume)
	if again := attached(t, machine, volume); again != device || len(machine.sessions) != 1 {
		t.Errorf("%s and %s over %d sessions", device, again, len(machine.sessions))
	}
	if machine.settings["node.session.scan"] != "manual" || machine.settings["node.session.auth.authmethod"] != "None" {
		t.Errorf("settings %v", machine.settings)
	}
	for range 2 {
		if err := initiator.Detach(context.Background(), volumeA); err != nil {
			t.Fatal(err)
		}
	}
	if len(machine.disks) > 0 || len(machine.sessions) > 0 {
		t.Errorf("left: %v, %v", machine.disks, machine.sessions)
	}
}

func TestADiskOfAnotherVolumeIsRemovedBeforeItsLUNIsUsed(t *testing.T) {
	machine := newMachine()
	machine.luns["0"] = volumeA
	attached(t, machine, publicationOf(volumeA, 0, "192.0.2.1:3260"))
	machine.luns["0"] = volumeB // the number was given to another volume; the kernel keeps the disk
	before := len(machine.commands)
	attached(t, machine, publicationOf(volumeB, 0, "192.0.2.1:3260"))
	if len(machine.disks) != 1 || machine.disks[0].wwid != volumeB {
		t.Errorf("disks %v", machine.disks)
	}
	if flushes := func(command string) bool { return strings.Contains(command, "flushbufs") }; slices.ContainsFunc(machine.commands[before:], flushes) {
		t.Error("what the old disk holds would be written to the new volume")
	}
}

func TestADiskOfAnotherVolumeThatIsInUseKeepsTheLUNAway(t *testing.T) {
	machine := newMachine()
	machine.luns["0"] = volumeA
	device := attached(t, machine, publicationOf(volumeA, 0, "192.0.2.1:3260"))
	machine.luns["0"] = volumeB
	machine.busy[device] = true
	before := len(machine.commands)
	_, err := New(machine, nil).Attach(context.Background(), publicationOf(volumeB, 0, "192.0.2.1:3260"))
	if err == nil || !strings.Contains(err.Error(), "another volume") {
		t.Errorf("%v", err)
	}
	for _, command := range machine.commands[before:] {
		// A command to the old disk would reach the new volume.
		if strings.Contains(command, "rescan") || strings.Contains(command, "delete") || strings.Contains(command, "flushbufs") {
			t.Errorf("%s", command)
		}
	}
}

func TestALUNThatIsAnotherVolumeIsNeverUsed(t *testing.T) {
	machine := newMachine()
	machine.luns["0"] = volumeA
	attached(t, machine, publicationOf(volumeA, 0, "192.0.2.1:3260"))
	machine.luns["0"] = volumeB // and the disk still says that it is A
	if _, err := New(machine, nil).Attach(context.Background(), publicationOf(volumeA, 0, "192.0.2.1:3260")); err == nil {
		t.Error("a disk was used that is another volume")
	}
}

func TestAllPortalsAndMultipath(t *testing.T) {
	machine := newMachine()
	machine.multipath = true
	machine.luns["16640"] = volumeA // LUN 256 in flat space addressing
	volume := publicationOf(volumeA, 256, "192.0.2.1:3260", "192.0.2.2:3260", "192.0.2.3:3260")
	machine.dead["192.0.2.3:3260"] = true
	if device := attached(t, machine, volume); device != "/dev/dm-0" {
		t.Errorf("device %s", device)
	}
	if len(machine.sessions) != 2 || len(machine.disks) != 2 {
		t.Errorf("sessions %v, disks %v", machine.sessions, machine.disks)
	}
	initiator := New(machine, nil)
	if device, err := initiator.Rescan(context.Background(), volumeA); err != nil || device != "/dev/dm-0" {
		t.Errorf("%s: %v", device, err)
	}
	machine.busy["/dev/dm-0"] = true
	if err := initiator.Detach(context.Background(), volumeA); err == nil || len(machine.disks) != 2 {
		t.Errorf("a map in use was removed: %v", err)
	}
	delete(machine.busy, "/dev/dm-0")
	if err := initiator.Detach(context.Background(), volumeA); err != nil {
		t.Fatal(err)
	}
	if len(machine.disks)+len(machine.sessions)+len(machine.mapped) > 0 {
		t.Errorf("left: %v, %v, %v", machine.disks, machine.sessions, machine.mapped)
	}
}

func TestDetachTouchesNoOtherVolume(t *testing.T) {
	machine := newMachine()
	machine.luns["0"], machine.luns["1"] = volumeA, volumeB
	attached(t, machine, publicationOf(volumeA, 0, "192.0.2.1:3260"))
	attached(t, machine, publicationOf(volumeB, 1, "192.0.2.1:3260"))
	if err := New(machine, nil).Detach(context.Background(), volumeA); err != nil {
		t.Fatal(err)
	}
	if len(machine.disks) != 1 || machine.disks[0].wwid != volumeB || len(machine.sessions) != 1 {
		t.Errorf("left: %v, %v", machine.disks, machine.sessions)
	}
}

func TestNoPortalAnswers(t *testing.T) {
	machine := newMachine()
	machine.dead["192.0.2.1:3260"] = true
	_, err := New(machine, nil).Attach(context.Background(), publicationOf(volumeA, 0, "192.0.2.1:3260"))
	if err == nil || !strings.Contains(err.Error(), "192.0.2.1:3260") {
		t.Errorf("%v", err)
	}
}

func TestChapSecretsAreSetAndNotTold(t *testing.T) {
	machine := newMachine()
	machine.luns["0"] = volumeA
	volume := publicationOf(volumeA, 0, "192.0.2.1:3260")
	volume.ChapKey = "k1"
	if _, err := New(machine, nil).Attach(context.Background(), volume); err == nil {
		t.Error("attached without keys")
	}
	attached(t, machine, volume)
	if machine.settings["node.session.auth.password"] != "secret-of-k1" || machine.settings["node.session.auth.authmethod"] != "CHAP" {
		t.Errorf("settings %v", machine.settings)
	}
	machine.sessions = map[int]string{}
	machine.dead["192.0.2.1:3260"] = true
	_, err := New(machine, accounts{}).Attach(context.Background(), volume)
	if err == nil || strings.Contains(err.Error(), "secret-of") {
		t.Errorf("%v", err)
	}
}

func TestTheContextEnds(t *testing.T) {
	machine := newMachine() // the array has no such LUN
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New(machine, nil).Attach(ctx, publicationOf(volumeA, 0, "192.0.2.1:3260")); err == nil {
		t.Error("attached what is not there")
	}
}

func TestKernelNumbersOfLUNs(t *testing.T) {
	for lun, number := range map[int]string{0: "0", 255: "255", 256: "16640", 16383: "32767"} {
		if kernelLUN(lun) != number {
			t.Errorf("LUN %d is %s", lun, kernelLUN(lun))
		}
	}
}

func (m *fakeMachine) ran(beginning string) int {
	count := 0
	for _, command := range m.commands {
		if strings.HasPrefix(command, beginning) {
			count++
		}
	}
	return count
}

func TestMultipathdIsToldHowToTreatTheDisks(t *testing.T) {
	volume := publicationOf(volumeA, 0, "192.0.2.1:3260")
	for _, test := range []struct {
		what, config, known string
		written             bool
	}{
		{"nobody has said it", `vendor "OTHER"`, "", true},
		{"its administrator has", `vendor "GANTRY"`, "", false},
		{"an earlier version of the driver has", `vendor "GANTRY"`, "no_path_retry 1", true},
		{"this version has", `vendor "GANTRY"`, settings, false},
	} {
		machine := newMachine()
		machine.multipath, machine.config, machine.luns["0"] = true, test.config, volumeA
		if test.known != "" {
			machine.files[settingsFile] = test.known
		}
		initiator := New(machine, nil)
		for range 2 {
			if _, err := initiator.Attach(context.Background(), volume); err != nil {
				t.Fatal(err)
			}
		}
		reconfigured := machine.ran("multipathd reconfigure")
		if (reconfigured == 1) != test.written || (test.written && machine.files[settingsFile] != settings) {
			t.Errorf("%s: reconfigured %d times, %q", test.what, reconfigured, machine.files[settingsFile])
		}
	}
}

func TestAMapOfAnotherVolumeIsRemovedWithItsDisks(t *testing.T) {
	machine := newMachine()
	machine.multipath, machine.luns["0"] = true, volumeA
	portals := []string{"192.0.2.1:3260", "192.0.2.2:3260"}
	attached(t, machine, publicationOf(volumeA, 0, portals...))
	machine.luns["0"] = volumeB // a lost unstage, and the number was given to another volume
	machine.busy["/dev/dm-0"] = true
	before := len(machine.commands)
	if _, err := New(machine, nil).Attach(context.Background(), publicationOf(volumeB, 0, portals...)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a mounted map: %v", err)
	}
	delete(machine.busy, "/dev/dm-0")
	attached(t, machine, publicationOf(volumeB, 0, portals...))
	if len(machine.disks) != 2 || machine.mapped[volumeA] || !machine.mapped[volumeB] {
		t.Errorf("disks %v, maps %v", machine.disks, machine.mapped)
	}
	for _, command := range machine.commands[before:] {
		if strings.Contains(command, "flushbufs") {
			t.Errorf("what the old map holds would be written to the new volume: %s", command)
		}
	}
}

func TestASessionWithoutAConnectionIsNotScanned(t *testing.T) {
	machine := newMachine()
	machine.multipath, machine.luns["0"], machine.luns["1"] = true, volumeA, volumeB
	portals := []string{"192.0.2.1:3260", "192.0.2.2:3260"}
	attached(t, machine, publicationOf(volumeA, 0, portals...))
	machine.dead["192.0.2.2:3260"] = true
	scans := machine.ran(hostFolder)
	attached(t, machine, publicationOf(volumeB, 1, portals...))
	if scanned := machine.ran(hostFolder) - scans; scanned != 1 || len(machine.disks) != 3 {
		t.Errorf("%d scans, disks %v", scanned, machine.disks)
	}
}

func TestTimeOutsAndRecordsOfSessions(t *testing.T) {
	for _, multipath := range []bool{true, false} {
		machine := newMachine()
		machine.multipath, machine.luns["0"] = multipath, volumeA
		attached(t, machine, publicationOf(volumeA, 0, "192.0.2.1:3260"))
		if _, set := machine.settings["node.session.timeo.replacement_timeout"]; set != multipath {
			t.Errorf("multipath %t: settings %v", multipath, machine.settings)
		}
		if err := New(machine, nil).Detach(context.Background(), volumeA); err != nil {
			t.Fatal(err)
		}
		if len(machine.records) > 0 {
			t.Error("the record with the CHAP secret stays")
		}
	}
}

func TestAPortalThatComesBackGivesItsPaths(t *testing.T) {
	machine := newMachine()
	machine.multipath, machine.luns["0"], machine.luns["1"] = true, volumeA, volumeB
	portals := []string{"192.0.2.1:3260", "192.0.2.2:3260"}
	machine.dead[portals[1]] = true
	attached(t, machine, publicationOf(volumeA, 0, portals...))
	initiator := New(machine, nil)
	repaired := func(disks, sessions int) {
		t.Helper()
		if err := initiator.repairOnce(context.Background()); err != nil || len(machine.disks) != disks || len(machine.sessions) != sessions {
			t.Errorf("disks %v, sessions %v: %v", machine.disks, machine.sessions, err)
		}
	}
	repaired(1, 1)
	delete(machine.dead, portals[1])
	repaired(2, 2)
	repaired(2, 2)
	// A number that became another volume's gives no path to the old one.
	machine.disks = machine.disks[:1]
	machine.luns["0"] = volumeB
	repaired(1, 2)
	machine.luns["0"] = volumeA
	if err := initiator.Detach(context.Background(), volumeA); err != nil {
		t.Error(err)
	}
	machine.mapped, machine.disks = map[string]bool{}, nil
	repaired(0, len(machine.sessions))
}

func TestAMapWithoutPathsStopsWaiting(t *testing.T) {
	machine := newMachine()
	machine.multipath, machine.luns["0"] = true, volumeA
	attached(t, machine, publicationOf(volumeA, 0, "192.0.2.1:3260"))
	initiator := New(machine, nil)
	for _, waits := range []bool{true, false} {
		if !waits {
			machine.disks = nil
		}
		if err := initiator.StopWaiting(context.Background(), volumeA); err != nil || (machine.ran("dmsetup message") == 0) != waits {
			t.Errorf("%v: %v", machine.commands, err)
		}
	}
}
