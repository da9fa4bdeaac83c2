// Package publication is the publish context: what the controller tells a node about a LUN, as text.
package publication

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	keyTarget  = "target"
	keyPortals = "portals"
	keyLUN     = "lun"
	keyNAA     = "naa"
	keyChapKey = "chapKey"

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
	for portal := range strings.SplitSeq(context[keyPortals], ",") {
		if portal != "" {
			parsed.Portals = append(parsed.Portals, portal)
		}
	}
	if len(parsed.Portals) == 0 {
		return parsed, fmt.Errorf("publish context: %s is missing", keyPortals)
	}
	return parsed, nil
}
