package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	shown "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"gantry.io/go/array"
)

const (
	// burstDefault is what the array saves up for where nothing is said, in milliseconds.
	burstDefault = 100
	// shareDefault is that of a host of which nothing is said.
	shareDefault = 1

	iopsText  = "I/Os per second, 10 to 10,000,000; no limit without it."
	bytesText = "Bytes of work per second, 1 MiB to 1 TiB; no limit without it."
	burstText = "For how many milliseconds unused work is saved up, 10 to 600,000; 100 without it."
	shareText = "What it gets of a pool for which other hosts wait, too, 1 to 100: so many times what a host with 1 gets."
)

// limitsModel is an object with limits; without any the attribute is null.
type limitsModel struct {
	IOPS           types.Int64 `tfsdk:"iops"`
	BytesPerSecond types.Int64 `tfsdk:"bytes_per_second"`
	BurstMS        types.Int64 `tfsdk:"burst_ms"`
}

var limitsTypes = map[string]attr.Type{"iops": types.Int64Type, "bytes_per_second": types.Int64Type, "burst_ms": types.Int64Type}

func limitsAttribute(description string) schema.SingleNestedAttribute {
	other := path.MatchRelative().AtParent().AtName("bytes_per_second")
	return schema.SingleNestedAttribute{
		Optional: true, Description: description,
		Attributes: map[string]schema.Attribute{
			"iops": schema.Int64Attribute{Optional: true, Description: iopsText,
				Validators: []validatorInt64{int64validator.Between(10, 10_000_000), int64validator.AtLeastOneOf(other)}},
			"bytes_per_second": schema.Int64Attribute{Optional: true, Description: bytesText,
				Validators: []validatorInt64{int64validator.Between(1<<20, 1<<40)}},
			"burst_ms": schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(burstDefault), Description: burstText,
				Validators: []validatorInt64{int64validator.Between(10, 600_000)}},
		},
	}
}

func shareAttribute() schema.Int64Attribute {
	return schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(shareDefault), Description: shareText,
		Validators: []validatorInt64{int64validator.Between(1, 100)}}
}

func shownLimitsAttribute() shown.SingleNestedAttribute {
	return shown.SingleNestedAttribute{Computed: true, Description: "The most work that it gets done; null for no limit.",
		Attributes: map[string]shown.Attribute{
			"iops": shownInt64(iopsText), "bytes_per_second": shownInt64(bytesText), "burst_ms": shownInt64(burstText),
		}}
}

// wantedLimits is what the array is to have.
func wantedLimits(ctx context.Context, object types.Object, diagnostics *diag.Diagnostics) array.Limits {
	limits := array.Limits{BurstMilliseconds: burstDefault}
	if object.IsNull() {
		return limits
	}
	var given limitsModel
	diagnostics.Append(object.As(ctx, &given, basetypes.ObjectAsOptions{})...)
	limits.IOPS, limits.BytesPerSecond = given.IOPS.ValueInt64(), given.BytesPerSecond.ValueInt64()
	limits.BurstMilliseconds = given.BurstMS.ValueInt64()
	return limits
}

// shownLimits takes over what the array has; null if that limits nothing and saves up as usual.
func shownLimits(found array.Limits) types.Object {
	if found == (array.Limits{BurstMilliseconds: burstDefault}) {
		return types.ObjectNull(limitsTypes)
	}
	return types.ObjectValueMust(limitsTypes, map[string]attr.Value{
		"iops": limitOrNull(found.IOPS), "bytes_per_second": limitOrNull(found.BytesPerSecond),
		"burst_ms": types.Int64Value(found.BurstMilliseconds),
	})
}

func limitOrNull(limit int64) types.Int64 {
	if limit == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(limit)
}
