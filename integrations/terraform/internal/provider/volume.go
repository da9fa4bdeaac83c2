package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"gantry.io/go/array"
)

// sizeMax of a volume: 64 TiB.
const sizeMax = 64 << 40

type volume struct{ connected }

func newVolume() resource.Resource { return &volume{} }

type volumeModel struct {
	ID        types.String `tfsdk:"id"`
	Pool      types.String `tfsdk:"pool"`
	Name      types.String `tfsdk:"name"`
	SizeBytes types.Int64  `tfsdk:"size_bytes"`
	Thick     types.Bool   `tfsdk:"thick"`
	BlockSize types.String `tfsdk:"block_size"`
	SourceID  types.String `tfsdk:"source_id"`
	Limits    types.Object `tfsdk:"limits"`
	Tags      types.Map    `tfsdk:"tags"`
}

func (v *volume) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "gantry_volume"
}

func (v *volume) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "A volume, empty or with the content of another volume or a snapshot.",
		Attributes: map[string]schema.Attribute{
			"id":   keptString("The NAA identifier, 'naa.' and 32 hexadecimal digits, by which hosts know it. It never changes and is never used again."),
			"pool": nameAttribute("The pool that holds it. Another one makes another volume.", true),
			"name": nameAttribute("Its name in the pool. Another one renames it; hosts see no change.", false),
			"size_bytes": schema.Int64Attribute{
				Required: true, Description: "What hosts see: a multiple of 4,096, at most 64 TiB. It only grows.",
				Validators: []validatorInt64{int64validator.Between(4096, sizeMax), wholeBlocks{}},
			},
			"thick": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description:   "Whether space is promised for all of it. Another value makes another volume.",
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
			},
			"block_size": schema.StringAttribute{
				Optional: true, Computed: true, Description: "Logical blocks: 512, 512e or 4096. Another value makes another volume. A clone has that of its source.",
				Validators:    []validatorString{stringvalidator.OneOf("512", "512e", "4096")},
				PlanModifiers: []modifierString{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
			},
			"source_id": schema.StringAttribute{
				Optional:    true,
				Description: "The id of a volume or snapshot in the same pool, of which this one is a clone. It may be deleted later.",
				Validators:  []validatorString{stringvalidator.RegexMatches(naaText, "the id of a gantry_volume or gantry_snapshot")},
				PlanModifiers: []modifierString{stringplanmodifier.RequiresReplaceIf(otherSource,
					"Another source makes another volume.", "Another source makes another volume.")},
			},
			"limits": limitsAttribute("The most work that hosts get done on it together; what is beyond waits in the array. Without it there is no limit, also for a clone of a limited volume."),
			"tags":   tagsAttribute(),
		},
	}
}

// otherSource lets an imported volume, of which nobody knows the source, take the configured one.
func otherSource(_ context.Context, request planmodifier.StringRequest, response *stringplanmodifier.RequiresReplaceIfFuncResponse) {
	response.RequiresReplace = !request.StateValue.IsNull() && !request.PlanValue.IsNull()
}

// ModifyPlan refuses to make a volume smaller: that destroys data.
func (v *volume) ModifyPlan(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	if request.State.Raw.IsNull() || request.Plan.Raw.IsNull() || len(response.RequiresReplace) > 0 {
		return
	}
	var now, wanted types.Int64
	response.Diagnostics.Append(request.State.GetAttribute(ctx, path.Root("size_bytes"), &now)...)
	response.Diagnostics.Append(request.Plan.GetAttribute(ctx, path.Root("size_bytes"), &wanted)...)
	if !wanted.IsUnknown() && wanted.ValueInt64() < now.ValueInt64() {
		response.Diagnostics.AddAttributeError(path.Root("size_bytes"), "A volume only grows",
			fmt.Sprintf("It has %d bytes, and %d would cut data off. Make it smaller with 'gantry volume resize --shrink', or give a size of at least %d.",
				now.ValueInt64(), wanted.ValueInt64(), now.ValueInt64()))
	}
}

