# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Volume driver of OpenStack Cinder for Gantry arrays over iSCSI (volume_driver = gantry_cinder.driver.GantryISCSIDriver)."""

import ipaddress
import re

from oslo_log import log as logging

from cinder import context as cinder_context
from cinder import exception
from cinder import interface
from cinder.common import constants
from cinder.volume import configuration as config
from cinder.volume import driver
from cinder.volume import volume_utils

from gantry_cinder import __version__
from gantry_cinder import groups
from gantry_cinder import management
from gantry_cinder.array import Array, ArrayError, Problem
from gantry_cinder.errors import asks_array, sentence
from gantry_cinder.hosts import Hosts
from gantry_cinder.inventory import Inventory, Key, OPEN_STATES, SNAPSHOT, VOLUME
from gantry_cinder.options import OPTIONS, Settings
from gantry_cinder.shares import Shares
from gantry_cinder.types import Wish

LOG = logging.getLogger(__name__)
config.CONF.register_opts(OPTIONS, group=config.SHARED_CONF_GROUP)

GIB = 1 << 30
INITIATOR = re.compile(r"(iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.:_-]+|eui\.[0-9A-Fa-f]{16}|naa\.([0-9A-Fa-f]{16}){1,2})")


@interface.volumedriver
class GantryISCSIDriver(management.Management, groups.Groups, driver.ISCSIDriver):
    """Volumes of a Gantry array over iSCSI.

    Version history:
        0.1.0 - First version
    """

    VERSION = __version__
    # The array decides between two services that change the same object, and no service keeps anything.
    SUPPORTS_ACTIVE_ACTIVE = True
    CI_WIKI_NAME = "Gantry_CI"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.configuration.append_config_values(OPTIONS)
        self.settings = None
        self.array = None
        self.inventory = None
        self.hosts = None
        self.shares = Shares()

    @classmethod
    def get_driver_options(cls):
        return OPTIONS + cls._get_oslo_driver_opts("reserved_percentage", "max_over_subscription_ratio",
                                                   "volume_backend_name")

    def do_setup(self, context):
        self.settings = Settings(self.configuration)
        self.array = Array(self.settings.connection())
        self.inventory = Inventory(self.array, self.settings.owner, self.settings.pools)
        self.hosts = Hosts(self.array, self.settings.keys)

    @asks_array()
    def check_for_setup_error(self):
        known = [pool["name"] for pool in self.array.list("pools")]
        missing = [pool for pool in self.settings.pools if pool not in known]
        if missing:
            raise ArrayError("the array has no pool '%s': see gantry_pools" % missing[0])
        me, unused = self.array.get("me")
        if me["role"] == "viewer":
            raise ArrayError("the token has the role viewer, and the driver needs operator: "
                             "'gantry token create cinder --role operator' makes one")
        if me["role"] == "admin":
            LOG.warning("The driver's token has the role admin; operator is enough.")
        if self.settings.keys:
            self.settings.keys.read()
        else:
            LOG.warning("Hosts prove nothing to the array: gantry_chap_key_file is not set.")
        self.portals()

    # Volumes

    @asks_array()
    def create_volume(self, volume):
        wish = Wish.of(volume)
        made = self.inventory.make_volume(self.volume_key(volume), volume.size * GIB, wish.thick, wish.block_size)
        self.inventory.limit(made, wish.qos.limits(volume.size))

    @asks_array()
    def create_volume_from_snapshot(self, volume, snapshot):
        source = self.inventory.existing(self.snapshot_key(snapshot))
        self.clone(volume, source)

    @asks_array()
    def create_cloned_volume(self, volume, src_vref):
        source = self.inventory.existing(self.volume_key(src_vref))
        self.clone(volume, source)

    def clone(self, volume, source):
        """The array clones by reference, at once, and the clone depends on nothing."""
        wish = Wish.of(volume)
        if wish.block_size not in (None, source.get("block_size", wish.block_size)):
            raise ArrayError("the volume type wants blocks of %s, and a clone has those of its source, %s"
                             % (wish.block_size, source["block_size"]))
        made = self.inventory.make_clone(self.volume_key(volume), source, volume.size * GIB, wish.thick)
        self.inventory.limit(made, wish.qos.limits(volume.size))

    @asks_array(busy=exception.VolumeIsBusy)
    def delete_volume(self, volume):
        key = self.volume_key(volume)
        try:
            deleted = self.inventory.delete(key)
        except Problem as problem:
            # Cinder deletes volumes without attachments only, so that maps of the driver's are left over.
            if not problem.is_of("still-mapped"):
                raise
            self.hosts.unmap_own(self.inventory.existing(key))
            deleted = self.inventory.delete(key)
        if not deleted:
            LOG.info("Volume %s was not on the array any more.", volume.id)

    @asks_array()
    def extend_volume(self, volume, new_size):
        qos = Wish.of(volume).qos
        grown = self.inventory.grow(self.inventory.existing(self.volume_key(volume)), new_size * GIB)
        if qos.grows():
            self.inventory.limit(grown, qos.limits(new_size))

    @asks_array()
    def retype(self, context, volume, new_type, diff, host):
        """Limits the volume as the new type does, if it is as that wants it; what only a new volume can be is for a migration."""
        found = self.inventory.existing(self.volume_key(volume))
        wish = Wish.of_type(new_type)
        if not wish.fits(found) or host_pool(host["host"]) not in (None, found["pool"]):
            return False
        if diff.get("qos_specs"):
            self.inventory.limit(found, wish.qos.limits(volume.size))
        return True

    def update_migrated_volume(self, context, volume, new_volume, original_volume_status):
        """The volume keeps the name of the id with which it was made; Cinder remembers it as _name_id."""
        return {"_name_id": new_volume._name_id or new_volume.id, "provider_location": None}

    # Snapshots

    @asks_array()
    def create_snapshot(self, snapshot):
        source = self.inventory.existing(self.volume_key(snapshot.volume))
        self.inventory.make_snapshots(source["pool"], [(source, self.snapshot_key(snapshot, source["pool"]))])

    @asks_array(busy=exception.SnapshotIsBusy)
    def delete_snapshot(self, snapshot):
        key = self.snapshot_key(snapshot)
        try:
            self.inventory.delete(key)
        except Problem as problem:
            if not problem.is_of("still-mapped"):
                raise
            self.hosts.unmap_own(self.inventory.existing(key))
            self.inventory.delete(key)

    @asks_array(busy=exception.VolumeIsBusy)
    def revert_to_snapshot(self, context, volume, snapshot):
        """Any snapshot of the volume will do. Nothing is reverted under a host."""
        found = self.inventory.existing(self.volume_key(volume))
        source = self.inventory.existing(self.snapshot_key(snapshot))
        self.hosts.unmap_own(found)
        self.array.post(("volumes", found["pool"], found["name"], "revert"), dict(snapshot=source["name"]))
        self.inventory.grow(self.inventory.existing(self.volume_key(volume)), volume.size * GIB)

    def snapshot_revert_use_temp_snapshot(self):
        """The array reverts whole or not at all."""
        return False

    # Connections

    def validate_connector(self, connector):
        if not INITIATOR.fullmatch(connector.get("initiator") or ""):
            raise exception.InvalidConnectorException(missing="initiator")

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def create_export_snapshot(self, context, snapshot, connector):
        pass

    def remove_export_snapshot(self, context, snapshot):
        pass

    @asks_array()
    def initialize_connection(self, volume, connector, **options):
        found = self.inventory.existing(self.volume_key(volume))
        properties = self.connect(found, connector, read_only=False)
        properties["data"]["volume_id"] = volume.id
        self.shares.give(volume, connector["initiator"])
        return properties

    @asks_array()
    def initialize_connection_snapshot(self, snapshot, connector, **options):
        found = self.inventory.existing(self.snapshot_key(snapshot))
        properties = self.connect(found, connector, read_only=True)
        properties["data"]["volume_id"] = snapshot.id
        return properties

    def connect(self, found, connector, read_only):
        """Maps last, so that nothing is mapped when a request before fails."""
        self.validate_connector(connector)
        portals = self.portals()
        target, unused = self.array.get("target")
        host, account = self.hosts.ensure(connector["initiator"])
        lun = self.hosts.map(found, host, read_only)
        data = {
            "target_discovered": False,
            "target_portal": portals[0],
            "target_iqn": target["name"],
            "target_lun": lun,
            "target_portals": portals,
            "target_iqns": [target["name"]] * len(portals),
            "target_luns": [lun] * len(portals),
            "discard": not read_only,
        }
        if account:
            data.update(auth_method="CHAP", auth_username=account.user, auth_password=account.secret)
        return {"driver_volume_type": "iscsi", "data": data}

    def portals(self):
        """ADDRESS:PORT of every portal that hosts can log in to."""
        if self.settings.portals:
            return self.settings.portals
        usable = [portal["address"] for portal in self.array.list("portals")
                  if not portal["redirect"] and not is_wildcard(portal["address"])]
        if not usable:
            raise ArrayError("the array names no portal with an address of its own: start gantryd with "
                             "--iscsi ADDRESS:PORT, or set gantry_portals")
        return usable

    @asks_array()
    def terminate_connection(self, volume, connector, **options):
        """Takes the volume from a host, or from all without one. True if another attachment of the host has it still."""
        found = self.inventory.find(self.volume_key(volume))
        if found is None:
            return False
        if connector is None:
            for host in found["hosts"]:
                self.hosts.unmap(found, host)
            return False
        if self.shares.has_other(cinder_context.get_admin_context(), volume, connector):
            return True
        self.disconnect(found, connector)
        return False

    @asks_array()
    def terminate_connection_snapshot(self, snapshot, connector, **options):
        found = self.inventory.find(self.snapshot_key(snapshot))
        if found is not None:
            self.disconnect(found, connector)

    def disconnect(self, found, connector):
        host = self.hosts.find(connector["initiator"])
        if host is not None and host["name"] in found["hosts"]:
            self.hosts.unmap(found, host["name"])

    # Capacity

    def _update_volume_stats(self):
        try:
            known = dict((pool["name"], pool) for pool in self.array.list("pools"))
        except (Problem, ArrayError) as error:
            LOG.warning("The scheduler is told that the backend is down: %s", sentence(error))
            known = {}
        self._stats = {
            "volume_backend_name": self.settings.owner,
            "vendor_name": "Gantry",
            "driver_version": self.VERSION,
            "storage_protocol": constants.ISCSI,
            "sparse_copy_volume": True,
            "clone_across_pools": False,
            "pools": [self.pool_stats(name, known.get(name)) for name in self.settings.pools],
        }

    def pool_stats(self, name, pool):
        option = self.configuration.safe_get
        usable = pool is not None and pool["state"] == "ready" and pool["space"] is not None
        space = pool["space"] if usable else dict.fromkeys(
            ("total_bytes", "reserve_bytes", "unbacked_bytes", "free_bytes", "promised_bytes", "provisioned_bytes"), 0)
        # What the array keeps for itself, and what the file system below has no space for, holds no volumes.
        total = space["total_bytes"] - space["reserve_bytes"] - space["unbacked_bytes"]
        return {
            "pool_name": name,
            "total_capacity_gb": gib(total),
            "free_capacity_gb": gib(space["free_bytes"] - space["promised_bytes"]),
            "provisioned_capacity_gb": gib(space["provisioned_bytes"]),
            "reserved_percentage": option("reserved_percentage"),
            "max_over_subscription_ratio": option("max_over_subscription_ratio"),
            "thin_provisioning_support": True,
            "thick_provisioning_support": True,
            "multiattach": True,
            "online_extend_support": True,
            "consistent_group_snapshot_enabled": True,
            "QoS_support": True,
            "total_volumes": pool["volumes"] if usable else 0,
            "backend_state": "up" if usable else "down",
            "location_info": "gantry:%s:%s" % (pool["uuid"] if pool else "", name),
            "filter_function": self.get_filter_function(),
            "goodness_function": self.get_goodness_function(),
        }

    # Keys

    def pool_of(self, resource_host):
        """The array's pool out of HOST@BACKEND#POOL."""
        return host_pool(resource_host) or self.settings.pools[0]

    def volume_key(self, volume):
        return Key(VOLUME, self.pool_of(volume.host), volume.name, volume.name_id)

    def snapshot_key(self, snapshot, pool=None):
        return Key(SNAPSHOT, pool or self.pool_of(snapshot.volume.host), snapshot.name, snapshot.id)


def host_pool(resource_host):
    return volume_utils.extract_host(resource_host, "pool") if resource_host else None


def is_wildcard(address):
    return ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_unspecified


def gib(size):
    return round(max(0, size) / GIB, 2)
