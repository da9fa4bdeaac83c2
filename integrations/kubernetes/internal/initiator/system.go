package initiator

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reachTimeout is how long a portal may take to accept a connection; open-iscsi alone tries it for 30 s.
const reachTimeout = 5 * time.Second

// System is what the initiator does to the machine: programs, sysfs, device files.
type System interface {
	// Run runs a program and returns what it printed and its exit status; an error if it could not run.
	Run(ctx context.Context, program string, arguments ...string) (output string, status int, err error)
	// Read returns a file's content without white space at its ends.
	Read(path string) (string, error)
	// Write writes a text to a file that exists, as sysfs wants it.
	Write(path, text string) error
	// ReadRoot and WriteRoot do the same with a file of the machine's root folder, where the plugin's own
	// is a container's. WriteRoot makes the file and its folder if need be, whole or not at all.
	ReadRoot(path string) (string, error)
	WriteRoot(path, text string) error
	// List returns the names in a folder, sorted; none if there is no such folder.
	List(path string) ([]string, error)
	// Link returns where a symbolic link leads.
	Link(path string) (string, error)
	// Reaches says whether something accepts connections at IP:PORT.
	Reaches(ctx context.Context, portal string) bool
	// IsBusy says whether somebody uses a block device: a mount, a device mapper, an exclusive opener.
	IsBusy(device string) (bool, error)
}

// Machine is the real system.
type Machine struct {
	// Root is where the machine's root folder is mounted, whose programs are run; empty for our own.
	Root string
}

// Run runs a program. Its arguments may hold a CHAP secret and are in no error.
func (m Machine) Run(ctx context.Context, program string, arguments ...string) (string, int, error) {
	words := append([]string{program}, arguments...)
	if m.Root != "" {
		words = append([]string{"chroot", m.Root}, words...)
	}
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	var exited *exec.ExitError
	if ctx.Err() != nil {
		return output.String(), -1, ctx.Err()
	}
	if errors.As(err, &exited) {
		return output.String(), exited.ExitCode(), nil
	}
	return output.String(), 0, err
}

// Read returns a file's content without white space at its ends.
func (Machine) Read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

// Write writes a text to a file that exists.
func (Machine) Write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// ReadRoot reads a file of the machine's root folder.
func (m Machine) ReadRoot(path string) (string, error) { return m.Read(filepath.Join(m.Root, path)) }

// WriteRoot writes a file of the machine's root folder, whole or not at all.
func (m Machine) WriteRoot(path, text string) error {
	path = filepath.Join(m.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	written := path + ".new"
	if err := os.WriteFile(written, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(written, path)
}

// List returns the names in a folder, sorted; none if there is no such folder.
func (Machine) List(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// Link returns where a symbolic link leads.
func (Machine) Link(path string) (string, error) { return os.Readlink(path) }

// Reaches connects, and closes the connection.
func (Machine) Reaches(ctx context.Context, portal string) bool {
	dialer := net.Dialer{Timeout: reachTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", portal)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

// IsBusy opens a block device exclusively, which mounts and device mappers do too.
func (Machine) IsBusy(device string) (bool, error) {
	descriptor, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) {
		return false, nil // nobody has opened what cannot be opened any more
	}
	if err != nil {
		return false, err
	}
	return false, unix.Close(descriptor)
}
