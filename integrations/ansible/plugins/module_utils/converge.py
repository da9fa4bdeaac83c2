# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Convergence of one object of the array to what a task says: look, change one thing if nobody was there before, look again.

Every change names the state that it was decided upon (If-Match), so that of two playbooks at once neither
overwrites what the other one did. A run that was interrupted is completed by the next one.
"""

from __future__ import annotations

import re
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_text
from ansible_collections.gantry.array.plugins.module_utils.array import Array, ArrayError, CONNECTION_OPTIONS, Problem

# The array compares with a change that it is still saving, and does not show it yet: a look at once would find the same.
PAUSE_FIRST = 0.01
PAUSE_MAX = 0.5
# Looks after changes that somebody else came before.
CONFLICTS_MAX = 40
# The same while the object that has the name is not seen.
UNSEEN_MAX = 16

UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
# How the array shows an object without limits.
NO_LIMITS = dict(iops=None, bytes_per_second=None, burst_ms=100)
# The option of each, and its range.
LIMITS = dict(iops=("iops", 10, 10_000_000), bytes_per_second=("bandwidth", 1 << 20, 1 << 40), burst_ms=("burst_ms", 10, 600_000))
OPEN_STATES = ("ready", "read-only")
WAITING_STATES = ("opening", "unavailable")


def parse_size(text):
    """Bytes of 1048576, 512M, 20GiB, 1T; powers of 1,024, as the array's own tools write them. ArrayError for anything else."""
    match = re.fullmatch(r"(\d{1,18})([KMGT]?)(I?B)?", str(text).strip().upper(), re.ASCII)
    if not match:
        raise ArrayError("'%s' is not a size: write for example 20G, 512M or 1T" % text)
    return int(match.group(1)) << UNITS[match.group(2)]


def label(value):
    """A label's text of what YAML made of it: true, not True."""
    return to_text(value).lower() if isinstance(value, bool) else to_text(value, nonstring="simplerepr")


class Resource:
    """One object of the array. A kind of object says how it is found, shown, wanted and changed."""

    # What a task calls it.
    kind = "object"

    def __init__(self, module, array):
        self.module = module
        self.array = array
        self.params = module.params

    def find(self):
        """The object and its ETag, or None twice."""
        raise NotImplementedError

    def shown(self, found):
        """What this module manages of an object, by name; without secrets."""
        raise NotImplementedError

    def wanted(self, found):
        """The same as it should be; found is None for one that is to be made. ArrayError if that cannot be."""
        raise NotImplementedError

    def create(self):
        """Makes it."""
        raise NotImplementedError

    def change(self, name, found, etag):
        """Makes the one thing of that name as wanted."""
        raise NotImplementedError

    def remove(self, found, etag):
        """Deletes it."""
        raise NotImplementedError

    def check_removal(self, found):
        """Says in check mode, by ArrayError, that the array will refuse to delete it."""

    def result(self, found):
        """What the task returns."""
        return {self.kind: found}

    def given(self, **options):
        """Those options that the task gives."""
        return dict((name, value) for name, value in options.items() if value is not None)

    def wait_until_open(self, pool):
        """False if there is no such pool. ArrayError if it stays closed: its volumes are not gone, the array does not see them."""
        end = time.monotonic() + self.array.seconds
        while True:
            found, etag = self.array.get("pools", pool)
            if found is None:
                return False
            if found["state"] in OPEN_STATES:
                return True
            if found["state"] not in WAITING_STATES or time.monotonic() >= end:
                raise ArrayError("pool '%s' is %s, so its volumes and snapshots are not seen: %s" % (
                    pool, found["state"], found["reason"] or "open it with 'gantry pool open'"))
            time.sleep(PAUSE_MAX)

    def find_in_pool(self, collection):
        """A volume or snapshot. What is not found in a pool that is not open is not taken for deleted."""
        for again in (True, False):
            found, etag = self.array.get(collection, self.params["pool"], self.params["name"])
            if found is not None:
                return found, etag
            if not self.wait_until_open(self.params["pool"]):
                if self.params["state"] == "present" and self.module.check_mode:
                    self.module.warn("there is no pool '%s' yet; that the array takes the change is not checked" % self.params["pool"])
                return None, None
        return None, None

    def tags(self):
        """The labels that the task gives, None if it gives none; values are text, whatever YAML made of them."""
        if self.params["tags"] is None:
            return None
        return dict((to_text(key), label(value)) for key, value in self.params["tags"].items())

    def change_tags(self, segments, etag):
        self.array.request("PUT", segments + ("tags",), {"tags": self.tags()}, etag)

    def change_primitives(self, segments, etag):
        self.array.request("PATCH", segments + ("primitives",), self.given_primitives(), etag)

    def given_primitives(self):
        return self.given(**(self.params["primitives"] or {}))

    def change_limits(self, segments, etag):
        self.array.request("PATCH", segments + ("limits",), self.asked_limits(), etag)

    def asked_limits(self):
        """Those limits that the task gives, as they are sent: 0 takes one away. ArrayError if one is out of range."""
        limits = self.params["limits"] or {}
        bandwidth = parse_size(limits["bandwidth"]) if limits.get("bandwidth") is not None else None
        asked = self.given(iops=limits.get("iops"), bytes_per_second=bandwidth, burst_ms=limits.get("burst_ms"))
        for name, value in asked.items():
            option, least, most = LIMITS[name]
            if value != 0 and not least <= value <= most:
                raise ArrayError("%s of limits is 0 for none, or %d to %d" % (option, least, most))
        return asked

    def wanted_limits(self, found):
        """The limits as the array is to show them, None if the task gives none."""
        asked = self.asked_limits()
        if not asked:
            return None
        wanted = dict((name, value or NO_LIMITS[name]) for name, value in asked.items())
        return dict(found["limits"] if found else NO_LIMITS, **wanted)

    def change_thresholds(self, segments, found, etag):
        asked = dict(found["thresholds"], **self.given(soft_percent=self.params["soft_percent"], hard_percent=self.params["hard_percent"]))
        self.array.request("PUT", segments + ("thresholds",), asked, etag)


