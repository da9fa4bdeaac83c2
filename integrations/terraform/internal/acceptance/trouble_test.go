package acceptance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"gantry.io/go/arraytest"
)

func program() string { return os.Getenv(programVariable) }

// fleet is many disks, each with a snapshot and a mapping.
func fleet(count int) string {
	return fmt.Sprintf(`
resource "gantry_host" "node" {
  name = "node"
  initiators = ["iqn.2026-11.org.example:node"]
}
resource "gantry_volume" "disk" {
  count = %d
  pool = "p"
  name = "disk-${count.index}"
  size_bytes = 67108864
}
resource "gantry_snapshot" "moment" {
  count = %d
  volume_id = gantry_volume.disk[count.index].id
  name = "moment-${count.index}"
}
resource "gantry_mapping" "disk" {
  count = %d
  volume_id = gantry_volume.disk[count.index].id
  host = gantry_host.node.name
}
`, count, count, count)
}

// whole checks that the array has just the fleet, each disk by a LUN number of its own.
func whole(t *testing.T, a *arraytest.Array, count int) error {
	t.Helper()
	volumes, _, err := a.Client().ListVolumes(context.Background(), nil, 0, "")
	if err != nil {
		return err
	}
	luns := map[int]string{}
	for _, volume := range volumes {
		if there, is := volume.MapOf("node"); is {
			if other, taken := luns[there.LUN]; taken {
				return fmt.Errorf("%s and %s are LUN %d", other, volume.Name, there.LUN)
			}
			luns[there.LUN] = volume.Name
		}
	}
	snapshots, _, err := a.Client().ListSnapshots(context.Background(), nil, 0, "")
	if err != nil || len(snapshots) != count || len(luns) != count {
		return fmt.Errorf("there are %d snapshots, %d mappings, %v", len(snapshots), len(luns), err)
	}
	return nil
}

func TestADaemonThatIsKilledAllTheTimeIsWaitedFor(t *testing.T) {
	a := arraytest.Start(t, "4G")
	emptyAgain(t, a)
	stop, stopped := make(chan struct{}), make(chan struct{})
	kills := 0
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(150 * time.Millisecond):
				a.Kill()
				a.Resume()
				kills++
			}
		}
	}()
	config := settings(a, 120) + fleet(100)
	resource.UnitTest(t, resource.TestCase{ProtoV6ProviderFactories: factories, Steps: []resource.TestStep{{Config: config,
		Check: holds(func() error {
			close(stop)
			<-stopped
			t.Logf("%d kills", kills)
			if kills < 3 {
				return fmt.Errorf("it was killed %d times only", kills)
			}
			return whole(t, a, 100)
		})}}})
}

func TestManyAtOnceBesideSomebodyWhoChangesTheSame(t *testing.T) {
	a := arraytest.Start(t, "4G")
	emptyAgain(t, a)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for turn := 0; ; turn++ {
			select {
			case <-stop:
				return
			default:
				tags := map[string]string{"beside": fmt.Sprint(turn)}
				volumes, _, _ := a.Client().ListVolumes(context.Background(), nil, 20, "")
				for _, volume := range volumes {
					if !volume.Snapshot {
						tags := withAll(volume.Tags, tags)
						a.Client().SetVolumeTags(context.Background(), volume.Ref(), tags, "")
					}
				}
			}
		}
	}()
	ends := func() {
		close(stop)
		<-stopped
	}
	run(t,
		resource.TestStep{Config: settings(a, 60) + fleet(60), ExpectNonEmptyPlan: true, Check: holds(func() error {
			ends()
			return whole(t, a, 60)
		})},
		resource.TestStep{Config: settings(a, 60) + fleet(60)},
	)
}

func withAll(one, other map[string]string) map[string]string {
	all := map[string]string{}
	for _, tags := range []map[string]string{one, other} {
		for key, value := range tags {
			all[key] = value
		}
	}
	return all
}

func TestAPoolThatIsNotOpenLosesNothingFromTheState(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	config := settings(a, 1) + disk("disk", 64*mib, "") + "resource \"gantry_snapshot\" \"s\" {\n  volume_id = gantry_volume.disk.id\n  name = \"s\"\n}\n"
	image := filepath.Join(a.Folder, "p.img")
	run(t,
		resource.TestStep{Config: config},
		resource.TestStep{PreConfig: func() {
			a.Stop()
			rename(t, image, image+".away")
			a.Resume()
		}, Config: config, ExpectError: words(`is not open`)},
		resource.TestStep{PreConfig: func() { rename(t, image+".away", image) }, Config: settings(a, 60) + strings.SplitN(config, "}\n", 2)[1],
			Check: holds(func() error {
				if found := shown(t, a, "disk"); found.Snapshots != 1 {
					return fmt.Errorf("it is %+v", found)
				}
				return nil
			})},
	)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// The example of the README, with the program as users have it.
func TestTheExampleIsAppliedAndDestroyed(t *testing.T) {
	a := arraytest.Start(t, "")
	a.Run("pool", "create", "fast", "--device", "file:"+filepath.Join(a.Folder, "fast.img"), "--size", "4G")
	emptyAgain(t, a)
	folder := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "terraform-provider-gantry"), "../..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	text, err := os.ReadFile("../../examples/cluster/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	// What the example protects, this test destroys.
	text = []byte(strings.Replace(string(text), "prevent_destroy = true", "prevent_destroy = false", 1))
	override := fmt.Sprintf("provider_installation {\n  dev_overrides { \"gantry/gantry\" = %q }\n  direct {}\n}\n", folder)
	for name, content := range map[string][]byte{"main.tf": text, "rc": []byte(override)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environment := append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(folder, "rc"), "GANTRY_URL="+a.URL, "GANTRY_TOKEN_FILE="+a.TokenFile,
		`TF_VAR_chap_secrets={"node1":"a secret of node1","node2":"a secret of node2"}`)
	for _, words := range [][]string{{"apply", "-auto-approve", "-no-color"}, {"plan", "-detailed-exitcode", "-no-color"}, {"destroy", "-auto-approve", "-no-color"}} {
		output, err := plain(t, folder, environment, words...)
		if err != nil || strings.Contains(output, "a secret of") {
			t.Fatalf("%v: %v: %s", words, err, output)
		}
		state, _ := os.ReadFile(filepath.Join(folder, "terraform.tfstate"))
		if strings.Contains(string(state), "a secret of") {
			t.Fatalf("a secret is in the state: %s", state)
		}
	}
}
