package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"gantry.io/go/array"
)

// source is a data source that reads one object of the array.
type source struct{ access }

func (s *source) Configure(_ context.Context, request datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	s.connect(request.ProviderData)
}

func shownString(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, Description: description}
}

func shownInt64(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, Description: description}
}

func shownBool(description string) schema.BoolAttribute {
	return schema.BoolAttribute{Computed: true, Description: description}
}

func shownTagsAttribute() schema.MapAttribute {
	return schema.MapAttribute{Computed: true, ElementType: types.StringType, Description: "Its labels."}
}

type poolSource struct{ source }

func newPoolSource() datasource.DataSource { return &poolSource{} }

type poolModel struct {
	Name          types.String `tfsdk:"name"`
	UUID          types.String `tfsdk:"uuid"`
	State         types.String `tfsdk:"state"`
	Fill          types.String `tfsdk:"fill"`
	SizeBytes     types.Int64  `tfsdk:"size_bytes"`
	FreeBytes     types.Int64  `tfsdk:"free_bytes"`
	PromisedBytes types.Int64  `tfsdk:"promised_bytes"`
	Tags          types.Map    `tfsdk:"tags"`
}

func (p *poolSource) Metadata(_ context.Context, _ datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = "gantry_pool"
}

func (p *poolSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "A pool of the array.",
		Attributes: map[string]schema.Attribute{
			"name":           schema.StringAttribute{Required: true, Description: "Its name."},
			"uuid":           shownString("Its identity, which an import on another array keeps."),
			"state":          shownString("ready, read-only, opening or unavailable."),
			"fill":           shownString("normal, soft or hard: which threshold was passed."),
			"size_bytes":     shownInt64("The sum of the sizes of its devices."),
			"free_bytes":     shownInt64("Free for new data; null while the pool is not open."),
			"promised_bytes": shownInt64("The part of that which is promised to thick volumes; null while the pool is not open."),
			"tags":           shownTagsAttribute(),
		},
	}
}

func (p *poolSource) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var model poolModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &p.access, func(ctx context.Context) (*array.Pool, string, error) {
		pool, err := p.client.ShowPool(ctx, model.Name.ValueString())
		return pool, "", err
	})
	if err != nil {
		refused(&response.Diagnostics, "The pool was not found out about", err)
		return
	}
	model.UUID, model.State, model.Fill = types.StringValue(found.UUID), types.StringValue(found.State), types.StringValue(found.Fill)
	model.SizeBytes, model.Tags = types.Int64Value(found.SizeBytes), shownTags(found.Tags)
	if found.Space != nil {
		model.FreeBytes, model.PromisedBytes = types.Int64Value(found.Space.FreeBytes), types.Int64Value(found.Space.PromisedBytes)
	}
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}

type volumeSource struct{ source }

func newVolumeSource() datasource.DataSource { return &volumeSource{} }

type volumeSourceModel struct {
	Pool        types.String `tfsdk:"pool"`
	Name        types.String `tfsdk:"name"`
	ID          types.String `tfsdk:"id"`
	SizeBytes   types.Int64  `tfsdk:"size_bytes"`
	MappedBytes types.Int64  `tfsdk:"mapped_bytes"`
	Thick       types.Bool   `tfsdk:"thick"`
	BlockSize   types.String `tfsdk:"block_size"`
	Snapshot    types.Bool   `tfsdk:"snapshot"`
	Limits      types.Object `tfsdk:"limits"`
	Tags        types.Map    `tfsdk:"tags"`
}

func (v *volumeSource) Metadata(_ context.Context, _ datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = "gantry_volume"
}

func (v *volumeSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "A volume or snapshot that terraform does not manage, such as a template.",
		Attributes: map[string]schema.Attribute{
			"pool":         schema.StringAttribute{Required: true, Description: "The pool that holds it."},
			"name":         schema.StringAttribute{Required: true, Description: "Its name in the pool."},
			"id":           shownString("The NAA identifier, for source_id and volume_id of resources."),
			"size_bytes":   shownInt64("What hosts see."),
			"mapped_bytes": shownInt64("What holds data, some of it perhaps shared."),
			"thick":        shownBool("Whether space is promised for all of it."),
			"block_size":   shownString("Logical blocks: 512, 512e or 4096."),
			"snapshot":     shownBool("Whether it is a snapshot."),
			"limits":       shownLimitsAttribute(),
			"tags":         shownTagsAttribute(),
		},
	}
}

