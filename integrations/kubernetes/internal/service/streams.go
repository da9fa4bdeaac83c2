package service

import (
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// logStream writes how a stream ended and how long it took. A stream has no deadline but its caller's:
// it lasts as long as its caller takes what is sent.
func logStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	started := time.Now()
	err := handler(server, stream)
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	attributes := []any{"method", method, "milliseconds", time.Since(started).Milliseconds()}
	if err != nil {
		attributes = append(attributes, "code", status.Code(err).String(), "error", status.Convert(err).Message())
		slog.Warn("stream failed", attributes...)
		return err
	}
	slog.Debug("stream", attributes...)
	return nil
}
