# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""What stands around the driver in Cinder: configuration, volumes, snapshots, groups and attachments as Cinder's own objects."""

import unittest
import uuid
from unittest import mock

from cinder import context
from cinder import objects
from cinder.tests.unit import fake_constants
from cinder.tests.unit import fake_snapshot
from cinder.tests.unit import fake_volume
from cinder.volume import configuration

from daemon import Daemon
from gantry_cinder.driver import GantryISCSIDriver
from gantry_cinder.options import OPTIONS
from wire import connector

objects.register_all()
CONTEXT = context.get_admin_context()
GIB = 1 << 30


class World:
    """One backend of Cinder on one array."""

    def __init__(self, daemon, name="gantry", **options):
        self.daemon = daemon
        self.name = name
        self.attachments = []
        self.known_qos = {}
        settings = dict(gantry_url=daemon.url, gantry_token=daemon.token, gantry_pools=["p", "q"],
                        volume_backend_name=name, gantry_timeout=20)
        settings.update(options)
        self.settings = settings

    def new_driver(self, **options):
        group = "%s-%s" % (self.name, uuid.uuid4().hex[:8])
        backend = configuration.Configuration(OPTIONS, config_group=group)
        driver = GantryISCSIDriver(configuration=backend, host="node@" + self.name)
        for option, value in dict(self.settings, **options).items():
            if value is not None:
                configuration.CONF.set_override(option, value, group=group)
        driver.do_setup(CONTEXT)
        return driver

    def volume(self, size=1, pool="p", specs=None, qos=None, **more):
        """'qos' is the id of QoS specs, see 'qos'."""
        kind = None
        if specs is not None or qos is not None:
            kind = objects.VolumeType(CONTEXT, id=fake_constants.VOLUME_TYPE_ID, name="type", extra_specs=specs or {},
                                      qos_specs_id=qos)
            more.update(volume_type_id=kind.id)
        else:
            more.setdefault("volume_type_id", None)
        volume = fake_volume.fake_volume_obj(CONTEXT, id=str(uuid.uuid4()), size=size, host="node@%s#%s" % (self.name, pool),
                                             _name_id=None, **more)
        if kind is not None:
            volume.volume_type = kind
        return volume

    def qos(self, consumer="back-end", **specs):
        """The id of new QoS specs, which Cinder's database would have."""
        made = objects.QualityOfServiceSpecs(CONTEXT, id=str(uuid.uuid4()), name="qos", consumer=consumer,
                                             specs=dict((key, str(value)) for key, value in specs.items()))
        self.known_qos[made.id] = made
        return made.id

    def snapshot(self, volume, **more):
        snapshot = fake_snapshot.fake_snapshot_obj(CONTEXT, id=str(uuid.uuid4()), volume_id=volume.id,
                                                   volume_size=volume.size, **more)
        snapshot.volume = volume
        return snapshot

    def attach(self, volume, connector, status="attached"):
        """Records what Cinder records once the driver has answered."""
        attachment = objects.VolumeAttachment(CONTEXT, id=str(uuid.uuid4()), volume_id=volume.id, attach_status=status,
                                              connector=connector)
        self.attachments.append(attachment)
        return attachment

    def of_volume(self, unused, volume_id):
        mine = [each for each in self.attachments if each.volume_id == volume_id]
        return objects.VolumeAttachmentList(objects=mine)


def group_of(consistent=True):
    """A group or group snapshot; the driver looks at its type only."""
    return mock.Mock(id=str(uuid.uuid4()), consistent=consistent)


class Case(unittest.TestCase):
    """Tests that share one array, which is empty again after each of them."""

    POOL_SIZE = "2G"
    OPTIONS = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(cls.POOL_SIZE)
        cls.addClassCleanup(cls.daemon.end)

    def setUp(self):
        self.world = World(self.daemon, **self.OPTIONS)
        self.driver = self.world.new_driver()
        self.patch("cinder.objects.VolumeAttachmentList.get_all_by_volume_id", self.world.of_volume)
        self.patch("cinder.volume.qos_specs.get_qos_specs", lambda unused, id: self.world.known_qos[id])
        self.patch("cinder.volume.volume_utils.is_group_a_cg_snapshot_type", lambda group: group.consistent)
        self.addCleanup(self.empty)

    def patch(self, name, value):
        patcher = mock.patch(name, value)
        patcher.start()
        self.addCleanup(patcher.stop)

    def empty(self):
        """Removes what a test left, by other means than the driver's."""
        for volume in self.daemon.gantry("volume", "list") + self.daemon.gantry("snapshot", "list"):
            path = "%s/%s" % (volume["pool"], volume["name"])
            for host in volume["hosts"]:
                self.daemon.gantry("volume", "unmap", path, "--host", host)
            kind = "volume" if "snapshots" in volume else "snapshot"
            self.daemon.gantry(kind, "delete", path, "--yes")
        for host in self.daemon.gantry("host", "list"):
            self.daemon.gantry("host", "delete", host["name"])

    def make(self, size=1, **more):
        volume = self.world.volume(size, **more)
        self.driver.create_volume(volume)
        return volume

    def connect(self, volume, number=1, driver=None):
        """Connection properties, with the attachment recorded."""
        here = connector(number)
        data = (driver or self.driver).initialize_connection(volume, here)["data"]
        self.world.attach(volume, here)
        return data, here["initiator"]

    def disconnect(self, volume, number=1):
        """As Cinder ends an attachment: the driver is asked while it is still recorded."""
        here = connector(number)
        shared = self.driver.terminate_connection(volume, here)
        for attachment in self.world.attachments:
            if attachment.volume_id == volume.id and attachment.connector == here:
                self.world.attachments.remove(attachment)
                break
        return shared
