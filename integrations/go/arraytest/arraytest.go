// Package arraytest starts a real gantryd for tests, with a pool and a token of the role operator.
package arraytest

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gantry.io/go/array"
)

const (
	// memoryFolder is a file system in memory.
	memoryFolder = "/dev/shm"
	// memoryLeast is what it must have left, in bytes.
	memoryLeast = 4 << 30
)

// startTimeout is generous: the machine may be busy.
const startTimeout = 60 * time.Second

// Array is a running gantryd.
type Array struct {
	// Folder has its data and files.
	Folder string
	// URL of its management interface, Portal of its target.
	URL, Portal string
	// TokenFile holds a token of the role operator.
	TokenFile string

	t       testing.TB
	words   []string
	process *exec.Cmd
}

// Start starts a daemon in a folder of the test, with a pool 'p' of so many bytes, as gantry writes them.
// It needs GANTRY_BIN_DIR, the folder with gantryd and gantry.
// Further words go to gantryd.
func Start(t testing.TB, poolSize string, words ...string) *Array {
	t.Helper()
	if os.Getenv("GANTRY_BIN_DIR") == "" {
		t.Fatal("GANTRY_BIN_DIR names the folder with gantryd and gantry: 'cargo xtask test --integrations' sets it")
	}
	folder := quickFolder(t)
	a := &Array{Folder: folder, t: t, words: words,
		URL: "http://" + FreeAddress(t), Portal: FreeAddress(t), TokenFile: filepath.Join(folder, "token")}
	a.Resume()
	t.Cleanup(a.Stop)
	if poolSize != "" {
		a.Run("pool", "create", "p", "--device", "file:"+filepath.Join(folder, "p.img"), "--size", poolSize)
	}
	a.writeToken("operator", a.TokenFile)
	return a
}

// quickFolder lies in memory where there is room: the array makes every change durable, and these tests
// make thousands, on a disk that may be busy. Durability has tests of its own.
func quickFolder(t testing.TB) string {
	t.Helper()
	var found unix.Statfs_t
	if err := unix.Statfs(memoryFolder, &found); err != nil || int64(found.Bavail)*int64(found.Bsize) < memoryLeast {
		return t.TempDir()
	}
	folder, err := os.MkdirTemp(memoryFolder, "gantry-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// FreeAddress is an address of this machine on which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Resume starts the daemon, again if it was stopped.
func (a *Array) Resume() {
	a.t.Helper()
	log, err := os.OpenFile(filepath.Join(a.Folder, "gantryd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	words := []string{"--data", filepath.Join(a.Folder, "data"), "--iscsi", a.Portal,
		"--http", strings.TrimPrefix(a.URL, "http://"), "--memory", "256M"}
	a.process = exec.Command(binary("gantryd"), append(words, a.words...)...)
	a.process.Stdout, a.process.Stderr = log, log
	if err := a.process.Start(); err != nil {
		a.t.Fatal(err)
	}
	for deadline := time.Now().Add(startTimeout); ; {
		connection, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
		if err == nil {
			connection.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			a.t.Fatalf("gantryd does not answer: %s", text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Stop ends the daemon.
func (a *Array) Stop() {
	if a.process == nil {
		return
	}
	a.process.Process.Signal(os.Interrupt)
	a.process.Wait()
	a.process = nil
}

// Kill ends the daemon as a crash does.
func (a *Array) Kill() {
	a.process.Process.Kill()
	a.process.Wait()
	a.process = nil
}

// Run runs the command line over the daemon's socket, and returns what it printed.
func (a *Array) Run(words ...string) string {
	a.t.Helper()
	command := exec.Command(binary("gantry"), append([]string{"--data", filepath.Join(a.Folder, "data")}, words...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		a.t.Fatalf("gantry %s: %v: %s", strings.Join(words, " "), err, output)
	}
	return string(output)
}

// Token makes a token of a role and returns its file.
func (a *Array) Token(role string) string {
	file := filepath.Join(a.Folder, "token-"+role)
	a.writeToken(role, file)
	return file
}

func (a *Array) writeToken(role, file string) {
	a.t.Helper()
	made := struct {
		Secret string `json:"secret"`
	}{}
	if err := json.Unmarshal([]byte(a.Run("--json", "token", "create", "csi-"+role, "--role", role)), &made); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(made.Secret+"\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// Client asks the daemon with the operator's token.
func (a *Array) Client() *array.Client {
	a.t.Helper()
	client, err := array.New(array.Options{URL: a.URL, TokenFile: a.TokenFile})
	if err != nil {
		a.t.Fatal(err)
	}
	return client
}

func binary(name string) string { return filepath.Join(os.Getenv("GANTRY_BIN_DIR"), name) }
