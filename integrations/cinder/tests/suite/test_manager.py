# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Cinder's volume manager around the driver, with Cinder's own database: attachments as Nova makes them, revert, a volume in error."""

import os
import uuid

import wire
from cinder import context
from cinder import exception
from cinder import objects
from cinder.db import api as db
from cinder.tests.unit import test
from cinder.tests.unit import utils
from cinder.volume import manager
from oslo_config import cfg

from daemon import Daemon
from gantry_cinder.options import OPTIONS

HOST = "node@gantry"


class Manager(test.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = Daemon()
        self.addCleanup(self.daemon.end)
        keys = os.path.join(self.daemon.folder, "keys")
        with open(keys, "w", encoding="utf-8") as file:
            file.write(wire.KEY)
        self.manager = manager.VolumeManager(volume_driver="gantry_cinder.driver.GantryISCSIDriver", service_name="gantry",
                                             host=HOST)
        cfg.CONF.register_opts(OPTIONS, group="gantry")
        options = dict(gantry_url=self.daemon.url, gantry_token=self.daemon.token, gantry_pools=["p"],
                       gantry_chap_key_file=keys, volume_backend_name="gantry")
        for option, value in options.items():
            cfg.CONF.set_override(option, value, group="gantry")
        self.manager.init_host(service_id=1)
        self.context = context.get_admin_context()
        specs = {"volume_backend_name": "gantry", "provisioning:type": "thin"}
        self.type = db.volume_type_create(self.context, {"name": "gantry", "extra_specs": specs})["id"]

    def make(self, **more):
        volume = utils.create_volume(self.context, host=HOST + "#p", size=1, status="creating", volume_type_id=self.type, **more)
        self.manager.create_volume(self.context, volume)
        volume.refresh()
        self.assertEqual(volume.status, "available")
        return volume

    def attach(self, volume, number, device):
        """What Nova does: reserves, then tells the host."""
        attachment = objects.VolumeAttachment(self.context, volume_id=volume.id, attach_status="reserved", attach_mode="null",
                                              instance_uuid=str(uuid.uuid4()))
        attachment.create()
        data = self.manager.attachment_update(self.context, volume, wire.connector(number, mountpoint=device), attachment.id)
        return attachment, data

    def detach(self, volume, attachment):
        self.manager.attachment_delete(self.context, attachment.id, volume)
        objects.VolumeAttachment.get_by_id(self.context, attachment.id).destroy()

    def hosts(self, volume):
        return len(self.daemon.volume(volume.name)["hosts"])

    def test_two_servers_of_a_host_and_one_of_another_share_a_volume(self):
        volume = self.make(multiattach=True)
        first, data = self.attach(volume, 1, "/dev/vdb")
        second, same = self.attach(volume, 1, "/dev/vdc")
        third, other = self.attach(volume, 2, "/dev/vdb")
        host = wire.connector(1)["initiator"]
        wire.write(data, host, 3)
        wire.expect(other, wire.connector(2)["initiator"], 3)
        self.detach(volume, first)
        self.assertEqual(self.hosts(volume), 2)
        wire.expect(same, host, 3)
        self.detach(volume, second)
        self.assertEqual(self.hosts(volume), 1)
        self.assertTrue(wire.is_refused(same, host))
        self.detach(volume, third)
        self.assertEqual(self.hosts(volume), 0)
        self.manager.delete_volume(self.context, volume)
        self.assertEqual(self.daemon.volumes(), {})

    def test_a_volume_is_reverted_to_its_snapshot(self):
        volume = self.make()
        attachment, data = self.attach(volume, 1, "/dev/vdb")
        host = wire.connector(1)["initiator"]
        wire.write(data, host, 1)
        snapshot = utils.create_snapshot(self.context, volume.id, status="creating", volume_size=1)
        self.manager.create_snapshot(self.context, snapshot)
        wire.write(data, host, 2)
        self.detach(volume, attachment)
        volume.update({"status": "reverting"})
        volume.save()
        snapshot.update({"status": "restoring"})
        snapshot.save()
        self.manager.revert_to_snapshot(self.context, volume, snapshot)
        volume.refresh()
        self.assertEqual(volume.status, "available")
        unused, data = self.attach(volume, 1, "/dev/vdb")
        wire.expect(data, host, 1)
        self.assertEqual(self.daemon.snapshots(), [snapshot.name])

    def test_qos_specs_of_a_type_limit_the_volume_and_are_told_to_the_host(self):
        for consumer, told in (("back-end", None), ("both", {"total_iops_sec": "500"})):
            qos = db.qos_specs_create(self.context, {"name": consumer, "consumer": consumer, "specs": {"total_iops_sec": "500"}})
            kind = db.volume_type_create(self.context, {"name": consumer, "extra_specs": {}, "qos_specs_id": qos["id"]})["id"]
            volume = utils.create_volume(self.context, host=HOST + "#p", size=1, status="creating", volume_type_id=kind)
            self.manager.create_volume(self.context, volume)
            self.assertEqual(self.daemon.volume(volume.name)["limits"]["iops"], 500)
            attachment, data = self.attach(volume, 1, "/dev/vdb")
            self.assertEqual(data["qos_specs"], told)
            self.detach(volume, attachment)

    def test_a_volume_that_could_not_be_made_is_deleted_in_cinder(self):
        volume = utils.create_volume(self.context, host=HOST + "#p", size=1, status="creating", volume_type_id=self.type)
        self.daemon.gantry("volume", "create", "p/" + volume.name, "--size", "2G")
        error = self.assertRaises(exception.VolumeBackendAPIException, self.manager.create_volume, self.context, volume,
                                  allow_reschedule=False)
        self.assertIn("is not the volume", str(error))
        volume.refresh()
        self.assertEqual(volume.status, "error")
        self.daemon.gantry("volume", "rename", "p/" + volume.name, "others")
        self.manager.delete_volume(self.context, volume)
        self.assertEqual(list(self.daemon.volumes()), ["others"])
