"""Requests to the REST interface of an array, with a token."""

import json
import urllib.error
import urllib.request


class Array:
    def __init__(self, url, token):
        self.url, self.token = url, token

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.url + "/v1" + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Bearer " + self.token)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError("%s %s: %s" % (method, path, error.read().decode())) from None

    def list(self, collection):
        return self.ask("GET", "/" + collection)
