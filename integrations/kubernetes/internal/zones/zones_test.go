package zones

import (
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

const driver = "csi.gantry.io"

func TestWrongZonesAreRefused(t *testing.T) {
	many := make([]string, 0, zonesMax+1)
	for index := range zonesMax + 1 {
		many = append(many, "z"+strings.Repeat("a", index)+"=192.0.2.1:3260")
	}
	for _, text := range []string{
		"a", "a=", "=192.0.2.1:3260", "a=192.0.2.1", "a=array:3260", "a=0.0.0.0:3260", "a=192.0.2.1:3260,", "a=192.0.2.1:3260;",
		"a=192.0.2.1:3260;a=192.0.2.2:3260", "a b=192.0.2.1:3260", "-a=192.0.2.1:3260", strings.Repeat("a", 64) + "=192.0.2.1:3260",
		strings.Join(many, ";"),
	} {
		if _, err := Parse(driver, text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestWhoReachesTheArray(t *testing.T) {
	zones, err := Parse(driver, "a=192.0.2.1:3260,192.0.2.2:3260;b=[2001:db8::1]:3260")
	if err != nil || !slices.Equal(zones.Portals()["a"], []string{"192.0.2.1:3260", "192.0.2.2:3260"}) || len(zones.Accessible()) != 2 {
		t.Fatalf("%+v: %v", zones, err)
	}
	none, err := Parse(driver, "")
	if err != nil || none.Exist() || none.Accessible() != nil || none.Portals() != nil {
		t.Errorf("%+v: %v", none, err)
	}
	a, b, c := Segment(Key(driver), "a"), Segment(Key(driver), "b"), Segment(Key(driver), "c")
	foreign := Segment("topology.other.example/zone", "a")
	for _, test := range []struct {
		requisite []*csi.Topology
		met       bool
	}{
		{nil, true}, {[]*csi.Topology{a}, true}, {[]*csi.Topology{c, b}, true}, {[]*csi.Topology{c}, false},
		{[]*csi.Topology{foreign}, false}, {[]*csi.Topology{{}}, false},
	} {
		requirement := &csi.TopologyRequirement{Requisite: test.requisite, Preferred: test.requisite}
		if met := zones.Meet(requirement); met != test.met {
			t.Errorf("%v: %t", test.requisite, met)
		}
		if !none.Meet(requirement) {
			t.Errorf("%v is not met without zones", test.requisite)
		}
	}
}
