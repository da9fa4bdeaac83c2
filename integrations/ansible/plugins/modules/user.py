#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: user
short_description: Users of a Gantry array
version_added: "0.1.0"
description:
  - Creates, changes and deletes users, who administer the array over the network.
  - Needs a token of the role C(admin).
options:
  name:
    description: The user's name.
    type: str
    required: true
  role:
    description: What the user may do. Needed for a new user.
    type: str
    choices: [viewer, operator, admin]
  password:
    description: The password, 10 to 128 bytes. Needed for a new user.
    type: str
  update_password:
    description:
      - When the password is sent. The array never shows it, so a task cannot see whether it is the same.
      - V(on_create) sends it for a new user only; V(always) sends it every time, and the task is always changed.
    type: str
    choices: [always, on_create]
    default: on_create
  must_change_password:
    description: Whether a new user, or one whose password is set, must choose another one first.
    type: bool
    default: false
extends_documentation_fragment:
  - gantry.array.connection
  - gantry.array.change
author:
  - The Gantry maintainers (@gantry-array)
"""

EXAMPLES = r"""
- name: Have a user who sees everything and changes nothing
  gantry.array.user:
    name: monitor
    role: viewer
    password: "{{ vault_monitor_password }}"
"""

RETURN = r"""
user:
  description: The user as the array shows it, without the password.
  returned: when it is there
  type: dict
  sample:
    name: monitor
    role: viewer
    must_change_password: false
status:
  description: The HTTP status of a refusal.
  returned: when the array refused
  type: int
problem:
  description: The refusal as the array told it; its RV(ignore:type) is for programs.
  returned: when the array refused
  type: dict
"""

from ansible_collections.gantry.array.plugins.module_utils.array import ArrayError
from ansible_collections.gantry.array.plugins.module_utils.converge import Resource, manage, new_module


class User(Resource):
    kind = "user"

    def find(self):
        return self.array.get("users", self.params["name"])

    def shown(self, found):
        return dict(role=found["role"])

    def wanted(self, found):
        for option in ("role", "password"):
            if found is None and self.params[option] is None:
                raise ArrayError("there is no user '%s': a new one needs '%s'" % (self.params["name"], option))
        wanted = self.given(role=self.params["role"])
        if found is not None and self.params["password"] is not None and self.params["update_password"] == "always":
            wanted["password"] = "set anew"
        return wanted

    def create(self):
        names = ("name", "password", "role", "must_change_password")
        self.array.request("POST", ("users",), dict((name, self.params[name]) for name in names))

    def change(self, name, found, etag):
        body = {name: self.params[name]}
        if name == "password":
            body["must_change_password"] = self.params["must_change_password"]
        self.array.request("PATCH", ("users", found["name"]), body, etag)

    def remove(self, found, etag):
        self.array.request("DELETE", ("users", found["name"]), None, etag)


def main():
    module = new_module(
        dict(
            name=dict(type="str", required=True),
            role=dict(type="str", choices=["viewer", "operator", "admin"]),
            password=dict(type="str", no_log=True),
            update_password=dict(type="str", choices=["always", "on_create"], default="on_create", no_log=False),
            must_change_password=dict(type="bool", default=False, no_log=False),
        )
    )
    manage(module, User)


if __name__ == "__main__":
    main()
