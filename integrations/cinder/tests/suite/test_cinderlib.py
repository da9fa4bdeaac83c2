# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""cinderlib around the driver: the life of volumes without a Cinder service.

This machine has no initiator in its kernel: contents go through libiscsi with the connection that cinderlib keeps.
"""

import os
import unittest

import cinderlib
import wire
from daemon import Daemon
from wire import KEY, connector

GIB = 1 << 30


class Cinderlib(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.end)
        keys = os.path.join(cls.daemon.folder, "keys")
        with open(keys, "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        cinderlib.setup(disable_logs=True, root_helper="")
        cls.backend = cinderlib.Backend(
            volume_backend_name="gantry", volume_driver="gantry_cinder.driver.GantryISCSIDriver",
            gantry_url=cls.daemon.url, gantry_token=cls.daemon.token, gantry_pools="p", gantry_chap_key_file=keys)

    def tearDown(self):
        self.assertEqual((self.daemon.volumes(), self.daemon.snapshots()), ({}, []))

    def opened(self, volume, number=1):
        connection = volume.connect(connector(number))
        return connection, connection.connection_info["conn"]["data"], connector(number)["initiator"]

    def test_create_write_snapshot_clone_revert_extend_and_delete(self):
        volume = self.backend.create_volume(size=1, name="data")
        connection, data, host = self.opened(volume)
        wire.write(data, host, 1)
        snapshot = volume.create_snapshot("monday")
        wire.write(data, host, 2)
        clone = volume.clone()
        restored = snapshot.create_volume()
        for made, pattern in ((clone, 2), (restored, 1)):
            made_connection, seen, unused = self.opened(made)
            wire.expect(seen, host, pattern)
            made_connection.disconnect()
        connection.disconnect()
        self.backend.driver.revert_to_snapshot(None, volume._ovo, snapshot._ovo)
        volume.extend(2)
        connection, data, host = self.opened(volume)
        wire.expect(data, host, 1)
        wire.expect(data, host, 0, offset="1G")
        self.assertEqual(wire.size(data, host), "2")
        connection.disconnect()
        self.assertEqual(set(map(tuple, self.daemon.volumes().values())), {()})
        snapshot.delete()
        for each in (volume, clone, restored):
            each.delete()

    def test_the_scheduler_sees_the_pool(self):
        stats = self.backend.stats(refresh=True)
        self.assertEqual(stats["pools"][0]["pool_name"], "p")
        self.assertGreater(stats["pools"][0]["free_capacity_gb"], 1)

    def test_qos_specs_are_limits_of_the_array(self):
        volume = self.backend.create_volume(size=1, qos_specs={"total_iops_sec": "500"})
        self.assertEqual(self.daemon.volume(volume._ovo.name)["limits"]["iops"], 500)
        volume.delete()

    def test_two_hosts_share_a_volume(self):
        volume = self.backend.create_volume(size=1)
        first, data, host = self.opened(volume, 1)
        second, other_data, other = self.opened(volume, 2)
        wire.write(data, host, 5)
        wire.expect(other_data, other, 5)
        first.disconnect()
        self.assertTrue(wire.is_refused(data, host))
        wire.expect(other_data, other, 5)
        second.disconnect()
        volume.delete()
