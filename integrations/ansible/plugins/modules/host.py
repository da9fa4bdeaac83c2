#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: host
short_description: Hosts of a Gantry array, with their CHAP accounts
version_added: "0.1.0"
description:
  - Creates, changes and deletes hosts, which are groups of initiators that see the same LUNs.
  - Needs a token of the role C(operator).
  - A host is deleted only when no volume is mapped to it and no group has it.
options:
  name:
    description: The host's name.
    type: str
    required: true
  initiators:
    description: All iSCSI names of its initiators. Needed for a new host.
    type: list
    elements: str
  chap:
    description: The CHAP account that its initiators must prove.
    type: dict
    suboptions:
      user:
        description: The name that the initiator gives.
        type: str
        required: true
      secret:
        description: The initiator's secret, 12 to 255 bytes.
        type: str
        required: true
      mutual_user:
        description: The name that the target gives in turn.
        type: str
      mutual_secret:
        description: The target's secret, different from the initiator's.
        type: str
  no_chap:
    description: Whether its initiators need not prove anything.
    type: bool
    default: false
  update_secret:
    description:
      - When secrets are sent. The array never shows them, so a task cannot see whether they are the same.
      - V(on_create) sends them when the host or its account is new, the user's name is another one, or mutual CHAP comes or goes.
      - V(always) sends them every time, and the task is always changed.
    type: str
    choices: [always, on_create]
    default: on_create
  tags:
    description: All labels that it is to have, at most 16; others are taken away.
    type: dict
  primitives:
    description: Which primitives it may use.
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
      - The most work that it gets done, on all volumes, together; what is beyond waits in the array.
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
  share:
    description: What it gets of a pool for which other hosts wait, too, 1 to 100; so many times what a host with V(1) gets.
    type: int
extends_documentation_fragment:
  - gantry.array.connection
  - gantry.array.change
author:
  - The Gantry maintainers (@gantry-array)
"""

EXAMPLES = r"""
- name: Have a host with CHAP
  gantry.array.host:
    name: esx1
    initiators:
      - iqn.1998-01.com.vmware:esx1
    chap:
      user: esx1
      secret: "{{ vault_esx1_secret }}"

- name: Have a host that gets four times as much of a busy pool as others, and 20,000 I/Os a second at most
  gantry.array.host:
    name: esx1
    share: 4
    limits:
      iops: 20000

- name: Set another secret
  gantry.array.host:
    name: esx1
    chap:
      user: esx1
      secret: "{{ vault_esx1_secret }}"
    update_secret: always
"""

RETURN = r"""
host:
  description: The host as the array shows it, without secrets.
  returned: when it is there
  type: dict
  sample:
    name: esx1
    initiators: ["iqn.1998-01.com.vmware:esx1"]
    chap_user: esx1
    mutual_chap: false
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
)


class Host(Resource):
    kind = "host"

    def find(self):
        return self.array.get("hosts", self.params["name"])

    def shown(self, found):
        return dict(
            initiators=sorted(found["initiators"]),
            chap=dict(user=found["chap_user"], mutual=found["mutual_chap"]),
            tags=found["tags"],
            primitives=found["primitives"],
            limits=found["limits"],
            share=found["share"],
        )

    def wanted(self, found):
        if found is None and self.params["initiators"] is None:
            raise ArrayError("there is no host '%s': a new one needs 'initiators'" % self.params["name"])
        wanted = self.given(tags=self.tags())
        if self.params["initiators"] is not None:
            wanted["initiators"] = sorted(set(name.strip().lower() for name in self.params["initiators"]))
        chap = self.params["chap"]
        if chap is not None:
            wanted["chap"] = dict(user=chap["user"], mutual=chap["mutual_secret"] is not None)
            if self.params["update_secret"] == "always" and found is not None:
                wanted["chap"]["secrets"] = "set anew"
        elif self.params["no_chap"]:
            wanted["chap"] = dict(user=None, mutual=False)
        if self.given_primitives():
            wanted["primitives"] = dict(found["primitives"] if found else {}, **self.given_primitives())
        wanted.update(self.given(limits=self.wanted_limits(found), share=self._share()))
        return wanted

    def _share(self):
        share = self.params["share"]
        if share is not None and not 1 <= share <= 100:
            raise ArrayError("share is 1 to 100")
        return share

    def _account(self):
        return self.given(**self.params["chap"])

    def create(self):
        body = dict(name=self.params["name"], initiators=self.params["initiators"])
        if self.params["chap"] is not None:
            body["chap"] = self._account()
        self.array.request("POST", ("hosts",), body)

    def change(self, name, found, etag):
        segments = ("hosts", found["name"])
        if name == "tags":
            self.change_tags(segments, etag)
        elif name == "primitives":
            self.change_primitives(segments, etag)
        elif name == "limits":
            self.change_limits(segments, etag)
        elif name == "share":
            self.array.request("PATCH", segments + ("limits",), dict(share=self.params["share"]), etag)
        elif name == "initiators":
            self.array.request("PATCH", segments, dict(initiators=self.params["initiators"]), etag)
        elif self.params["chap"] is not None:
            self.array.request("PATCH", segments, dict(chap=self._account()), etag)
        else:
            self.array.request("PATCH", segments, dict(no_chap=True), etag)

    def remove(self, found, etag):
        self.array.request("DELETE", ("hosts", found["name"]), None, etag)


def main():
    chap = dict(
        user=dict(type="str", required=True),
        secret=dict(type="str", required=True, no_log=True),
        mutual_user=dict(type="str"),
        mutual_secret=dict(type="str", no_log=True),
    )
    module = new_module(
        dict(
            name=dict(type="str", required=True),
            initiators=dict(type="list", elements="str"),
            chap=dict(type="dict", options=chap, required_together=[["mutual_user", "mutual_secret"]]),
            no_chap=dict(type="bool", default=False),
            update_secret=dict(type="str", choices=["always", "on_create"], default="on_create", no_log=False),
            tags=TAGS_OPTION,
            primitives=PRIMITIVES_OPTION,
            limits=LIMITS_OPTION,
            share=dict(type="int"),
        )
    )
    if module.params["chap"] is not None and module.params["no_chap"]:
        module.fail_json(msg="chap and no_chap: say one of them")
    manage(module, Host)


if __name__ == "__main__":
    main()
