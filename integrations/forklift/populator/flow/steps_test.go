package flow

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gantry.io/go/array"
	"gantry.io/go/arraytest"

	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/gantry"
	"github.com/kubev2v/forklift/cmd/vsphere-copy-offload-populator/internal/populator"
)

const group = "xcopy-hostsystem-host-1"

// populate does the populator's calls in its order, and ends as a killed one does before the step of this
// number; none for -1.
func (b *bench) populate(target *array.Volume, killedBefore int) error {
	b.t.Helper()
	provider := b.provider()
	mapping, err := provider.EnsureClonnerIgroup(group, []string{b.iqn})
	b.must(err)
	lun, err := provider.ResolvePVToLUN(persistent(target))
	b.must(err)
	original, err := provider.CurrentMappedGroups(lun, mapping)
	b.must(err)
	steps := []func() error{
		func() error { _, err := provider.MapTarget(lun, mapping); return err },
		func() error { _, err := b.clone(lun.NAA, "vm.vmdk-rdmdisk-"+target.Name); return err },
		func() error { return provider.UnmapTarget(lun, mapping) },
		func() error {
			for _, name := range original {
				if _, err := provider.Map(name, lun, mapping); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for number, step := range steps {
		if number == killedBefore {
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func TestADiskIsCopiedByTheArrayAndTheMapsAreRestored(t *testing.T) {
	b := start(t)
	target := b.dirtyTarget("pvc-1")
	before := b.host("--json", "esxtop", "-n", "1")
	b.must(b.populate(target, -1))
	b.compare(target, target.Maps[0].LUN)
	b.restored(target)
	if after := b.host("--json", "esxtop", "-n", "1"); after == before {
		t.Error("the host did nothing")
	}
	usage := b.shown(target).MappedBytes
	if usage == 0 || usage > diskBytes {
		t.Errorf("the target has %d bytes", usage)
	}
	// Once more, over what is there.
	b.must(b.populate(target, -1))
	b.compare(target, target.Maps[0].LUN)
	b.restored(target)
}

func TestEveryCallMayBeRepeated(t *testing.T) {
	b := start(t)
	target, provider := b.dirtyTarget("pvc-1"), b.provider()
	var mapping populator.MappingContext
	for range 2 {
		made, err := provider.EnsureClonnerIgroup(group, []string{b.iqn})
		b.must(err)
		mapping = made
	}
	lun, err := provider.ResolvePVToLUN(persistent(target))
	b.must(err)
	for range 2 {
		for range 2 {
			_, err = provider.MapTarget(lun, mapping)
			b.must(err)
			_, err = provider.Map(group, lun, mapping)
			b.must(err)
			_, err = provider.Map("node1", lun, mapping)
			b.must(err)
		}
		groups, err := provider.CurrentMappedGroups(lun, mapping)
		if err != nil || !slices.Equal(groups, []string{"node1"}) {
			t.Error(groups, err)
		}
		for range 2 {
			b.must(provider.UnmapTarget(lun, mapping))
			b.must(provider.UnMap(group, lun, mapping))
		}
		b.restored(target)
	}
	for range 2 {
		b.must(provider.UnMap("node1", lun, mapping))
	}
	if maps := b.shown(target).Maps; len(maps) != 0 {
		t.Error(maps)
	}
}

func TestAPopulatorThatWasKilledAnywhereIsRunAgain(t *testing.T) {
	for killedBefore := range 4 {
		b := start(t)
		target := b.dirtyTarget("pvc-1")
		b.must(b.populate(target, killedBefore))
		b.must(b.populate(target, -1))
		b.compare(target, target.Maps[0].LUN)
		b.restored(target)
	}
}

func TestAnotherHostTakesOverFromAKilledPopulator(t *testing.T) {
	b := start(t)
	target := b.dirtyTarget("pvc-1")
	b.must(b.populate(target, 1))
	_, err := b.client.CreateHost(t.Context(), array.NewHost{Name: "esx2", Initiators: []string{"iqn.1998-01.com.vmware:esx2"}})
	b.must(err)
	provider := b.provider()
	mapping, err := provider.EnsureClonnerIgroup("xcopy-2", []string{"iqn.1998-01.com.vmware:esx2"})
	b.must(err)
	lun, err := provider.ResolvePVToLUN(persistent(target))
	b.must(err)
	groups, err := provider.CurrentMappedGroups(lun, mapping)
	if err != nil || !slices.Equal(groups, []string{"node1"}) {
		t.Error(groups, err)
	}
	_, err = provider.MapTarget(lun, mapping)
	b.must(err)
	shown := b.shown(target)
	if _, left := shown.MapOf("esx1"); left {
		t.Error("the first host still sees the target")
	}
	if _, mapped := shown.MapOf("esx2"); !mapped {
		t.Error("the second host does not see it")
	}
	b.must(provider.UnmapTarget(lun, mapping))
	b.restored(target)
}

func TestManyPopulatorsAtOnce(t *testing.T) {
	b := start(t)
	var targets []*array.Volume
	for _, name := range []string{"pvc-1", "pvc-2", "pvc-3"} {
		targets = append(targets, b.dirtyTarget(name))
	}
	var all sync.WaitGroup
	for _, target := range targets {
		all.Go(func() {
			if err := b.populate(target, -1); err != nil {
				t.Errorf("%s: %v", target.Name, err)
			}
		})
	}
	all.Wait()
	for _, target := range targets {
		b.compare(target, target.Maps[0].LUN)
		b.restored(target)
	}
}

func TestAnUnknownHostIsMadeOnceByManyPopulators(t *testing.T) {
	b := start(t)
	var all sync.WaitGroup
	for range 8 {
		provider := b.provider()
		all.Go(func() {
			mapping, err := provider.EnsureClonnerIgroup("xcopy-new @ /dc/host/new", []string{"iqn.1998-01.com.vmware:new"})
			if err != nil || mapping == nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	host, err := b.client.HostOf(t.Context(), "iqn.1998-01.com.vmware:new")
	if err != nil || host == nil || !strings.HasPrefix(host.Name, "xcopy-new") {
		t.Error(host, err)
	}
}

func TestWrongCredentialsRolesAndVolumesAreTold(t *testing.T) {
	b := start(t)
	refused := func(address string, credentials gantry.Credentials, words string) {
		t.Helper()
		if _, err := gantry.NewGantryClonner(address, credentials); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v instead of %s", err, words)
		}
	}
	refused(b.URL, gantry.Credentials{Token: "wrong"}, "token-not-valid")
	refused(b.URL, gantry.Credentials{Username: "nobody", Password: "a wrong password"}, "wrong-login")
	refused("http://"+arraytest.FreeAddress(t), gantry.Credentials{Token: "t"}, "does not answer")
	viewer := strings.TrimSpace(readFile(t, b.Token("viewer")))
	refused(b.URL, gantry.Credentials{Token: viewer}, "operator")
	target, provider := b.dirtyTarget("pvc-1"), b.provider()
	mapping, err := provider.EnsureClonnerIgroup(group, []string{b.iqn})
	b.must(err)
	lun, err := provider.ResolvePVToLUN(persistent(target))
	b.must(err)
	b.Run("volume", "unmap", "p/pvc-1", "--host", "node1")
	b.Run("volume", "delete", "p/pvc-1")
	if _, err := provider.ResolvePVToLUN(persistent(target)); err == nil || !strings.Contains(err.Error(), "deleted") {
		t.Error(err)
	}
	if _, err := provider.MapTarget(lun, mapping); err == nil {
		t.Error("there is nothing to map")
	}
	b.must(provider.UnmapTarget(lun, mapping))
}

func TestAUserWithAPasswordPopulatesToo(t *testing.T) {
	b := start(t)
	password := filepath.Join(b.Folder, "password")
	b.must(os.WriteFile(password, []byte("a long password\n"), 0o600))
	b.Run("user", "create", "forklift", "--role", "operator", "--password-file", password)
	first := gantry.Credentials{Username: "forklift", Password: "a long password"}
	if _, err := gantry.NewGantryClonner(b.URL, first); err == nil || !strings.Contains(err.Error(), "first password") {
		t.Error(err)
	}
	b.must(os.WriteFile(password, []byte("another password\n"), 0o600))
	b.Run("user", "change", "forklift", "--password-file", password, "--own")
	made, err := gantry.NewGantryClonner(b.URL, gantry.Credentials{Username: "forklift", Password: "another password"})
	b.must(err)
	target := b.dirtyTarget("pvc-1")
	mapping, err := made.EnsureClonnerIgroup(group, []string{b.iqn})
	b.must(err)
	lun, err := made.ResolvePVToLUN(persistent(target))
	b.must(err)
	_, err = made.MapTarget(lun, mapping)
	b.must(err)
	b.must(made.UnmapTarget(lun, mapping))
	b.restored(target)
}

func TestAnArrayThatRestartsIsWaitedFor(t *testing.T) {
	b := start(t)
	target, provider := b.dirtyTarget("pvc-1"), b.provider()
	mapping, err := provider.EnsureClonnerIgroup(group, []string{b.iqn})
	b.must(err)
	lun, err := provider.ResolvePVToLUN(persistent(target))
	b.must(err)
	b.Kill()
	mapped := make(chan error)
	go func() { _, err := provider.MapTarget(lun, mapping); mapped <- err }()
	b.Resume()
	b.must(<-mapped)
	b.must(provider.UnmapTarget(lun, mapping))
	b.restored(target)
}

func TestATargetThatIsTooSmallIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	b := start(t)
	small := b.volume("small", 32<<20)
	provider := b.provider()
	mapping, err := provider.EnsureClonnerIgroup(group, []string{b.iqn})
	b.must(err)
	lun, err := provider.ResolvePVToLUN(persistent(small))
	b.must(err)
	_, err = provider.MapTarget(lun, mapping)
	b.must(err)
	report, err := b.clone(lun.NAA, "vm.vmdk-rdmdisk-1")
	if err == nil || !strings.Contains(report, "choose a larger device") {
		t.Error(report, err)
	}
	b.must(provider.UnmapTarget(lun, mapping))
	if b.shown(small).MappedBytes != 0 {
		t.Error("something was written")
	}
	if listed := b.host("file", "ls", "/vmfs/volumes/ds/vm"); strings.Contains(listed, "rdm") {
		t.Error(listed)
	}
}
