# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Generic volume groups whose snapshots are of one moment (consistent_group_snapshot_enabled='<is> True').

Groups of other types are Cinder's own: it makes the snapshots one after the other.
"""

from oslo_log import log as logging

from cinder import exception
from cinder.objects import fields
from cinder.volume import volume_utils

from gantry_cinder.array import ArrayError, Problem
from gantry_cinder.errors import asks_array, sentence
from gantry_cinder.inventory import Key, SNAPSHOT

LOG = logging.getLogger(__name__)
# Begins the id and the name of snapshots that exist while a group is made from another one.
PASSING = "passing-"


class Groups:
    """The part of the driver that is about groups. The array keeps no group: it takes snapshots together."""

    def create_group(self, context, group):
        expect_consistent(group)
        return {"status": fields.GroupStatus.AVAILABLE}

    def update_group(self, context, group, add_volumes=None, remove_volumes=None):
        expect_consistent(group)
        return None, None, None

    def delete_group(self, context, group, volumes):
        expect_consistent(group)
        updates = [self.outcome(volume, self.delete_volume, "deleted", "error_deleting") for volume in volumes]
        with_errors = any(update["status"] != "deleted" for update in updates)
        self.delete_passing(group, volumes)
        return {"status": fields.GroupStatus.ERROR_DELETING if with_errors else fields.GroupStatus.DELETED}, updates

    @asks_array()
    def create_group_snapshot(self, context, group_snapshot, snapshots):
        expect_consistent(group_snapshot)
        pairs = []
        for snapshot in snapshots:
            source = self.inventory.existing(self.volume_key(snapshot.volume))
            pairs.append((source, self.snapshot_key(snapshot, source["pool"])))
        self.inventory.make_snapshots(pairs[0][0]["pool"], pairs)
        return None, None

    def delete_group_snapshot(self, context, group_snapshot, snapshots):
        expect_consistent(group_snapshot)
        updates = [self.outcome(snapshot, self.delete_snapshot, "deleted", "error_deleting") for snapshot in snapshots]
        with_errors = any(update["status"] != "deleted" for update in updates)
        status = fields.GroupSnapshotStatus
        return {"status": status.ERROR_DELETING if with_errors else status.DELETED}, updates

    @asks_array()
    def create_group_from_src(self, context, group, volumes, group_snapshot=None, snapshots=None,
                              source_group=None, source_vols=None):
        expect_consistent(group)
        if snapshots:
            found = dict((each.id, self.inventory.existing(self.snapshot_key(each))) for each in snapshots)
            self.clone_all(volumes, [found[volume.snapshot_id] for volume in volumes])
            return None, None
        if not source_vols:
            raise ArrayError("a group is made from a group snapshot or from a group")
        by_id = dict((each.id, each) for each in source_vols)
        sources = [self.inventory.existing(self.volume_key(by_id[volume.source_volid])) for volume in volumes]
        pairs = [(source, passing_key(source["pool"], volume)) for source, volume in zip(sources, volumes)]
        try:
            self.clone_all(volumes, self.inventory.make_snapshots(pairs[0][1].pool, pairs))
        finally:
            self.delete_passing(group, volumes)
        return None, None

    def clone_all(self, volumes, sources):
        """All or none."""
        made = []
        try:
            for volume, source in zip(volumes, sources):
                made.append(volume)
                self.clone(volume, source)
        except (Problem, ArrayError):
            # The last one was not made, or belongs to a call before.
            for volume in made[:-1]:
                self.inventory.delete(self.volume_key(volume))
            raise

    def delete_passing(self, group, volumes):
        """Deletes what an interrupted call may have left, too. A snapshot that stays is found by its tag."""
        for volume in volumes:
            try:
                self.inventory.delete(passing_key(self.pool_of(volume.host), volume))
            except (Problem, ArrayError) as error:
                LOG.warning("Snapshot %s%s stays on the array: %s", PASSING, volume.id, sentence(error))

    def outcome(self, resource, delete, good, bad):
        try:
            delete(resource)
        except exception.CinderException as error:
            LOG.error("%s was not deleted: %s", resource.id, error)
            return {"id": resource.id, "status": bad}
        return {"id": resource.id, "status": good}


def passing_key(pool, volume):
    return Key(SNAPSHOT, pool, PASSING + volume.id, PASSING + volume.id)


def expect_consistent(group):
    if not volume_utils.is_group_a_cg_snapshot_type(group):
        raise NotImplementedError()
