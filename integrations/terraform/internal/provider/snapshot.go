package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"gantry.io/go/array"
)

type snapshot struct{ connected }

func newSnapshot() resource.Resource { return &snapshot{} }

type snapshotModel struct {
	ID        types.String `tfsdk:"id"`
	VolumeID  types.String `tfsdk:"volume_id"`
	Pool      types.String `tfsdk:"pool"`
	Name      types.String `tfsdk:"name"`
	SizeBytes types.Int64  `tfsdk:"size_bytes"`
	Created   types.Int64  `tfsdk:"created"`
	Tags      types.Map    `tfsdk:"tags"`
}

func (s *snapshot) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "gantry_snapshot"
}

func (s *snapshot) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "What a volume held at one moment. It can be mapped, and cloned as source_id of a gantry_volume.",
		Attributes: map[string]schema.Attribute{
			"id":         keptString("The NAA identifier, 'naa.' and 32 hexadecimal digits. It never changes and is never used again."),
			"volume_id":  unitAttribute("The id of the volume. Another one makes another snapshot."),
			"pool":       keptString("The pool that holds both."),
			"name":       nameAttribute("Its name in the pool. Another one renames it.", false),
			"size_bytes": keptInt64("The size of the volume at that moment."),
			"created":    keptInt64("That moment, in seconds since 1970."),
			"tags":       tagsAttribute(),
		},
	}
}

func (s *snapshot) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan snapshotModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	tags := marked(ctx, plan.Tags, newMark(), &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	var made *array.Snapshot
	err := s.eventually(ctx, func(ctx context.Context) (err error) {
		made, err = s.make(ctx, &plan, tags)
		return err
	})
	if err != nil {
		refused(&response.Diagnostics, "The snapshot was not made", err)
		return
	}
	plan.show(made)
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

// make makes the snapshot once: one that is there with this mark is that of an attempt whose answer was
// lost.
func (s *snapshot) make(ctx context.Context, plan *snapshotModel, tags map[string]string) (*array.Snapshot, error) {
	source, _, err := findUnit(ctx, s.client, plan.VolumeID.ValueString(), "")
	if errors.Is(err, errGone) {
		return nil, fmt.Errorf("there is no volume %s", plan.VolumeID.ValueString())
	}
	if err != nil {
		return nil, err
	}
	ref := array.Ref{Pool: source.ref.Pool, Name: plan.Name.ValueString()}
	wanted := []array.NewSnapshot{{Volume: source.ref.Name, Name: ref.Name, Tags: tags}}
	made, err := s.client.CreateSnapshots(ctx, ref.Pool, wanted)
	if err == nil {
		return &made[0], nil
	}
	if !array.IsProblem(err, "name-taken") {
		return nil, err
	}
	found, _, look := s.client.ShowSnapshot(ctx, ref)
	if look == nil && found.Tags[markKey] == tags[markKey] {
		return found, nil
	}
	return nil, fmt.Errorf("%w; 'terraform import' takes it over, as %s", err, ref)
}

// show takes over what the array has. Of which volume it is, only the state knows: that may be deleted.
func (m *snapshotModel) show(found *array.Snapshot) {
	m.ID, m.Pool, m.Name = types.StringValue(found.NAA), types.StringValue(found.Pool), types.StringValue(found.Name)
	m.SizeBytes, m.Created = types.Int64Value(found.SizeBytes), types.Int64Value(found.Created)
	m.Tags = shownTags(found.Tags)
}

func (s *snapshot) look(model *snapshotModel) func(context.Context) (*array.Snapshot, string, error) {
	return func(ctx context.Context) (*array.Snapshot, string, error) {
		return findSnapshot(ctx, s.client, model.ID.ValueString(), model.Pool.ValueString())
	}
}

func (s *snapshot) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state snapshotModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &s.access, s.look(&state))
	if errors.Is(err, errGone) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		refused(&response.Diagnostics, "The snapshot was not found out about", err)
		return
	}
	state.show(found)
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

func (s *snapshot) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan, state snapshotModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	plan.ID, plan.Pool = state.ID, state.Pool
	err := s.rename(ctx, &plan)
	if err == nil {
		err = s.retag(ctx, &plan, &response.Diagnostics)
	}
	if err != nil {
		refused(&response.Diagnostics, "The snapshot was not changed as planned", err)
	}
	// What it has now, also after half of the changes.
	found, look := seen(ctx, &s.access, s.look(&state))
	if look == nil {
		plan.show(found)
		response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
	}
}

func (s *snapshot) rename(ctx context.Context, plan *snapshotModel) error {
	name := plan.Name.ValueString()
	return s.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, s.look(plan), func(found *array.Snapshot, etag string) error {
			if found.Name == name {
				return nil
			}
			return s.client.RenameSnapshot(ctx, found.Ref(), name, etag)
		})
	})
}

func (s *snapshot) retag(ctx context.Context, plan *snapshotModel, diagnostics *diag.Diagnostics) error {
	wanted := marked(ctx, plan.Tags, "", diagnostics)
	return s.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, s.look(plan), func(found *array.Snapshot, etag string) error {
			if sameTags(found.Tags, wanted) {
				return nil
			}
			return s.client.SetSnapshotTags(ctx, found.Ref(), withMarkOf(found.Tags, wanted), etag)
		})
	})
}

func (s *snapshot) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state snapshotModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	err := s.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, s.look(&state), func(found *array.Snapshot, etag string) error {
			return gone(s.client.DeleteSnapshot(ctx, found.Ref(), etag))
		})
	})
	if err != nil && !errors.Is(err, errGone) {
		refused(&response.Diagnostics, "The snapshot was not deleted", err)
	}
}

// ImportState takes POOL/NAME.
func (s *snapshot) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	ref, is := refOf(request.ID)
	if !is {
		response.Diagnostics.AddError("Which snapshot?", fmt.Sprintf("%q is not POOL/NAME.", request.ID))
		return
	}
	found, _, err := s.client.ShowSnapshot(ctx, ref)
	if err != nil {
		refused(&response.Diagnostics, "The snapshot was not imported", err)
		return
	}
	model := snapshotModel{}
	model.show(found)
	if found.Volume == nil {
		response.Diagnostics.AddError("The snapshot was not imported", fmt.Sprintf("The volume of which %s is a snapshot is deleted, and a gantry_snapshot names its volume.", ref))
		return
	}
	source, _, err := s.client.ShowVolume(ctx, array.Ref{Pool: found.Pool, Name: *found.Volume})
	if err != nil {
		refused(&response.Diagnostics, "The snapshot was not imported", err)
		return
	}
	model.VolumeID = types.StringValue(source.NAA)
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