class Course:
    """What has happened on the way to what a task says."""

    def __init__(self):
        # For the difference: what there was at the first look, and what there should be by the last one.
        self.first = None
        self.last = None
        self.done = set()
        self.changed = False
        # The name of a change that may have been carried out though its answer was lost.
        self.doubtful = None
        self.conflicts = 0

    def look(self, before, after):
        """Takes a look; the names of what is left to do."""
        if self.first is None:
            self.first = told(before)
        self.last = told(after)
        left = differences(before, after, self.done)
        if self.doubtful is not None and self.doubtful not in left:
            self.changed = True
        self.doubtful = None
        return left

    def finish(self, name):
        self.changed = True
        self.done.add(name)

    def excuse(self, name, problem):
        """Takes a refusal that came because somebody else was there before; raises any other one."""
        overtaken = problem.is_of("changed", "not-there", "key-used-before")
        overtaken = overtaken or (name == "create" and problem.is_of("name-taken", "already-there"))
        overtaken = overtaken or (name == "remove" and problem.is_of("not-found", "not-mapped"))
        self.conflicts += 1
        if not overtaken or self.conflicts > (UNSEEN_MAX if name == "create" else CONFLICTS_MAX):
            raise problem
        self.doubtful = name if problem.resent else None
        time.sleep(min(PAUSE_MAX, PAUSE_FIRST * 2 ** min(self.conflicts, 8)))


def told(managed):
    """What a difference tells of an object, which may be missing, or have nothing that the task says."""
    return dict(state="absent") if managed is None else dict(managed, state="present")


def differences(before, after, done):
    """Names of what is to be done, in the order of 'after'."""
    if after is None:
        return ["remove"] if before is not None and "remove" not in done else []
    if before is None:
        return ["create"]
    return [name for name in after if after[name] != before.get(name) and name not in done]


def states(resource, found):
    """What the module manages, as it is and as it should be; None for an object that is not there."""
    before = resource.shown(found) if found is not None else None
    if resource.params["state"] == "absent":
        return before, None
    return before, dict(before or {}, **resource.wanted(found))


def take(resource, name, found, etag):
    if name == "create":
        resource.create()
    elif name == "remove":
        resource.remove(found, etag)
    else:
        resource.change(name, found, etag)


def converge(resource):
    """Brings the object to what the task says, and returns the task's result."""
    course = Course()
    while True:
        found, etag = resource.find()
        before, after = states(resource, found)
        left = course.look(before, after)
        if left == ["create"] and "create" in course.done:
            raise ArrayError("somebody deleted the %s while this task changed it" % resource.kind)
        if left and resource.module.check_mode:
            if left == ["remove"]:
                resource.check_removal(found)
            course.changed = True
        if not left or resource.module.check_mode:
            break
        try:
            take(resource, left[0], found, etag)
            course.finish(left[0])
        except Problem as problem:
            course.excuse(left[0], problem)
    result = dict(changed=course.changed, diff=dict(before=course.first, after=course.last))
    if found is not None and not (resource.module.check_mode and left):
        result.update(resource.result(found))
    return result


def new_module(options, **rules):
    """The module with the options of the connection and of the state, beside its own."""
    state = dict(state=dict(type="str", choices=["present", "absent"], default="present"))
    return AnsibleModule(argument_spec=dict(CONNECTION_OPTIONS, **dict(state, **options)), supports_check_mode=True, **rules)


def run(module, work):
    """Ends the module with what work(array) returns, or with what the array said."""
    try:
        result = work(Array(module.params))
    except Problem as problem:
        module.fail_json(msg=str(problem), status=problem.status, problem=problem.body)
    except ArrayError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


def manage(module, kind):
    """Ends the module after it brought the object to what the task says."""
    run(module, lambda array: converge(kind(module, array)))


TAGS_OPTION = dict(type="dict", default=None)
PRIMITIVES_OPTION = dict(
    type="dict",
    options=dict(
        compare_and_write=dict(type="bool"),
        extended_copy=dict(type="bool"),
        unmap=dict(type="bool"),
        write_same=dict(type="bool"),
    ),
)
LIMITS_OPTION = dict(
    type="dict",
    options=dict(
        iops=dict(type="int"),
        bandwidth=dict(type="str"),
        burst_ms=dict(type="int"),
    ),
)
