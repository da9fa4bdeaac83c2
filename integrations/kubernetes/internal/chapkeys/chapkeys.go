// Package chapkeys derives each node's CHAP account (RFC 7143 12.1.3) from keys in a folder, usually a
// mounted Secret: one file per key, the newest by name is the current one.
//
// The secret of a node is HMAC-SHA256(key, initiator name), so that controller and node agree on it and
// it is never sent through Kubernetes. Who has a key can compute the secrets of all nodes.
package chapkeys

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// keyBytesMin is the least length of a key.
	keyBytesMin = 32
	// secretLength is the length of a derived secret in characters; RFC 7143 wants 12 at least.
	secretLength = 32
)

var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Folder with keys. Files whose names begin with a dot are ignored: Kubernetes has such ones.
type Folder string

// Current is the name of the newest key: the last one in the order of their names.
func (f Folder) Current() (string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return "", err
	}
	for index := len(entries) - 1; index >= 0; index-- { // sorted by name
		if name := entries[index].Name(); keyName.MatchString(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s holds no key", string(f))
}

// Account derives the account of an initiator: its name is the initiator's. Errors: no such key, or a
// key of fewer than 32 bytes.
func (f Folder) Account(key, initiator string) (user, secret string, err error) {
	if !keyName.MatchString(key) {
		return "", "", fmt.Errorf("%q is not the name of a key", key)
	}
	bytes, err := os.ReadFile(filepath.Join(string(f), key))
	if err != nil {
		return "", "", err
	}
	bytes = []byte(strings.TrimSpace(string(bytes)))
	if len(bytes) < keyBytesMin {
		return "", "", fmt.Errorf("key %s has %d bytes and needs %d", key, len(bytes), keyBytesMin)
	}
	mac := hmac.New(sha256.New, bytes)
	mac.Write([]byte("gantry-csi chap " + initiator))
	return initiator, strings.ToLower(base32.StdEncoding.EncodeToString(mac.Sum(nil)))[:secretLength], nil
}
