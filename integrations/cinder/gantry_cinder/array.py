# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Client of the REST interface of a Gantry array (docs/rest.md).

A request that failed on its way is sent again until its time is over: GET, PUT, PATCH and DELETE because a
repetition does the same, POST because it carries an Idempotency-Key. The token is in no error and no log.
"""

import time
import uuid
from urllib.parse import parse_qs, quote, urlsplit

import requests

TYPE_PREFIX = "urn:gantry:problem:"
# Seconds for one attempt, so that an array that hangs leaves time for another one.
ATTEMPT_SECONDS = 20
# Seconds before the second attempt; each further one is twice as long, up to the second figure.
BACKOFF_FIRST = 0.1
BACKOFF_MAX = 2.0
# Seconds for which a change is tried again that does not go beside another one that is under way.
CONFLICT_SECONDS = 5
# Elements of one page of a list.
PAGE = 1000
# Connections that are kept for requests at the same time.
CONNECTIONS = 16


class ArrayError(Exception):
    """What keeps the driver from asking: an option, the network, or something that is no array."""


class Unreachable(ArrayError):
    """The array was not reached, or its answer did not arrive."""


class Problem(Exception):
    """A refusal of the array (RFC 9457)."""

    def __init__(self, status, body, retry_after=0):
        super().__init__(body.get("detail") or "status %d" % status)
        self.status = status
        self.body = body
        self.retry_after = retry_after
        # Whether an earlier attempt of the same request may have been carried out.
        self.resent = False

    @property
    def type(self):
        return str(self.body.get("type", ""))[len(TYPE_PREFIX):]

    def is_of(self, *names):
        return self.type in names

    def may_pass(self):
        """Whether the same request may succeed in a moment."""
        return self.status in (408, 429, 503) or self.is_of("key-under-way")


class Connection:
    """Where the array is, and how the driver shows who it is.

    Of an array with several controllers `url` names each, separated by commas: one that does not answer is left for
    the next.
    """

    def __init__(self, url, read_token, ca_file=None, seconds=60):
        self.urls = [checked_url(one.strip()) for one in url.split(",")]
        # How often one was left.
        self.left = 0
        # Asked before each request, so that a token that is replaced needs no restart.
        self.read_token = read_token
        self.ca_file = ca_file
        self.seconds = seconds

    def current(self):
        """The address that is asked now, and how often one was left before."""
        return self.urls[self.left % len(self.urls)], self.left

    def leave(self, left):
        """Has the next address asked, unless somebody else has left this one already."""
        if self.left == left:
            self.left = left + 1


def checked_url(url):
    """The address without a slash at its end; ArrayError if nobody should be asked there."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port
    except ValueError as error:
        raise ArrayError("'%s': %s: give one such as https://array.example.org:8443" % (url, error)) from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise ArrayError("'%s': give one such as https://array.example.org:8443" % url)
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    if parts.scheme == "http" and not loopback:
        raise ArrayError("'%s': without TLS anybody on the way reads the token: use https" % url)
    return url.rstrip("/")


