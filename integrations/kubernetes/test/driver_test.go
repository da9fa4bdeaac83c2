package test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"gantry.io/kubernetes-csi/internal/service"
)

var showCalls = flag.Bool("show-calls", false, "show the driver's log")

func TestMain(m *testing.M) {
	flag.Parse()
	if !*showCalls {
		slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	}
	os.Exit(m.Run())
}

// serve runs the driver's services in this process and returns their socket.
func serve(t *testing.T, plugin service.Plugin) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "gantry-csi") // the path of a socket has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "csi.sock")
	listener, err := service.Listen("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- service.Serve(ctx, listener, plugin) }()
	t.Cleanup(func() {
		stop()
		<-served
		os.RemoveAll(folder)
	})
	return socket
}

// connect waits for a driver that is being started, and comes back to one that was restarted.
func connect(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	quick := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond}
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}
