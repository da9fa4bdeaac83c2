# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""QoS specs of volume types: limits of volumes that are made, cloned, extended, retyped and taken over."""

import unittest

from cinder import exception
from world import CONTEXT, Case

NONE = dict(iops=None, bytes_per_second=None, burst_ms=100)


class Qos(Case):
    def limits(self, volume):
        return self.daemon.volume(volume.name)["limits"]

    def limited(self, size=1, **specs):
        return self.make(size, qos=self.world.qos(**specs))

    def test_a_volume_has_the_limits_of_its_type_from_the_start(self):
        volume = self.limited(total_iops_sec=500, total_bytes_sec=20 << 20, burst_ms=2000)
        self.assertEqual(self.limits(volume), dict(iops=500, bytes_per_second=20 << 20, burst_ms=2000))
        self.assertEqual(self.limits(self.limited(total_bytes_sec=1 << 20)), dict(NONE, bytes_per_second=1 << 20))
        self.assertEqual(self.limits(self.make()), NONE)

    def test_what_is_for_the_hypervisor_alone_is_not_the_array_s(self):
        self.assertEqual(self.limits(self.limited(consumer="front-end", total_iops_sec=500, read_iops_sec=5)), NONE)
        both = self.limited(consumer="both", total_iops_sec=500, read_iops_sec=5, total_iops_sec_max=900)
        self.assertEqual(self.limits(both), dict(NONE, iops=500))

    def test_a_clone_has_the_limits_of_its_own_type_and_not_those_of_its_source(self):
        source = self.limited(total_iops_sec=500)
        snapshot = self.world.snapshot(source)
        self.driver.create_snapshot(snapshot)
        free, slow, restored = self.world.volume(), self.world.volume(qos=self.world.qos(total_iops_sec=20)), self.world.volume()
        self.driver.create_cloned_volume(free, source)
        self.driver.create_cloned_volume(slow, source)
        self.driver.create_volume_from_snapshot(restored, snapshot)
        for volume, limits in ((free, NONE), (slow, dict(NONE, iops=20)), (restored, NONE), (source, dict(NONE, iops=500))):
            self.assertEqual(self.limits(volume), limits)
        self.driver.delete_snapshot(snapshot)

    def test_limits_grow_with_the_volume_between_their_ends(self):
        specs = dict(total_iops_sec_per_gb=30, total_iops_sec_per_gb_min=50, total_iops_sec_max=100, total_bytes_sec_per_gb=1 << 20)
        volume = self.limited(**specs)
        for size, iops in ((1, 50), (2, 60), (4, 100)):
            if size > 1:
                self.driver.extend_volume(volume, size)
            self.assertEqual(self.limits(volume), dict(NONE, iops=iops, bytes_per_second=size << 20))
        self.assertEqual(self.limits(self.limited(total_iops_sec_per_gb=1)), dict(NONE, iops=10))

    def test_a_retype_changes_limits_and_nothing_else(self):
        volume = self.limited(total_iops_sec=500)
        naa, host = self.daemon.volume(volume.name)["naa"], {"host": volume.host}
        other = {"extra_specs": {}, "qos_specs_id": self.world.qos(total_bytes_sec=1 << 20)}
        self.assertTrue(self.driver.retype(CONTEXT, volume, other, {"qos_specs": {"total_iops_sec": ("500", None)}}, host))
        self.assertEqual(self.limits(volume), dict(NONE, bytes_per_second=1 << 20))
        self.assertTrue(self.driver.retype(CONTEXT, volume, {"extra_specs": {}}, {"qos_specs": {"consumer": ("back-end", None)}}, host))
        self.assertEqual(self.limits(volume), NONE)
        # What a migration has to do leaves the volume as it is, and types without other specs what an administrator did.
        thick = dict(other, extra_specs={"provisioning:type": "thick"})
        self.assertFalse(self.driver.retype(CONTEXT, volume, thick, {"qos_specs": {"total_bytes_sec": (None, "1048576")}}, host))
        self.daemon.gantry("volume", "limit", "p/" + volume.name, "--iops", "77")
        self.assertTrue(self.driver.retype(CONTEXT, volume, {"extra_specs": {}}, {"qos_specs": {}}, host))
        self.driver.extend_volume(volume, 2)
        self.assertEqual(self.limits(volume), dict(NONE, iops=77))
        self.assertEqual(self.daemon.volume(volume.name)["naa"], naa)

    def test_what_is_taken_over_gets_the_limits_of_a_type_that_has_some(self):
        for name in ("old", "other"):
            self.daemon.gantry("volume", "create", "p/" + name, "--size", "1G")
            self.daemon.gantry("volume", "limit", "p/" + name, "--iops", "77")
        limited, plain = self.world.volume(qos=self.world.qos(total_iops_sec=500)), self.world.volume()
        self.driver.manage_existing(limited, {"source-name": "old"})
        self.driver.manage_existing(plain, {"source-name": "other"})
        self.assertEqual((self.limits(limited), self.limits(plain)), (dict(NONE, iops=500), dict(NONE, iops=77)))

    def test_specs_that_the_array_cannot_do_are_refused_before_a_volume_is_made(self):
        for specs, said in ((dict(read_iops_sec=100), "reads and writes together"), (dict(total_iops_sec=9), "10 to 10000000"),
                            (dict(total_bytes_sec=1000), "1048576 to"), (dict(total_iops_sec="many"), "is a number"),
                            (dict(burst_ms=5), "10 to 600000"), (dict(total_iops_sec_per_gb="-1"), "is a number"),
                            (dict(total_iops_sec=100, total_iops_sec_max=200), "total_iops_sec_max")):
            with self.assertRaisesRegex(exception.VolumeBackendAPIException, said):
                self.driver.create_volume(self.world.volume(qos=self.world.qos(**specs)))
        self.assertEqual(self.daemon.volumes(), {})

    def test_the_scheduler_is_told(self):
        self.assertTrue(self.driver.get_volume_stats(refresh=True)["pools"][0]["QoS_support"])


if __name__ == "__main__":
    unittest.main()
