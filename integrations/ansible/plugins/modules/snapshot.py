#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: snapshot
short_description: Snapshots of a Gantry array
version_added: "0.1.0"
description:
  - Creates, locks, labels and deletes snapshots of volumes.
  - Needs a token of the role C(operator).
options:
  pool:
    description: The pool in which the volume and its snapshot are.
    type: str
    required: true
  name:
    description: The snapshot's name; volumes and snapshots of a pool share their names.
    type: str
    required: true
  volume:
    description: The volume of which it is. Needed for a new one.
    type: str
  locked_until:
    description: Until when nobody may delete it, in seconds since 1970. A lock can be made longer, and never shorter.
    type: int
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
- name: Have a snapshot from before the upgrade
  gantry.array.snapshot:
    pool: fast
    name: database-before-upgrade
    volume: database

- name: Have it no more
  gantry.array.snapshot:
    pool: fast
    name: database-before-upgrade
    state: absent
"""

RETURN = r"""
snapshot:
  description: The snapshot as the array shows it.
  returned: when it is there
  type: dict
  sample:
    name: database-before-upgrade
    pool: fast
    volume: database
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
from ansible_collections.gantry.array.plugins.module_utils.converge import Resource, TAGS_OPTION, manage, new_module


class Snapshot(Resource):
    kind = "snapshot"

    def find(self):
        return self.find_in_pool("snapshots")

    def shown(self, found):
        return dict((name, found[name]) for name in ("volume", "locked_until", "tags"))

    def wanted(self, found):
        volume = self.params["volume"]
        if found is None and volume is None:
            raise ArrayError("there is no snapshot '%s': a new one needs 'volume'" % self.params["name"])
        if found is not None and volume is not None and found["volume"] not in (volume, None):
            raise ArrayError("snapshot '%s' is of volume '%s' and stays so: choose another name" % (found["name"], found["volume"]))
        wanted = self.given(locked_until=self.params["locked_until"], tags=self.tags())
        if found is None:
            wanted["volume"] = volume
        return wanted

    def create(self):
        snapshot = dict(name=self.params["name"], volume=self.params["volume"], **self.given(tags=self.tags()))
        body = dict(pool=self.params["pool"], snapshots=[snapshot])
        body.update(self.given(locked_until=self.params["locked_until"]))
        self.array.request("POST", ("snapshots",), body)

    def change(self, name, found, etag):
        if name == "locked_until":
            self.array.request("PUT", ("pools", found["pool"], "snapshots", found["name"], "lock"), dict(until=self.params["locked_until"]), etag)
        else:
            self.change_tags(("snapshots", found["pool"], found["name"]), etag)

    def remove(self, found, etag):
        self.array.request("DELETE", ("snapshots", found["pool"], found["name"]), None, etag)

    def check_removal(self, found):
        if found["hosts"]:
            raise ArrayError("the snapshot is still mapped to %s: unmap it first" % ", ".join(found["hosts"]))


def main():
    module = new_module(
        dict(
            pool=dict(type="str", required=True),
            name=dict(type="str", required=True),
            volume=dict(type="str"),
            locked_until=dict(type="int"),
            tags=TAGS_OPTION,
        )
    )
    manage(module, Snapshot)


if __name__ == "__main__":
    main()
