package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"gantry.io/go/array"
)

type mapping struct{ connected }

func newMapping() resource.Resource { return &mapping{} }

type mappingModel struct {
	VolumeID types.String `tfsdk:"volume_id"`
	Host     types.String `tfsdk:"host"`
	LUN      types.Int64  `tfsdk:"lun"`
	ReadOnly types.Bool   `tfsdk:"read_only"`
}

func (m *mapping) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "gantry_mapping"
}

func (m *mapping) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "That a host or group sees a volume or snapshot, and by which LUN number.",
		Attributes: map[string]schema.Attribute{
			"volume_id": unitAttribute("The id of the volume or snapshot."),
			"host":      nameAttribute("The name of the host or group, or 'any' for every initiator.", true),
			"lun": schema.Int64Attribute{
				Optional: true, Computed: true,
				Description: "The LUN number, 0 to 16,383; without it the one by which other hosts see the volume, if that is free, else the lowest free one. Another one takes the volume away and gives it anew.",
				Validators:  []validatorInt64{int64validator.Between(0, 16383)},
				PlanModifiers: []planmodifier.Int64{
					int64planmodifier.UseStateForUnknown(), int64planmodifier.RequiresReplaceIfConfigured()},
			},
			"read_only": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description:   "Whether the host may only read. Another value takes the volume away and gives it anew.",
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
			},
		},
	}
}

func (m *mapping) look(model *mappingModel) func(context.Context) (unit, string, error) {
	return func(ctx context.Context) (unit, string, error) {
		return findUnit(ctx, m.client, model.VolumeID.ValueString(), "")
	}
}

func (m *mapping) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan mappingModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	if response.Diagnostics.HasError() {
		return
	}
	made, err := m.make(ctx, &plan)
	if errors.Is(err, errGone) {
		err = fmt.Errorf("there is no volume or snapshot %s", plan.VolumeID.ValueString())
	}
	if err != nil {
		refused(&response.Diagnostics, "The volume was not mapped", err)
		return
	}
	plan.LUN = types.Int64Value(int64(made.LUN))
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

// make maps the volume once: a mapping that is there was made by somebody else, or by an attempt
// without an answer.
func (m *mapping) make(ctx context.Context, plan *mappingModel) (array.Map, error) {
	name, readOnly := plan.Host.ValueString(), plan.ReadOnly.ValueBool()
	tried := false
	var made array.Map
	err := m.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, m.look(plan), func(found unit, etag string) (err error) {
			there, is := found.mapOf(name)
			if is && tried && there.ReadOnly == readOnly && (plan.LUN.IsUnknown() || int64(there.LUN) == plan.LUN.ValueInt64()) {
				made = there
				return nil
			}
			if is {
				return fmt.Errorf("%s sees %s already, as LUN %d; 'terraform import' takes that over, as %s/%s", name, found.ref, there.LUN, found.ref, name)
			}
			tried = true
			if plan.LUN.IsUnknown() {
				made, err = m.client.MapVolume(ctx, found.ref, name, readOnly, etag)
			} else {
				made, err = m.client.MapVolumeAt(ctx, found.ref, name, int(plan.LUN.ValueInt64()), readOnly, etag)
			}
			return err
		})
	})
	return made, err
}

func (m *mapping) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state mappingModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &m.access, m.look(&state))
	there, is := found.mapOf(state.Host.ValueString())
	if errors.Is(err, errGone) || (err == nil && !is) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		refused(&response.Diagnostics, "The mapping was not found out about", err)
		return
	}
	state.LUN, state.ReadOnly = types.Int64Value(int64(there.LUN)), types.BoolValue(there.ReadOnly)
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

// Update has nothing to do: every difference makes another mapping.
func (m *mapping) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan mappingModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

func (m *mapping) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state mappingModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	name := state.Host.ValueString()
	err := m.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, m.look(&state), func(found unit, etag string) error {
			if _, is := found.mapOf(name); !is {
				return errGone
			}
			return gone(m.client.UnmapVolume(ctx, found.ref, name, etag))
		})
	})
	if err != nil && !errors.Is(err, errGone) {
		refused(&response.Diagnostics, "The volume was not taken away", err)
	}
}

// ImportState takes POOL/NAME/HOST.
func (m *mapping) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	cut := strings.LastIndex(request.ID, "/")
	ref, is := refOf(request.ID[:max(cut, 0)])
	if !is || cut+1 == len(request.ID) {
		response.Diagnostics.AddError("Which mapping?", fmt.Sprintf("%q is not POOL/NAME/HOST.", request.ID))
		return
	}
	name := request.ID[cut+1:]
	found, _, err := m.client.ShowVolume(ctx, ref)
	if err != nil {
		refused(&response.Diagnostics, "The mapping was not imported", err)
		return
	}
	there, is := found.MapOf(name)
	if !is {
		response.Diagnostics.AddError("The mapping was not imported", fmt.Sprintf("%s is not mapped to %s.", ref, name))
		return
	}
	model := mappingModel{VolumeID: types.StringValue(found.NAA), Host: types.StringValue(name),
		LUN: types.Int64Value(int64(there.LUN)), ReadOnly: types.BoolValue(there.ReadOnly)}
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
