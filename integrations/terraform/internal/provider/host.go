package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"gantry.io/go/array"
)

type host struct{ connected }

func newHost() resource.Resource { return &host{} }

type hostModel struct {
	Name       types.String `tfsdk:"name"`
	Initiators types.Set    `tfsdk:"initiators"`
	ChapUser   types.String `tfsdk:"chap_user"`
	// ChapSecret and MutualSecret are in the configuration only, never in a plan or state.
	ChapSecret   types.String `tfsdk:"chap_secret"`
	MutualUser   types.String `tfsdk:"mutual_user"`
	MutualSecret types.String `tfsdk:"mutual_secret"`
	ChapVersion  types.Int64  `tfsdk:"chap_version"`
	Limits       types.Object `tfsdk:"limits"`
	Share        types.Int64  `tfsdk:"share"`
	Tags         types.Map    `tfsdk:"tags"`
}

func (h *host) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "gantry_host"
}

func (h *host) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		Description: "A host, known by its initiators' names and perhaps a CHAP account.",
		Attributes: map[string]schema.Attribute{
			"name": nameAttribute("Its name. Another one makes another host.", true),
			"initiators": schema.SetAttribute{
				Required: true, ElementType: types.StringType,
				Description: "The iSCSI names of its initiators, at least one. A name belongs to one host.",
				Validators:  []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.LengthBetween(1, 223))},
			},
			"chap_user":     accountAttribute("The name that the initiators prove to be theirs (CHAP); nothing is to be proved without it.", "chap_secret"),
			"chap_secret":   secretAttribute("Its secret, 12 to 255 bytes; in no plan and no state. Another one is sent when chap_version is another.", "chap_user"),
			"mutual_user":   accountAttribute("The name by which the target proves itself in turn.", "mutual_secret"),
			"mutual_secret": secretAttribute("The target's secret, 12 to 255 bytes, another one than chap_secret; in no plan and no state.", "mutual_user", "chap_user"),
			"chap_version": schema.Int64Attribute{
				Optional: true, Description: "Any number: another one sends both secrets anew. Terraform does not see that a secret is another.",
				Validators: []validatorInt64{int64validator.AlsoRequires(path.MatchRoot("chap_user"))},
			},
			"limits": limitsAttribute("The most work that it gets done on all volumes together; what is beyond waits in the array. Without it there is no limit."),
			"share":  shareAttribute(),
			"tags":   tagsAttribute(),
		},
	}
}

func accountAttribute(description string, with ...string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Description: description,
		Validators: []validatorString{stringvalidator.LengthBetween(1, 255), stringvalidator.AlsoRequires(roots(with)...)}}
}

func secretAttribute(description string, with ...string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Sensitive: true, WriteOnly: true, Description: description,
		Validators: []validatorString{stringvalidator.LengthBetween(12, 255), stringvalidator.AlsoRequires(roots(with)...)}}
}

func roots(names []string) []path.Expression {
	expressions := make([]path.Expression, len(names))
	for index, name := range names {
		expressions[index] = path.MatchRoot(name)
	}
	return expressions
}

// account is the CHAP account of a configuration, nil if it has none.
func account(ctx context.Context, config tfsdk.Config, diagnostics *diag.Diagnostics) *array.Chap {
	var given hostModel
	diagnostics.Append(config.Get(ctx, &given)...)
	if given.ChapUser.IsNull() {
		return nil
	}
	return &array.Chap{User: given.ChapUser.ValueString(), Secret: given.ChapSecret.ValueString(),
		MutualUser: given.MutualUser.ValueString(), MutualSecret: given.MutualSecret.ValueString()}
}

// stringsOf are the elements of a set, sorted.
func stringsOf(ctx context.Context, set types.Set, diagnostics *diag.Diagnostics) []string {
	all := []string{}
	diagnostics.Append(set.ElementsAs(ctx, &all, false)...)
	slices.Sort(all)
	return all
}

