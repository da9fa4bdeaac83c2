package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"gantry.io/go/array"
)

type group struct{ connected }

func newGroup() resource.Resource { return &group{} }

type groupModel struct {
	Name  types.String `tfsdk:"name"`
	Hosts types.Set    `tfsdk:"hosts"`
	Tags  types.Map    `tfsdk:"tags"`
}

func (g *group) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "gantry_group"
}

func (g *group) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "Several hosts that see the same volumes by the same LUN numbers, such as a cluster.",
		Attributes: map[string]schema.Attribute{
			"name": nameAttribute("Its name. Another one makes another group.", true),
			"hosts": schema.SetAttribute{
				Required: true, ElementType: types.StringType,
				Description: "Names of its hosts, perhaps none.",
			},
			"tags": tagsAttribute(),
		},
	}
}

// setOf makes a set of strings.
func setOf(all []string) types.Set {
	values := make([]attr.Value, len(all))
	for index, one := range all {
		values[index] = types.StringValue(one)
	}
	return types.SetValueMust(types.StringType, values)
}

func (g *group) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan groupModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	hosts := stringsOf(ctx, plan.Hosts, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	if err := g.make(ctx, plan.Name.ValueString(), hosts); err != nil {
		refused(&response.Diagnostics, "The group was not made", err)
		return
	}
	tags := plan.Tags
	plan.Tags = shownTags(nil)
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
	plan.Tags = tags
	if err := g.retag(ctx, &plan, &response.Diagnostics); err != nil {
		refused(&response.Diagnostics, "The group was made and has no tags yet", err)
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

// make makes the group once. One that is there with just these hosts after an attempt without an answer
// was made by that attempt.
func (g *group) make(ctx context.Context, name string, hosts []string) error {
	tried := false
	return g.eventually(ctx, func(ctx context.Context) error {
		err := g.client.CreateGroup(ctx, name, hosts)
		before := tried
		tried = true
		if !array.IsProblem(err, "already-there") {
			return err
		}
		found, _, look := g.client.ShowGroup(ctx, name)
		if look == nil && before && slices.Equal(slices.Sorted(slices.Values(found.Hosts)), hosts) {
			return nil
		}
		return fmt.Errorf("there is a group %s; 'terraform import' takes it over, by its name", name)
	})
}

func (m *groupModel) show(found *array.Group) {
	m.Name, m.Hosts, m.Tags = types.StringValue(found.Name), setOf(found.Hosts), shownTags(found.Tags)
}

func (g *group) look(model *groupModel) func(context.Context) (*array.Group, string, error) {
	return func(ctx context.Context) (*array.Group, string, error) {
		found, etag, err := g.client.ShowGroup(ctx, model.Name.ValueString())
		return found, etag, gone(err)
	}
}

func (g *group) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state groupModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &g.access, g.look(&state))
	if errors.Is(err, errGone) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		refused(&response.Diagnostics, "The group was not found out about", err)
		return
	}
	state.show(found)
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

func (g *group) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan groupModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	hosts := stringsOf(ctx, plan.Hosts, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	err := g.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, g.look(&plan), func(found *array.Group, etag string) error {
			if slices.Equal(slices.Sorted(slices.Values(found.Hosts)), hosts) {
				return nil
			}
			return g.client.SetGroup(ctx, found.Name, hosts, etag)
		})
	})
	if err == nil {
		err = g.retag(ctx, &plan, &response.Diagnostics)
	}
	if err != nil {
		refused(&response.Diagnostics, "The group was not changed as planned; terraform does all of it again", err)
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

func (g *group) retag(ctx context.Context, plan *groupModel, diagnostics *diag.Diagnostics) error {
	wanted := marked(ctx, plan.Tags, "", diagnostics)
	return g.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, g.look(plan), func(found *array.Group, etag string) error {
			if sameTags(found.Tags, wanted) {
				return nil
			}
			return g.client.SetGroupTags(ctx, found.Name, wanted, etag)
		})
	})
}

func (g *group) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state groupModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	err := g.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, g.look(&state), func(found *array.Group, etag string) error {
			return gone(g.client.DeleteGroup(ctx, found.Name, etag))
		})
	})
	if err != nil && !errors.Is(err, errGone) {
		refused(&response.Diagnostics, "The group was not deleted", err)
	}
}

// ImportState takes the group's name.
func (g *group) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	found, _, err := g.client.ShowGroup(ctx, request.ID)
	if err != nil {
		refused(&response.Diagnostics, "The group was not imported", err)
		return
	}
	model := groupModel{}
	model.show(found)
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
