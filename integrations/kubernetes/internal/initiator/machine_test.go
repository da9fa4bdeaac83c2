package initiator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	target  = "iqn.2026-11.io.gantry:test"
	volumeA = "naa.60267616e7472791000000000000000a"
	volumeB = "naa.60267616e7472791000000000000000b"
)

// fakeDisk is a disk as the kernel keeps it: what it told last, and which LUN it really is.
type fakeDisk struct {
	address, name, wwid string
	session             int
	lun                 string
}

// fakeMachine is a kernel, an open-iscsi and a multipathd in memory, beside an array with LUNs.
type fakeMachine struct {
	mutex sync.Mutex
	// luns of the array, by the kernel's number.
	luns map[string]string
	// dead portals do not answer.
	dead map[string]bool
	// sessions by number, with their portals.
	sessions map[int]string
	disks    []*fakeDisk
	// busy device files.
	busy map[string]bool
	// multipath says whether multipathd runs; mapped has the volumes with a map.
	multipath bool
	mapped    map[string]bool
	settings  map[string]string
	// config is what multipathd says of its settings; files are those of the machine's root folder.
	config string
	files  map[string]string
	// records are the portals that open-iscsi knows.
	records  map[string]bool
	commands []string
	numbers  int
}

func newMachine() *fakeMachine {
	return &fakeMachine{
		luns: map[string]string{}, dead: map[string]bool{}, sessions: map[int]string{}, busy: map[string]bool{},
		mapped: map[string]bool{}, settings: map[string]string{}, files: map[string]string{}, records: map[string]bool{},
	}
}

func (m *fakeMachine) Run(_ context.Context, program string, arguments ...string) (string, int, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	line := program + " " + strings.Join(arguments, " ")
	m.commands = append(m.commands, line)
	switch {
	case program == "iscsiadm":
		return m.iscsiadm(arguments)
	case line == "multipathd show daemon" && !m.multipath:
		return "", 1, nil
	case line == "multipathd show daemon":
		return "pid 4711 idle", 0, nil
	case line == "multipathd show config":
		return m.config, 0, nil
	case strings.HasPrefix(line, "multipath -a "):
		m.mapped[m.wwidOf(arguments[1])] = true
	case strings.HasPrefix(line, "multipath -f "):
		delete(m.mapped, "naa."+strings.TrimPrefix(arguments[1], "mpath-"))
	}
	return "", 0, nil
}

func (m *fakeMachine) wwidOf(file string) string {
	for _, disk := range m.disks {
		if "/dev/"+disk.name == file {
			return disk.wwid
		}
	}
	return ""
}

func (m *fakeMachine) iscsiadm(arguments []string) (string, int, error) {
	value := func(option string) string {
		if index := slices.Index(arguments, option); index >= 0 {
			return arguments[index+1]
		}
		return ""
	}
	switch {
	case slices.Contains(arguments, "--login"):
		if m.dead[value("--portal")] {
			return "iscsiadm: connection timed out", 8, nil
		}
		m.numbers++
		m.sessions[m.numbers] = value("--portal")
	case slices.Contains(arguments, "--logout"):
		sid, _ := strconv.Atoi(value("--sid"))
		delete(m.sessions, sid)
	case value("--op") == "new":
		m.records[value("--portal")] = true
	case value("--op") == "delete":
		clear(m.records)
	case len(arguments) == 2: // --mode node
		var lines []string
		for portal := range m.records {
			lines = append(lines, portal+",1 "+target)
		}
		return strings.Join(lines, "\n"), 0, nil
	case value("--op") == "update":
		m.settings[value("--name")] = value("--value")
	}
	return "", 0, nil
}

func (m *fakeMachine) Read(path string) (string, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if path == initiatorNameFile {
		return "## comment\nInitiatorName=iqn.2004-10.com.ubuntu:01:abc", nil
	}
	for sid, portal := range m.sessions {
		host, port, _ := strings.Cut(portal, ":")
		connection := fmt.Sprintf("%s/connection%d:0", connectionFolder, sid)
		switch path {
		case fmt.Sprintf("%s/session%d/targetname", sessionFolder, sid):
			return target, nil
		case fmt.Sprintf("%s/session%d/state", sessionFolder, sid):
			if m.dead[portal] {
				return "FAILED", nil
			}
			return "LOGGED_IN", nil
		case connection + "/persistent_address":
			return host, nil
		case connection + "/persistent_port":
			return port, nil
		}
	}
	for _, disk := range m.disks {
		if path == deviceFolder+"/"+disk.address+"/device/wwid" {
			return disk.wwid, nil
		}
	}
	for index, naa := range m.maps() {
		node := fmt.Sprintf("%s/dm-%d/dm/", blockFolder, index)
		hexadecimal := strings.TrimPrefix(naa, "naa.")
		switch path {
		case node + "uuid":
			return "mpath-3" + hexadecimal, nil
		case node + "name":
			return "mpath-" + hexadecimal, nil
		}
	}
	return "", fs.ErrNotExist
}

