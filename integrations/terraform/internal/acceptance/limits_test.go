package acceptance

import (
	"context"
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"gantry.io/go/array"
	"gantry.io/go/arraytest"
)

// node is a host.
func node(more string) string {
	return "resource \"gantry_host\" \"node\" {\n  name = \"node\"\n  initiators = [\"" + initiator + "\"]\n" + more + "\n}\n"
}

func limitedTo(t *testing.T, a *arraytest.Array, name string, iops, bytesPerSecond, burst int64) resource.TestCheckFunc {
	return holds(func() error {
		if found := shown(t, a, name).Limits; found != (array.Limits{IOPS: iops, BytesPerSecond: bytesPerSecond, BurstMilliseconds: burst}) {
			return fmt.Errorf("it is %+v", found)
		}
		return nil
	})
}

func hostLimitedTo(a *arraytest.Array, iops, share int64) resource.TestCheckFunc {
	return holds(func() error {
		found, _, err := a.Client().ShowHost(context.Background(), "node")
		if err != nil || found.Limits.IOPS != iops || found.Share != share {
			return fmt.Errorf("it is %+v, %v", found, err)
		}
		return nil
	})
}

func TestLimitsComeChangeAndGoInPlace(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	here := settings(a, 10)
	limited := here + disk("disk", 64*mib, "limits = { iops = 5000, bytes_per_second = 209715200, burst_ms = 2000 }")
	update := action("gantry_volume.disk", plancheck.ResourceActionUpdate)
	run(t,
		resource.TestStep{Config: limited, Check: limitedTo(t, a, "disk", 5000, 200*mib, 2000)},
		resource.TestStep{ResourceName: "gantry_volume.disk", ImportState: true, ImportStateId: "p/disk", ImportStateVerify: true},
		resource.TestStep{Config: here + disk("disk", 64*mib, "limits = { iops = 100 }"), ConfigPlanChecks: update,
			Check: limitedTo(t, a, "disk", 100, 0, 100)},
		// Others change it: it is put right.
		resource.TestStep{PreConfig: func() { a.Run("volume", "limit", "p/disk", "--iops", "none", "--bandwidth", "1M") },
			Config: here + disk("disk", 64*mib, "limits = { iops = 100 }"), ConfigPlanChecks: update, Check: limitedTo(t, a, "disk", 100, 0, 100)},
		resource.TestStep{Config: here + disk("disk", 64*mib, ""), ConfigPlanChecks: update, Check: limitedTo(t, a, "disk", 0, 0, 100)},
		resource.TestStep{PreConfig: func() { a.Run("volume", "limit", "p/disk", "--burst-ms", "5000") },
			Config: here + disk("disk", 64*mib, ""), ConfigPlanChecks: update, Check: limitedTo(t, a, "disk", 0, 0, 100)},
	)
}

func TestACloneHasItsOwnLimitsAndNotThoseOfItsSource(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	clone := func(name, more string) string {
		return fmt.Sprintf("resource \"gantry_volume\" %q {\n  pool = \"p\"\n  name = %q\n  source_id = gantry_volume.disk.id\n  size_bytes = %d\n%s\n}\n",
			name, name, 128*mib, more)
	}
	config := settings(a, 10) + disk("disk", 64*mib, "limits = { iops = 100 }") + clone("free", "") + clone("slow", "limits = { bytes_per_second = 1048576 }") +
		"data \"gantry_volume\" \"slow\" {\n  pool = \"p\"\n  name = gantry_volume.slow.name\n}\n"
	run(t, resource.TestStep{Config: config, Check: resource.ComposeTestCheckFunc(
		limitedTo(t, a, "disk", 100, 0, 100), limitedTo(t, a, "free", 0, 0, 100), limitedTo(t, a, "slow", 0, mib, 100),
		resource.TestCheckResourceAttr("data.gantry_volume.slow", "limits.bytes_per_second", fmt.Sprint(mib)),
		resource.TestCheckNoResourceAttr("data.gantry_volume.slow", "limits.iops"),
	)})
}

func TestAHostHasLimitsAndAShare(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	here := settings(a, 10)
	found := "data \"gantry_host\" \"found\" {\n  name = gantry_host.node.name\n}\n"
	update := action("gantry_host.node", plancheck.ResourceActionUpdate)
	run(t,
		resource.TestStep{Config: here + node("limits = { iops = 20000 }\n  share = 4\n  tags = { rack = \"7\" }") + found, Check: resource.ComposeTestCheckFunc(
			hostLimitedTo(a, 20000, 4), resource.TestCheckResourceAttr("data.gantry_host.found", "share", "4"),
			resource.TestCheckResourceAttr("data.gantry_host.found", "limits.iops", "20000"))},
		resource.TestStep{ResourceName: "gantry_host.node", ImportState: true, ImportStateId: "node", ImportStateVerify: true,
			ImportStateVerifyIdentifierAttribute: "name"},
		resource.TestStep{Config: here + node("share = 4"), ConfigPlanChecks: update, Check: hostLimitedTo(a, 0, 4)},
		resource.TestStep{PreConfig: func() { a.Run("host", "limit", "node", "--share", "9") }, Config: here + node("share = 4"),
			ConfigPlanChecks: update, Check: hostLimitedTo(a, 0, 4)},
		resource.TestStep{Config: here + node(""), ConfigPlanChecks: update, Check: hostLimitedTo(a, 0, 1)},
	)
}

func TestLimitsThatTheArrayHasNotAreRefusedByThePlan(t *testing.T) {
	a := arraytest.Start(t, "2G")
	here := settings(a, 10)
	for given, told := range map[string]string{
		"limits = { iops = 9 }":                        `between 10 and 10000000`,
		"limits = { bytes_per_second = 1000 }":         `between 1048576 and 1099511627776`,
		"limits = { iops = 100, burst_ms = 600001 }":   `between 10 and 600000`,
		"limits = { burst_ms = 1000 }":                 `At least one attribute`,
		"limits = {}":                                  `At least one attribute`,
		"limits = { iops = 100, burst_ms = \"long\" }": `number is required`,
	} {
		run(t, resource.TestStep{Config: here + disk("disk", 64*mib, given), ExpectError: words(told)})
	}
	run(t, resource.TestStep{Config: here + node("share = 101"), ExpectError: words(`between 1 and 100`)})
}
