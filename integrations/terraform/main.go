// Terraform provider for a Gantry array, served to terraform over its plugin protocol (version 6).
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"gantry.io/terraform-provider/internal/provider"
)

// version is set when it is packaged.
var version = "0.1.0"

func main() {
	options := providerserver.ServeOpts{Address: "registry.terraform.io/gantry/gantry"}
	if err := providerserver.Serve(context.Background(), provider.New(version), options); err != nil {
		log.Fatal(err)
	}
}
