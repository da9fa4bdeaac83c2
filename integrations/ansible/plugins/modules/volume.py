#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: volume
short_description: Volumes of a Gantry array
version_added: "0.1.0"
description:
  - Creates, clones, enlarges, labels and deletes volumes of a Gantry array.
  - Needs a token of the role C(operator).
  - A volume is deleted only when no host sees it. Its snapshots stay.
options:
  pool:
    description: The pool in which the volume is.
    type: str
    required: true
  name:
    description: The volume's name, 1 to 63 letters, digits, C(-), C(_) and C(.).
    type: str
    required: true
  size:
    description:
      - Its size in bytes, or with a unit of powers of 1,024 such as V(512M), V(20G) or V(1T); a multiple of 4,096 bytes, at most 64 TiB.
      - Needed for a new volume that is no clone. A volume that is smaller is enlarged.
    type: str
  shrink:
    description: Whether a smaller O(size) may destroy what lies beyond it. Without it the array refuses.
    type: bool
    default: false
  source:
    description:
      - A volume or snapshot of the same pool of which a new volume is a clone, by reference and at once.
      - A volume that is there already stays, whatever it was made from.
    type: str
  block_size:
    description: The blocks that hosts see. Of a volume that is there it cannot be changed, nor that of a clone be another one than its source's.
    type: str
    choices: ['512', '512e', '4096']
  thick:
    description: Whether all space is set aside, so that writes never fail for want of it. Of a volume that is there it cannot be changed.
    type: bool
  tags:
    description: All labels that it is to have, at most 16; others are taken away.
    type: dict
  soft_percent:
    description: How full it is when hosts and administrators are warned, 1 to 100.
    type: int
  hard_percent:
    description: How full it is when they are alarmed, not below O(soft_percent), at most 100.
    type: int
  primitives:
    description: Which primitives hosts may use on it.
    type: dict
    suboptions:
      compare_and_write:
        description: COMPARE AND WRITE, by which ESXi locks.
        type: bool
      extended_copy:
        description: EXTENDED COPY and copies by token.
        type: bool
      unmap:
        description: UNMAP.
        type: bool
      write_same:
        description: WRITE SAME.
        type: bool
  limits:
    description:
      - The most work that hosts get done on it, together; what is beyond waits in the array.
      - What is left out stays as it is.
    type: dict
    suboptions:
      iops:
        description: I/Os per second, 10 to 10,000,000; V(0) for no limit.
        type: int
      bandwidth:
        description: Work per second in bytes, or with a unit such as V(200M), 1 MiB to 1 TiB; V(0) for no limit.
        type: str
      burst_ms:
        description: For how many milliseconds unused work is saved up, 10 to 600,000; V(0) for the 100 of an object without limits.
        type: int
extends_documentation_fragment:
  - gantry.array.connection
  - gantry.array.change
author:
  - The Gantry maintainers (@gantry-array)
"""

EXAMPLES = r"""
- name: Have a volume of at least 100 GiB
  gantry.array.volume:
    url: https://array.example.org:8443
    token_file: /etc/gantry/token
    ca_path: /etc/gantry/tls.crt
    pool: fast
    name: database
    size: 100G
    tags:
      owner: dba

- name: Have a volume of which no more than 5,000 I/Os a second get done
  gantry.array.volume:
    pool: fast
    name: scratch
    size: 100G
    limits:
      iops: 5000
      bandwidth: 200M

- name: Have a clone of a snapshot
  gantry.array.volume:
    pool: fast
    name: test-copy
    source: database-before-upgrade

- name: Have no volume of that name
  gantry.array.volume:
    pool: fast
    name: test-copy
    state: absent
"""

RETURN = r"""
volume:
  description: The volume as the array shows it.
  returned: when it is there
  type: dict
  sample:
    name: database
    naa: naa.60267616e7472791625eabf87bd049f7
    pool: fast
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
from ansible_collections.gantry.array.plugins.module_utils.converge import (
    LIMITS_OPTION,
    PRIMITIVES_OPTION,
    Resource,
    TAGS_OPTION,
    manage,
    new_module,
    parse_size,
)


