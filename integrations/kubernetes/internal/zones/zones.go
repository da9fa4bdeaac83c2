// Package zones is the driver's topology: parts of the cluster, each with the portals that its nodes reach.
//
// An array has one target, and every pool is reached over every portal. So a zone is a storage network, not
// a place of data: it says which nodes reach the array at all, and over which portals. The administrator
// says it, since neither the array nor the node's part of the driver knows the cluster's networks.
package zones

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// zonesMax bounds the publish context, which holds the portals of each.
const zonesMax = 32

// name is what the value of a label of Kubernetes may be.
var name = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Zone is one of them.
type Zone struct {
	Name string
	// Portals are IP:PORT, at least one.
	Portals []string
}

// Zones are all of an array, in the order in which they were said; none for a cluster in which every node
// reaches every portal.
type Zones struct {
	// key of the segment, the driver's own.
	key string
	all []Zone
}

// Key is the key of the segment of a driver's zones.
func Key(driver string) string { return "topology." + driver + "/zone" }

// CheckName refuses a name that is not the value of a label.
func CheckName(zone string) error {
	if !name.MatchString(zone) {
		return fmt.Errorf("zone %q: 1 to 63 letters, digits, '-', '_', '.', a letter or digit at both ends", zone)
	}
	return nil
}

// Parse reads NAME=IP:PORT,IP:PORT;NAME=... of a driver; an empty text is none.
func Parse(driver, text string) (Zones, error) {
	parsed := Zones{key: Key(driver)}
	if text == "" {
		return parsed, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		zone, portals, _ := strings.Cut(part, "=")
		if err := CheckName(zone); err != nil {
			return parsed, err
		}
		if parsed.Has(zone) {
			return parsed, fmt.Errorf("zone %s is said twice", zone)
		}
		made := Zone{Name: zone}
		for portal := range strings.SplitSeq(portals, ",") {
			address, err := netip.ParseAddrPort(portal)
			if err != nil || address.Addr().IsUnspecified() {
				return parsed, fmt.Errorf("zone %s: portal %q is not IP:PORT: say %s=192.0.2.1:3260,192.0.2.2:3260", zone, portal, zone)
			}
			made.Portals = append(made.Portals, portal)
		}
		parsed.all = append(parsed.all, made)
	}
	if len(parsed.all) > zonesMax {
		return parsed, fmt.Errorf("%d zones, and there may be %d", len(parsed.all), zonesMax)
	}
	return parsed, nil
}

// Exist says whether there are any.
func (z Zones) Exist() bool { return len(z.all) > 0 }

// Has says whether there is one of a name.
func (z Zones) Has(name string) bool {
	for _, zone := range z.all {
		if zone.Name == name {
			return true
		}
	}
	return false
}

// Portals are those of each zone, by name; nil without zones.
func (z Zones) Portals() map[string][]string {
	var portals map[string][]string
	for _, zone := range z.all {
		if portals == nil {
			portals = make(map[string][]string, len(z.all))
		}
		portals[zone.Name] = zone.Portals
	}
	return portals
}

// All are the portals of all zones.
func (z Zones) All() []string {
	var portals []string
	for _, zone := range z.all {
		portals = append(portals, zone.Portals...)
	}
	return portals
}

// Segment is the topology of a node in a zone; nil for none.
func Segment(key, zone string) *csi.Topology {
	if zone == "" {
		return nil
	}
	return &csi.Topology{Segments: map[string]string{key: zone}}
}

// Accessible is the topology of every volume: all zones, each by itself; nil without zones.
func (z Zones) Accessible() []*csi.Topology {
	var accessible []*csi.Topology
	for _, zone := range z.all {
		accessible = append(accessible, Segment(z.key, zone.Name))
	}
	return accessible
}

// Reaches says whether nodes of a topology reach the array. Without zones all do.
func (z Zones) Reaches(topology *csi.Topology) bool {
	return !z.Exist() || z.Has(topology.GetSegments()[z.key])
}

// Meet says whether a volume of the array meets requirements: at least one of the requisite topologies
// reaches it. What is preferred changes nothing, since all of them reach the same data.
func (z Zones) Meet(requirement *csi.TopologyRequirement) bool {
	if len(requirement.GetRequisite()) == 0 {
		return true
	}
	for _, topology := range requirement.GetRequisite() {
		if z.Reaches(topology) {
			return true
		}
	}
	return false
}
