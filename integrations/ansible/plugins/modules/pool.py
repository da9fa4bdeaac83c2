#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: pool
short_description: Pools of a Gantry array
version_added: "0.1.0"
description:
  - Creates, enlarges, labels and deletes pools of space.
  - Needs a token of the role C(admin).
  - A pool is deleted only when it holds no volumes and snapshots.
options:
  name:
    description: The pool's name.
    type: str
    required: true
  devices:
    description:
      - Its devices, each C(file:PATH), C(block:PATH) or C(rbd:POOL/IMAGE), 1 to 32. Needed for a new pool.
      - Devices that a pool without mirrors does not have are added; none is taken away. Those of a pool with mirrors are not changed.
    type: list
    elements: str
  size:
    description:
      - The size of each device in bytes, or with a unit of powers of 1,024 such as V(20G); may be left out for block devices.
      - Devices that are smaller are enlarged; none becomes smaller.
    type: str
  mirror:
    description: How many devices hold the same blocks, 1 to 3. Of a pool that is there it cannot be changed.
    type: int
  soft_percent:
    description: How full it is when hosts and administrators are warned, 1 to 100.
    type: int
  hard_percent:
    description: How full it is when they are alarmed, not below O(soft_percent), at most 100.
    type: int
  delete_scheduled_snapshots:
    description: Whether the array deletes the oldest unlocked snapshots of schedules while the pool is that full.
    type: bool
  force:
    description: Whether a pool that is not open is forgotten by O(state=absent), with all that is known of it.
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
- name: Have a pool on two mirrored disks
  gantry.array.pool:
    name: fast
    devices:
      - block:/dev/disk/by-id/nvme-one
      - block:/dev/disk/by-id/nvme-two
    mirror: 2

- name: Have a pool in a file
  gantry.array.pool:
    name: lab
    devices: ["file:/srv/lab.img"]
    size: 100G
"""

RETURN = r"""
pool:
  description: The pool as the array shows it.
  returned: when it is there
  type: dict
  sample:
    name: lab
    state: ready
    size_bytes: 107374182400
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
from ansible_collections.gantry.array.plugins.module_utils.converge import Resource, TAGS_OPTION, manage, new_module, parse_size


class Pool(Resource):
    kind = "pool"

    def find(self):
        return self.array.get("pools", self.params["name"])

    def shown(self, found):
        return dict(
            devices=devices(found),
            size_bytes=smallest(found),
            mirror=copies(found),
            tags=found["tags"],
            thresholds=found["thresholds"],
            delete_scheduled_snapshots=found["delete_scheduled_snapshots"],
        )

    def wanted(self, found):
        size = parse_size(self.params["size"]) if self.params["size"] is not None else None
        wanted = self.given(size_bytes=size, tags=self.tags(), delete_scheduled_snapshots=self.params["delete_scheduled_snapshots"])
        if found is None:
            if not self.params["devices"]:
                raise ArrayError("there is no pool '%s': a new one needs 'devices'" % self.params["name"])
            wanted.update(self.given(devices=self.params["devices"], mirror=self.params["mirror"]))
        else:
            wanted["devices"] = self._wanted_devices(found)
            if self.params["mirror"] not in (None, copies(found)):
                raise ArrayError("pool '%s' holds each block %d times, and so it stays: make another pool" % (found["name"], copies(found)))
            if size is not None and size < smallest(found):
                raise ArrayError("the devices of pool '%s' have %d bytes, and a device only grows" % (found["name"], smallest(found)))
        thresholds = self.given(soft_percent=self.params["soft_percent"], hard_percent=self.params["hard_percent"])
        if thresholds:
            wanted["thresholds"] = dict(found["thresholds"] if found else {}, **thresholds)
        return wanted

    def _wanted_devices(self, found):
        has = devices(found)
        asked = self.params["devices"]
        if asked is None:
            return has
        missing = [device for device in has if device not in asked]
        if missing:
            raise ArrayError("pool '%s' also has %s, and this module takes no device away: name it" % (found["name"], ", ".join(missing)))
        new = [device for device in asked if device not in has]
        if new and found["mirrors"]:
            raise ArrayError("pool '%s' has mirrors: %s joins it by 'gantry pool attach' or 'gantry pool add'" % (found["name"], ", ".join(new)))
        return has + new

    def create(self):
        body = dict(name=self.params["name"], devices=self.params["devices"], **self.given(mirror=self.params["mirror"]))
        if self.params["size"] is not None:
            body["size_bytes"] = parse_size(self.params["size"])
        self.array.request("POST", ("pools",), body)

    def change(self, name, found, etag):
        segments = ("pools", found["name"])
        if name == "tags":
            self.change_tags(segments, etag)
        elif name == "thresholds":
            self.change_thresholds(segments, found, etag)
        elif name == "delete_scheduled_snapshots":
            body = dict(delete_scheduled_snapshots=self.params["delete_scheduled_snapshots"])
            self.array.request("PUT", segments + ("snapshot-deletion",), body, etag)
        elif name == "devices":
            self._add_devices(segments, found)
        else:
            self._grow(segments, found)

    def _add_devices(self, segments, found):
        for device in self.wanted(found)["devices"]:
            if device in devices(found):
                continue
            body = dict(device=device)
            if self.params["size"] is not None:
                body["size_bytes"] = parse_size(self.params["size"])
            self.array.request("POST", segments + ("devices",), body)

    def _grow(self, segments, found):
        size = parse_size(self.params["size"])
        for index, bytes_now in sizes(found):
            if bytes_now < size:
                # Growing to a size is idempotent: whoever comes in between has the same or a larger one.
                self.array.request("PATCH", segments, dict(device=index, size_bytes=size))

    def remove(self, found, etag):
        if not self.params["force"]:
            self.array.request("DELETE", ("pools", found["name"]), None, etag)
        else:
            self.array.request("DELETE", ("pools", found["name"]), None, etag, dict(force="true"))

    def check_removal(self, found):
        held = found["volumes"] + found["snapshots"]
        if held:
            raise ArrayError("pool '%s' still holds %d volume(s) and snapshot(s): delete them first" % (found["name"], held))


def devices(found):
    """All devices, members of mirrors that are absent left out."""
    if not found["mirrors"]:
        return [device["device"] for device in found["devices"]]
    return [member["device"] for mirror in found["mirrors"] for member in mirror["members"] if member["device"] is not None]


def sizes(found):
    """Number and size in bytes of each device, or mirror."""
    if not found["mirrors"]:
        return [(device["index"], device["size_bytes"]) for device in found["devices"]]
    return [(mirror["index"], mirror["size_bytes"]) for mirror in found["mirrors"]]


def smallest(found):
    """Size of the smallest device or mirror in bytes; 0 of a pool whose devices are not seen."""
    return min([size for index, size in sizes(found)], default=0)


def copies(found):
    """How many devices hold the same blocks."""
    return max([len(mirror["members"]) for mirror in found["mirrors"]], default=1)


def main():
    module = new_module(
        dict(
            name=dict(type="str", required=True),
            devices=dict(type="list", elements="str"),
            size=dict(type="str"),
            mirror=dict(type="int"),
            soft_percent=dict(type="int"),
            hard_percent=dict(type="int"),
            delete_scheduled_snapshots=dict(type="bool"),
            force=dict(type="bool", default=False),
            tags=TAGS_OPTION,
        )
    )
    manage(module, Pool)


if __name__ == "__main__":
    main()
