package flow

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gantry.io/go/array"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// forklift is the program that runs Forklift's own populator.
func (b *bench) forklift(target *array.Volume) *exec.Cmd {
	b.t.Helper()
	program := os.Getenv("GANTRY_FORKLIFT_RUNNER")
	if program == "" {
		b.t.Fatal("GANTRY_FORKLIFT_RUNNER names the program gantryflow: 'cargo xtask test --integrations' builds it")
	}
	return exec.Command(program, "-array", b.URL, "-token-file", b.TokenFile, "-handle", target.NAA, "-source", "[ds] vm/vm.vmdk",
		"-gantry-host", filepath.Join(os.Getenv("GANTRY_BIN_DIR"), "gantry-host"), "-state", b.state, "-initiator", b.iqn)
}

func TestForkliftsPopulatorCopies(t *testing.T) {
	b := start(t)
	targets := []*array.Volume{b.dirtyTarget("pvc-1"), b.dirtyTarget("pvc-2")}
	var all sync.WaitGroup
	for _, target := range targets {
		program := b.forklift(target)
		all.Go(func() {
			var complaint bytes.Buffer
			program.Stderr = &complaint
			text, err := program.Output()
			if err != nil {
				t.Errorf("%v: %s", err, complaint.String())
				return
			}
			outcome := struct {
				Progress  int    `json:"progress"`
				XcopyUsed int    `json:"xcopy_used"`
				Protocol  string `json:"protocol"`
			}{}
			if err := json.Unmarshal(text, &outcome); err != nil || outcome.Progress != 100 || outcome.XcopyUsed != 1 || outcome.Protocol != "iscsi" {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
	all.Wait()
	for _, target := range targets {
		b.compare(target, target.Maps[0].LUN)
		b.restored(target)
	}
}

func TestForkliftsPopulatorIsKilledAndRunAgain(t *testing.T) {
	b := start(t)
	target := b.dirtyTarget("pvc-1")
	first := b.forklift(target)
	b.must(first.Start())
	deadline := time.Now().Add(time.Minute)
	for {
		if _, mapped := b.shown(target).MapOf(b.esx); mapped {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the target was not mapped")
		}
		time.Sleep(10 * time.Millisecond)
	}
	first.Process.Kill()
	first.Wait()
	if text, err := b.forklift(target).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	b.compare(target, target.Maps[0].LUN)
	b.restored(target)
}

func TestForkliftsPopulatorTellsThatTheVolumeIsMissing(t *testing.T) {
	b := start(t)
	missing := &array.Volume{NAA: "naa.60000000000000000000000000000001"}
	text, err := b.forklift(missing).CombinedOutput()
	if err == nil || !bytes.Contains(text, []byte("it was deleted, or is on another array")) {
		t.Errorf("%v: %s", err, text)
	}
}
