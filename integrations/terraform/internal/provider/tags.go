package provider

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const (
	// markKey is a tag that says by which request of terraform an object was made, so that one whose
	// answer was lost is known again. It is not in 'tags'.
	markKey = "terraform.created"
	// tagsMax is what the array allows, less the mark.
	tagsMax = 15
)

var tagKey = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

func tagsAttribute() schema.MapAttribute {
	return schema.MapAttribute{
		ElementType: types.StringType, Optional: true, Computed: true,
		Default:     mapdefault.StaticValue(types.MapValueMust(types.StringType, map[string]attr.Value{})),
		Description: "All labels: at most 15, keys of 1 to 63 letters, digits, '-', '_', '.', values of at most 128 characters.",
		Validators: []validatorMap{
			mapvalidator.SizeAtMost(tagsMax),
			mapvalidator.KeysAre(
				stringvalidator.RegexMatches(tagKey, "1 to 63 letters, digits, '-', '_', '.'"),
				stringvalidator.NoneOf(markKey),
			),
			mapvalidator.ValueStringsAre(stringvalidator.UTF8LengthAtMost(128)),
		},
	}
}

func newMark() string {
	random := make([]byte, 8)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// marked are the tags of a plan with a mark; without one if that is empty.
func marked(ctx context.Context, tags types.Map, mark string, diagnostics *diag.Diagnostics) map[string]string {
	all := map[string]string{}
	diagnostics.Append(tags.ElementsAs(ctx, &all, false)...)
	if mark != "" {
		all[markKey] = mark
	}
	return all
}

// shownTags are those of an object, without the mark.
func shownTags(tags map[string]string) types.Map {
	shown := map[string]attr.Value{}
	for key, value := range tags {
		if key != markKey {
			shown[key] = types.StringValue(value)
		}
	}
	return types.MapValueMust(types.StringType, shown)
}

// sameTags says whether an object has the tags that it is to have, whatever its mark.
func sameTags(found, wanted map[string]string) bool {
	found, wanted = maps.Clone(found), maps.Clone(wanted)
	delete(found, markKey)
	delete(wanted, markKey)
	return maps.Equal(found, wanted)
}

// withMarkOf are the tags that an object is to have, with the mark that it has.
func withMarkOf(found, wanted map[string]string) map[string]string {
	mark, has := found[markKey]
	if !has {
		return wanted
	}
	all := maps.Clone(wanted)
	all[markKey] = mark
	return all
}
