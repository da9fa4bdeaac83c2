#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: token
short_description: Tokens of a Gantry array
version_added: "0.1.0"
description:
  - Makes and deletes tokens, by which programs administer the array over the network.
  - Any token makes others, which allow no more than it, belong to its user, and end with it.
  - The array allows several tokens of one name; this module makes one of them, and deletes all of its user that it may delete.
options:
  name:
    description: What it is for.
    type: str
    required: true
  role:
    description: What it allows. Needed for a new token. Of a token that is there it cannot be changed.
    type: str
    choices: [viewer, operator, admin]
  expires_in_days:
    description: After how many days a new token ends, 1 to 3,650. When left out it does not end by itself.
    type: int
extends_documentation_fragment:
  - gantry.array.connection
  - gantry.array.change
author:
  - The Gantry maintainers (@gantry-array)
"""

EXAMPLES = r"""
- name: Have a token for monitoring
  gantry.array.token:
    name: monitoring
    role: viewer
    expires_in_days: 90
  register: made
  no_log: true

- name: Keep it, for the array shows it once
  ansible.builtin.copy:
    content: "{{ made.secret }}\n"
    dest: /etc/monitoring/gantry-token
    mode: "0600"
  when: made.secret is defined
  no_log: true
"""

RETURN = r"""
token:
  description: The token as the array shows it, without its secret.
  returned: when it is there
  type: dict
  sample:
    id: 28f0fb322a4535f1
    name: monitoring
    role: viewer
secret:
  description: What a program shows. It is told once; use C(no_log) with the task.
  returned: when the token was made
  type: str
status:
  description: The HTTP status of a refusal.
  returned: when the array refused
  type: int
problem:
  description: The refusal as the array told it; its RV(ignore:type) is for programs.
  returned: when the array refused
  type: dict
"""

import time

from ansible_collections.gantry.array.plugins.module_utils.array import ArrayError, Problem
from ansible_collections.gantry.array.plugins.module_utils.converge import Resource, manage, new_module


class Token(Resource):
    kind = "token"

    def __init__(self, module, array):
        super().__init__(module, array)
        self.secret = None

    def _all(self):
        me, etag = self.array.request("GET", ("me",))
        # The filter of the array takes '*' for any characters, which a token's name never has.
        if "*" in self.params["name"]:
            raise ArrayError("'%s' is no name of a token" % self.params["name"])
        found = self.array.list("tokens", dict(name=self.params["name"]))
        now = time.time()
        return [token for token in found if token["user"] == me["user"] and (token["expires"] is None or token["expires"] > now)]

    def find(self):
        found = self._all()
        role = self.params["role"]
        of_role = [token for token in found if role in (None, token["role"])]
        if found and not of_role and self.params["state"] == "present":
            raise ArrayError("token '%s' has the role %s, which cannot be changed: delete it first" % (self.params["name"], found[0]["role"]))
        return ((of_role or found or [None])[0], None)

    def shown(self, found):
        return dict(role=found["role"])

    def wanted(self, found):
        if found is None and self.params["role"] is None:
            raise ArrayError("there is no token '%s': a new one needs 'role'" % self.params["name"])
        return self.given(role=self.params["role"])

    def create(self):
        body = dict(name=self.params["name"], role=self.params["role"], **self.given(expires_in_days=self.params["expires_in_days"]))
        made, etag = self.array.request("POST", ("tokens",), body)
        self.secret = made["secret"]

    def remove(self, found, etag):
        for token in self._all():
            try:
                self.array.request("DELETE", ("tokens", token["id"]))
            except Problem as problem:
                # One token ends with the one by which it was made.
                if not problem.is_of("not-found"):
                    raise

    def result(self, found):
        told = dict(token=found)
        if self.secret is not None:
            told["secret"] = self.secret
        return told


def main():
    module = new_module(
        dict(
            name=dict(type="str", required=True),
            role=dict(type="str", choices=["viewer", "operator", "admin"]),
            expires_in_days=dict(type="int"),
        )
    )
    manage(module, Token)


if __name__ == "__main__":
    main()
