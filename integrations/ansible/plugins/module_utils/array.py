# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Client of the REST interface of a Gantry array (docs/rest.md).

A request that failed on its way is sent again until its time is over: GET, PUT, PATCH and DELETE because a
repetition does the same, POST because it carries an Idempotency-Key. The token is in no error.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import uuid
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from ansible.module_utils.basic import env_fallback
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.urls import ConnectionError as UrlsConnectionError, Request, SSLValidationError

TYPE_PREFIX = "urn:gantry:problem:"
# Seconds for one attempt, so that an array that hangs leaves time for another one.
ATTEMPT_SECONDS = 20
# Seconds before the second attempt; each further one is twice as long, up to the second figure.
BACKOFF_FIRST = 0.1
BACKOFF_MAX = 2.0
# Most bytes of one answer.
ANSWER_BYTES_MAX = 64 << 20
# Stands for the ETag of an object that is not there.
NONE_YET = "none yet"
# Elements of one page of a list.
PAGE = 1000

CONNECTION_OPTIONS = dict(
    url=dict(type="str", required=True, fallback=(env_fallback, ["GANTRY_URL"])),
    token=dict(type="str", no_log=True, fallback=(env_fallback, ["GANTRY_TOKEN"])),
    token_file=dict(type="path", no_log=False, fallback=(env_fallback, ["GANTRY_TOKEN_FILE"])),
    ca_path=dict(type="path", fallback=(env_fallback, ["GANTRY_CA"])),
    timeout=dict(type="int", default=60),
)


class ArrayError(Exception):
    """What keeps the module from asking: an option, the network, or something that is no array."""


class Problem(Exception):
    """A refusal of the array (RFC 9457)."""

    def __init__(self, status, body, retry_after):
        super().__init__(body.get("detail") or "status %d" % status)
        self.status = status
        self.body = body
        self.retry_after = retry_after
        # Whether an earlier attempt of the same request may have been carried out.
        self.resent = False

    @property
    def type(self):
        return to_text(self.body.get("type", ""))[len(TYPE_PREFIX):]

    def is_of(self, *names):
        return self.type in names

    def may_pass(self):
        """Whether the same request may succeed in a moment."""
        return self.status in (408, 429, 503) or self.is_of("key-under-way")


class Unreachable(ArrayError):
    """The array was not reached, or its answer did not arrive."""


def read_token(params):
    """The token of the options; ArrayError says what is wrong with it."""
    token = params["token"]
    if not token and not params["token_file"]:
        raise ArrayError("no token: give 'token' or 'token_file', or set GANTRY_TOKEN or GANTRY_TOKEN_FILE")
    if not token:
        try:
            with open(params["token_file"], encoding="utf-8") as file:
                token = file.readline()
        except (OSError, UnicodeDecodeError) as error:
            raise ArrayError("the token cannot be read from token_file: %s" % error) from error
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ArrayError("the token is not one word of ASCII characters: see how it was written")
    return token