func (m *fakeMachine) maps() []string {
	var maps []string
	for naa := range m.mapped {
		maps = append(maps, naa)
	}
	slices.Sort(maps)
	return maps
}

func (m *fakeMachine) Write(path, text string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.commands = append(m.commands, path+" "+text)
	for sid := range m.sessions {
		if path == fmt.Sprintf("%s/host%d/scan", hostFolder, sid) {
			m.scan(sid, strings.TrimPrefix(text, "0 0 "))
			return nil
		}
	}
	for index, disk := range m.disks {
		switch path {
		case deviceFolder + "/" + disk.address + "/device/rescan":
			disk.wwid = m.luns[disk.lun]
			return nil
		case deviceFolder + "/" + disk.address + "/device/delete":
			m.disks = slices.Delete(m.disks, index, index+1)
			return nil
		}
	}
	return fs.ErrNotExist
}

func (m *fakeMachine) Reaches(_ context.Context, portal string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return !m.dead[portal]
}

func (m *fakeMachine) ReadRoot(path string) (string, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	text, known := m.files[path]
	if !known {
		return "", fs.ErrNotExist
	}
	return strings.TrimSpace(text), nil
}

func (m *fakeMachine) WriteRoot(path, text string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.files[path] = text
	return nil
}

// scan makes a disk unless there is one, as the kernel does, whatever the old one is.
func (m *fakeMachine) scan(sid int, lun string) {
	address := fmt.Sprintf("%d:0:0:%s", sid, lun)
	known := func(disk *fakeDisk) bool { return disk.address == address }
	if m.luns[lun] == "" || slices.ContainsFunc(m.disks, known) {
		return
	}
	name := fmt.Sprintf("sd%c%d", 'a'+rune(len(m.disks)), sid)
	m.disks = append(m.disks, &fakeDisk{address: address, name: name, wwid: m.luns[lun], session: sid, lun: lun})
}

func (m *fakeMachine) List(path string) ([]string, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var names []string
	switch path {
	case sessionFolder:
		for sid := range m.sessions {
			names = append(names, fmt.Sprintf("session%d", sid))
		}
	case deviceFolder:
		for _, disk := range m.disks {
			names = append(names, disk.address)
		}
	case blockFolder + "/dm-0/slaves":
		for _, disk := range m.disks {
			if disk.wwid == m.maps()[0] {
				names = append(names, disk.name)
			}
		}
	case blockFolder:
		for index := range m.maps() {
			names = append(names, fmt.Sprintf("dm-%d", index))
		}
	}
	for _, disk := range m.disks {
		if index := slices.Index(m.maps(), disk.wwid); index >= 0 && path == blockFolder+"/"+disk.name+"/holders" {
			names = append(names, fmt.Sprintf("dm-%d", index))
		}
		if path == deviceFolder+"/"+disk.address+"/device/block" {
			names = append(names, disk.name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *fakeMachine) Link(path string) (string, error) {
	if sid, found := strings.CutPrefix(path, sessionFolder+"/session"); found {
		return "../../devices/platform/host" + sid + "/session" + sid + "/iscsi_session/session" + sid, nil
	}
	if _, slave, found := strings.Cut(path, "/slaves/"); found && slices.ContainsFunc(m.disks, func(disk *fakeDisk) bool { return disk.name == slave }) {
		return "../../" + slave, nil
	}
	return "", errors.New("no link")
}

func (m *fakeMachine) IsBusy(device string) (bool, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, disk := range m.disks {
		// A map has its paths open for itself alone.
		if device == "/dev/"+disk.name && m.mapped[disk.wwid] {
			return true, nil
		}
	}
	return m.busy[device], nil
}
