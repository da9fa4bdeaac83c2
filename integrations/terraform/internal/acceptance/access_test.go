package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"gantry.io/go/arraytest"
)

const initiator = "iqn.2026-11.org.example:node1"

// access is a host, a group and two mappings of a volume.
func access(secret string, version int, more string) string {
	return fmt.Sprintf(`
resource "gantry_host" "node" {
  name = "node"
  initiators = [%q]
  chap_user = "node"
  chap_secret = %q
  chap_version = %d
  tags = { rack = "7" }
}
resource "gantry_group" "cluster" {
  name = "cluster"
  hosts = [gantry_host.node.name]
  tags = { kind = "kvm" }
}
resource "gantry_mapping" "node" {
  volume_id = gantry_volume.disk.id
  host = gantry_host.node.name
  lun = 7
}
resource "gantry_volume" "shared" {
  pool = "p"
  name = "shared"
  size_bytes = 67108864
}
resource "gantry_mapping" "cluster" {
  volume_id = gantry_volume.shared.id
  host = gantry_group.cluster.name
  %s
}
data "gantry_target" "array" {}
data "gantry_host" "found" {
  initiator = %q
  depends_on = [gantry_host.node]
}
`, initiator, secret, version, more, initiator)
}

// mutual has the target prove itself, too.
func mutual(config string) string {
	return strings.Replace(config, "chap_version", "mutual_user = \"array\"\n  mutual_secret = \"a secret of the target\"\n  chap_version", 1)
}

func isMutual(a *arraytest.Array, wanted bool) error {
	found, _, err := a.Client().ShowHost(context.Background(), "node")
	if err != nil || found.ChapUser == nil || found.MutualChap != wanted {
		return fmt.Errorf("it is %+v, %v", found, err)
	}
	return nil
}

// logIn logs in by CHAP with libiscsi and lists the LUNs that the host sees.
func logIn(t *testing.T, a *arraytest.Array, secret string) (string, error) {
	t.Helper()
	where := fmt.Sprintf("iscsi://node%%%s@%s", secret, a.Portal)
	output, err := exec.Command("iscsi-ls", "-i", initiator, "-s", where).CombinedOutput()
	return string(output), err
}

func TestAHostLogsInWithItsSecretWhichIsInNoStateAndNoPlan(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	here := settings(a, 10) + disk("disk", 64*mib, "")
	sees := func(secret string, wanted bool) resource.TestCheckFunc {
		return func(state *terraform.State) error {
			if text := state.String(); strings.Contains(text, secret) {
				return fmt.Errorf("the secret is in the state: %s", text)
			}
			output, err := logIn(t, a, secret)
			if both := err == nil && strings.Contains(output, "Lun:7 ") && strings.Contains(output, "Lun:3 "); both != wanted {
				return fmt.Errorf("it sees %s, %v", output, err)
			}
			return nil
		}
	}
	run(t,
		resource.TestStep{Config: here + access("the first secret", 1, "lun = 3"), Check: resource.ComposeTestCheckFunc(
			sees("the first secret", true), sees("the second secret", false),
			resource.TestCheckResourceAttr("data.gantry_host.found", "name", "node"),
			resource.TestCheckResourceAttrSet("data.gantry_target.array", "name"))},
		resource.TestStep{Config: here + access("the second secret", 2, "lun = 3"),
			ConfigPlanChecks: action("gantry_host.node", plancheck.ResourceActionUpdate), Check: sees("the second secret", true)},
		resource.TestStep{Config: here + access("the second secret", 2, "lun = 4\nread_only = true"),
			ConfigPlanChecks: action("gantry_mapping.cluster", plancheck.ResourceActionDestroyBeforeCreate),
			Check: holds(func() error {
				there, _ := shown(t, a, "shared").MapOf("cluster")
				if there.LUN != 4 || !there.ReadOnly {
					return fmt.Errorf("it is %+v", there)
				}
				return nil
			})},
		resource.TestStep{ResourceName: "gantry_host.node", ImportState: true, ImportStateId: "node", ImportStateVerify: true,
			ImportStateVerifyIdentifierAttribute: "name", ImportStateVerifyIgnore: []string{"chap_version"}},
		resource.TestStep{ResourceName: "gantry_group.cluster", ImportState: true, ImportStateId: "cluster", ImportStateVerify: true,
			ImportStateVerifyIdentifierAttribute: "name"},
		resource.TestStep{ResourceName: "gantry_mapping.node", ImportState: true, ImportStateId: "p/disk/node", ImportStateVerify: true,
			ImportStateVerifyIdentifierAttribute: "volume_id"},
		resource.TestStep{ResourceName: "gantry_mapping.node", ImportState: true, ImportStateId: "p/disk/nobody", ImportStateVerifyIdentifierAttribute: "volume_id",
			ExpectError: words(`not mapped to nobody`)},
		resource.TestStep{ResourceName: "gantry_mapping.node", ImportState: true, ImportStateId: "disk", ImportStateVerifyIdentifierAttribute: "volume_id",
			ExpectError: words(`POOL/NAME/HOST`)},
		resource.TestStep{Config: here + mutual(access("the second secret", 2, "lun = 4")), Check: holds(func() error { return isMutual(a, true) })},
		resource.TestStep{PreConfig: func() {
			a.Run("host", "change", "node", "--no-chap")
		}, Config: here + mutual(access("the second secret", 2, "lun = 4")), Check: holds(func() error { return isMutual(a, true) })},
		resource.TestStep{Config: here + access("the second secret", 2, "lun = 4"), Check: holds(func() error { return isMutual(a, false) })},
		// Somebody takes the mapping away: it comes back.
		resource.TestStep{PreConfig: func() { a.Run("volume", "unmap", "p/disk", "--host", "node") },
			Config: here + access("the second secret", 2, "lun = 4"), ConfigPlanChecks: action("gantry_mapping.node", plancheck.ResourceActionCreate)},
	)
}

