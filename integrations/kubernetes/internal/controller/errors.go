package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.io/go/array"
)

// codeOfType has the gRPC code of those types of problems for which the HTTP status says too little.
var codeOfType = map[string]codes.Code{
	"pool-full":         codes.ResourceExhausted,
	"no-space-below":    codes.ResourceExhausted,
	"no-space-to-share": codes.ResourceExhausted,
	"luns-exhausted":    codes.ResourceExhausted,
	"too-many":          codes.ResourceExhausted,
	"name-taken":        codes.AlreadyExists,
	"pool-unavailable":  codes.Unavailable,
	"pool-not-open":     codes.Unavailable,
	"luns-unknown":      codes.Unavailable,
	"key-under-way":     codes.Aborted,
	"conflict":          codes.Aborted,
}

// codeOfStatus has the gRPC code of every other answer.
var codeOfStatus = map[int]codes.Code{
	http.StatusBadRequest:          codes.InvalidArgument,
	http.StatusUnauthorized:        codes.Unauthenticated,
	http.StatusForbidden:           codes.PermissionDenied,
	http.StatusNotFound:            codes.NotFound,
	http.StatusConflict:            codes.FailedPrecondition,
	http.StatusPreconditionFailed:  codes.Aborted,
	http.StatusTooManyRequests:     codes.Unavailable,
	http.StatusRequestTimeout:      codes.Unavailable,
	http.StatusServiceUnavailable:  codes.Unavailable,
	http.StatusInternalServerError: codes.Internal,
}

// grpcError gives an error of the array the code by which a container orchestrator decides whether to
// repeat the call. Errors that have a code keep it.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, has := status.FromError(err); has {
		return err
	}
	return status.Error(codeOf(err), message(err))
}

func codeOf(err error) codes.Code {
	var problem *array.Problem
	var unreachable *array.UnreachableError
	var token *array.TokenError
	switch {
	case errors.As(err, &problem):
		return codeOfProblem(problem)
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.As(err, &unreachable):
		return codes.Unavailable
	case errors.As(err, &token):
		return codes.Unauthenticated
	default:
		return codes.Internal
	}
}

func codeOfProblem(problem *array.Problem) codes.Code {
	for name, code := range codeOfType {
		if problem.IsOf(name) {
			return code
		}
	}
	if code, known := codeOfStatus[problem.Status]; known {
		return code
	}
	return codes.Internal
}

// message adds what an administrator of Kubernetes can do where the array's sentence is for others.
func message(err error) string {
	switch codeOf(err) {
	case codes.Unauthenticated:
		return fmt.Sprintf("%v (the driver's token: 'gantry token create NAME --role operator' makes one; put it into the driver's Secret)", err)
	case codes.PermissionDenied:
		return fmt.Sprintf("%v (the driver's token needs the role operator)", err)
	default:
		return err.Error()
	}
}
