// Package provider translates between terraform's plans and the array's REST interface (docs/rest.md).
//
// Volumes and snapshots are known by their NAA identifier, which no other one ever has, so a name that
// somebody changed or used again is never taken for what terraform made. Every change goes under the
// ETag of the look before it.
package provider

import (
	"context"
	"os"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"gantry.io/go/array"
)

type gantry struct{ version string }

// New returns what makes a provider of that version.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &gantry{version: version} }
}

type settings struct {
	URL       types.String `tfsdk:"url"`
	Token     types.String `tfsdk:"token"`
	TokenFile types.String `tfsdk:"token_file"`
	CAFile    types.String `tfsdk:"ca_file"`
	Wait      types.Int64  `tfsdk:"wait_seconds"`
}

// waitDefault of a step, in seconds: a restart of the array, or a take-over, is over by then.
const waitDefault = 180

func (p *gantry) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName, response.Version = "gantry", p.version
}

func (p *gantry) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "A Gantry array, by its REST interface.",
		Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{
				Optional:    true,
				Description: "Of the management interface, such as https://array.example.org:8443; else the environment's GANTRY_URL. Without TLS only on this machine.",
			},
			"token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "A token of the role operator; else the environment's GANTRY_TOKEN. Excludes token_file.",
			},
			"token_file": schema.StringAttribute{
				Optional:    true,
				Description: "The file with the token, read for every request; else the environment's GANTRY_TOKEN_FILE.",
			},
			"wait_seconds": schema.Int64Attribute{
				Optional:    true,
				Description: "How long each step waits for an array that does not answer, or whose pool is not open: 0 to 3,600, else 180.",
				Validators:  []validatorInt64{int64validator.Between(0, 3600)},
			},
			"ca_file": schema.StringAttribute{
				Optional:    true,
				Description: "Certificates (PEM) that are trusted instead of the system's, such as tls.crt of the array; else the environment's GANTRY_CA.",
			},
		},
	}
}

func (p *gantry) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var given settings
	response.Diagnostics.Append(request.Config.Get(ctx, &given)...)
	if response.Diagnostics.HasError() {
		return
	}
	for name, value := range map[string]types.String{"url": given.URL, "token": given.Token, "token_file": given.TokenFile, "ca_file": given.CAFile} {
		if value.IsUnknown() {
			response.Diagnostics.AddAttributeError(path.Root(name), "Not known yet",
				"The provider needs it before anything is made: give a value that depends on no resource.")
		}
	}
	options := array.Options{
		URL:       orEnvironment(given.URL, "GANTRY_URL"),
		Token:     given.Token.ValueString(),
		TokenFile: given.TokenFile.ValueString(),
		CAFile:    orEnvironment(given.CAFile, "GANTRY_CA"),
	}
	if options.Token != "" && options.TokenFile != "" {
		response.Diagnostics.AddAttributeError(path.Root("token_file"), "Two tokens", "Give token or token_file, not both.")
	}
	if options.Token == "" && options.TokenFile == "" {
		options.Token, options.TokenFile = os.Getenv("GANTRY_TOKEN"), os.Getenv("GANTRY_TOKEN_FILE")
	}
	if options.URL == "" {
		response.Diagnostics.AddAttributeError(path.Root("url"), "No array", "Give url, or set GANTRY_URL.")
	}
	if options.Token == "" && options.TokenFile == "" {
		response.Diagnostics.AddAttributeError(path.Root("token_file"), "No token",
			"Give token_file or token, or set GANTRY_TOKEN_FILE or GANTRY_TOKEN. 'gantry token create terraform --role operator' makes one.")
	}
	if response.Diagnostics.HasError() {
		return
	}
	client, err := array.New(options)
	if err != nil {
		response.Diagnostics.AddError("No way to the array", err.Error())
		return
	}
	seconds := int64(waitDefault)
	if !given.Wait.IsNull() {
		seconds = given.Wait.ValueInt64()
	}
	reached := access{client: client, patience: time.Duration(seconds) * time.Second}
	response.ResourceData, response.DataSourceData = reached, reached
}

func orEnvironment(given types.String, name string) string {
	if given.ValueString() != "" {
		return given.ValueString()
	}
	return os.Getenv(name)
}

func (p *gantry) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newVolume, newSnapshot, newHost, newGroup, newMapping}
}

func (p *gantry) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newPoolSource, newVolumeSource, newHostSource, newTargetSource}
}
