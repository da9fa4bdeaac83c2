package gantry

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
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// managementPort is where an array serves its REST interface unless the address says otherwise.
	managementPort = "8443"
	// attemptsMax is how often one request is sent at most.
	attemptsMax = 6
	// backoffFirst is the pause before the second attempt; each further one is twice as long.
	backoffFirst = 200 * time.Millisecond
	// pauseMax bounds how long the array may ask to wait between two attempts.
	pauseMax = 30 * time.Second
	// attemptTimeout is the time for one attempt.
	attemptTimeout = 30 * time.Second
	// answerBytesMax bounds what is read of one answer.
	answerBytesMax = 16 << 20
	// problemPrefix stands before the name of every type of problem.
	problemPrefix = "urn:gantry:problem:"
)

// problem is a refusal of the array (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	retryAfter time.Duration
}

func (p *problem) Error() string {
	return fmt.Sprintf("%s (%s, status %d)", p.Detail, strings.TrimPrefix(p.Type, problemPrefix), p.Status)
}

// isProblem says whether an error is a refusal of one of the named types.
func isProblem(err error, names ...string) bool {
	var refusal *problem
	if !errors.As(err, &refusal) {
		return false
	}
	for _, name := range names {
		if refusal.Type == problemPrefix+name {
			return true
		}
	}
	return false
}

// unreachable says that a request was not answered.
type unreachable struct {
	url   string
	cause error
}

func (u *unreachable) Error() string {
	var distrust *tls.CertificateVerificationError
	if errors.As(u.cause, &distrust) {
		return fmt.Sprintf("the certificate of the array at %s is not trusted: put the array's tls.crt into the secret as %s: %v", u.url, CACertificateEnv, u.cause)
	}
	return fmt.Sprintf("the array at %s does not answer: %v", u.url, u.cause)
}

func (u *unreachable) Unwrap() error { return u.cause }

// client asks the REST interface of an array. A request that was not answered is sent again: GET, PUT
// and DELETE are idempotent, and POST carries an Idempotency-Key.
type client struct {
	base     *url.URL
	token    string
	username string
	password string
	http     *http.Client

	// login lets one goroutine at a time begin a session.
	login sync.Mutex
	// csrf is the text that goes with changes of a session; nil while there is none.
	csrf atomic.Pointer[string]
}

// newClient makes a client; it does not connect. A token goes before a user's name and password.
func newClient(address string, credentials Credentials) (*client, error) {
	base, err := baseURL(address)
	if err != nil {
		return nil, err
	}
	// A secret made from a file often ends with a line break.
	credentials.Token = strings.TrimSpace(credentials.Token)
	if credentials.Token == "" && (credentials.Username == "" || credentials.Password == "") {
		return nil, errors.New("the array wants a token of the role operator (STORAGE_TOKEN), or a user's name and password")
	}
	if strings.ContainsAny(credentials.Token, " \r\n\t") {
		return nil, errors.New("STORAGE_TOKEN is not one word")
	}
	trust, err := trustOf(credentials)
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trust
	transport.Proxy = nil // the array is in the storage network
	return &client{
		base: base, token: credentials.Token, username: credentials.Username, password: credentials.Password,
		http: &http.Client{Transport: transport, Jar: jar, Timeout: attemptTimeout, CheckRedirect: refuseRedirect},
	}, nil
}

func refuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("it redirects, which an array never does: the address leads somewhere else")
}

// baseURL completes 'array', 'array:8443' and 'https://array:8443'. Without TLS only this machine is
// reached, since anybody on the way could read the token.
func baseURL(address string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Hostname() == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, fmt.Errorf("storage hostname %q: give an address such as array.example.org or https://array.example.org:8443", address)
	}
	if base.Scheme == "http" && !isLoopback(base.Hostname()) {
		return nil, fmt.Errorf("storage hostname %q: without TLS anybody on the way reads the token: use https", address)
	}
	if base.Port() == "" {
		base.Host += ":" + managementPort
	}
	return base, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

func trustOf(credentials Credentials) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: credentials.SkipVerify}
	if credentials.CACertificate != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(credentials.CACertificate)) {
			return nil, fmt.Errorf("%s holds no certificate (PEM)", CACertificateEnv)
		}
	}
	return config, nil
}

// request is one thing that is asked of the array.
type request struct {
	method string
	// segments of the path behind /v1, not escaped.
	segments []string
	query    url.Values
	body     any
	// etag goes into If-Match unless it is empty.
	etag string
}