def checked_url(url):
    """The address without a slash at its end; ArrayError if nobody should be asked there."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port
    except ValueError as error:
        raise ArrayError("url '%s': %s: give one such as https://array.example.org:8443" % (url, error)) from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise ArrayError("url '%s': give one such as https://array.example.org:8443" % url)
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    if parts.scheme == "http" and not loopback:
        raise ArrayError("url '%s': without TLS anybody on the way reads the token: use https" % url)
    return url.rstrip("/")


class Array:
    """Asks one array. Refusals are raised as Problem, everything else as ArrayError."""

    def __init__(self, params):
        self.url = checked_url(params["url"])
        if not 1 <= params["timeout"] <= 3600:
            raise ArrayError("timeout: 1 to 3600 seconds")
        self.seconds = params["timeout"]
        if params["ca_path"] and not os.path.isfile(params["ca_path"]):
            raise ArrayError("ca_path: there is no file '%s'" % params["ca_path"])
        self.http = Request(
            use_proxy=False,
            follow_redirects="none",
            ca_path=params["ca_path"],
            use_netrc=False,
            headers={"Authorization": "Bearer " + read_token(params), "Accept": "application/json"},
        )

    def get(self, *segments):
        """The object and its ETag, or None twice if the array has none of that name."""
        try:
            return self.request("GET", segments)
        except Problem as problem:
            if problem.is_of("not-found", "is-snapshot", "is-volume"):
                return None, None
            raise

    def list(self, collection, query=None):
        """All elements of a collection that fit the query, page by page."""
        elements = []
        after = None
        while True:
            asked = dict(query or {}, limit=PAGE)
            if after is not None:
                asked["after"] = after
            page, after = self._send("GET", (collection,), asked, None, None, next_page)
            elements.extend(page)
            if after is None:
                return elements

    def request(self, method, segments, body=None, etag=None, query=None):
        """The answer's body and ETag. An etag of NONE_YET makes what is not there."""
        return self._send(method, segments, query, body, etag, lambda headers: headers.get("ETag"))

    def _send(self, method, segments, query, body, etag, of_headers):
        url = "/".join([self.url, "v1"] + [quote(segment, safe="") for segment in segments])
        if query:
            url += "?" + urlencode(query, doseq=True)
        headers = {}
        if etag is NONE_YET:
            headers["If-None-Match"] = "*"
        elif etag:
            headers["If-Match"] = etag
        if method == "POST":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        end = time.monotonic() + self.seconds
        backoff = BACKOFF_FIRST
        unanswered = False
        while True:
            try:
                return self._attempt(method, url, data, headers, of_headers, end)
            except Problem as problem:
                pause = max(backoff, problem.retry_after)
                problem.resent = unanswered
                if not problem.may_pass() or time.monotonic() + pause >= end:
                    raise
            except Unreachable:
                unanswered = True
                pause = backoff
                if time.monotonic() + pause >= end:
                    raise
            time.sleep(pause)
            backoff = min(2 * backoff, BACKOFF_MAX)

    def _attempt(self, method, url, data, headers, of_headers, end):
        seconds = max(1, min(ATTEMPT_SECONDS, end - time.monotonic()))
        try:
            response = self.http.open(method, url, data=data, headers=headers, timeout=seconds)
            text = response.read(ANSWER_BYTES_MAX + 1)
        except HTTPError as refusal:
            raise self._problem(method, url, refusal) from None
        except (SSLValidationError, ssl.SSLCertVerificationError) as error:
            raise ArrayError("the array at %s is not trusted: %s: name its certificate in ca_path" % (self.url, error)) from error
        except (OSError, http.client.HTTPException, UrlsConnectionError) as error:
            cause = getattr(error, "reason", error)
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise ArrayError("the array at %s is not trusted: %s: name its certificate in ca_path" % (self.url, cause)) from error
            raise Unreachable("the array at %s does not answer: %s" % (self.url, cause or type(error).__name__)) from error
        if len(text) > ANSWER_BYTES_MAX:
            raise ArrayError("%s %s: the answer is larger than any of a Gantry array" % (method, url))
        try:
            return json.loads(text), of_headers(response.headers)
        except ValueError as error:
            raise ArrayError("%s %s was answered by something that is no Gantry array: %s" % (method, url, error)) from error

    def _problem(self, method, url, refusal):
        try:
            body = json.loads(refusal.read(ANSWER_BYTES_MAX))
        except (OSError, http.client.HTTPException, ValueError):
            body = None
        if not isinstance(body, dict) or not to_text(body.get("type", "")).startswith(TYPE_PREFIX):
            if refusal.code in (502, 503, 504):
                return Unreachable("the array at %s does not answer: status %d" % (self.url, refusal.code))
            return ArrayError("%s %s was answered with status %d by something that is no Gantry array" % (method, url, refusal.code))
        try:
            retry_after = max(0, int(refusal.headers.get("Retry-After", "0")))
        except ValueError:
            retry_after = 0
        return Problem(refusal.code, body, retry_after)


def next_page(headers):
    """The key behind which the next page begins, out of </v1/volumes?after=KEY>; rel="next"."""
    link = headers.get("Link")
    if not link or 'rel="next"' not in link:
        return None
    target = link[link.find("<") + 1:link.find(">")]
    return parse_qs(urlsplit(target).query, keep_blank_values=True).get("after", [None])[0]
