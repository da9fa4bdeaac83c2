# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Finds volumes and snapshots of the array by a tag with Cinder's id, and makes and deletes them once.

The tag is set in the request that makes the object, so whatever the driver made can be told from what
others made, also when the driver or the array was killed in the middle. Nothing without it is changed.
"""

import time

from gantry_cinder.array import ArrayError, Problem

OPEN_STATES = ("ready", "read-only")
# Looks at an object that somebody else keeps changing.
LOOKS_MAX = 20
# Seconds before the second look; each further one is twice as long, up to the second figure. The array
# compares with a change that it is still saving, and does not show it yet.
PAUSE_FIRST = 0.01
PAUSE_MAX = 0.5


class Kind:
    """A collection of the array and the tag by which Cinder's objects are known in it."""

    def __init__(self, collection, tag, noun):
        self.collection = collection
        self.tag = tag
        self.noun = noun

    def id_of(self, found):
        """Cinder's id of an object of the array, or None."""
        return found["tags"].get(self.tag, "").rpartition("/")[2] or None


VOLUME = Kind("volumes", "cinder.volume", "volume")
SNAPSHOT = Kind("snapshots", "cinder.snapshot", "snapshot")


class Key:
    """How Cinder calls a volume or snapshot: its id, the name made of that, and the pool it should be in."""

    def __init__(self, kind, pool, name, id):
        self.kind = kind
        self.pool = pool
        self.name = name
        self.id = id


class Taken(ArrayError):
    """The name belongs to an object that is not the one of that id."""


class Missing(ArrayError):
    """There is no such object, and all pools in which it could be are open."""


def path_of(found):
    """POOL/NAME."""
    return "%s/%s" % (found["pool"], found["name"])


