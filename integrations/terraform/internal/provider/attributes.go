package provider

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

type (
	validatorMap    = validator.Map
	modifierString  = planmodifier.String
	validatorString = validator.String
	validatorInt64  = validator.Int64
)

var (
	objectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	naaText    = regexp.MustCompile(`^naa\.[0-9a-f]{32}$`)
)

// nameAttribute is a name; a fixed one can only be changed by making the object anew.
func nameAttribute(description string, fixed bool) schema.StringAttribute {
	attribute := schema.StringAttribute{
		Required: true, Description: description,
		Validators: []validatorString{stringvalidator.RegexMatches(objectName, "1 to 63 letters, digits, '-', '_', '.', the first a letter or digit")},
	}
	if fixed {
		attribute.PlanModifiers = []modifierString{stringplanmodifier.RequiresReplace()}
	}
	return attribute
}

// unitAttribute is the NAA identifier of a volume or snapshot that the object belongs to.
func unitAttribute(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Required: true, Description: description,
		Validators:    []validatorString{stringvalidator.RegexMatches(naaText, "'naa.' and 32 hexadecimal digits: the id of a gantry_volume or gantry_snapshot")},
		PlanModifiers: []modifierString{stringplanmodifier.RequiresReplace()},
	}
}

// keptString is what the array decides and never changes.
func keptString(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, Description: description,
		PlanModifiers: []modifierString{stringplanmodifier.UseStateForUnknown()}}
}

func keptInt64(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, Description: description,
		PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}}
}

// wholeBlocks allows multiples of 4,096 only.
type wholeBlocks struct{}

func (wholeBlocks) Description(context.Context) string { return "a multiple of 4,096" }

func (w wholeBlocks) MarkdownDescription(ctx context.Context) string { return w.Description(ctx) }

func (wholeBlocks) ValidateInt64(_ context.Context, request validator.Int64Request, response *validator.Int64Response) {
	if request.ConfigValue.IsNull() || request.ConfigValue.IsUnknown() {
		return
	}
	if size := request.ConfigValue.ValueInt64(); size%4096 != 0 {
		response.Diagnostics.AddAttributeError(request.Path, "Not a whole number of blocks",
			fmt.Sprintf("%d is no multiple of 4,096; the next one is %d.", size, (size/4096+1)*4096))
	}
}
