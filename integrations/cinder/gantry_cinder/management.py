# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Takes over volumes and snapshots that are on the array already, lets go of them, and lists them."""

from cinder import exception
from cinder.volume import volume_utils

from gantry_cinder.array import Problem
from gantry_cinder.errors import asks_array, sentence
from gantry_cinder.inventory import Key, path_of, SNAPSHOT, VOLUME
from gantry_cinder.types import Wish

GIB = 1 << 30


class Management:
    """The part of the driver that is about objects that Cinder did not make.

    What is taken over gets Cinder's tag and name; hosts notice nothing. A reference is NAME in the pool of the
    volume, POOL/NAME, or as 'source-id' the NAA identifier.
    """

    @asks_array()
    def manage_existing(self, volume, existing_ref):
        found = self.referenced(VOLUME, volume.host, existing_ref)
        if found["hosts"]:
            raise bad_reference(existing_ref, "hosts see %s: %s" % (path_of(found), ", ".join(found["hosts"])))
        wish = Wish.of(volume)
        if not wish.fits(found):
            raise exception.ManageExistingVolumeTypeMismatch(
                reason="%s is %s and has blocks of %s" % (path_of(found), "thick" if found["thick"] else "thin",
                                                          found["block_size"]))
        self.take_over(self.volume_key(volume), found, existing_ref)
        # A type that limits nothing leaves what an administrator of the array did.
        if wish.qos.specs:
            self.inventory.limit(self.inventory.existing(self.volume_key(volume)), wish.qos.limits(volume.size))

    @asks_array()
    def manage_existing_get_size(self, volume, existing_ref):
        return ceiling(self.referenced(VOLUME, volume.host, existing_ref)["size_bytes"])

    @asks_array()
    def unmanage(self, volume):
        self.let_go(self.volume_key(volume))

    @asks_array()
    def manage_existing_snapshot(self, snapshot, existing_ref):
        found = self.referenced(SNAPSHOT, snapshot.volume.host, existing_ref)
        source = self.inventory.existing(self.volume_key(snapshot.volume))
        if found["volume"] != source["name"]:
            raise bad_reference(existing_ref, "%s is no snapshot of %s" % (path_of(found), path_of(source)))
        self.take_over(self.snapshot_key(snapshot), found, existing_ref)

    @asks_array()
    def manage_existing_snapshot_get_size(self, snapshot, existing_ref):
        return ceiling(self.referenced(SNAPSHOT, snapshot.volume.host, existing_ref)["size_bytes"])

    @asks_array()
    def unmanage_snapshot(self, snapshot):
        self.let_go(self.snapshot_key(snapshot))

    @asks_array()
    def get_manageable_volumes(self, cinder_volumes, marker, limit, offset, sort_keys, sort_dirs):
        managed = dict((volume.name_id, volume.id) for volume in cinder_volumes)
        entries = [self.entry(VOLUME, found, managed) for found in self.array.list("volumes")
                   if found["pool"] in self.settings.pools]
        return volume_utils.paginate_entries_list(entries, marker, limit, offset, sort_keys, sort_dirs)

    @asks_array()
    def get_manageable_snapshots(self, cinder_snapshots, marker, limit, offset, sort_keys, sort_dirs):
        managed = dict((snapshot.id, snapshot.id) for snapshot in cinder_snapshots)
        entries = []
        for found in self.array.list("snapshots"):
            if found["pool"] in self.settings.pools and found["volume"] is not None:
                entry = self.entry(SNAPSHOT, found, managed)
                entry["source_reference"] = {"source-name": "%s/%s" % (found["pool"], found["volume"])}
                entries.append(entry)
        return volume_utils.paginate_entries_list(entries, marker, limit, offset, sort_keys, sort_dirs)

    def entry(self, kind, found, managed):
        id = kind.id_of(found)
        cinder_id = managed.get(id)
        reason = None
        if cinder_id is not None:
            reason = "Cinder has it already"
        elif id is not None:
            reason = "its tag %s is %s: Cinder has lost it, or another Cinder has it" % (kind.tag, found["tags"][kind.tag])
        elif found["hosts"]:
            reason = "hosts see it: %s" % ", ".join(found["hosts"])
        return {
            "reference": {"source-name": path_of(found)},
            "size": ceiling(found["size_bytes"]),
            "safe_to_manage": reason is None,
            "reason_not_safe": reason,
            "cinder_id": cinder_id,
            "extra_info": found["naa"],
        }

    def referenced(self, kind, resource_host, reference):
        pool = self.pool_of(resource_host)
        if "source-id" in reference:
            listed = self.array.list(kind.collection, naa=reference["source-id"].replace("*", ""))
            found = listed[0] if listed else None
        elif "source-name" in reference:
            named, unused, name = reference["source-name"].rpartition("/")
            found = self.array.get(kind.collection, named or pool, name)[0] if name else None
        else:
            raise bad_reference(reference, "it has neither source-name nor source-id")
        if found is None:
            raise bad_reference(reference, "the array has no such %s" % kind.noun)
        if found["pool"] != pool:
            raise bad_reference(reference, "%s is not in pool '%s' of the backend" % (path_of(found), pool))
        if kind is VOLUME and found["snapshot"]:
            raise bad_reference(reference, "%s is a snapshot" % path_of(found))
        return found

    def take_over(self, key, found, reference):
        """The tag goes first: it is what Cinder's object is known by, and the name may stay as it is."""
        if key.kind.id_of(found) not in (None, key.id):
            raise exception.ManageExistingAlreadyManaged(volume_ref=path_of(found))
        segments = (key.kind.collection, found["pool"], found["name"])
        self.inventory.set_tag(key.kind, segments, None, self.inventory.tags(key)[key.kind.tag])
        try:
            if found["name"] != key.name:
                self.array.post(segments + ("rename",), dict(name=key.name))
        except Problem as problem:
            if problem.resent and self.inventory.existing(key)["name"] == key.name:
                return
            self.inventory.set_tag(key.kind, segments, self.inventory.tags(key)[key.kind.tag], None)
            raise bad_reference(reference, sentence(problem)) from problem

    def let_go(self, key):
        found = self.inventory.find(key)
        if found is not None:
            segments = (key.kind.collection, found["pool"], found["name"])
            self.inventory.set_tag(key.kind, segments, found["tags"][key.kind.tag], None)


def ceiling(size):
    """GiB, rounded up as Cinder wants it."""
    return -(-size // GIB)


def bad_reference(reference, reason):
    return exception.ManageExistingInvalidReference(existing_ref=reference, reason=reason)