func (h *host) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan hostModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	wanted := array.NewHost{Name: plan.Name.ValueString(),
		Initiators: stringsOf(ctx, plan.Initiators, &response.Diagnostics),
		Chap:       account(ctx, request.Config, &response.Diagnostics)}
	if response.Diagnostics.HasError() {
		return
	}
	if err := h.make(ctx, wanted); err != nil {
		refused(&response.Diagnostics, "The host was not made", err)
		return
	}
	made := plan
	made.Tags, made.Limits, made.Share = shownTags(nil), types.ObjectNull(limitsTypes), types.Int64Value(shareDefault)
	response.Diagnostics.Append(response.State.Set(ctx, &made)...)
	err := h.limit(ctx, &plan, &response.Diagnostics)
	if err == nil {
		err = h.retag(ctx, &plan, &response.Diagnostics)
	}
	if err != nil {
		refused(&response.Diagnostics, "The host was made and has no tags, limits or share yet", err)
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

// make makes the host once. One that is there after an attempt without an answer, with just these
// initiators and this account, was made by that attempt.
func (h *host) make(ctx context.Context, wanted array.NewHost) error {
	tried := false
	return h.eventually(ctx, func(ctx context.Context) error {
		_, err := h.client.CreateHost(ctx, wanted)
		before := tried
		tried = true
		if !array.IsProblem(err, "name-taken") {
			return err
		}
		found, _, look := h.client.ShowHost(ctx, wanted.Name)
		if look == nil && before && sameHost(found, wanted) {
			return nil
		}
		return fmt.Errorf("%w; 'terraform import' takes it over, as %s", err, wanted.Name)
	})
}

func sameHost(found *array.Host, wanted array.NewHost) bool {
	initiators := slices.Sorted(slices.Values(found.Initiators))
	if !slices.Equal(initiators, wanted.Initiators) || (found.ChapUser == nil) != (wanted.Chap == nil) {
		return false
	}
	return wanted.Chap == nil || *found.ChapUser == wanted.Chap.User
}

// show takes over what the array tells; it tells no secret, and no name of the target.
func (m *hostModel) show(found *array.Host) {
	m.Name = types.StringValue(found.Name)
	m.Initiators = setOf(found.Initiators)
	m.ChapUser = types.StringPointerValue(found.ChapUser)
	m.ChapSecret, m.MutualSecret = types.StringNull(), types.StringNull()
	if !found.MutualChap {
		m.MutualUser = types.StringNull()
	}
	m.Limits, m.Share = shownLimits(found.Limits), types.Int64Value(found.Share)
	m.Tags = shownTags(found.Tags)
}

func (h *host) look(model *hostModel) func(context.Context) (*array.Host, string, error) {
	return func(ctx context.Context) (*array.Host, string, error) {
		found, etag, err := h.client.ShowHost(ctx, model.Name.ValueString())
		return found, etag, gone(err)
	}
}

func (h *host) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state hostModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := seen(ctx, &h.access, h.look(&state))
	if errors.Is(err, errGone) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		refused(&response.Diagnostics, "The host was not found out about", err)
		return
	}
	state.show(found)
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

func (h *host) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan, state hostModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	change := array.HostChange{}
	if !plan.Initiators.Equal(state.Initiators) {
		change.Initiators = stringsOf(ctx, plan.Initiators, &response.Diagnostics)
	}
	if !plan.ChapUser.Equal(state.ChapUser) || !plan.MutualUser.Equal(state.MutualUser) || !plan.ChapVersion.Equal(state.ChapVersion) {
		change.Chap = account(ctx, request.Config, &response.Diagnostics)
		change.NoChap = change.Chap == nil
	}
	if response.Diagnostics.HasError() {
		return
	}
	err := h.change(ctx, &plan, change)
	if err == nil {
		err = h.limit(ctx, &plan, &response.Diagnostics)
	}
	if err == nil {
		err = h.retag(ctx, &plan, &response.Diagnostics)
	}
	if err != nil {
		refused(&response.Diagnostics, "The host was not changed as planned; terraform does all of it again", err)
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

func (h *host) change(ctx context.Context, plan *hostModel, change array.HostChange) error {
	if change.Initiators == nil && change.Chap == nil && !change.NoChap {
		return nil
	}
	return h.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, h.look(plan), func(found *array.Host, etag string) error {
			return h.client.ChangeHost(ctx, found.Name, change, etag)
		})
	})
}

func (h *host) limit(ctx context.Context, plan *hostModel, diagnostics *diag.Diagnostics) error {
	wanted := array.HostLimits{Limits: wantedLimits(ctx, plan.Limits, diagnostics), Share: plan.Share.ValueInt64()}
	return h.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, h.look(plan), func(found *array.Host, etag string) error {
			if (array.HostLimits{Limits: found.Limits, Share: found.Share}) == wanted {
				return nil
			}
			return h.client.SetHostLimits(ctx, found.Name, wanted, etag)
		})
	})
}

func (h *host) retag(ctx context.Context, plan *hostModel, diagnostics *diag.Diagnostics) error {
	wanted := marked(ctx, plan.Tags, "", diagnostics)
	return h.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, h.look(plan), func(found *array.Host, etag string) error {
			if sameTags(found.Tags, wanted) {
				return nil
			}
			return h.client.SetHostTags(ctx, found.Name, wanted, etag)
		})
	})
}

func (h *host) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state hostModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	err := h.eventually(ctx, func(ctx context.Context) error {
		return versioned(ctx, h.look(&state), func(found *array.Host, etag string) error {
			return gone(h.client.DeleteHost(ctx, found.Name, etag))
		})
	})
	if err != nil && !errors.Is(err, errGone) {
		refused(&response.Diagnostics, "The host was not deleted", err)
	}
}

// ImportState takes the host's name. What its secrets are, nobody knows: the first plan sends those of
// the configuration when it gives a chap_version.
func (h *host) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	found, _, err := h.client.ShowHost(ctx, request.ID)
	if err != nil {
		refused(&response.Diagnostics, "The host was not imported", err)
		return
	}
	model := hostModel{}
	model.show(found)
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
