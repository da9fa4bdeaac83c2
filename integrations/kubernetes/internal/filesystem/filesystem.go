// Package filesystem formats, mounts and grows file systems with the machine's own programs.
package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"gantry.io/kubernetes-csi/internal/node"
)

// Machine is the real machine.
type Machine struct {
	mounter mount.SafeFormatAndMount
	grower  *mount.ResizeFs
	// hostRoot is where the machine's root folder is mounted, in which every mount of the kubelet's
	// folder is seen once more; empty for none.
	hostRoot string
}

// New makes one; hostRoot is where the machine's root folder is mounted, empty for none.
func New(hostRoot string) *Machine {
	programs := exec.New()
	return &Machine{
		mounter: mount.SafeFormatAndMount{Interface: mount.New(""), Exec: programs},
		grower:  mount.NewResizeFs(programs),

		hostRoot: hostRoot,
	}
}

// FormatAndMount mounts a device, and makes a file system before if the device holds nothing. A device
// that holds another file system is refused.
func (m *Machine) FormatAndMount(device, target, kind string, options []string) error {
	return m.mounter.FormatAndMount(device, target, kind, options)
}

// Bind mounts a folder or device file over another path.
func (m *Machine) Bind(source, target string, readOnly bool, options []string) error {
	options = append([]string{"bind"}, options...)
	if readOnly {
		options = append(options, "ro")
	}
	return m.mounter.Mount(source, target, "", options)
}

// Unmount takes a mount away, also one whose device is gone; a path that is none is fine.
func (m *Machine) Unmount(target string) error {
	mounted, err := m.IsMounted(target)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil && !mount.IsCorruptedMnt(err):
		return err
	case err == nil && !mounted:
		return nil
	}
	return m.mounter.Unmount(target)
}

// IsMounted says whether something is mounted at a path.
func (m *Machine) IsMounted(path string) (bool, error) {
	return m.mounter.IsMountPoint(path)
}

// Mounts are all paths at which the same thing is mounted as at this one.
func (m *Machine) Mounts(path string) ([]string, error) {
	found, err := m.mounter.GetMountRefs(path)
	isRepeated := func(path string) bool { return m.hostRoot != "" && strings.HasPrefix(path, m.hostRoot+"/") }
	return slices.DeleteFunc(found, isRepeated), err
}

// Grow makes the file system at a path as large as its device, if it is smaller.
func (m *Machine) Grow(device, path string) error {
	needed, err := m.grower.NeedResize(device, path)
	if err != nil || !needed {
		return err
	}
	_, err = m.grower.Resize(device, path)
	return err
}

// Usage of the file system at a path, or the size of the device that is there.
func (m *Machine) Usage(path string) (node.Usage, error) {
	info, err := os.Stat(path)
	if err != nil {
		return node.Usage{}, err
	}
	if info.Mode()&os.ModeDevice != 0 {
		return deviceUsage(path)
	}
	var found unix.Statfs_t
	if err := unix.Statfs(path, &found); err != nil {
		return node.Usage{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	block := int64(found.Bsize)
	return node.Usage{
		Total: int64(found.Blocks) * block, Available: int64(found.Bavail) * block, Used: int64(found.Blocks-found.Bfree) * block,
		InodesTotal: int64(found.Files), InodesAvailable: int64(found.Ffree), InodesUsed: int64(found.Files - found.Ffree),
	}, nil
}

func deviceUsage(path string) (node.Usage, error) {
	file, err := os.Open(path)
	if err != nil {
		return node.Usage{}, err
	}
	defer file.Close()
	size, err := file.Seek(0, 2)
	return node.Usage{IsDevice: true, Total: size}, err
}
