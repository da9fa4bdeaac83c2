package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"gantry.io/go/arraytest"
)

func disk(name string, size int64, more string) string {
	return fmt.Sprintf("resource \"gantry_volume\" \"disk\" {\n  pool = \"p\"\n  name = %q\n  size_bytes = %d\n%s\n}\n", name, size, more)
}

// action is what the plan of a step does with a resource.
func action(address string, wanted plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, wanted)}}
}

func TestAVolumeIsRenamedGrownAndTaggedInPlace(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	here := settings(a, 10)
	var naa string
	run(t,
		resource.TestStep{Config: here + disk("disk", 64*mib, `tags = { env = "test" }`), Check: func(state *terraform.State) error {
			naa = attribute(state, "gantry_volume.disk", "id")
			found := shown(t, a, "disk")
			if found.NAA != naa || found.SizeBytes != 64*mib || found.Tags["env"] != "test" || found.Thick || found.BlockSize != "512" {
				return fmt.Errorf("it is %+v", found)
			}
			return nil
		}},
		resource.TestStep{Config: here + disk("other", 128*mib, `tags = { owner = "ann" }`),
			ConfigPlanChecks: action("gantry_volume.disk", plancheck.ResourceActionUpdate),
			Check: holds(func() error {
				found := shown(t, a, "other")
				if found.NAA != naa || found.SizeBytes != 128*mib || found.Tags["owner"] != "ann" || found.Tags["env"] != "" {
					return fmt.Errorf("it is %+v", found)
				}
				return nil
			})},
		resource.TestStep{Config: here + disk("other", 64*mib, ""), ExpectError: words(`A volume only grows.*134217728`)},
		resource.TestStep{Config: here + disk("other", 128*mib+512, ""), ExpectError: words(`Not a whole number of blocks.*134221824`)},
		resource.TestStep{Config: here + disk("other", 128*mib, "thick = true\nblock_size = \"4096\""),
			ConfigPlanChecks: action("gantry_volume.disk", plancheck.ResourceActionDestroyBeforeCreate),
			Check: holds(func() error {
				if found := shown(t, a, "other"); found.NAA == naa || !found.Thick || found.BlockSize != "4096" {
					return fmt.Errorf("it is %+v", found)
				}
				return nil
			})},
		resource.TestStep{ResourceName: "gantry_volume.disk", ImportState: true, ImportStateId: "p/other", ImportStateVerify: true},
		resource.TestStep{ResourceName: "gantry_volume.disk", ImportState: true, ImportStateId: "p", ExpectError: words(`POOL/NAME`)},
		resource.TestStep{ResourceName: "gantry_volume.disk", ImportState: true, ImportStateId: "p/none", ExpectError: words(`was not imported`)},
	)
}

func TestWhatOthersChangeIsSeenAndPutRight(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	config := settings(a, 10) + disk("disk", 64*mib, `tags = { env = "test" }`)
	var naa string
	note := func(state *terraform.State) error {
		naa = attribute(state, "gantry_volume.disk", "id")
		return nil
	}
	same := holds(func() error {
		if found := shown(t, a, "disk"); found.NAA != naa || found.Tags["env"] != "test" {
			return fmt.Errorf("it is %+v", found)
		}
		return nil
	})
	run(t,
		resource.TestStep{Config: config, Check: note},
		resource.TestStep{PreConfig: func() { a.Run("volume", "rename", "p/disk", "moved") }, Config: config,
			ConfigPlanChecks: action("gantry_volume.disk", plancheck.ResourceActionUpdate), Check: same},
		// Another volume takes the name: it is not the one that terraform made, and stays unharmed.
		resource.TestStep{PreConfig: func() {
			a.Run("volume", "rename", "p/disk", "moved")
			a.Run("volume", "create", "p/disk", "--size", "1M")
		}, Config: config, ExpectError: words(`not changed as planned.*disk`)},
		resource.TestStep{PreConfig: func() { a.Run("volume", "delete", "p/disk", "--yes") }, Config: config, Check: same},
		resource.TestStep{PreConfig: func() { a.Run("volume", "delete", "p/disk", "--yes") }, Config: config,
			ConfigPlanChecks: action("gantry_volume.disk", plancheck.ResourceActionCreate),
			Check: holds(func() error {
				if shown(t, a, "disk").NAA == naa {
					return fmt.Errorf("the identifier was used again")
				}
				return nil
			})},
		// It grew elsewhere: the plan says so, and does not make it smaller.
		resource.TestStep{PreConfig: func() { a.Run("volume", "resize", "p/disk", "--size", "128M") }, Config: config,
			ExpectError: words(`A volume only grows`)},
	)
}

func TestAVolumeOfSomebodyElseIsNotTakenOver(t *testing.T) {
	a := arraytest.Start(t, "2G")
	a.Run("volume", "create", "p/disk", "--size", "1M")
	before := shown(t, a, "disk").NAA
	run(t, resource.TestStep{Config: settings(a, 10) + disk("disk", 64*mib, ""), ExpectError: words(`terraform import.*p/disk`)})
	if after := shown(t, a, "disk"); after.NAA != before || after.SizeBytes != mib {
		t.Fatalf("it is %+v", after)
	}
}

const clones = `
resource "gantry_snapshot" "moment" {
  volume_id = gantry_volume.disk.id
  name = "moment"
  tags = { kind = "template" }
}
resource "gantry_volume" "clone" {
  pool = "p"
  name = "clone"
  source_id = gantry_snapshot.moment.id
  size_bytes = %d
}
data "gantry_volume" "clone" {
  pool = "p"
  name = gantry_volume.clone.name
}
data "gantry_pool" "p" { name = "p" }
`

func TestSnapshotsAreClonedAndClonesOutliveThem(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	here := settings(a, 10) + disk("disk", 64*mib, "")
	cloned := func(size int64) string { return here + fmt.Sprintf(clones, size) }
	run(t,
		resource.TestStep{Config: cloned(32 * mib), ExpectError: words(`size_bytes must be at least`)},
		resource.TestStep{Config: cloned(128 * mib), Check: resource.ComposeTestCheckFunc(
			resource.TestCheckResourceAttr("data.gantry_volume.clone", "size_bytes", fmt.Sprint(128*mib)),
			resource.TestCheckResourceAttr("data.gantry_pool.p", "state", "ready"),
			resource.TestCheckResourceAttrSet("data.gantry_pool.p", "free_bytes"),
			resource.TestCheckResourceAttr("gantry_snapshot.moment", "size_bytes", fmt.Sprint(64*mib)),
		)},
		resource.TestStep{ResourceName: "gantry_snapshot.moment", ImportState: true, ImportStateId: "p/moment", ImportStateVerify: true},
		resource.TestStep{Config: strings.ReplaceAll(cloned(128*mib), `name = "moment"`, `name = "renamed"`),
			ConfigPlanChecks: action("gantry_snapshot.moment", plancheck.ResourceActionUpdate)},
		// The snapshot goes and its clone stays, which names it no more.
		resource.TestStep{Config: here + "resource \"gantry_volume\" \"clone\" {\n  pool = \"p\"\n  name = \"clone\"\n  size_bytes = 134217728\n}\n",
			ConfigPlanChecks: action("gantry_snapshot.moment", plancheck.ResourceActionDestroy),
			Check: holds(func() error {
				if found := shown(t, a, "clone"); found.SizeBytes != 128*mib {
					return fmt.Errorf("it is %+v", found)
				}
				return nil
			})},
	)
}
