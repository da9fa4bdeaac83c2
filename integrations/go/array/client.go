// Package array is a client of the array's REST interface (docs/rest.md).
//
// A request that failed on its way is sent again until the context ends: reads, PUT and DELETE because
// they are idempotent, POST because it carries an Idempotency-Key. The token is read from its file for
// every request, so that it can be changed at any time; it is in no error and in no log.
package array

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// attemptsMax is how often one request is sent at most.
	attemptsMax = 6
	// backoffFirst is the pause before the second attempt; each further one is twice as long.
	backoffFirst = 100 * time.Millisecond
	// answerBytesMax bounds what is read of one answer.
	answerBytesMax = 64 << 20
	// timeoutDefault is the time for a call whose caller set no deadline.
	timeoutDefault = 60 * time.Second
	// attemptTimeout is the time for one attempt, so that an array that does not answer leaves time
	// for another one.
	attemptTimeout = 20 * time.Second
)

// Options say where the array is, and who is asking.
type Options struct {
	// URL of the management interface, for example https://array:8443. Of an array with several
	// controllers those of each, separated by commas: one that is not reached is left for the next.
	URL string
	// TokenFile holds a token of the role operator.
	TokenFile string
	// Token is used instead of a file unless it is empty.
	Token string
	// CAFile holds certificates (PEM) that are trusted instead of the system's; empty for those.
	CAFile string
}

// Client asks the array. It may be used by many goroutines.
type Client struct {
	bases []*url.URL
	// current counts how often one was left: the next is asked.
	current   atomic.Uint32
	tokenFile string
	token     string
	http      *http.Client
}

// New makes a client; it does not connect. Errors: a URL that is none, a CA file without certificates,
// a URL of http: that leaves this machine, where anybody could read the token.
func New(options Options) (*Client, error) {
	bases, err := parseURLs(options.URL)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.MaxIdleConnsPerHost = 32
	transport.IdleConnTimeout = 20 * time.Second // the array closes after 30 s
	if options.CAFile != "" {
		pool, err := certificates(options.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Transport: transport, CheckRedirect: refuseRedirect}
	return &Client{bases: bases, tokenFile: options.TokenFile, token: options.Token, http: client}, nil
}

func parseURLs(list string) ([]*url.URL, error) {
	var bases []*url.URL
	for _, one := range strings.Split(list, ",") {
		one = strings.TrimSpace(one)
		base, err := url.Parse(strings.TrimSuffix(one, "/"))
		if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
			return nil, fmt.Errorf("array URL %q: give one such as https://array.example.org:8443", one)
		}
		if base.Scheme == "http" && !isLoopback(base.Hostname()) {
			return nil, fmt.Errorf("array URL %q: without TLS anybody on the way reads the token: use https", one)
		}
		bases = append(bases, base)
	}
	return bases, nil
}

// base is the URL that is asked now, and how often one was left before.
func (c *Client) base() (*url.URL, uint32) {
	count := c.current.Load()
	return c.bases[int(count)%len(c.bases)], count
}

// leave has the next URL asked, unless somebody else has left this one already.
func (c *Client) leave(count uint32) {
	c.current.CompareAndSwap(count, count+1)
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

func refuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("the array does not redirect; the URL leads somewhere else")
}

func certificates(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate (PEM)", file)
	}
	return pool, nil
}

// request is one thing that is asked of the array.
type request struct {
	method string
	// segments of the path behind /v1, not escaped.
	segments []string
	query    url.Values
	// body is sent as JSON unless it is nil.
	body any
	// etag goes into If-Match unless it is empty.
	etag string
	// onlyNew sends If-None-Match: *, so that nothing that is there is changed.
	onlyNew bool
}

// answer is what is of interest in it beside the body.
type answer struct {
	etag string
	// next is the key behind which the next page begins; empty on the last one.
	next string
}