class Volume(Resource):
    kind = "volume"

    def find(self):
        found, etag = self.find_in_pool("volumes")
        if found is None or not found["snapshot"]:
            return found, etag
        if self.params["state"] == "absent":
            return None, None
        raise ArrayError("'%s' is a snapshot in pool '%s': choose another name" % (found["name"], found["pool"]))

    def shown(self, found):
        names = ("size_bytes", "block_size", "thick", "tags", "primitives", "thresholds", "limits")
        return dict((name, found[name]) for name in names)

    def wanted(self, found):
        size = parse_size(self.params["size"]) if self.params["size"] is not None else None
        wanted = self.given(size_bytes=size, block_size=self.params["block_size"], thick=self.params["thick"], tags=self.tags())
        if found is None:
            self._check_new(size)
        else:
            self._check_changes(found, wanted)
        thresholds = self.given(soft_percent=self.params["soft_percent"], hard_percent=self.params["hard_percent"])
        if thresholds:
            wanted["thresholds"] = dict(found["thresholds"] if found else {}, **thresholds)
        if self.given_primitives():
            wanted["primitives"] = dict(found["primitives"] if found else {}, **self.given_primitives())
        wanted.update(self.given(limits=self.wanted_limits(found)))
        return wanted

    def _check_new(self, size):
        if self.params["source"] is None:
            if size is None:
                raise ArrayError("there is no volume '%s': a new one needs 'size', or 'source' to be a clone" % self.params["name"])
            return
        source = self._source()
        if source is None and self.module.check_mode:
            self.module.warn("there is no '%s' yet; that the array takes the clone is not checked" % self.params["source"])
        if source is None:
            return
        # Clones are enlarged after they were made; a refusal must come before.
        if size is not None and size < source["size_bytes"] and not self.params["shrink"]:
            raise ArrayError("'%s' has %d bytes: a clone that is smaller loses what lies beyond it: say 'shrink' if that is wanted" % (
                self.params["source"], source["size_bytes"]))
        block_size = source.get("block_size")
        if block_size is not None and self.params["block_size"] not in (None, block_size):
            raise ArrayError("'%s' has blocks of %s bytes, and so has its clone" % (self.params["source"], block_size))

    def _source(self):
        for collection in ("volumes", "snapshots"):
            source, etag = self.array.get(collection, self.params["pool"], self.params["source"])
            if source is not None:
                return source
        return None

    def _check_changes(self, found, wanted):
        for name in ("block_size", "thick"):
            if wanted.get(name, found[name]) != found[name]:
                raise ArrayError("%s of volume '%s' is %s and cannot be changed: make another volume" % (name, found["name"], str(found[name]).lower()))
        smaller = wanted.get("size_bytes", found["size_bytes"]) < found["size_bytes"]
        if smaller and self.module.check_mode and not self.params["shrink"]:
            raise ArrayError("volume '%s' has %d bytes: a smaller size destroys what lies beyond it: say 'shrink' if that is wanted" % (
                found["name"], found["size_bytes"]))

    def create(self):
        if self.params["source"] is not None:
            body = dict(name=self.params["name"], **self.given(thick=self.params["thick"], tags=self.tags()))
            self.array.request("POST", ("volumes", self.params["pool"], self.params["source"], "clones"), body)
            return
        body = dict(pool=self.params["pool"], name=self.params["name"], size_bytes=parse_size(self.params["size"]))
        body.update(self.given(block_size=self.params["block_size"], thick=self.params["thick"], tags=self.tags()))
        self.array.request("POST", ("volumes",), body)

    def change(self, name, found, etag):
        segments = ("volumes", found["pool"], found["name"])
        if name == "size_bytes":
            body = dict(size_bytes=parse_size(self.params["size"]), shrink=self.params["shrink"])
            self.array.request("PATCH", segments, body, etag)
        elif name == "tags":
            self.change_tags(segments, etag)
        elif name == "primitives":
            self.change_primitives(segments, etag)
        elif name == "limits":
            self.change_limits(segments, etag)
        else:
            self.change_thresholds(segments, found, etag)

    def remove(self, found, etag):
        self.array.request("DELETE", ("volumes", found["pool"], found["name"]), None, etag)

    def check_removal(self, found):
        if found["hosts"]:
            raise ArrayError("the volume is still mapped to %s: unmap it first" % ", ".join(found["hosts"]))


def main():
    module = new_module(
        dict(
            pool=dict(type="str", required=True),
            name=dict(type="str", required=True),
            size=dict(type="str"),
            shrink=dict(type="bool", default=False),
            source=dict(type="str"),
            block_size=dict(type="str", choices=["512", "512e", "4096"]),
            thick=dict(type="bool"),
            tags=TAGS_OPTION,
            soft_percent=dict(type="int"),
            hard_percent=dict(type="int"),
            primitives=PRIMITIVES_OPTION,
            limits=LIMITS_OPTION,
        )
    )
    manage(module, Volume)


if __name__ == "__main__":
    main()
