# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""The life of volumes: every method of the driver against a gantryd, contents over real iSCSI sessions with CHAP."""

import os
import unittest

import wire
from cinder import exception
from cinder.interface import volume_driver
from cinder.interface import volume_group_driver
from cinder.interface import volume_manageable_driver
from cinder.interface import volume_snapshot_revert
from cinder.interface import volume_snapshotmanagement_driver
from wire import KEY, connector
from world import CONTEXT, Case, GIB, group_of


class Life(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = os.path.join(cls.daemon.folder, "keys")
        with open(cls.keys, "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        cls.OPTIONS = dict(gantry_chap_key_file=cls.keys)

    def test_the_driver_has_every_method_of_the_interfaces_that_it_offers(self):
        for offered in (volume_driver.VolumeDriverCore, volume_group_driver.VolumeGroupDriver,
                        volume_manageable_driver.VolumeListManageableDriver, volume_snapshot_revert.VolumeSnapshotRevertDriver,
                        volume_snapshotmanagement_driver.VolumeSnapshotManagementDriver):
            self.assertTrue(issubclass(type(self.driver), offered), offered)

    def test_setup_finds_pools_role_and_portals(self):
        self.driver.check_for_setup_error()

    def test_contents_go_through_snapshot_clone_revert_and_extension(self):
        volume = self.make(2)
        data, host = self.connect(volume)
        wire.write(data, host, 1)
        snapshot = self.world.snapshot(volume)
        self.driver.create_snapshot(snapshot)
        wire.write(data, host, 2)

        restored, cloned = self.world.volume(3), self.world.volume(2)
        self.driver.create_volume_from_snapshot(restored, snapshot)
        self.driver.create_cloned_volume(cloned, volume)
        for made, pattern, size in ((restored, 1, "3 GiB"), (cloned, 2, "2 GiB")):
            seen, unused = self.connect(made)
            wire.expect(seen, host, pattern)
            self.assertEqual(wire.size(seen, host), size.split()[0])
            self.disconnect(made)

        self.disconnect(volume)
        self.driver.revert_to_snapshot(CONTEXT, volume, snapshot)
        data, host = self.connect(volume)
        wire.expect(data, host, 1)
        self.driver.extend_volume(volume, 5)
        self.assertEqual(self.daemon.volume(volume.name)["size_bytes"], 5 * GIB)
        wire.expect(data, host, 0, offset="4G")

        self.disconnect(volume)
        self.driver.delete_snapshot(snapshot)
        for each in (volume, restored, cloned):
            self.driver.delete_volume(each)
        self.assertEqual((self.daemon.volumes(), self.daemon.snapshots()), ({}, []))

    def test_a_reverted_volume_keeps_the_size_to_which_it_was_extended(self):
        volume = self.make(1)
        snapshot = self.world.snapshot(volume)
        self.driver.create_snapshot(snapshot)
        self.driver.extend_volume(volume, 2)
        volume.size = 2
        self.driver.revert_to_snapshot(CONTEXT, volume, snapshot)
        self.assertEqual(self.daemon.volume(volume.name)["size_bytes"], 2 * GIB)

    def test_all_paths_lead_to_the_volume_with_chap_and_discard(self):
        volume = self.make()
        data, host = self.connect(volume)
        self.assertEqual(sorted(data["target_portals"]), sorted(self.daemon.portals))
        self.assertEqual((data["target_portal"], data["target_lun"]), (data["target_portals"][0], data["target_luns"][0]))
        self.assertTrue(data["discard"])
        wire.write(data, host, 7, path=0)
        wire.expect(data, host, 7, path=1)
        wire.io(data, host, "discard 0 1M")
        self.assertEqual(self.daemon.volume(volume.name)["mapped_bytes"], 0)

    def test_nobody_gets_in_without_the_secret_or_as_another_host(self):
        volume = self.make()
        data, host = self.connect(volume)
        for wrong in (dict(data, auth_password="wrong" * 6), dict((key, data[key]) for key in data if "auth" not in key)):
            self.assertTrue(wire.is_refused(wrong, host))
        self.assertTrue(wire.is_refused(data, connector(2)["initiator"]))
        self.assertFalse(wire.is_refused(data, host))

    def test_a_second_call_says_the_same(self):
        volume = self.make()
        first = self.driver.initialize_connection(volume, connector())
        self.assertEqual(self.driver.initialize_connection(volume, connector()), first)
        self.assertFalse(self.driver.terminate_connection(volume, connector()))
        self.assertFalse(self.driver.terminate_connection(volume, connector()))
        self.assertEqual(self.daemon.volumes(), {volume.name: []})

    def test_a_host_that_uses_volumes_keeps_its_secret_until_it_has_none(self):
        volume, other = self.make(), self.make()
        old, host = self.connect(volume)
        with open(self.keys, "a", encoding="utf-8") as file:
            file.write("f" * 40 + "\n")
        kept, unused = self.connect(other)
        self.assertEqual(kept["auth_password"], old["auth_password"])
        self.assertFalse(wire.is_refused(kept, host))
        self.disconnect(volume)
        self.disconnect(other)
        renewed, unused = self.connect(volume)
        self.assertNotEqual(renewed["auth_password"], old["auth_password"])
        self.assertFalse(wire.is_refused(renewed, host))
        self.assertTrue(wire.is_refused(dict(renewed, auth_password=old["auth_password"]), host))

    def test_a_key_that_was_lost_is_said_while_the_host_has_volumes(self):
        volume, other = self.make(), self.make()
        self.connect(volume)
        with open(self.keys, "w", encoding="utf-8") as file:
            file.write("e" * 40 + "\n")
        with self.assertRaisesRegex(exception.VolumeBackendAPIException, "gantry_chap_key_file has no more"):
            self.driver.initialize_connection(other, connector())
        self.disconnect(volume)
        self.assertFalse(wire.is_refused(*self.connect(other)))

    def test_a_thick_volume_is_thick_and_a_type_that_differs_is_left_to_a_migration(self):
        volume = self.make(specs={"provisioning:type": "thick"})
        self.assertTrue(self.daemon.volume(volume.name)["thick"])
        host = {"host": volume.host}
        retype = self.driver.retype
        self.assertTrue(retype(CONTEXT, volume, {"extra_specs": {"provisioning:type": "thick"}}, {}, host))
        self.assertFalse(retype(CONTEXT, volume, {"extra_specs": {}}, {}, host))
        self.assertFalse(retype(CONTEXT, volume, {"extra_specs": {"provisioning:type": "thick"}}, {}, {"host": "node@gantry#q"}))
        with self.assertRaisesRegex(exception.VolumeBackendAPIException, "provisioning:type is thin or thick"):
            retype(CONTEXT, volume, {"extra_specs": {"provisioning:type": "fat"}}, {}, host)
        with self.assertRaisesRegex(exception.VolumeBackendAPIException, "gantry:colour"):
            self.driver.create_volume(self.world.volume(specs={"gantry:colour": "red"}))

    def test_blocks_are_those_of_the_type(self):
        volume = self.make(specs={"gantry:block_size": "4096"})
        self.assertEqual(self.daemon.volume(volume.name)["block_size"], "4096")
        with self.assertRaisesRegex(exception.VolumeBackendAPIException, "those of its source"):
            self.driver.create_cloned_volume(self.world.volume(specs={"gantry:block_size": "512"}), volume)

    def test_a_clone_of_another_pool_is_refused(self):
        with self.assertRaisesRegex(exception.VolumeBackendAPIException, "the array clones within a pool"):
            self.driver.create_cloned_volume(self.world.volume(pool="q"), self.make())
        self.assertEqual(len(self.daemon.volumes()), 1)

    def test_a_snapshot_is_connected_for_reading_only(self):
        volume = self.make()
        data, host = self.connect(volume)
        wire.write(data, host, 3)
        snapshot = self.world.snapshot(volume)
        self.driver.create_snapshot(snapshot)
        wire.write(data, host, 4)
        seen = self.driver.initialize_connection_snapshot(snapshot, connector())["data"]
        wire.expect(seen, host, 3)
        self.assertNotEqual(seen["target_lun"], data["target_lun"])
        with self.assertRaises(AssertionError):
            wire.write(seen, host, 5)
        self.driver.terminate_connection_snapshot(snapshot, connector())
        self.driver.delete_snapshot(snapshot)

    def test_capacity_counts_what_is_used_promised_and_provisioned(self):
        self.make(1, specs={"provisioning:type": "thick"})
        volume = self.make(10)
        data, host = self.connect(volume)
        wire.write(data, host, 1, length="64M")
        stats = self.driver.get_volume_stats(refresh=True)
        pool, other = stats["pools"]
        self.assertEqual((pool["pool_name"], other["pool_name"]), ("p", "q"))
        self.assertEqual(pool["provisioned_capacity_gb"], 11)
        self.assertEqual(other["provisioned_capacity_gb"], 0)
        self.assertLess(pool["free_capacity_gb"], other["free_capacity_gb"] - 1.05)
        self.assertGreater(pool["free_capacity_gb"], other["free_capacity_gb"] - 1.2)
        self.assertEqual(pool["total_capacity_gb"], other["total_capacity_gb"])
        self.assertTrue(pool["thin_provisioning_support"] and pool["multiattach"])

    def test_groups_have_snapshots_of_one_moment_and_groups_made_of_them(self):
        group, taken = group_of(), group_of()
        self.driver.create_group(CONTEXT, group)
        volumes = [self.make(), self.make()]
        for pattern, volume in enumerate(volumes, 1):
            data, host = self.connect(volume)
            wire.write(data, host, pattern)
        snapshots = [self.world.snapshot(volume) for volume in volumes]
        self.driver.create_group_snapshot(CONTEXT, taken, snapshots)
        made = [self.world.volume(snapshot_id=snapshot.id) for snapshot in snapshots]
        self.driver.create_group_from_src(CONTEXT, group_of(), made, group_snapshot=taken, snapshots=snapshots)
        again = [self.world.volume(source_volid=volume.id) for volume in volumes]
        self.driver.create_group_from_src(CONTEXT, group_of(), again, source_group=group, source_vols=volumes)
        for clones in (made, again):
            for pattern, clone in enumerate(clones, 1):
                data, host = self.connect(clone)
                wire.expect(data, host, pattern)
                self.disconnect(clone)
        self.assertEqual(len(self.daemon.snapshots()), 2)
        model, updates = self.driver.delete_group_snapshot(CONTEXT, taken, snapshots)
        self.assertEqual((model["status"], {update["status"] for update in updates}), ("deleted", {"deleted"}))
        self.assertEqual(self.daemon.snapshots(), [])
        model, updates = self.driver.delete_group(CONTEXT, group_of(), made)
        self.assertEqual((model["status"], {update["status"] for update in updates}), ("deleted", {"deleted"}))
        self.assertEqual(len(self.daemon.volumes()), 4)

    def test_a_group_of_another_kind_is_left_to_cinder(self):
        plain = group_of(consistent=False)
        for call in (lambda: self.driver.create_group(CONTEXT, plain),
                     lambda: self.driver.create_group_snapshot(CONTEXT, plain, []),
                     lambda: self.driver.delete_group(CONTEXT, plain, [])):
            self.assertRaises(NotImplementedError, call)

    def test_a_group_over_two_pools_has_no_snapshot(self):
        snapshots = [self.world.snapshot(self.make(pool=pool)) for pool in ("p", "q")]
        with self.assertRaisesRegex(exception.VolumeBackendAPIException, "of one moment are of one pool"):
            self.driver.create_group_snapshot(CONTEXT, group_of(), snapshots)
        self.assertEqual(self.daemon.snapshots(), [])

    def test_what_is_there_is_taken_over_and_let_go(self):
        self.daemon.gantry("volume", "create", "p/old", "--size", "1536M")
        self.daemon.gantry("snapshot", "create", "p/old", "monday")
        naa = self.daemon.volume("old")["naa"]
        volume = self.world.volume(2)
        listed = self.driver.get_manageable_volumes([], None, 10, 0, ["size"], ["asc"])
        self.assertEqual([(each["reference"], each["safe_to_manage"], each["size"]) for each in listed],
                         [({"source-name": "p/old"}, True, 2)])
        for reference in ({"source-name": "old"}, {"source-name": "p/old"}, {"source-id": naa}):
            self.assertEqual(self.driver.manage_existing_get_size(volume, reference), 2)
        self.driver.manage_existing(volume, {"source-name": "old"})
        self.assertEqual(self.daemon.volume(volume.name)["naa"], naa)
        snapshot = self.world.snapshot(volume)
        listed = self.driver.get_manageable_snapshots([], None, 10, 0, ["size"], ["asc"])
        self.assertEqual(listed[0]["source_reference"], {"source-name": "p/" + volume.name})
        self.driver.manage_existing_snapshot(snapshot, {"source-name": "monday"})
        self.assertEqual(self.daemon.snapshots(), [snapshot.name])
        listed = self.driver.get_manageable_volumes([volume], None, 10, 0, ["size"], ["asc"])
        self.assertEqual((listed[0]["cinder_id"], listed[0]["safe_to_manage"]), (volume.id, False))
        self.driver.unmanage_snapshot(snapshot)
        self.driver.unmanage(volume)
        self.assertEqual(self.daemon.volume(volume.name)["tags"], {})

    def test_what_cannot_be_taken_over_stays_as_it_is(self):
        self.daemon.gantry("volume", "create", "p/seen", "--size", "1G")
        self.daemon.gantry("volume", "map", "p/seen", "--host", "any")
        self.daemon.gantry("volume", "create", "q/far", "--size", "1G")
        self.daemon.gantry("volume", "create", "p/thin", "--size", "1G")
        managed = self.make()
        before = self.daemon.gantry("volume", "list")
        invalid = exception.ManageExistingInvalidReference
        for reference, error in (({"source-name": "seen"}, invalid), ({"source-name": "q/far"}, invalid),
                                 ({"source-name": "none"}, invalid), ({"source-name": ""}, invalid), ({}, invalid),
                                 ({"source-id": "naa.*"}, invalid),
                                 ({"source-name": managed.name}, exception.ManageExistingAlreadyManaged)):
            self.assertRaises(error, self.driver.manage_existing, self.world.volume(), reference)
        self.assertRaises(exception.ManageExistingVolumeTypeMismatch, self.driver.manage_existing,
                          self.world.volume(specs={"provisioning:type": "thick"}), {"source-name": "thin"})
        self.assertEqual(self.daemon.gantry("volume", "list"), before)

    def test_a_volume_that_was_renamed_on_the_array_is_the_same_one(self):
        volume = self.make()
        self.daemon.gantry("volume", "rename", "p/" + volume.name, "renamed")
        self.daemon.gantry("volume", "create", "p/" + volume.name, "--size", "1G")
        self.connect(volume)
        self.assertEqual(len(self.daemon.volume("renamed")["hosts"]), 1)
        self.disconnect(volume)
        self.driver.delete_volume(volume)
        self.assertEqual(self.daemon.volumes(), {volume.name: []})
        self.assertIsNone(self.driver.delete_volume(self.world.volume()))

    def test_a_migrated_volume_is_found_by_the_id_with_which_it_was_made(self):
        volume, target = self.world.volume(), self.make(pool="q")
        update = self.driver.update_migrated_volume(CONTEXT, volume, target, "available")
        self.assertEqual(update, {"_name_id": target.id, "provider_location": None})
        volume._name_id, volume.host = update["_name_id"], target.host
        self.driver.extend_volume(volume, 2)
        self.driver.delete_volume(volume)
        self.assertEqual(self.daemon.volumes(), {})


if __name__ == "__main__":
    unittest.main()
