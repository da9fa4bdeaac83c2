package controller

import (
	"context"
	"time"
)

// pauseTime is how long somebody waits who finds a host being made.
const pauseTime = 10 * time.Millisecond

func pause(ctx context.Context) error {
	timer := time.NewTimer(pauseTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