class Array:
    """Asks one array. Refusals are raised as Problem, everything else as ArrayError."""

    def __init__(self, connection):
        self.connection = connection
        self.session = requests.Session()
        # Neither proxies nor ~/.netrc of the service's user: the token goes to the array alone.
        self.session.trust_env = False
        self.session.verify = connection.ca_file or True
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=CONNECTIONS)
        self.session.mount("https://", adapter)
        self.session.mount("http://", adapter)

    def get(self, *segments):
        """The object and its ETag, or None twice if the array has none of that name."""
        try:
            body, headers = self._send("GET", segments)
            return body, headers.get("ETag")
        except Problem as problem:
            if problem.is_of("not-found", "is-snapshot", "is-volume"):
                return None, None
            raise

    def list(self, collection, **query):
        """All elements of a collection that fit the query, page by page."""
        elements = []
        query = dict(query, limit=PAGE)
        while True:
            page, headers = self._send("GET", (collection,), query=query)
            elements.extend(page)
            after = next_page(headers)
            if after is None:
                return elements
            query["after"] = after

    def post(self, segments, body=None):
        return self._send("POST", segments, body)[0]

    def put(self, segments, body=None, etag=None):
        return self._send("PUT", segments, body, etag)[0]

    def patch(self, segments, body=None, etag=None):
        return self._send("PATCH", segments, body, etag)[0]

    def delete(self, segments, etag=None):
        return self._send("DELETE", segments, None, etag)[0]

    def _send(self, method, segments, body=None, etag=None, query=None):
        path = "/".join(["", "v1"] + [quote(segment, safe="") for segment in segments])
        headers = {"Accept": "application/json"}
        if etag:
            headers["If-Match"] = etag
        if method == "POST":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        start = time.monotonic()
        end = start + self.connection.seconds
        backoff = BACKOFF_FIRST
        unanswered = False
        while True:
            where, left = self.connection.current()
            try:
                return self._attempt(method, where, path, headers, body, query, end)
            except Problem as problem:
                pause = max(backoff, problem.retry_after)
                problem.resent = unanswered
                in_the_way = problem.is_of("conflict") and time.monotonic() < start + CONFLICT_SECONDS
                if not (problem.may_pass() or in_the_way) or time.monotonic() + pause >= end:
                    raise
                if in_the_way and method == "POST":
                    # The array keeps the refusal under the key that it came with.
                    headers["Idempotency-Key"] = uuid.uuid4().hex
            except Unreachable:
                self.connection.leave(left)
                unanswered = True
                pause = backoff
                if time.monotonic() + pause >= end:
                    raise
            time.sleep(pause)
            backoff = min(2 * backoff, BACKOFF_MAX)

    def _attempt(self, method, where, path, headers, body, query, end):
        url = where + path
        seconds = max(1, min(ATTEMPT_SECONDS, end - time.monotonic()))
        headers = dict(headers, Authorization="Bearer " + self.connection.read_token())
        try:
            answer = self.session.request(method, url, headers=headers, json=body, params=query,
                                          timeout=seconds, allow_redirects=False)
        except requests.exceptions.SSLError as error:
            raise ArrayError("the array at %s is not trusted: %s: name its certificate in gantry_ca_file"
                             % (where, reason_of(error))) from None
        except (requests.exceptions.RequestException, OSError) as error:
            raise Unreachable("the array at %s does not answer: %s" % (where, reason_of(error))) from None
        if answer.status_code >= 300:
            raise refusal(method, url, answer, where)
        try:
            return answer.json(), answer.headers
        except ValueError:
            raise ArrayError("%s %s was answered by something that is no Gantry array" % (method, url)) from None


def reason_of(error):
    """The innermost cause of an error of requests, without the addresses of objects in memory."""
    while True:
        inner = getattr(error, "reason", None) or (error.args[0] if error.args else None)
        if not isinstance(inner, Exception):
            return str(error) or type(error).__name__
        error = inner


def refusal(method, url, answer, where):
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or not str(body.get("type", "")).startswith(TYPE_PREFIX):
        if answer.status_code in (502, 503, 504):
            return Unreachable("the array at %s does not answer: status %d" % (where, answer.status_code))
        return ArrayError("%s %s was answered with status %d by something that is no Gantry array"
                          % (method, url, answer.status_code))
    text = answer.headers.get("Retry-After", "0")
    return Problem(answer.status_code, body, int(text) if text.isdigit() else 0)


def next_page(headers):
    """The key behind which the next page begins, out of </v1/volumes?after=KEY>; rel="next"."""
    link = headers.get("Link")
    if not link or 'rel="next"' not in link:
        return None
    target = link[link.find("<") + 1:link.find(">")]
    return parse_qs(urlsplit(target).query, keep_blank_values=True).get("after", [None])[0]
