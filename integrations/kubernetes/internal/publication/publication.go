// Package publication is the publish context: what the controller tells a node about a LUN, as text.
package publication

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	keyTarget  = "target"
	keyPortals = "portals"
	keyLUN     = "lun"
	keyNAA     = "naa"
	keyChapKey = "chapKey"
	// keyZone and a zone's name are the key of its portals.
	keyZone = "portals."

	// lunMax is the largest number of the flat space (SAM-5 4.7.7.3).
	lunMax = 16383
)

var naa = regexp.MustCompile(`^naa\.[0-9a-f]{32}$`)

// Publication says how a node finds a volume, and by which identifier it knows it. It holds no secret:
// Kubernetes keeps it where many may read it.
type Publication struct {
	// Target is the iSCSI name of the target.
	Target string
	// Portals are IP:PORT, at least one.
	Portals []string
	// Zones has the portals of each zone by its name, for nodes that are in one; nil without zones.
	Zones map[string][]string
	// LUN is 0 to 16,383.
	LUN int
	// NAA is 'naa.' and 32 hexadecimal digits.
	NAA string
	// ChapKey is the name of the key of the node's CHAP account; empty for none.
	ChapKey string
}

// Context is the publication as a publish context.
func (p Publication) Context() map[string]string {
	context := map[string]string{
		keyTarget: p.Target, keyPortals: strings.Join(p.Portals, ","), keyLUN: strconv.Itoa(p.LUN), keyNAA: p.NAA,
	}
	for zone, portals := range p.Zones {
		context[keyZone+zone] = strings.Join(portals, ",")
	}
	if p.ChapKey != "" {
		context[keyChapKey] = p.ChapKey
	}
	return context
}

// Parse reads a publish context; the error names what is missing or out of range.
func Parse(context map[string]string) (Publication, error) {
	parsed := Publication{Target: context[keyTarget], NAA: context[keyNAA], ChapKey: context[keyChapKey]}
	if parsed.Target == "" || strings.ContainsAny(parsed.Target, " /\n") {
		return parsed, fmt.Errorf("publish context: %s is missing or no iSCSI name", keyTarget)
	}
	if !naa.MatchString(parsed.NAA) {
		return parsed, fmt.Errorf("publish context: %s is not 'naa.' and 32 hexadecimal digits", keyNAA)
	}
	lun, err := strconv.Atoi(context[keyLUN])
	if err != nil || lun < 0 || lun > lunMax {
		return parsed, fmt.Errorf("publish context: %s is not a number from 0 to %d", keyLUN, lunMax)
	}
	parsed.LUN = lun
	if parsed.Portals = split(context[keyPortals]); len(parsed.Portals) == 0 {
		return parsed, fmt.Errorf("publish context: %s is missing", keyPortals)
	}
	for key, portals := range context {
		zone, found := strings.CutPrefix(key, keyZone)
		if !found {
			continue
		}
		if parsed.Zones == nil {
			parsed.Zones = map[string][]string{}
		}
		if parsed.Zones[zone] = split(portals); len(parsed.Zones[zone]) == 0 {
			return parsed, fmt.Errorf("publish context: %s has no portals", key)
		}
	}
	return parsed, nil
}

// In is the publication for a node of a zone; the same for one that is in none. Error: no such zone.
func (p Publication) In(zone string) (Publication, error) {
	if zone == "" || len(p.Zones) == 0 {
		return p, nil
	}
	portals, known := p.Zones[zone]
	if !known {
		return p, fmt.Errorf("the controller knows no portals of zone %s (--zones)", zone)
	}
	p.Portals = portals
	return p, nil
}

func split(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(word string) bool { return word == "" })
}
