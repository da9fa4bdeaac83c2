package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// nameBytesMax is the longest name that the CSI specification allows.
	nameBytesMax = 128
	// arrayNameMax is the longest name that the array takes.
	arrayNameMax = 63
	// digestLength is how many hexadecimal digits of a name's SHA-256 stand for it.
	digestLength = 32

	prefixDigested       = "vol-"
	prefixSnapshot       = "snap-"
	prefixSnapshotDigest = "snapx-"
	prefixGroup          = "grp-"
)

var (
	arrayName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	naa       = regexp.MustCompile(`^naa\.[0-9a-f]{32}$`)
	groupID   = regexp.MustCompile(`^grp-[0-9a-f]{32}$`)
	initiator = regexp.MustCompile(`^(iqn\.[0-9]{4}-[0-9]{2}\.[a-z0-9.:-]+|eui\.[0-9a-fA-F]{16}|naa\.[0-9a-fA-F]{16}([0-9a-fA-F]{16})?)$`)
)

// volumeName maps a CSI name to the array's name of the volume: itself where the array takes it, else a
// readable part and a digest. Names that look like those which the driver makes are digested too, so
// that two names never share one.
func volumeName(name string) string {
	if fits(name) && !reserved(name) {
		return name
	}
	return digested(prefixDigested, name)
}

// snapshotName does the same for snapshots. Volumes and snapshots of a pool share one set of names on
// the array, and not in CSI, so those of snapshots have a prefix.
func snapshotName(name string) string {
	if plain := prefixSnapshot + name; fits(plain) {
		return plain
	}
	return digested(prefixSnapshotDigest, name)
}

// groupIDOf is the identifier of a group of snapshots, and the beginning of its snapshots' names.
func groupIDOf(name string) string {
	return prefixGroup + digest(name)
}

// memberName is the name of the snapshot of one volume in a group.
func memberName(group, volumeID string) string {
	return group + "-" + digest(volumeID)[:16]
}

func fits(name string) bool {
	return len(name) <= arrayNameMax && arrayName.MatchString(name)
}

func reserved(name string) bool {
	for _, prefix := range []string{prefixDigested, prefixSnapshot, prefixSnapshotDigest, prefixGroup} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func digested(prefix, name string) string {
	readable := strings.Map(func(letter rune) rune {
		if arrayName.MatchString("a" + string(letter)) {
			return letter
		}
		return '-'
	}, name)
	room := arrayNameMax - len(prefix) - len("-") - digestLength
	return prefix + readable[:min(room, len(readable))] + "-" + digest(name)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digestLength]
}

// checkName refuses names that CSI does not allow; they are kept in a tag of 128 characters.
func checkName(name string) error {
	if name == "" {
		return status.Error(codes.InvalidArgument, "a name is missing")
	}
	if len(name) > nameBytesMax || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return status.Errorf(codes.InvalidArgument, "a name has at most %d bytes of UTF-8 without control characters", nameBytesMax)
	}
	return nil
}
