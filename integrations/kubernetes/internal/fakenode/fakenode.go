// Package fakenode is a node without a kernel: attached volumes and mounts are kept in memory. Tests
// use it where no kernel initiator is. Paths are real, so that what is left behind is seen.
package fakenode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"gantry.io/kubernetes-csi/internal/node"
	"gantry.io/kubernetes-csi/internal/publication"
)

// Node implements node.Initiator and node.FileSystem.
type Node struct {
	name     string
	mutex    sync.Mutex
	attached map[string]publication.Publication
	// mounts has the source of each mount: a device, or what another mount shows.
	mounts map[string]string
}

// New makes a node with an initiator name.
func New(name string) *Node {
	return &Node{name: name, attached: map[string]publication.Publication{}, mounts: map[string]string{}}
}

// Leftovers are the volumes that are attached and the paths that are mounted.
func (n *Node) Leftovers() []string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var left []string
	for naa := range n.attached {
		left = append(left, naa)
	}
	for path := range n.mounts {
		left = append(left, path)
	}
	slices.Sort(left)
	return left
}

// Name is the initiator name.
func (n *Node) Name() (string, error) { return n.name, nil }

// Attach refuses a LUN number that is another attached volume's.
func (n *Node) Attach(_ context.Context, volume publication.Publication) (string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for naa, other := range n.attached {
		if naa != volume.NAA && other.LUN == volume.LUN && other.Target == volume.Target {
			return "", fmt.Errorf("LUN %d is %s already", volume.LUN, naa)
		}
	}
	n.attached[volume.NAA] = volume
	return "/dev/" + volume.NAA, nil
}

// Detach refuses a device that is mounted.
func (n *Node) Detach(_ context.Context, naa string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for path, source := range n.mounts {
		if source == "/dev/"+naa {
			return fmt.Errorf("%s is mounted at %s", naa, path)
		}
	}
	delete(n.attached, naa)
	return nil
}

// StopWaiting has nothing to do: nothing waits.
func (n *Node) StopWaiting(context.Context, string) error { return nil }

// Rescan returns the device of an attached volume.
func (n *Node) Rescan(_ context.Context, naa string) (string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if _, has := n.attached[naa]; !has {
		return "", errors.New("this node has no disk " + naa)
	}
	return "/dev/" + naa, nil
}

// FormatAndMount mounts a device.
func (n *Node) FormatAndMount(device, target, _ string, options []string) error {
	return n.Bind(device, target, false, options)
}

// Bind mounts over a path that exists.
func (n *Node) Bind(source, target string, _ bool, _ []string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if _, err := os.Stat(target); err != nil {
		return err
	}
	if shown, mounted := n.mounts[source]; mounted {
		source = shown
	}
	n.mounts[target] = source
	return nil
}

// Unmount takes a mount away.
func (n *Node) Unmount(target string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.mounts, target)
	return nil
}

// IsMounted says whether something is mounted at a path.
func (n *Node) IsMounted(path string) (bool, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if _, mounted := n.mounts[path]; mounted {
		return true, nil
	}
	if _, err := os.Stat(path); err != nil {
		return false, fs.ErrNotExist
	}
	return false, nil
}

// Mounts are the other paths that show the same.
func (n *Node) Mounts(path string) ([]string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var same []string
	for other, source := range n.mounts {
		if other != path && source == n.mounts[path] {
			same = append(same, other)
		}
	}
	return same, nil
}

// Grow does nothing.
func (n *Node) Grow(string, string) error { return nil }

// Usage is that of a folder, or of a device for a file.
func (n *Node) Usage(path string) (node.Usage, error) {
	info, err := os.Stat(path)
	if err != nil {
		return node.Usage{}, err
	}
	if !info.IsDir() {
		return node.Usage{IsDevice: true, Total: 1}, nil
	}
	return node.Usage{Total: 2, Used: 1, Available: 1, InodesTotal: 2, InodesUsed: 1, InodesAvailable: 1}, nil
}