class Inventory:
    """Volumes and snapshots of one backend of Cinder."""

    def __init__(self, array, owner, pools):
        self.array = array
        # Stands before the id in tags, so that one request lists what this backend made.
        self.owner = owner
        self.pools = pools

    def find(self, key):
        """The object, or None. What is not seen in a pool that is not open is an error, and not None."""
        found, unused = self.array.get(key.kind.collection, key.pool, key.name)
        if found is not None and key.kind.id_of(found) == key.id:
            return found
        # An administrator may have renamed it, or another one may have its name.
        tagged = self.array.list(key.kind.collection, tag="%s:*/%s" % (key.kind.tag, key.id))
        if len(tagged) > 1:
            raise ArrayError("the tag %s of %s names %s: take it off all but one"
                             % (key.kind.tag, key.id, " and ".join(path_of(each) for each in tagged)))
        if tagged:
            return tagged[0]
        if found is not None:
            raise Taken("%s of the array is not the %s %s of Cinder (it has no tag %s of that id): rename it"
                        % (path_of(found), key.kind.noun, key.id, key.kind.tag))
        self.expect_open({key.pool, *self.pools})
        return None

    def existing(self, key):
        found = self.find(key)
        if found is None:
            raise Missing("the array has no %s %s of Cinder any more" % (key.kind.noun, key.id))
        return found

    def expect_open(self, pools):
        """ArrayError unless all of these pools are open."""
        known = dict((pool["name"], pool) for pool in self.array.list("pools"))
        for name in sorted(pools):
            pool = known.get(name)
            if pool is None:
                raise ArrayError("the array has no pool '%s': see gantry_pools" % name)
            if pool["state"] not in OPEN_STATES:
                raise ArrayError("pool '%s' is %s, so its volumes and snapshots are not seen: %s"
                                 % (name, pool["state"], pool["reason"] or "open it with 'gantry pool open'"))

    def tags(self, key):
        return {key.kind.tag: "%s/%s" % (self.owner, key.id)}

    def make(self, key, segments, body, fits):
        """Makes an object by a POST; 'fits' says of one that an interrupted call left whether it will do."""
        left = self.find(key)
        if left is not None:
            return self.adopt(key, left, fits)
        try:
            return self.array.post(segments, body)
        except Problem as problem:
            # Nothing had the name a moment ago, and an earlier attempt of this request may have made it.
            if not problem.is_of("name-taken") or not problem.resent:
                raise
            return self.existing(key)

    def adopt(self, key, left, fits):
        if not fits(left):
            raise Taken("the array has %s of Cinder's %s %s already, made by a call that was interrupted: delete that %s"
                        % (path_of(left), key.kind.noun, key.id, key.kind.noun))
        return left

    def make_volume(self, key, size, thick, block_size):
        body = dict(pool=key.pool, name=key.name, size_bytes=size, thick=thick, tags=self.tags(key))
        if block_size is not None:
            body["block_size"] = block_size

        def fits(left):
            return (left["mapped_bytes"] == 0 and left["origin"] is None and not left["maps"]
                    and (left["size_bytes"], left["thick"]) == (size, thick)
                    and block_size in (None, left["block_size"]))
        return self.make(key, ("volumes",), body, fits)

    def make_clone(self, key, source, size, thick):
        """A volume with the content of a volume or snapshot of the same pool, as large as it should be."""
        if source["pool"] != key.pool:
            raise ArrayError("%s is in another pool than '%s', and the array clones within a pool"
                             % (path_of(source), key.pool))
        body = dict(name=key.name, thick=thick, tags=self.tags(key))
        # Its source may have changed since an interrupted call made it, so none of those will do.
        made = self.make(key, ("volumes", source["pool"], source["name"], "clones"), body, lambda left: False)
        try:
            return self.grow(made, size)
        except (Problem, ArrayError):
            self.delete(key)
            raise

    def grow(self, found, size):
        """Makes a volume at least so large."""
        if found["size_bytes"] >= size:
            return found
        return self.array.patch(("volumes", found["pool"], found["name"]), dict(size_bytes=size))

    def limit(self, found, limits):
        """Limits a volume as a volume type says; a clone comes with those of its source."""
        if dict((name, value or 0) for name, value in found["limits"].items()) != limits:
            self.array.patch(("volumes", found["pool"], found["name"], "limits"), limits)

    def make_snapshots(self, pool, pairs):
        """Snapshots of one moment, of pairs of a volume of the array and a key."""
        wanted = []
        for volume, key in pairs:
            if volume["pool"] != pool:
                raise ArrayError("%s is in another pool than '%s', and snapshots of one moment are of one pool"
                                 % (path_of(volume), pool))
            left = self.find(key)
            if left is not None:
                self.adopt(key, left, lambda left: False)
            wanted.append(dict(volume=volume["name"], name=key.name, tags=self.tags(key)))
        try:
            return self.array.post(("snapshots",), dict(pool=pool, snapshots=wanted))
        except Problem as problem:
            # All of them are made at once or none is.
            if not problem.is_of("name-taken") or not problem.resent:
                raise
            return [self.existing(key) for unused, key in pairs]

    def delete(self, key):
        """Deletes a volume or snapshot that Cinder made or took over; False if there was none."""
        gone = False
        for again in pauses():
            found = self.find(key)
            if found is None:
                return gone
            gone = True
            segments = (key.kind.collection, found["pool"], found["name"])
            current, etag = self.array.get(*segments)
            if current is None or key.kind.id_of(current) != key.id:
                continue
            try:
                self.array.delete(segments, etag)
                return True
            except Problem as problem:
                if problem.is_of("not-found", "not-there"):
                    return True
                if not problem.is_of("changed") or not again:
                    raise
        return gone

    def set_tag(self, kind, segments, expected, value):
        """Sets the tag of Cinder's id, or takes it off with None, if it is 'expected' now."""
        for again in pauses():
            found, etag = self.array.get(*segments)
            if found is None:
                raise Missing("the array has no %s %s" % (kind.noun, "/".join(segments[1:])))
            tags = dict(found["tags"])
            if tags.get(kind.tag) == value:
                return found
            if tags.get(kind.tag) != expected:
                raise Taken("%s belongs to %s of Cinder" % (path_of(found), tags.get(kind.tag)))
            tags.pop(kind.tag, None)
            if value is not None:
                tags[kind.tag] = value
            try:
                return self.array.put(segments + ("tags",), dict(tags=tags), etag)
            except Problem as problem:
                if not problem.is_of("changed", "not-there") or not again:
                    raise
        raise ArrayError("others keep changing %s: try again" % "/".join(segments[1:]))


def pauses():
    """Goes round until LOOKS_MAX, with pauses between; False the last time."""
    pause = PAUSE_FIRST
    for look in range(LOOKS_MAX):
        if look:
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX)
        yield look + 1 < LOOKS_MAX