func TestWhatIsInTheWayIsNamed(t *testing.T) {
	a := arraytest.Start(t, "2G")
	a.Run("host", "create", "there", "--initiator", initiator)
	here := settings(a, 10)
	run(t,
		resource.TestStep{Config: here + "resource \"gantry_host\" \"h\" {\n  name = \"there\"\n  initiators = [\"iqn.2026-11.org.example:x\"]\n}\n",
			ExpectError: words(`terraform import.*there`)},
		resource.TestStep{Config: here + "resource \"gantry_host\" \"h\" {\n  name = \"new\"\n  initiators = [\"" + initiator + "\"]\n}\n",
			ExpectError: words(`not made.*there`)},
		resource.TestStep{Config: here + "resource \"gantry_host\" \"h\" {\n  name = \"new\"\n  initiators = [\"iqn.2026-11.org.example:x\"]\n  chap_user = \"x\"\n}\n",
			ExpectError: words(`chap_secret`)},
		resource.TestStep{Config: here + "resource \"gantry_host\" \"h\" {\n  name = \"new\"\n  initiators = [\"iqn.2026-11.org.example:x\"]\n  chap_user = \"x\"\n  chap_secret = \"short\"\n}\n",
			ExpectError: words(`between 12 and 255`)},
		resource.TestStep{Config: here + "resource \"gantry_volume\" \"v\" {\n  pool = \"none\"\n  name = \"v\"\n  size_bytes = 4096\n}\n",
			ExpectError: words(`not made.*none`)},
		resource.TestStep{Config: here + "resource \"gantry_mapping\" \"m\" {\n  volume_id = \"naa.00000000000000000000000000000000\"\n  host = \"there\"\n}\n",
			ExpectError: words(`there is no volume or snapshot`)},
		resource.TestStep{Config: here + "data \"gantry_pool\" \"none\" {\n  name = \"none\"\n}\n", ExpectError: words(`not found out about`)},
		resource.TestStep{Config: here + "data \"gantry_host\" \"none\" {\n  initiator = \"iqn.none\"\n}\n", ExpectError: words(`no host has the initiator`)},
	)
}

func TestATokenThatMayNotIsSaidSoAndAppearsNowhere(t *testing.T) {
	a := arraytest.Start(t, "2G")
	viewer := fmt.Sprintf("provider \"gantry\" {\n  url = %q\n  token_file = %q\n  wait_seconds = 2\n}\n", a.URL, a.Token("viewer"))
	nobody := fmt.Sprintf("provider \"gantry\" {\n  url = %q\n  token = \"gt_nothing\"\n}\n", a.URL)
	away := fmt.Sprintf("provider \"gantry\" {\n  url = \"http://%s\"\n  token = \"x\"\n  wait_seconds = 0\n}\n", arraytest.FreeAddress(t))
	open := "provider \"gantry\" {\n  url = \"http://array.example.org\"\n  token = \"x\"\n}\n"
	twice := "provider \"gantry\" {\n  url = \"https://array.example.org\"\n  token = \"x\"\n  token_file = \"y\"\n}\n"
	v := disk("disk", 64*mib, "")
	run(t,
		resource.TestStep{Config: viewer + v, ExpectError: words(`not made.*operator`)},
		resource.TestStep{Config: nobody + v, ExpectError: words(`not made`)},
		resource.TestStep{Config: away + v, ExpectError: words(`does not answer`)},
		resource.TestStep{Config: open + v, ExpectError: words(`use https`)},
		resource.TestStep{Config: twice + v, ExpectError: words(`not both`)},
	)
	if volumes, _, err := a.Client().ListVolumes(context.Background(), nil, 0, ""); err != nil || len(volumes) > 0 {
		t.Fatalf("%v, %v", volumes, err)
	}
}

func TestAGroupIsChangedAndANameThatIsTakenIsLeftAlone(t *testing.T) {
	a := arraytest.Start(t, "2G")
	emptyAgain(t, a)
	here := settings(a, 10)
	for _, name := range []string{"a", "b"} {
		here += fmt.Sprintf("resource \"gantry_host\" %q {\n  name = %q\n  initiators = [\"iqn.2026-11.org.example:%s\"]\n}\n", name, name, name)
	}
	of := func(hosts string) string {
		return here + "resource \"gantry_group\" \"g\" {\n  name = \"g\"\n  hosts = [" + hosts + "]\n}\n"
	}
	run(t,
		resource.TestStep{Config: of("gantry_host.a.name")},
		resource.TestStep{Config: of("gantry_host.a.name, gantry_host.b.name"), ConfigPlanChecks: action("gantry_group.g", plancheck.ResourceActionUpdate)},
		resource.TestStep{Config: of("gantry_host.a.name, gantry_host.b.name") + "resource \"gantry_group\" \"other\" {\n  name = \"g\"\n  hosts = []\n  depends_on = [gantry_group.g]\n}\n",
			ExpectError: words(`terraform import`)},
		resource.TestStep{Config: of("gantry_host.a.name, gantry_host.b.name"), Check: holds(func() error {
			found, _, err := a.Client().ShowGroup(context.Background(), "g")
			if err != nil || len(found.Hosts) != 2 {
				return fmt.Errorf("it is %+v, %v", found, err)
			}
			return nil
		})},
	)
}

// plain is terraform without the test framework around it, with the provider's program as users have it.
func plain(t *testing.T, folder string, environment []string, words ...string) (string, error) {
	t.Helper()
	command := exec.Command(program(), words...)
	command.Dir, command.Env = folder, environment
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	return output.String(), err
}