func (v *volume) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan volumeModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	mark := newMark()
	tags := marked(ctx, plan.Tags, mark, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	var made *array.Volume
	err := v.eventually(ctx, func(ctx context.Context) (err error) {
		made, err = v.make(ctx, &plan, tags)
		return err
	})
	if err != nil {
		refused(&response.Diagnostics, "The volume was not made", err)
		return
	}
	wanted := plan
	plan.show(made)
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
	plan.SizeBytes, plan.Limits = wanted.SizeBytes, wanted.Limits
	// A clone has size and limits of its source.
	if err := v.limit(ctx, &plan, &response.Diagnostics); err != nil {
		refused(&response.Diagnostics, "The volume was made and has other limits", err)
		return
	}
	if err := v.grow(ctx, &plan); err != nil {
		refused(&response.Diagnostics, "The clone was made and did not grow", err)
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

// make makes the volume once: one that is there with this mark is that of an attempt whose answer was
// lost.
func (v *volume) make(ctx context.Context, plan *volumeModel, tags map[string]string) (*array.Volume, error) {
	made, err := v.request(ctx, plan, tags)
	if !array.IsProblem(err, "name-taken") {
		return made, err
	}
	ref := array.Ref{Pool: plan.Pool.ValueString(), Name: plan.Name.ValueString()}
	found, _, look := v.client.ShowVolume(ctx, ref)
	if look == nil && found.Tags[markKey] == tags[markKey] {
		return found, nil
	}
	return nil, fmt.Errorf("%w; 'terraform import' takes it over, as %s", err, ref)
}

func (v *volume) request(ctx context.Context, plan *volumeModel, tags map[string]string) (*array.Volume, error) {
	pool, name := plan.Pool.ValueString(), plan.Name.ValueString()
	if plan.SourceID.IsNull() {
		return v.client.CreateVolume(ctx, array.NewVolume{Pool: pool, Name: name, SizeBytes: plan.SizeBytes.ValueInt64(),
			Thick: plan.Thick.ValueBool(), BlockSize: plan.BlockSize.ValueString(), Tags: tags})
	}
	source, _, err := findUnit(ctx, v.client, plan.SourceID.ValueString(), pool)
	if errors.Is(err, errGone) {
		return nil, fmt.Errorf("there is no volume or snapshot %s to clone", plan.SourceID.ValueString())
	}
	if err != nil {
		return nil, err
	}
	if source.ref.Pool != pool {
		return nil, fmt.Errorf("the source %s lies in another pool than %s: a clone shares its source's blocks", source.ref, pool)
	}
	if source.size > plan.SizeBytes.ValueInt64() {
		return nil, fmt.Errorf("the source %s has %d bytes: size_bytes must be at least that", source.ref, source.size)
	}
	return v.client.CloneVolume(ctx, source.ref, array.NewClone{Name: name, Thick: plan.Thick.ValueBool(), Tags: tags})
}

// show takes over what the array has.
func (m *volumeModel) show(found *array.Volume) {
	m.ID = types.StringValue(found.NAA)
	m.Pool, m.Name = types.StringValue(found.Pool), types.StringValue(found.Name)
	m.SizeBytes, m.Thick = types.Int64Value(found.SizeBytes), types.BoolValue(found.Thick)
	m.BlockSize, m.Tags = types.StringValue(found.BlockSize), shownTags(found.Tags)
	m.Limits = shownLimits(found.Limits)
}

func (v *volume) look(model *volumeModel) func(context.Context) (*array.Volume, string, error) {
	return func(ctx context.Context) (*array.Volume, string, error) {
		return findVolume(ctx, v.client, model.ID.ValueString(), model.Pool.ValueString())
	}
}

func (v *volume) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state volumeModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &v.access, v.look(&state))
	if errors.Is(err, errGone) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		refused(&response.Diagnostics, "The volume was not found out about", err)
		return
	}
	state.show(found)
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

func (v *volume) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan, state volumeModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	plan.ID = state.ID
	err := v.rename(ctx, &plan)
	if err == nil {
		err = v.retag(ctx, &plan, &response.Diagnostics)
	}
	if err == nil {
		err = v.limit(ctx, &plan, &response.Diagnostics)
	}
	if err == nil {
		err = v.grow(ctx, &plan)
	}
	if err != nil {
		refused(&response.Diagnostics, "The volume was not changed as planned", err)
	}
	// What it has now, also after half of the changes.
	found, look := seen(ctx, &v.access, v.look(&state))
	if look == nil {
		plan.show(found)
		response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
	}
}

func (v *volume) rename(ctx context.Context, plan *volumeModel) error {
	name := plan.Name.ValueString()
	return v.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, v.look(plan), func(found *array.Volume, etag string) error {
			if found.Name == name {
				return nil
			}
			return v.client.RenameVolume(ctx, found.Ref(), name, etag)
		})
	})
}

func (v *volume) retag(ctx context.Context, plan *volumeModel, diagnostics *diag.Diagnostics) error {
	wanted := marked(ctx, plan.Tags, "", diagnostics)
	return v.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, v.look(plan), func(found *array.Volume, etag string) error {
			if sameTags(found.Tags, wanted) {
				return nil
			}
			return v.client.SetVolumeTags(ctx, found.Ref(), withMarkOf(found.Tags, wanted), etag)
		})
	})
}

func (v *volume) limit(ctx context.Context, plan *volumeModel, diagnostics *diag.Diagnostics) error {
	wanted := wantedLimits(ctx, plan.Limits, diagnostics)
	return v.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, v.look(plan), func(found *array.Volume, etag string) error {
			if found.Limits == wanted {
				return nil
			}
			return v.client.SetLimits(ctx, found.Ref(), wanted, etag)
		})
	})
}

func (v *volume) grow(ctx context.Context, plan *volumeModel) error {
	wanted := plan.SizeBytes.ValueInt64()
	return v.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, v.look(plan), func(found *array.Volume, etag string) error {
			if found.SizeBytes == wanted {
				return nil
			}
			return v.client.ResizeVolume(ctx, found.Ref(), wanted, etag)
		})
	})
}

func (v *volume) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state volumeModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	err := v.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, v.look(&state), func(found *array.Volume, etag string) error {
			return gone(v.client.DeleteVolume(ctx, found.Ref(), etag))
		})
	})
	if err != nil && !errors.Is(err, errGone) {
		refused(&response.Diagnostics, "The volume was not deleted", err)
	}
}

// ImportState takes POOL/NAME.
func (v *volume) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	ref, is := refOf(request.ID)
	if !is {
		response.Diagnostics.AddError("Which volume?", fmt.Sprintf("%q is not POOL/NAME.", request.ID))
		return
	}
	found, _, err := v.client.ShowVolume(ctx, ref)
	if err == nil && found.Snapshot {
		err = fmt.Errorf("%s is a snapshot: import it as a gantry_snapshot", ref)
	}
	if err != nil {
		refused(&response.Diagnostics, "The volume was not imported", err)
		return
	}
	model := volumeModel{}
	model.show(found)
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
