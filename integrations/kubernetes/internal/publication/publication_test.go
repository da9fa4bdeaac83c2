package publication

import (
	"maps"
	"reflect"
	"strings"
	"testing"
)

func TestContextAndBack(t *testing.T) {
	whole := Publication{
		Target: "iqn.2026-11.io.gantry:x", Portals: []string{"192.0.2.1:3260", "[2001:db8::1]:3260"},
		LUN: 300, NAA: "naa." + strings.Repeat("0", 32), ChapKey: "k1",
		Zones: map[string][]string{"a": {"192.0.2.1:3260"}, "b": {"192.0.2.2:3260", "192.0.2.3:3260"}},
	}
	parsed, err := Parse(whole.Context())
	if err != nil || !reflect.DeepEqual(parsed, whole) {
		t.Errorf("%+v: %v", parsed, err)
	}
	for zone, portals := range map[string]int{"": 2, "a": 1, "b": 2} {
		if seen, err := parsed.In(zone); err != nil || len(seen.Portals) != portals {
			t.Errorf("in zone %q: %v %v", zone, seen.Portals, err)
		}
	}
	if _, err := parsed.In("c"); err == nil {
		t.Error("a zone that is none has portals")
	}
	for key, values := range map[string][]string{
		"target": {"", "a b", "a/../b"}, "portals": {"", ","}, "portals.a": {"", ","}, "lun": {"", "-1", "16384", "x"}, "naa": {"", "naa.1", "naa." + strings.Repeat("G", 32)},
	} {
		for _, value := range values {
			context := maps.Clone(whole.Context())
			context[key] = value
			if _, err := Parse(context); err == nil {
				t.Errorf("%s=%q is taken", key, value)
			}
		}
	}
}
