#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: lun
short_description: Which host sees which volume of a Gantry array
version_added: "0.1.0"
description:
  - Maps volumes and snapshots to hosts or groups of hosts, and unmaps them.
  - Needs a token of the role C(operator).
options:
  pool:
    description: The pool in which the volume is.
    type: str
    required: true
  volume:
    description: The volume or snapshot.
    type: str
    required: true
  host:
    description: The host or group, or V(any) for every initiator.
    type: str
    required: true
  lun:
    description:
      - The LUN number, 0 to 16,383. When left out, the array chooses one.
      - A host that sees the volume by another number must lose it first; the array refuses to change the number under it.
    type: int
  read_only:
    description: Whether the host may only read. When left out, V(false) for a new mapping.
    type: bool
  exclusive:
    description: Whether the task fails if another host or group sees the volume.
    type: bool
    default: false
extends_documentation_fragment:
  - gantry.array.connection
  - gantry.array.change
author:
  - The Gantry maintainers (@gantry-array)
"""

EXAMPLES = r"""
- name: Have the host see the volume
  gantry.array.lun:
    pool: fast
    volume: database
    host: esx1
  register: mapped

- name: Show by which number
  ansible.builtin.debug:
    msg: "LUN {{ mapped.lun.lun }} of {{ mapped.lun.naa }}"

- name: Have it see the volume no more
  gantry.array.lun:
    pool: fast
    volume: database
    host: esx1
    state: absent
"""

RETURN = r"""
lun:
  description: The mapping as the array shows it, and the volume's NAA identifier.
  returned: when it is there
  type: dict
  sample:
    host: esx1
    lun: 0
    read_only: false
    naa: naa.60267616e7472791625eabf87bd049f7
status:
  description: The HTTP status of a refusal.
  returned: when the array refused
  type: int
problem:
  description: The refusal as the array told it; its RV(ignore:type) is for programs.
  returned: when the array refused
  type: dict
"""

from ansible_collections.gantry.array.plugins.module_utils.array import ArrayError, Problem
from ansible_collections.gantry.array.plugins.module_utils.converge import Resource, manage, new_module


class Lun(Resource):
    kind = "lun"

    def __init__(self, module, array):
        super().__init__(module, array)
        # ETag of the volume at the latest look.
        self.etag = None

    def find(self):
        pool, name = self.params["pool"], self.params["volume"]
        try:
            volume, self.etag = self.array.request("GET", ("volumes", pool, name))
        except Problem as problem:
            if not problem.is_of("not-found"):
                raise
            there = self.wait_until_open(pool)
            if self.params["state"] == "present" and not self.module.check_mode:
                raise
            if self.params["state"] == "present":
                self.module.warn("there is no %s '%s' yet; that the array takes the mapping is not checked" % (
                    "volume" if there else "pool", name if there else pool))
            return None, None
        others = [entry["host"] for entry in volume["maps"] if entry["host"] != self.params["host"]]
        if others and self.params["exclusive"] and self.params["state"] == "present":
            raise ArrayError("%s sees volume '%s': unmap it there first, or do without 'exclusive'" % (", ".join(others), name))
        for entry in volume["maps"]:
            if entry["host"] == self.params["host"]:
                return dict(entry, naa=volume["naa"]), self.etag
        return None, None

    def shown(self, found):
        return dict(lun=found["lun"], read_only=found["read_only"])

    def wanted(self, found):
        return self.given(lun=self.params["lun"], read_only=self.params["read_only"])

    def _segments(self):
        return ("volumes", self.params["pool"], self.params["volume"], "maps", self.params["host"])

    def create(self):
        # The number is fixed for all hosts by If-Match: who comes in between is seen at the next look.
        self.array.request("PUT", self._segments(), self.wanted(None), self.etag)

    def change(self, name, found, etag):
        asked = dict(lun=found["lun"], read_only=found["read_only"])
        asked[name] = self.params[name]
        self.array.request("PUT", self._segments(), asked, etag)

    def remove(self, found, etag):
        self.array.request("DELETE", self._segments(), None, etag)


def main():
    module = new_module(
        dict(
            pool=dict(type="str", required=True),
            volume=dict(type="str", required=True),
            host=dict(type="str", required=True),
            lun=dict(type="int"),
            read_only=dict(type="bool"),
            exclusive=dict(type="bool", default=False),
        )
    )
    manage(module, Lun)


if __name__ == "__main__":
    main()
