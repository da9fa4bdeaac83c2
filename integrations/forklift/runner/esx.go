package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/object"

	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/vmware"
	"github.com/kubev2v/forklift/pkg/storage/resolver"
)

// simulatedESX is vSphere with one ESXi host, which is a folder of gantry-host.
type simulatedESX struct {
	program string
	state   string
	adapter vmware.HostAdapter

	mutex sync.Mutex
	tasks map[string]*cloneTask
}

var _ vmware.Client = &simulatedESX{}

// cloneTask is a vmkfstools that runs, as the VIB on the host keeps it.
type cloneTask struct {
	mapping string
	ended   bool
	code    int
	output  bytes.Buffer
	report  bytes.Buffer
}

// RunEsxCommand carries out what the populator asks of esxcli.
func (s *simulatedESX) RunEsxCommand(_ context.Context, _ *object.HostSystem, command []string) ([]esx.Values, error) {
	switch words := strings.Join(command[:2], " "); words {
	case "vmkfstools version":
		return message(map[string]any{"version": "9.9.9"}), nil
	case "vmkfstools clone":
		return s.clone(option(command, "-s"), option(command, "-t")), nil
	case "vmkfstools taskGet":
		return s.task(option(command, "-i"))
	case "vmkfstools taskClean":
		return s.clean(option(command, "-i"))
	default:
		return s.esxcli(command)
	}
}

func option(command []string, name string) string {
	for index, word := range command[:len(command)-1] {
		if word == name {
			return command[index+1]
		}
	}
	return ""
}

func message(content any) []esx.Values {
	text, _ := json.Marshal(content)
	return []esx.Values{{"status": {"0"}, "message": {string(text)}}}
}

func (s *simulatedESX) command(words ...string) *exec.Cmd {
	return exec.Command(s.program, append([]string{"--state", s.state}, words...)...)
}

// clone starts vmkfstools as the VIB's wrapper does.
func (s *simulatedESX) clone(source, target string) []esx.Values {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	id := fmt.Sprintf("task-%d", len(s.tasks)+1)
	begun := &cloneTask{mapping: fmt.Sprintf("%s-rdmdisk-%d-%s", source, os.Getpid(), id)}
	if s.tasks == nil {
		s.tasks = map[string]*cloneTask{}
	}
	s.tasks[id] = begun
	go func() {
		run := s.command("vmkfstools", "-i", source, "-d", "rdm:"+target, begun.mapping)
		var output, report bytes.Buffer
		run.Stdout, run.Stderr = &output, &report
		err := run.Run()
		s.mutex.Lock()
		defer s.mutex.Unlock()
		begun.ended, begun.output, begun.report = true, output, report
		if err != nil {
			begun.code = 1
		}
	}()
	return message(map[string]any{"taskId": id, "pid": 1, "xcopyUsed": false})
}

func (s *simulatedESX) task(id string) ([]esx.Values, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.tasks[id]
	if found == nil {
		return nil, fmt.Errorf("no task %s", id)
	}
	if !found.ended {
		return message(map[string]any{"taskId": id, "pid": 1, "exitCode": "", "lastLine": "Clone: 0% done.", "xcopyUsed": nil}), nil
	}
	lines := strings.Split(strings.TrimSpace(found.report.String()), "\n")
	report := struct {
		Commands uint64 `json:"offloaded_commands"`
	}{}
	json.Unmarshal([]byte(lines[len(lines)-1]), &report) // a failed clone has no report
	outputLines := strings.FieldsFunc(found.output.String(), func(letter rune) bool { return letter == '\r' || letter == '\n' })
	return message(map[string]any{
		"taskId": id, "pid": 1, "exitCode": fmt.Sprint(found.code), "lastLine": outputLines[len(outputLines)-1],
		"xcopyUsed": report.Commands > 0, "stdErr": found.report.String(),
	}), nil
}

// clean deletes the raw device mapping that vmkfstools made.
func (s *simulatedESX) clean(id string) ([]esx.Values, error) {
	s.mutex.Lock()
	found := s.tasks[id]
	s.mutex.Unlock()
	if found == nil {
		return nil, fmt.Errorf("no task %s", id)
	}
	text, err := s.command("vmkfstools", "-U", found.mapping).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("deleting %s: %w: %s", found.mapping, err, text)
	}
	return message(map[string]any{"taskId": id}), nil
}

// esxcli passes the words on. govmomi writes switches with a 1 behind them.
func (s *simulatedESX) esxcli(command []string) ([]esx.Values, error) {
	words := []string{"esxcli", "--formatter=json"}
	for index, word := range command {
		if index > 0 && command[index-1] == "-a" && word == "1" {
			continue
		}
		words = append(words, word)
	}
	var complaint bytes.Buffer
	run := s.command(words...)
	run.Stderr = &complaint
	text, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("esxcli %s: %w: %s", strings.Join(command, " "), err, complaint.String())
	}
	var records []map[string]any
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &records); err != nil {
		return nil, fmt.Errorf("esxcli %s: %w: %s", strings.Join(command, " "), err, text)
	}
	values := make([]esx.Values, len(records))
	for index, record := range records {
		values[index] = esx.Values{}
		for name, value := range record {
			values[index][name] = []string{fmt.Sprint(value)}
		}
	}
	return values, nil
}

// GetEsxByVm names the only host.
func (s *simulatedESX) GetEsxByVm(context.Context, string) (*object.HostSystem, error) {
	return hostObject(), nil
}

// GetEsxById names the only host.
func (s *simulatedESX) GetEsxById(context.Context, string) (*object.HostSystem, error) {
	return hostObject(), nil
}

// GetDatastoreActiveAdapters names the adapter of the simulated host.
func (s *simulatedESX) GetDatastoreActiveAdapters(context.Context, *object.HostSystem, string, bool) ([]vmware.HostAdapter, error) {
	return []vmware.HostAdapter{s.adapter}, nil
}

// GetDatastore is not asked for.
func (s *simulatedESX) GetDatastore(context.Context, *object.Datacenter, string) (*object.Datastore, error) {
	return nil, errNotAsked
}

// GetVMDiskBacking is not asked for.
func (s *simulatedESX) GetVMDiskBacking(context.Context, string, string) (*resolver.DiskBacking, error) {
	return nil, errNotAsked
}

// GetVirtualDiskSizes is not asked for.
func (s *simulatedESX) GetVirtualDiskSizes(context.Context, string, string) (int64, int64, *resolver.DiskBacking, error) {
	return 0, 0, nil, errNotAsked
}
