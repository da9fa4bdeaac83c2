package controller

import (
	"context"
	"time"

	"gantry.io/go/array"
)

const (
	// pauseFirst is the time before the second attempt at a change; each further one is twice as long.
	pauseFirst = 5 * time.Millisecond
	// pauseMax bounds it.
	pauseMax = 300 * time.Millisecond
)

// pause waits before a change is tried again that another one came before. The array counts a change
// that it is still saving as done when it compares, and does not show it yet; so looking again at once
// would find the same.
func pause(ctx context.Context, attempt int) error {
	length := pauseMax
	if attempt < 8 {
		length = min(pauseMax, pauseFirst<<attempt)
	}
	return array.Sleep(ctx, length)
}
