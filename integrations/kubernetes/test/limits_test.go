package test

import (
	"context"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	arrayclient "gantry.io/go/array"
	"gantry.io/go/arraytest"
	"gantry.io/kubernetes-csi/internal/controller"
)

// limits are set by storage classes and changed by volume attributes classes.
func limits(t *testing.T, array *arraytest.Array) {
	server, ctx := controller.New(array.Client(), controller.Options{}), context.Background()
	request := newVolume("pvc-limits", 16<<20)
	request.Parameters["iops"], request.Parameters["bandwidth"] = "500", "100Mi"
	request.MutableParameters = map[string]string{"iops": "2000", "softPercent": "60", "hardPercent": "80"}
	volume := mustCreate(t, server, request)
	has := func(what string, wanted arrayclient.Limits, soft int) {
		t.Helper()
		found, _, err := array.Client().ShowVolume(ctx, arrayclient.Ref{Pool: "p", Name: "pvc-limits"})
		if err != nil {
			t.Fatal(err)
		}
		if found.Limits != wanted || found.Thresholds.SoftPercent != soft {
			t.Errorf("%s: %+v, %+v", what, found.Limits, found.Thresholds)
		}
	}
	has("the attributes class goes first", arrayclient.Limits{IOPS: 2000, BytesPerSecond: 100 << 20, BurstMilliseconds: 100}, 60)
	if again := mustCreate(t, server, request); again != volume {
		t.Errorf("the same call made %s and %s", volume, again)
	}
	modify := func(parameters map[string]string) error {
		_, err := server.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{VolumeId: volume, MutableParameters: parameters})
		return err
	}
	for range 2 {
		if err := modify(map[string]string{"iops": "none", "burstMilliseconds": "2000", "softPercent": "70"}); err != nil {
			t.Fatal(err)
		}
	}
	has("one call changes both", arrayclient.Limits{BytesPerSecond: 100 << 20, BurstMilliseconds: 2000}, 70)
	for _, wrong := range []map[string]string{
		{"iops": "9"}, {"iops": "0"}, {"iops": "many"}, {"iops": "10000001"}, {"bandwidth": "1000"},
		{"bandwidth": "2Ti"}, {"bandwidth": "-1Mi"}, {"bandwidth": ""}, {"burstMilliseconds": "9"},
		{"burstMilliseconds": "none"}, {"speed": "1"}, {"softPercent": "90"},
	} {
		wantCode(t, modify(wrong), codes.InvalidArgument)
		request := newVolume("pvc-wrong-limits", 16<<20)
		request.MutableParameters = wrong
		if wrong["softPercent"] == "" {
			_, err := server.CreateVolume(ctx, request)
			wantCode(t, err, codes.InvalidArgument)
		}
	}
	has("what is wrong changes nothing", arrayclient.Limits{BytesPerSecond: 100 << 20, BurstMilliseconds: 2000}, 70)
	_, err := server.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume})
	wantCode(t, err, codes.OK)
}
