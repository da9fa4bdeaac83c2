package array

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// typePrefix stands before the name of every type of problem (docs/rest.md, 'Types of problems').
const typePrefix = "urn:gantry:problem:"

// Problem is a refusal of the array (RFC 9457).
type Problem struct {
	// Type is the URN of the problem; programs decide by it, see IsOf.
	Type string `json:"type"`
	// Status is the HTTP status, 300 to 599.
	Status int `json:"status"`
	// Detail says to people what to do.
	Detail string `json:"detail"`
	// RetryAfter is how long the array wants the caller to wait; zero if it did not say.
	RetryAfter time.Duration `json:"-"`
}

// Error is the sentence of the array.
func (p *Problem) Error() string {
	return p.Detail
}

// IsOf says whether it is one of the named types, without their prefix.
func (p *Problem) IsOf(names ...string) bool {
	for _, name := range names {
		if p.Type == typePrefix+name {
			return true
		}
	}
	return false
}

// IsProblem says whether an error is a refusal of one of these types.
func IsProblem(err error, names ...string) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.IsOf(names...)
}

// UnreachableError says that the array was not reached, or its answer did not arrive.
type UnreachableError struct {
	// URL of the array.
	URL string
	// Cause is what the network said.
	Cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the array at %s does not answer: %v", e.URL, e.Cause)
}

func (e *UnreachableError) Unwrap() error { return e.Cause }

// TokenError says that there is no token to show.
type TokenError struct {
	// Cause is what happened to its file; the token is not in it.
	Cause error
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("the token for the array cannot be read: %v", e.Cause)
}

func (e *TokenError) Unwrap() error { return e.Cause }

// problemOf reads a refusal; what something else than an array answered keeps its status.
func problemOf(response *http.Response, text []byte) error {
	problem := &Problem{}
	if err := json.Unmarshal(text, problem); err != nil || !strings.HasPrefix(problem.Type, typePrefix) {
		problem = &Problem{Detail: fmt.Sprintf("%s %s was answered with status %s by something that is no Gantry array",
			response.Request.Method, response.Request.URL.Path, response.Status)}
	}
	problem.Status = response.StatusCode
	problem.RetryAfter = retryAfter(response.Header)
	return problem
}
