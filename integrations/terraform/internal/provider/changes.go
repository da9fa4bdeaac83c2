package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"gantry.io/go/array"
)

const (
	// looksMax is how often one change is overtaken by others before it is given up.
	looksMax = 40
	// lookPause is between two looks.
	lookPause = 100 * time.Millisecond
)

// errGone says that there is no such object, and that the array can tell.
var errGone = errors.New("it is not there any more")

// access is how resources and data sources reach the array.
type access struct {
	client *array.Client
	// patience is how long one step waits for an array that does not answer, or whose pool is not open.
	patience time.Duration
}

// connect takes over the provider's access; there is none while terraform only validates.
func (a *access) connect(data any) {
	if given, is := data.(access); is {
		*a = given
	}
}

// connected is what every resource has.
type connected struct{ access }

func (c *connected) Configure(_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	c.connect(request.ProviderData)
}

// refused tells of a refusal in the words of the array, which say what to do.
func refused(diagnostics *diag.Diagnostics, what string, err error) {
	diagnostics.AddError(what, err.Error())
}

// versioned looks at an object and changes it under the ETag of that look; it looks again when somebody
// else came between. A look that finds nothing returns errGone.
func versioned[T any](ctx context.Context, look func(context.Context) (T, string, error), change func(T, string) error) error {
	for again := 1; ; again++ {
		found, etag, err := look(ctx)
		if err != nil {
			return err
		}
		err = change(found, etag)
		if !array.IsProblem(err, "changed", "not-there") || again == looksMax {
			return err
		}
		if err := array.Sleep(ctx, lookPause); err != nil {
			return err
		}
	}
}

// eventually repeats what the array cannot do now and may do soon: it does not answer, or a pool is
// being opened.
func (a *access) eventually(ctx context.Context, do func(context.Context) error) error {
	end := time.Now().Add(a.patience)
	for {
		err := do(ctx)
		var unreachable *array.UnreachableError
		waits := errors.As(err, &unreachable) || array.IsProblem(err, "pool-unavailable", "stopping", "not-ready", "busy")
		if !waits || time.Now().After(end) || array.Sleep(ctx, time.Second) != nil {
			return err
		}
	}
}

// seen looks until the array can tell.
func seen[T any](ctx context.Context, a *access, look func(context.Context) (T, string, error)) (found T, err error) {
	err = a.eventually(ctx, func(ctx context.Context) (err error) {
		found, _, err = look(ctx)
		return err
	})
	return found, err
}

// lost finds out whether an object that was not found is gone, or its pool is not open.
func lost(ctx context.Context, client *array.Client, pool string) error {
	found, err := client.ShowPool(ctx, pool)
	if array.IsProblem(err, "not-found") {
		return errGone
	}
	if err != nil {
		return err
	}
	if !found.IsOpen() {
		return &array.Problem{Type: "urn:gantry:problem:pool-unavailable",
			Detail: fmt.Sprintf("pool '%s' is not open, so nobody knows its volumes: see 'gantry pool show %s'", pool, pool)}
	}
	return errGone
}
