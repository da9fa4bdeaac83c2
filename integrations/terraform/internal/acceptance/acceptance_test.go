// Package acceptance drives the provider with the real terraform against a real gantryd. It needs
// terraform 1.11 or newer (TF_ACC_TERRAFORM_PATH, else in PATH) and GANTRY_BIN_DIR.
package acceptance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"gantry.io/go/array"
	"gantry.io/go/arraytest"

	"gantry.io/terraform-provider/internal/provider"
)

const mib = 1 << 20

// programVariable names the program that tests run.
const programVariable = "TF_ACC_TERRAFORM_PATH"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) == "" {
		program, err := exec.LookPath("terraform")
		if err != nil {
			fmt.Println("terraform is not in PATH: install 1.11 or newer, or name it by TF_ACC_TERRAFORM_PATH")
			os.Exit(1)
		}
		os.Setenv(programVariable, program)
	}
	os.Setenv("CHECKPOINT_DISABLE", "1")
	os.Exit(m.Run())
}

var factories = map[string]func() (tfprotov6.ProviderServer, error){
	"gantry": providerserver.NewProtocol6WithError(provider.New("test")()),
}

// settings is a provider block for an array.
func settings(a *arraytest.Array, waitSeconds int) string {
	return fmt.Sprintf("provider \"gantry\" {\n  url = %q\n  token_file = %q\n  wait_seconds = %d\n}\n", a.URL, a.TokenFile, waitSeconds)
}

// run runs steps one after the other, each with an empty plan behind it, and destroys what they made.
func run(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	resource.UnitTest(t, resource.TestCase{ProtoV6ProviderFactories: factories, Steps: steps})
}

// emptyAgain checks at the end of a test that nothing is left on the array.
func emptyAgain(t *testing.T, a *arraytest.Array) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		volumes, _, err := a.Client().ListVolumes(ctx, nil, 0, "")
		if err != nil || len(volumes) > 0 {
			t.Errorf("%v is left, %v", volumes, err)
		}
		hosts, err := a.Client().ListHosts(ctx)
		if err != nil || len(hosts) > 0 {
			t.Errorf("%v is left, %v", hosts, err)
		}
	})
}

// shown is a volume as the array has it.
func shown(t *testing.T, a *arraytest.Array, name string) *array.Volume {
	t.Helper()
	found, _, err := a.Client().ShowVolume(context.Background(), array.Ref{Pool: "p", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// attribute is that of a resource in a state.
func attribute(state *terraform.State, address, name string) string {
	return state.RootModule().Resources[address].Primary.Attributes[name]
}

// holds checks the array after a step.
func holds(check func() error) resource.TestCheckFunc {
	return func(*terraform.State) error { return check() }
}

// words is a pattern of a message, which terraform breaks into lines.
func words(text string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + strings.ReplaceAll(text, " ", `\s+`))
}
