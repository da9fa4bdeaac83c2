#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: host_group
short_description: Groups of hosts of a Gantry array
version_added: "0.1.0"
description:
  - Creates, changes and deletes groups of hosts, to which volumes are mapped as to a host.
  - Needs a token of the role C(operator).
options:
  name:
    description: The group's name; hosts and groups share their names.
    type: str
    required: true
  hosts:
    description: The hosts of the group. Needed for a new one.
    type: list
    elements: str
  append:
    description: Whether hosts of the group that O(hosts) does not name stay in it.
    type: bool
    default: false
  tags:
    description: All labels that it is to have, at most 16; others are taken away.
    type: dict
extends_documentation_fragment:
  - gantry.array.connection
  - gantry.array.change
author:
  - The Gantry maintainers (@gantry-array)
"""

EXAMPLES = r"""
- name: Have a group of two hosts
  gantry.array.host_group:
    name: cluster1
    hosts: [esx1, esx2]

- name: Have a third host in it, too
  gantry.array.host_group:
    name: cluster1
    hosts: [esx3]
    append: true
"""

RETURN = r"""
host_group:
  description: The group as the array shows it.
  returned: when it is there
  type: dict
  sample:
    name: cluster1
    hosts: [esx1, esx2]
    tags: {}
status:
  description: The HTTP status of a refusal.
  returned: when the array refused
  type: int
problem:
  description: The refusal as the array told it; its RV(ignore:type) is for programs.
  returned: when the array refused
  type: dict
"""

from ansible_collections.gantry.array.plugins.module_utils.array import ArrayError, NONE_YET
from ansible_collections.gantry.array.plugins.module_utils.converge import Resource, TAGS_OPTION, manage, new_module


class HostGroup(Resource):
    kind = "host_group"

    def find(self):
        return self.array.get("groups", self.params["name"])

    def shown(self, found):
        return dict(hosts=sorted(found["hosts"]), tags=found["tags"])

    def wanted(self, found):
        if found is None and self.params["hosts"] is None:
            raise ArrayError("there is no group '%s': a new one needs 'hosts'" % self.params["name"])
        wanted = self.given(tags=self.tags())
        if self.params["hosts"] is not None:
            kept = found["hosts"] if found is not None and self.params["append"] else []
            wanted["hosts"] = sorted(set(self.params["hosts"]) | set(kept))
        return wanted

    def create(self):
        self.change("hosts", None, NONE_YET)

    def change(self, name, found, etag):
        segments = ("groups", self.params["name"])
        if name == "tags":
            self.change_tags(segments, etag)
        else:
            self.array.request("PUT", segments, dict(hosts=self.wanted(found)["hosts"]), etag)

    def remove(self, found, etag):
        self.array.request("DELETE", ("groups", found["name"]), None, etag)


def main():
    module = new_module(
        dict(
            name=dict(type="str", required=True),
            hosts=dict(type="list", elements="str"),
            append=dict(type="bool", default=False),
            tags=TAGS_OPTION,
        )
    )
    manage(module, HostGroup)


if __name__ == "__main__":
    main()
