# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Volumes of images: Cinder's own flow clones the image's volume, from Glance's store 'cinder' or from the image-volume cache."""

import unittest
from unittest import mock

import wire
from world import CONTEXT, Case, GIB

# Cinder's modules import one another, and find what they need when these come last and in this order.
import cinder.image.image_utils  # noqa: F401
from cinder.volume.flows.manager.create_volume import CreateVolumeFromSpecTask

IMAGE = {"id": "0f0f0f0f-0000-4000-8000-000000000000", "container_format": "bare", "disk_format": "raw", "owner": "owner",
         "size": GIB, "min_disk": 1, "status": "active", "properties": {}}


class Images(Case):
    def setUp(self):
        super().setUp()
        self.image = self.make(1, project_id="owner")
        data, host = self.connect(self.image)
        wire.write(data, host, 6)
        self.disconnect(self.image)
        self.patch("cinder.objects.Volume.get_by_id", lambda context, id: self.image)
        self.database = mock.Mock()
        self.database.volume_get_all.return_value = [self.image]
        # The same in Cinder 23.
        self.database.volume_get_all_by_host.return_value = [self.image]
        self.volume = self.world.volume(3, project_id="owner")

    def expect_clone(self):
        data, host = self.connect(self.volume)
        wire.expect(data, host, 6)
        wire.expect(data, host, 0, offset="1G")
        self.assertEqual(self.daemon.volume(self.volume.name)["size_bytes"], 3 * GIB)

    def test_an_image_in_the_store_cinder_is_cloned(self):
        task = CreateVolumeFromSpecTask(mock.Mock(), self.database, self.driver)
        location = ("cinder://" + self.image.id, None)
        self.assertEqual(self.driver.clone_image(CONTEXT, self.volume, location, IMAGE, None), (None, False))
        update, cloned = task._clone_image_volume(CONTEXT, self.volume, location, IMAGE)
        self.assertTrue(cloned)
        self.expect_clone()

    def test_an_image_in_the_cache_is_cloned(self):
        cache = mock.Mock()
        cache.get_entry.return_value = {"volume_id": self.image.id}
        task = CreateVolumeFromSpecTask(mock.Mock(), self.database, self.driver, cache)
        update, cloned = task._create_from_image_cache(CONTEXT, CONTEXT, self.volume, IMAGE["id"], IMAGE)
        self.assertTrue(cloned)
        self.expect_clone()


if __name__ == "__main__":
    unittest.main()
