# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""os-brick connects and disconnects what the driver gives, over one path and over all: what it tells open-iscsi, and what that reaches."""

import os
import tempfile
import time
import unittest
from unittest import mock

import wire
from openiscsi import OpenIscsi
import os_brick
from cinder.volume import configuration
from os_brick import exception as brick_exception
from os_brick.initiator.connectors.iscsi import ISCSIConnector
from wire import KEY, connector
from world import Case


class Brick(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        keys = os.path.join(cls.daemon.folder, "keys")
        with open(keys, "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        cls.OPTIONS = dict(gantry_chap_key_file=keys)
        locks = tempfile.TemporaryDirectory()
        cls.addClassCleanup(locks.cleanup)
        configuration.CONF.set_override("lock_path", locks.name, group="oslo_concurrency")
        os_brick.setup(configuration.CONF)

    def setUp(self):
        super().setUp()
        self.initiator = connector()["initiator"]
        self.programs = OpenIscsi(self.initiator)
        # Disks of the kernel: the LUNs of each session that were scanned and found.
        self.disks = {}

    def connector(self, multipath):
        brick = ISCSIConnector("sudo", use_multipath=multipath, execute=self.programs.execute, device_scan_attempts=1)
        kernel = brick._linuxscsi
        stand_ins = dict(
            get_hctl=lambda session, lun: (session, "0", "0", lun), scan_iscsi=self.scan,
            device_name_by_hctl=lambda session, hctl: self.disks.get((int(session), int(hctl[3]))),
            get_sysfs_wwn=lambda devices, mpath=None: "wwn" if devices else "",
            find_sysfs_multipath_dm=lambda devices: "dm-0" if len(devices) == 2 else None,
            wait_for_mpath_device=lambda mpath: None, multipath_add_wwid=lambda wwn: True,
            multipath_add_path=lambda path: None, remove_connection=self.remove)
        for name, stand_in in stand_ins.items():
            patcher = mock.patch.object(kernel, name, stand_in)
            patcher.start()
            self.addCleanup(patcher.stop)
        self.patch("glob.glob", self.disks_of_session)
        # os-brick looks again every second; other green threads get their turn meanwhile.
        self.patch("time.sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.02)))
        return brick

    def scan(self, host, channel, target, lun):
        if self.programs.has_disk(host, lun):
            self.disks.setdefault((int(host), int(lun)), "sd" + "abcdefgh"[len(self.disks)])

    def remove(self, devices, *unused, **options):
        self.disks = dict((place, disk) for place, disk in self.disks.items() if disk not in devices)

    def disks_of_session(self, pattern):
        number = int(pattern.split("/session")[1].split("/")[0])
        return ["/sys/class/scsi_host/host1/device/session%d/target1:0:0/1:0:0:%d/block/%s" % (number, lun, disk)
                for (session, lun), disk in self.disks.items() if session == number]

    def updates(self, setting):
        return [words[-1] for words in self.programs.ran if setting in words]

    def test_all_paths_are_logged_in_to_and_the_disk_is_there_over_each(self):
        volume = self.make()
        data, host = self.connect(volume)
        brick = self.connector(multipath=True)
        device = brick.connect_volume(data)
        self.assertEqual((device["path"], device["multipath_id"]), ("/dev/dm-0", "wwn"))
        self.assertEqual(sorted(portal for target, portal in self.programs.sessions.values()), sorted(self.daemon.portals))
        self.assertEqual(set(self.updates("node.session.auth.authmethod")), {"CHAP"})
        self.assertEqual(set(self.updates("node.session.scan")), {"manual"})
        brick.disconnect_volume(data, device)
        self.assertEqual((self.programs.sessions, self.programs.nodes, self.disks), ({}, {}, {}))
        self.disconnect(volume)

    def test_a_second_volume_takes_the_sessions_that_are_there_and_they_end_with_the_last(self):
        first, second = self.make(), self.make()
        brick = self.connector(multipath=True)
        one, unused = self.connect(first)
        device = brick.connect_volume(one)
        two, unused = self.connect(second)
        other = brick.connect_volume(two)
        self.assertEqual(self.programs.logins, 2)
        brick.disconnect_volume(one, device)
        self.disconnect(first)
        self.assertEqual(len(self.programs.sessions), 2)
        brick.disconnect_volume(two, other)
        self.assertEqual((self.programs.sessions, self.programs.nodes), ({}, {}))

    def test_one_path_does_when_multipath_is_off(self):
        data, host = self.connect(self.make())
        brick = self.connector(multipath=False)
        device = brick.connect_volume(data)
        self.assertEqual(device["path"], "/dev/sda")
        self.assertEqual(len(self.programs.sessions), 1)
        brick.disconnect_volume(data, device)
        self.assertEqual(self.programs.nodes, {})

    def test_a_portal_that_is_away_leaves_the_other(self):
        data, host = self.connect(self.make())
        data["target_portals"] = ["127.0.0.1:1"] + data["target_portals"][1:]
        device = self.connector(multipath=False).connect_volume(dict(data, target_portal=data["target_portals"][0]))
        self.assertTrue(device["path"].startswith("/dev/sd"))

    def test_a_wrong_secret_gets_nothing(self):
        data, host = self.connect(self.make())
        with self.assertRaises(brick_exception.VolumeDeviceNotFound):
            self.connector(multipath=True).connect_volume(dict(data, auth_password="wrong" * 6))
        self.assertEqual((self.programs.sessions, self.programs.nodes), ({}, {}))


if __name__ == "__main__":
    unittest.main()
