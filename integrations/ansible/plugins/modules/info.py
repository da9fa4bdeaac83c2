#!/usr/bin/python
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: info
short_description: What a Gantry array has
version_added: "0.1.0"
description:
  - Reads pools, volumes, snapshots, hosts, groups and more, and changes nothing.
  - Needs a token of the role C(viewer); V(users) needs C(admin).
options:
  gather:
    description: What is read.
    type: list
    elements: str
    choices: [pools, volumes, snapshots, hosts, groups, portals, schedules, sessions, tasks, target, tokens, users, me]
    default: [pools, volumes, snapshots, hosts, groups, portals]
  filters:
    description:
      - Shows only elements whose field is so; C(*) stands for any run of characters, and of a field that is a list one element is enough.
      - Each of O(gather) must be a list whose elements have the field.
    type: dict
    default: {}
  tags:
    description: Shows only elements with these labels; all must fit. Pools, volumes, snapshots, hosts and groups have labels.
    type: dict
    default: {}
extends_documentation_fragment:
  - gantry.array.connection
attributes:
  check_mode:
    description: Says what would be changed, and changes nothing.
    support: full
  diff_mode:
    description: Shows what is different before and after.
    support: none
author:
  - The Gantry maintainers (@gantry-array)
"""

EXAMPLES = r"""
- name: See everything that matters
  gantry.array.info:
    url: https://array.example.org:8443
    token_file: /etc/gantry/token
    ca_path: /etc/gantry/tls.crt
  register: array

- name: See the volumes of one owner in one pool
  gantry.array.info:
    gather: [volumes]
    filters:
      pool: fast
    tags:
      owner: dba
"""

RETURN = r"""
array:
  description: By each name of O(gather) what the array shows, in lists sorted as the array sorts them.
  returned: success
  type: dict
  sample:
    volumes:
      - name: database
        pool: fast
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gantry.array.plugins.module_utils.array import ArrayError, CONNECTION_OPTIONS
from ansible_collections.gantry.array.plugins.module_utils.converge import label, run

LISTS = ["pools", "volumes", "snapshots", "hosts", "groups", "portals", "schedules", "sessions", "tasks", "tokens", "users"]
SINGLE = ["target", "me"]


def query_of(params):
    reserved = [name for name in ("limit", "after", "tag") if name in params["filters"]]
    if reserved:
        raise ArrayError("filters: '%s' is no field of an element" % reserved[0])
    query = dict((name, label(value)) for name, value in params["filters"].items())
    if params["tags"]:
        query["tag"] = ["%s:%s" % (key, label(value)) for key, value in sorted(params["tags"].items())]
    return query


def gather(array, params):
    query = query_of(params)
    single = [name for name in params["gather"] if name in SINGLE]
    if query and single:
        raise ArrayError("filters and tags are for lists, and '%s' is none" % single[0])
    found = {}
    for name in params["gather"]:
        if name in SINGLE:
            found[name], etag = array.request("GET", (name,))
            found[name].pop("csrf", None)
        else:
            found[name] = array.list(name, query)
    return dict(changed=False, array=found)


def main():
    options = dict(
        gather=dict(type="list", elements="str", choices=LISTS + SINGLE, default=["pools", "volumes", "snapshots", "hosts", "groups", "portals"]),
        filters=dict(type="dict", default={}),
        tags=dict(type="dict", default={}),
    )
    module = AnsibleModule(argument_spec=dict(CONNECTION_OPTIONS, **options), supports_check_mode=True)
    run(module, lambda array: gather(array, module.params))


if __name__ == "__main__":
    main()