// do sends a request until it is answered, and decodes the body into result unless that is nil.
func (c *Client) do(ctx context.Context, r request, result any) (answer, error) {
	if _, has := ctx.Deadline(); !has {
		limited, cancel := context.WithTimeout(ctx, timeoutDefault)
		defer cancel()
		ctx = limited
	}
	body, err := encoded(r.body)
	if err != nil {
		return answer{}, err
	}
	key := idempotencyKey(r.method)
	backoff := backoffFirst
	for attempt := 1; ; attempt++ {
		got, err := c.attempt(ctx, r, body, key, result)
		pause, again := retry(err)
		if err == nil || !again || attempt == attemptsMax || ctx.Err() != nil {
			return got, causeOf(ctx, err)
		}
		if err := Sleep(ctx, max(pause, backoff)); err != nil {
			return answer{}, err
		}
		backoff *= 2
	}
}

func encoded(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	return json.Marshal(body)
}

func idempotencyKey(method string) string {
	if method != http.MethodPost {
		return ""
	}
	random := make([]byte, 16)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// causeOf prefers the end of the context to what it made of the connection.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// retry says whether another attempt may succeed, and how long the array wants it to wait.
func retry(err error) (time.Duration, bool) {
	if err == nil {
		return 0, false
	}
	var problem *Problem
	if errors.As(err, &problem) {
		busy := problem.Status == http.StatusServiceUnavailable || problem.Status == http.StatusTooManyRequests ||
			problem.Status == http.StatusRequestTimeout || problem.IsOf("key-under-way")
		return problem.RetryAfter, busy
	}
	var unreachable *UnreachableError
	return 0, errors.As(err, &unreachable)
}

// Sleep waits for that long, or until the context ends (its error).
func Sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (c *Client) attempt(ctx context.Context, r request, body []byte, key string, result any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	base, count := c.base()
	message, err := c.message(ctx, base, r, body, key)
	if err != nil {
		return answer{}, err
	}
	response, err := c.http.Do(message)
	if err != nil {
		c.leave(count)
		return answer{}, &UnreachableError{URL: base.Redacted(), Cause: innermost(err)}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		c.leave(count)
		return answer{}, &UnreachableError{URL: base.Redacted(), Cause: err}
	}
	if response.StatusCode >= 300 {
		return answer{}, problemOf(response, text)
	}
	if result != nil {
		if err := json.Unmarshal(text, result); err != nil {
			return answer{}, fmt.Errorf("%s %s: the answer is not that of a Gantry array: %w", r.method, message.URL.Path, err)
		}
	}
	return answer{etag: response.Header.Get("ETag"), next: nextPage(response.Header.Get("Link"))}, nil
}

// innermost leaves out the URL that net/http puts before an error.
func innermost(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func (c *Client) message(ctx context.Context, base *url.URL, r request, body []byte, key string) (*http.Request, error) {
	token, err := c.secret()
	if err != nil {
		return nil, &TokenError{Cause: err}
	}
	target := base.JoinPath("v1").JoinPath(escaped(r.segments)...)
	target.RawQuery = r.query.Encode()
	message, err := http.NewRequestWithContext(ctx, r.method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	message.Header.Set("Authorization", "Bearer "+token)
	message.Header.Set("Accept", "application/json")
	if body != nil {
		message.Header.Set("Content-Type", "application/json")
	}
	if r.etag != "" {
		message.Header.Set("If-Match", r.etag)
	}
	if r.onlyNew {
		message.Header.Set("If-None-Match", "*")
	}
	if key != "" {
		message.Header.Set("Idempotency-Key", key)
	}
	return message, nil
}

func escaped(segments []string) []string {
	escaped := make([]string, len(segments))
	for index, segment := range segments {
		escaped[index] = url.PathEscape(segment)
	}
	return escaped
}

// secret is the token that was given, or that is in its file now.
func (c *Client) secret() (string, error) {
	if c.token != "" {
		return oneLine(c.token, "what was given")
	}
	text, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return "", err
	}
	return oneLine(string(text), c.tokenFile)
}

func oneLine(text, place string) (string, error) {
	secret := strings.TrimSpace(text)
	if secret == "" || strings.ContainsAny(secret, " \r\n\t") {
		return "", fmt.Errorf("%s does not hold one line with a token", place)
	}
	return secret, nil
}

// nextPage takes the key out of </v1/volumes?after=KEY&...>; rel="next".
func nextPage(link string) string {
	target, _, found := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	if !found {
		return ""
	}
	parsed, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return parsed.Query().Get("after")
}

func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