func (v *volumeSource) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var model volumeSourceModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &v.access, func(ctx context.Context) (*array.Volume, string, error) {
		return v.client.ShowVolume(ctx, array.Ref{Pool: model.Pool.ValueString(), Name: model.Name.ValueString()})
	})
	if err != nil {
		refused(&response.Diagnostics, "The volume was not found out about", err)
		return
	}
	model.ID, model.BlockSize = types.StringValue(found.NAA), types.StringValue(found.BlockSize)
	model.SizeBytes, model.MappedBytes = types.Int64Value(found.SizeBytes), types.Int64Value(found.MappedBytes)
	model.Thick, model.Snapshot, model.Tags = types.BoolValue(found.Thick), types.BoolValue(found.Snapshot), shownTags(found.Tags)
	model.Limits = shownLimits(found.Limits)
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}

type hostSource struct{ source }

func newHostSource() datasource.DataSource { return &hostSource{} }

type hostSourceModel struct {
	Name       types.String `tfsdk:"name"`
	Initiator  types.String `tfsdk:"initiator"`
	Initiators types.Set    `tfsdk:"initiators"`
	ChapUser   types.String `tfsdk:"chap_user"`
	MutualChap types.Bool   `tfsdk:"mutual_chap"`
	Limits     types.Object `tfsdk:"limits"`
	Share      types.Int64  `tfsdk:"share"`
	Tags       types.Map    `tfsdk:"tags"`
}

func (h *hostSource) Metadata(_ context.Context, _ datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = "gantry_host"
}

func (h *hostSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "A host, by its name or by one of its initiators.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Optional: true, Computed: true, Description: "Its name.",
				Validators: []validatorString{stringvalidator.ExactlyOneOf(path.MatchRoot("name"), path.MatchRoot("initiator"))}},
			"initiator":   schema.StringAttribute{Optional: true, Description: "The iSCSI name of one of its initiators."},
			"initiators":  schema.SetAttribute{Computed: true, ElementType: types.StringType, Description: "The iSCSI names of all of them."},
			"chap_user":   shownString("The name that the initiators prove; null if nothing is to be proved."),
			"mutual_chap": shownBool("Whether the target proves itself, too."),
			"limits":      shownLimitsAttribute(),
			"share":       shownInt64(shareText),
			"tags":        shownTagsAttribute(),
		},
	}
}

func (h *hostSource) find(model *hostSourceModel) func(context.Context) (*array.Host, string, error) {
	return func(ctx context.Context) (*array.Host, string, error) {
		if !model.Name.IsNull() {
			return h.client.ShowHost(ctx, model.Name.ValueString())
		}
		found, err := h.client.HostOf(ctx, model.Initiator.ValueString())
		if err == nil && found == nil {
			err = fmt.Errorf("no host has the initiator %s", model.Initiator.ValueString())
		}
		return found, "", err
	}
}

func (h *hostSource) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var model hostSourceModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &h.access, h.find(&model))
	if err != nil {
		refused(&response.Diagnostics, "The host was not found out about", err)
		return
	}
	model.Name, model.Initiators = types.StringValue(found.Name), setOf(found.Initiators)
	model.ChapUser, model.MutualChap, model.Tags = types.StringPointerValue(found.ChapUser), types.BoolValue(found.MutualChap), shownTags(found.Tags)
	model.Limits, model.Share = shownLimits(found.Limits), types.Int64Value(found.Share)
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}

type targetSource struct{ source }

func newTargetSource() datasource.DataSource { return &targetSource{} }

type targetModel struct {
	Name    types.String `tfsdk:"name"`
	Portals types.Set    `tfsdk:"portals"`
}

func (t *targetSource) Metadata(_ context.Context, _ datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = "gantry_target"
}

func (t *targetSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "Where hosts log in.",
		Attributes: map[string]schema.Attribute{
			"name":    shownString("The iSCSI name of the target."),
			"portals": schema.SetAttribute{Computed: true, ElementType: types.StringType, Description: "IP:PORT of every portal, an IPv6 address in brackets."},
		},
	}
}

func (t *targetSource) Read(ctx context.Context, _ datasource.ReadRequest, response *datasource.ReadResponse) {
	var name string
	var portals []array.Portal
	err := t.eventually(ctx, func(ctx context.Context) (err error) {
		if name, err = t.client.TargetName(ctx); err == nil {
			portals, err = t.client.ListPortals(ctx)
		}
		return err
	})
	if err != nil {
		refused(&response.Diagnostics, "The target was not found out about", err)
		return
	}
	addresses := make([]string, len(portals))
	for index, portal := range portals {
		addresses[index] = portal.Address
	}
	model := targetModel{Name: types.StringValue(name), Portals: setOf(addresses)}
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
