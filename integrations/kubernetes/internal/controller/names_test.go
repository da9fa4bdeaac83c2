package controller

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

func TestNamesFitTheArrayAndDiffer(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("x", 127)
	names := []string{"pvc-1", long + "a", long + "b", "ä", "ö", "-", "snap-a", "snapx-a", "vol-a", "grp-a", ".", "a b", "a-b"}
	for _, name := range names {
		for what, made := range map[string]string{"volume": volumeName(name), "snapshot": snapshotName(name), "member": memberName(groupIDOf(name), "naa")} {
			if !fits(made) {
				t.Errorf("%s of %q: the array does not take %q", what, name, made)
			}
			if other, taken := seen[made]; taken {
				t.Errorf("%q stands for %s %q and %s", made, what, name, other)
			}
			seen[made] = what + " " + name
		}
	}
	if volumeName("pvc-1") != "pvc-1" {
		t.Error("an ordinary name is changed")
	}
}

func TestHostNamesFitAndDiffer(t *testing.T) {
	long := "iqn.2004-10.com.ubuntu:" + strings.Repeat("x", 190)
	seen := map[string]bool{}
	for _, node := range []string{"iqn.2004-10.com.ubuntu:01:abc", long + "1", long + "2"} {
		if name := hostName(node); !fits(name) || seen[name] {
			t.Errorf("host %q of %q", name, node)
		} else {
			seen[name] = true
		}
	}
}

func TestSizes(t *testing.T) {
	for _, row := range []struct {
		required, limit, least, size int64
	}{
		{0, 0, 0, sizeDefault},
		{0, 4096, 0, 4096},
		{0, 5000, 0, 4096},
		{1, 0, 0, 1 << 20},
		{1, 4096, 0, 4096},
		{1 << 20, 1 << 20, 0, 1 << 20},
		{4097, 8192, 0, 8192},
		{0, 0, 3 << 20, 3 << 20},
		{1, 0, 3 << 20, 3 << 20},
		{4097, 8191, 0, 0},
		{0, 1 << 20, 2 << 20, 0},
		{0, 4095, 0, 0},
	} {
		size, err := sizeRange{row.required, row.limit}.size(row.least)
		if size != row.size || (err != nil) != (row.size == 0) {
			t.Errorf("%+v: %d, %v", row, size, err)
		}
	}
	for _, capacity := range []*csi.CapacityRange{{RequiredBytes: -1}, {RequiredBytes: 2, LimitBytes: 1}, {RequiredBytes: sizeMax + 1}} {
		if _, err := parseRange(capacity); err == nil {
			t.Errorf("%v is taken", capacity)
		}
	}
}

func TestForeignTokensAreRefused(t *testing.T) {
	if after, err := parseToken(formatToken("p/v")); err != nil || after != "p/v" {
		t.Errorf("%q: %v", after, err)
	}
	for _, token := range []string{"invalid-token", "cC92", "!", "YWZ0ZXI6"} {
		if _, err := parseToken(token); err == nil {
			t.Errorf("%q is taken", token)
		}
	}
}
