package initiator

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// System is what the initiator does to the machine: programs, sysfs, device files.
type System interface {
	// Run runs a program and returns what it printed and its exit status; an error if it could not run.
	Run(ctx context.Context, program string, arguments ...string) (output string, status int, err error)
	// Read returns a file's content without white space at its ends.
	Read(path string) (string, error)
	// Write writes a text to a file that exists, as sysfs wants it.
	Write(path, text string) error
	// List returns the names in a folder, sorted; none if there is no such folder.
	List(path string) ([]string, error)
	// Link returns where a symbolic link leads.
	Link(path string) (string, error)
	// IsBusy says whether somebody uses a block device: a mount, a device mapper, an exclusive opener.
	IsBusy(device string) (bool, error)
}

// Machine is the real system.
type Machine struct {
	// Prefix stands before the name of every program, for example chroot /host; empty for none.
	Prefix []string
}

// Run runs a program. Its arguments may hold a CHAP secret and are in no error.
func (m Machine) Run(ctx context.Context, program string, arguments ...string) (string, int, error) {
	words := append(append(append([]string{}, m.Prefix...), program), arguments...)
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