// do sends a request until it is answered, decodes the answer into result unless that is nil, and
// returns the answer's ETag.
func (c *client) do(ctx context.Context, r request, result any) (string, error) {
	var body []byte
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return "", err
		}
		body = text
	}
	key := make([]byte, 16)
	rand.Read(key) // never fails
	backoff := backoffFirst
	for attempt := 1; ; attempt++ {
		etag, err := c.authorized(ctx, r, body, hex.EncodeToString(key), result)
		pause, again := retry(err)
		if err == nil || !again || attempt == attemptsMax {
			return etag, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(min(max(pause, backoff), pauseMax)):
		}
		backoff *= 2
	}
}

// retry says whether another attempt may succeed, and how long the array wants it to wait.
func retry(err error) (time.Duration, bool) {
	var refusal *problem
	if errors.As(err, &refusal) {
		busy := refusal.Status == http.StatusServiceUnavailable || refusal.Status == http.StatusRequestTimeout ||
			isProblem(err, "key-under-way", "pool-unavailable")
		return refusal.retryAfter, busy
	}
	var silence *unreachable
	var distrust *tls.CertificateVerificationError
	return 0, errors.As(err, &silence) && !errors.As(err, &distrust)
}

// authorized sends a request with the token, or in a session that begins with the first request and
// anew when it has ended.
func (c *client) authorized(ctx context.Context, r request, body []byte, key string, result any) (string, error) {
	if c.token != "" {
		return c.attempt(ctx, r, body, key, result)
	}
	if err := c.ensureSession(ctx); err != nil {
		return "", err
	}
	etag, err := c.attempt(ctx, r, body, key, result)
	if isProblem(err, "not-logged-in") {
		c.csrf.Store(nil)
		if err := c.ensureSession(ctx); err != nil {
			return "", err
		}
		return c.attempt(ctx, r, body, key, result)
	}
	return etag, err
}

func (c *client) ensureSession(ctx context.Context) error {
	c.login.Lock()
	defer c.login.Unlock()
	if c.csrf.Load() != nil {
		return nil
	}
	body, err := json.Marshal(map[string]string{"user": c.username, "password": c.password})
	if err != nil {
		return err
	}
	begun := struct {
		Csrf string `json:"csrf"`
	}{}
	if _, err := c.attempt(ctx, request{method: http.MethodPost, segments: []string{"login"}}, body, "", &begun); err != nil {
		return err
	}
	c.csrf.Store(&begun.Csrf)
	return nil
}

func (c *client) attempt(ctx context.Context, r request, body []byte, key string, result any) (string, error) {
	message, err := c.message(ctx, r, body, key)
	if err != nil {
		return "", err
	}
	response, err := c.http.Do(message)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return "", &unreachable{url: c.base.Redacted(), cause: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return "", &unreachable{url: c.base.Redacted(), cause: err}
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return "", problemOf(response, text)
	}
	if result != nil {
		if err := json.Unmarshal(text, result); err != nil {
			return "", fmt.Errorf("%s %s: the answer is not that of a Gantry array: %w", r.method, message.URL.Path, err)
		}
	}
	return response.Header.Get("ETag"), nil
}

func (c *client) message(ctx context.Context, r request, body []byte, key string) (*http.Request, error) {
	escaped := make([]string, len(r.segments))
	for index, segment := range r.segments {
		escaped[index] = url.PathEscape(segment)
	}
	target := c.base.JoinPath("v1").JoinPath(escaped...)
	target.RawQuery = r.query.Encode()
	message, err := http.NewRequestWithContext(ctx, r.method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	message.Header.Set("Accept", "application/json")
	if c.token != "" {
		message.Header.Set("Authorization", "Bearer "+c.token)
	} else if csrf := c.csrf.Load(); csrf != nil {
		message.Header.Set("X-Gantry-Csrf", *csrf)
	}
	if body != nil {
		message.Header.Set("Content-Type", "application/json")
	}
	if r.etag != "" {
		message.Header.Set("If-Match", r.etag)
	}
	if r.method == http.MethodPost && key != "" {
		message.Header.Set("Idempotency-Key", key)
	}
	return message, nil
}

// problemOf reads a refusal; what something else than an array answered keeps its status.
func problemOf(response *http.Response, text []byte) error {
	refusal := &problem{}
	if err := json.Unmarshal(text, refusal); err != nil || !strings.HasPrefix(refusal.Type, problemPrefix) {
		refusal = &problem{Detail: fmt.Sprintf("%s was answered by something that is no Gantry array", response.Request.URL.Path)}
	}
	refusal.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		refusal.retryAfter = time.Duration(seconds) * time.Second
	}
	return refusal
}
