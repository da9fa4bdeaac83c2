# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Faults: the service killed before and after every single request, lost answers, an array that restarts in the middle, a
full pool, tokens, names that others have, a pool that is not open, two services at once."""

import os
import signal
import threading
import unittest
from unittest import mock

import wire
from cinder import exception
from gantry_cinder.array import Array
from proxy import Proxy
from wire import connector
from world import CONTEXT, Case, GIB, World, group_of

BACKEND = exception.VolumeBackendAPIException


class Killed(BaseException):
    """The end of the service's process: nothing of the driver runs any more."""


class Knife:
    """Ends the driver before or after its Nth change of the array."""

    def __init__(self, number, after):
        self.left = number
        self.after = after
        self.dead = False

    def __enter__(self):
        attempt, knife = Array._attempt, self

        def cut(array, method, *rest):
            if knife.dead:
                raise Killed
            if method == "GET":
                return attempt(array, method, *rest)
            knife.left -= 1
            if knife.left == 0:
                knife.dead = True
                if knife.after:
                    attempt(array, method, *rest)
                raise Killed
            return attempt(array, method, *rest)
        self.patcher = mock.patch.object(Array, "_attempt", cut)
        self.patcher.start()
        return self

    def __exit__(self, *unused):
        self.patcher.stop()


class Killing(Case):
    def each_cut(self, prepare, act, clean):
        """Kills the service at every change; then Cinder cleans up, and the same works without a knife."""
        cuts = 0
        for after in (False, True):
            for number in range(1, 20):
                state = prepare()
                before = self.state()
                with Knife(number, after) as knife:
                    try:
                        act(state)
                    except Killed:
                        pass
                if not knife.dead:
                    break
                cuts += 1
                self.driver = self.world.new_driver()
                clean(state)
                self.assertEqual(self.state(), before, "change %d, after: %s" % (number, after))
                act(state)
                clean(state)
                self.empty()
            else:
                self.fail("no end")
            self.empty()
        self.assertGreater(cuts, 1)

    def state(self):
        return self.daemon.volumes(), self.daemon.snapshots()

    def test_a_volume(self):
        self.each_cut(lambda: self.world.volume(), lambda volume: self.driver.create_volume(volume),
                      lambda volume: self.driver.delete_volume(volume))

    def test_a_larger_clone(self):
        self.each_cut(lambda: (self.make(), self.world.volume(2)), lambda pair: self.driver.create_cloned_volume(pair[1], pair[0]),
                      lambda pair: self.driver.delete_volume(pair[1]))

    def test_a_snapshot(self):
        self.each_cut(lambda: self.world.snapshot(self.make()), lambda snapshot: self.driver.create_snapshot(snapshot),
                      lambda snapshot: self.driver.delete_snapshot(snapshot))

    def test_an_attachment_of_which_cinder_knows_nothing(self):
        def clean(volume):
            self.driver.delete_volume(volume)
            self.driver.create_volume(volume)
        self.each_cut(lambda: self.make(), lambda volume: self.driver.initialize_connection(volume, connector()), clean)

    def test_a_group_of_a_group(self):
        def prepare():
            sources = [self.make(), self.make()]
            return sources, [self.world.volume(source_volid=source.id) for source in sources]

        def act(state):
            self.driver.create_group_from_src(CONTEXT, group_of(), state[1], source_group=group_of(), source_vols=state[0])
        self.each_cut(prepare, act, lambda state: self.driver.delete_group(CONTEXT, group_of(), state[1]))

    def test_taking_over(self):
        def prepare():
            self.daemon.gantry("volume", "create", "p/old", "--size", "1G")
            return self.world.volume()

        def clean(volume):
            # Cinder's row is deleted without the driver; the administrator takes the volume over again.
            found = self.driver.inventory.find(self.driver.volume_key(volume))
            if found:
                self.driver.unmanage(volume)
                if found["name"] != "old":
                    self.daemon.gantry("volume", "rename", "p/" + found["name"], "old")
        self.each_cut(prepare, lambda volume: self.driver.manage_existing(volume, {"source-name": "old"}), clean)


class Losing(Case):
    def through(self, loses, then=lambda: None):
        proxy = Proxy(self.daemon.url, loses, then)
        self.addCleanup(proxy.end)
        return proxy, self.world.new_driver(gantry_url=proxy.url)

    def life(self, driver):
        """Every kind of change once."""
        volume, clone = self.world.volume(), self.world.volume(2)
        driver.create_volume(volume)
        snapshot = self.world.snapshot(volume)
        driver.create_snapshot(snapshot)
        driver.create_volume_from_snapshot(clone, snapshot)
        data = driver.initialize_connection(volume, connector())["data"]
        wire.write(data, connector()["initiator"], 9)
        driver.terminate_connection(volume, connector())
        driver.revert_to_snapshot(CONTEXT, volume, snapshot)
        driver.extend_volume(volume, 3)
        self.assertEqual(self.daemon.volume(volume.name)["size_bytes"], 3 * GIB)
        self.assertEqual(self.daemon.volume(volume.name)["mapped_bytes"], 0)
        driver.unmanage(clone)
        self.daemon.gantry("volume", "rename", "p/" + clone.name, "other")
        driver.manage_existing(clone, {"source-name": "other"})
        driver.delete_snapshot(snapshot)
        driver.delete_volume(volume)
        driver.delete_volume(clone)
        self.assertEqual((self.daemon.volumes(), self.daemon.snapshots()), ({}, []))

    def every_first(self):
        """Loses the answer of each change the first time it is sent."""
        seen = set()

        def loses(method, path):
            first = (method, path) not in seen
            seen.add((method, path))
            return method != "GET" and first
        return loses

    def test_every_answer_of_a_change_is_lost_once(self):
        proxy, driver = self.through(self.every_first())
        self.life(driver)
        self.assertGreater(len(proxy.lost), 12)

    def test_the_array_is_killed_after_every_change_and_forgets_the_keys(self):
        proxy, driver = self.through(self.every_first(), self.daemon.kill_and_start)
        self.life(driver)
        self.assertGreater(len(proxy.lost), 12)

    def test_an_array_that_is_away_for_a_moment_is_waited_for(self):
        volume = self.world.volume()
        self.daemon.stop(signal.SIGKILL)
        timer = threading.Timer(1, self.daemon.start)
        timer.start()
        try:
            self.driver.create_volume(volume)
        finally:
            timer.join()
        self.assertEqual(list(self.daemon.volumes()), [volume.name])

    def test_an_array_that_stays_away_is_an_error_and_down(self):
        driver = self.world.new_driver(gantry_timeout=1)
        self.daemon.stop(signal.SIGKILL)
        try:
            with self.assertRaisesRegex(BACKEND, "does not answer"):
                driver.create_volume(self.world.volume())
            stats = driver.get_volume_stats(refresh=True)
            self.assertEqual([pool["backend_state"] for pool in stats["pools"]], ["down", "down"])
        finally:
            self.daemon.start()
        self.assertEqual(driver.get_volume_stats(refresh=True)["pools"][0]["backend_state"], "up")


    def test_a_controller_that_does_not_answer_is_left_for_the_next(self):
        driver = self.world.new_driver(gantry_url="http://127.0.0.1:1, " + self.daemon.url)
        volume = self.world.volume()
        driver.create_volume(volume)
        self.assertEqual(list(self.daemon.volumes()), [volume.name])


class Refusals(Case):
    POOL_SIZE = "1G"

    def test_a_full_pool_is_said_and_leaves_nothing(self):
        volume = self.make()
        data, host = self.connect(volume)
        with self.assertRaises(AssertionError):
            for part in range(8):
                wire.write(data, host, 1, offset="%dM" % (128 * part), length="128M")
        self.disconnect(volume)
        thick = self.world.volume(specs={"provisioning:type": "thick"})
        with self.assertRaisesRegex(BACKEND, "free|space"):
            self.driver.create_volume(thick)
        with self.assertRaisesRegex(BACKEND, "free|space"):
            self.driver.create_cloned_volume(thick, volume)
        self.assertEqual(list(self.daemon.volumes()), [volume.name])
        self.assertLess(self.driver.get_volume_stats(refresh=True)["pools"][0]["free_capacity_gb"], 0.02)

    def test_a_clone_that_cannot_grow_is_taken_back(self):
        volume = self.make()
        with self.assertRaisesRegex(BACKEND, "64 TiB|at most"):
            self.driver.create_cloned_volume(self.world.volume(100 * 1024), volume)
        self.assertEqual(list(self.daemon.volumes()), [volume.name])

    def test_a_token_that_is_not_good_or_too_narrow_is_said(self):
        narrow = self.world.new_driver(gantry_token=self.daemon.new_token("viewer"))
        with self.assertRaisesRegex(BACKEND, "role viewer.*needs operator"):
            narrow.check_for_setup_error()
        with self.assertRaisesRegex(BACKEND, "needs the role operator"):
            narrow.create_volume(self.world.volume())
        wrong = self.world.new_driver(gantry_token="0" * 64)
        for call in (wrong.check_for_setup_error, lambda: wrong.create_volume(self.world.volume())):
            with self.assertRaisesRegex(BACKEND, "gantry token create"):
                call()

    def test_a_token_that_is_replaced_in_its_file_needs_no_restart(self):
        path = os.path.join(self.daemon.folder, "token")
        with open(path, "w", encoding="utf-8") as file:
            file.write("0" * 64)
        driver = self.world.new_driver(gantry_token=None, gantry_token_file=path)
        self.assertRaises(BACKEND, driver.check_for_setup_error)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.daemon.token + "\n")
        driver.check_for_setup_error()
        os.remove(path)
        with self.assertRaisesRegex(BACKEND, "gantry_token_file"):
            driver.check_for_setup_error()

    def test_options_that_cannot_work_are_said_at_the_start(self):
        for wrong in (dict(gantry_url=None), dict(gantry_url="http://array.example.org:8480"), dict(gantry_url="ftp://x"),
                      dict(gantry_pools=[]), dict(gantry_pools=["p", "p"]), dict(gantry_token=None),
                      dict(gantry_token_file="/nowhere"), dict(volume_backend_name="a/b")):
            with self.assertRaises(exception.InvalidConfigurationValue, msg=wrong):
                self.world.new_driver(**wrong)
        for wrong, said in ((dict(gantry_pools=["none"]), "no pool 'none'"),
                            (dict(gantry_chap_key_file="/nowhere"), "gantry_chap_key_file")):
            with self.assertRaisesRegex(BACKEND, said):
                self.world.new_driver(**wrong).check_for_setup_error()

    def test_tls_trusts_the_certificate_that_is_named_and_no_other(self):
        https = "https://" + self.daemon.https
        with self.assertRaisesRegex(BACKEND, "not trusted.*gantry_ca_file"):
            self.world.new_driver(gantry_url=https).check_for_setup_error()
        named = self.world.new_driver(gantry_url=https, gantry_ca_file=self.daemon.folder + "/data/tls.crt")
        named.check_for_setup_error()

    def test_a_volume_of_somebody_else_with_that_name_is_never_touched(self):
        volume = self.world.volume()
        self.daemon.gantry("volume", "create", "p/" + volume.name, "--size", "1G")
        before = self.daemon.gantry("volume", "list")
        for call in (lambda: self.driver.create_volume(volume), lambda: self.driver.delete_volume(volume),
                     lambda: self.driver.extend_volume(volume, 2), lambda: self.driver.unmanage(volume),
                     lambda: self.driver.initialize_connection(volume, connector())):
            with self.assertRaisesRegex(BACKEND, "is not the volume"):
                call()
        self.assertEqual(self.daemon.gantry("volume", "list"), before)

    def test_a_volume_that_has_data_is_not_made_again(self):
        volume = self.make()
        data, host = self.connect(volume)
        wire.write(data, host, 1)
        with self.assertRaisesRegex(BACKEND, "made by a call that was interrupted"):
            self.driver.create_volume(volume)
        wire.expect(data, host, 1)

    def test_what_is_in_use_is_busy(self):
        volume = self.make()
        self.daemon.gantry("volume", "map", "p/" + volume.name, "--host", "any")
        with self.assertRaisesRegex(exception.VolumeIsBusy, "mapped"):
            self.driver.delete_volume(volume)
        snapshot = self.world.snapshot(volume)
        self.driver.create_snapshot(snapshot)
        with self.assertRaisesRegex(exception.VolumeIsBusy, "unmap it first"):
            self.driver.revert_to_snapshot(CONTEXT, volume, snapshot)

    def test_a_pool_that_is_not_open_is_not_taken_for_empty(self):
        volume = self.make()
        self.daemon.stop()
        image = self.daemon.folder + "/p.img"
        os.rename(image, image + ".away")
        self.daemon.start()
        try:
            with self.assertRaisesRegex(BACKEND, "not seen"):
                self.driver.delete_volume(volume)
            with self.assertRaisesRegex(BACKEND, "not seen"):
                self.driver.terminate_connection(volume, connector())
            pools = self.driver.get_volume_stats(refresh=True)["pools"]
            self.assertEqual([pool["backend_state"] for pool in pools], ["down", "up"])
        finally:
            self.daemon.stop()
            os.rename(image + ".away", image)
            self.daemon.start()
        self.driver.delete_volume(volume)

    def test_an_initiator_that_is_none_is_refused(self):
        volume = self.make()
        for name in (None, "", "*", "iqn.*", "iqn.1993-08.org.debian:01:a b"):
            self.assertRaises(exception.InvalidConnectorException, self.driver.initialize_connection, volume,
                              {"initiator": name, "host": "h"})
        self.assertEqual(self.daemon.gantry("host", "list"), [])

    def test_a_host_with_several_initiators_is_refused(self):
        first = connector()["initiator"]
        self.daemon.gantry("host", "create", "pair", "--initiator", first, "--initiator", connector(2)["initiator"])
        volume = self.make()
        with self.assertRaisesRegex(BACKEND, "would see the volume too"):
            self.driver.initialize_connection(volume, connector())
        self.assertEqual(self.daemon.volumes(), {volume.name: []})

    def test_a_token_and_secrets_are_in_no_error(self):
        for option in (dict(gantry_url="http://127.0.0.1:1", gantry_timeout=1), dict(gantry_token="a-token-that-is-wrong")):
            driver = self.world.new_driver(**option)
            try:
                driver.create_volume(self.world.volume())
            except exception.CinderException as error:
                text = repr(error) + str(error) + repr(error.__cause__)
            self.assertNotIn(self.daemon.token, text)
            self.assertNotIn("a-token-that-is-wrong", text)


class Together(Case):
    def at_once(self, calls):
        """Runs all at once; what they raised."""
        errors, barrier = [], threading.Barrier(len(calls))

        def run(call):
            barrier.wait()
            try:
                call()
            except Exception as error:
                errors.append(error)
        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return errors

    def test_two_services_attach_volumes_of_one_host_at_once(self):
        path = os.path.join(self.daemon.folder, "keys")
        with open(path, "w", encoding="utf-8") as file:
            file.write("k" * 40)
        drivers = [self.world.new_driver(gantry_chap_key_file=path) for unused in range(2)]
        volumes = [self.make() for unused in range(8)]
        for number in range(1, 4):
            given = {}

            def attach(index):
                given[index] = drivers[index % 2].initialize_connection(volumes[index], connector(number))["data"]
            self.assertEqual(self.at_once([lambda index=index: attach(index) for index in range(8)]), [])
            self.assertEqual(len({data["target_lun"] for data in given.values()}), 8)
            self.assertEqual(len({data["auth_password"] for data in given.values()}), 1)
            for index, data in given.items():
                wire.write(data, connector(number)["initiator"], index + 1)
            for index, data in given.items():
                wire.expect(data, connector(number)["initiator"], index + 1)
        self.assertEqual(len(self.daemon.gantry("host", "list")), 3)

    def test_the_same_volume_is_made_and_deleted_by_two_services_at_once(self):
        other = self.world.new_driver()
        for unused in range(5):
            volume = self.world.volume()
            errors = self.at_once([lambda: self.driver.create_volume(volume), lambda: other.create_volume(volume)])
            self.assertTrue(all(isinstance(error, BACKEND) for error in errors) and len(errors) < 2, errors)
            self.assertEqual(list(self.daemon.volumes()), [volume.name])
            self.assertEqual(self.at_once([lambda: self.driver.delete_volume(volume), lambda: other.delete_volume(volume)]), [])
            self.assertEqual(self.daemon.volumes(), {})

    def test_two_clouds_share_a_pool_and_tell_their_volumes_apart(self):
        other = World(self.daemon, name="second")
        mine, theirs = self.make(), other.volume()
        other.new_driver().create_volume(theirs)
        tags = dict((volume["name"], volume["tags"]["cinder.volume"]) for volume in self.daemon.gantry("volume", "list"))
        self.assertEqual(tags, {mine.name: "gantry/" + mine.id, theirs.name: "second/" + theirs.id})


class Sharing(Case):
    def hosts(self, volume):
        return len(self.daemon.volume(volume.name)["hosts"])

    def test_one_of_two_attachments_of_a_host_ends_and_the_other_keeps_the_volume(self):
        volume = self.make()
        first, second = connector(1, mountpoint="/dev/vdb"), connector(1, mountpoint="/dev/vdc")
        for here in (first, second):
            self.driver.initialize_connection(volume, here)
            self.world.attach(volume, here)
        data, host = self.connect(volume, 2)
        self.assertTrue(self.driver.terminate_connection(volume, first))
        self.assertEqual(self.hosts(volume), 2)
        del self.world.attachments[0]
        self.assertFalse(self.driver.terminate_connection(volume, second))
        self.assertEqual(self.hosts(volume), 1)
        wire.write(data, host, 1)

    def test_two_attachments_with_the_same_connector_are_two(self):
        volume = self.make()
        self.connect(volume)
        self.connect(volume)
        self.assertTrue(self.disconnect(volume))
        self.assertFalse(self.disconnect(volume))
        self.assertEqual(self.hosts(volume), 0)

    def test_what_cinder_itself_reads_on_a_host_leaves_an_attachment_there_alone(self):
        volume = self.make()
        data, host = self.connect(volume)
        own = connector(1, do_local_attach=False)
        self.driver.initialize_connection(volume, own)
        self.assertTrue(self.driver.terminate_connection(volume, own))
        wire.write(data, host, 1)

    def test_an_attachment_that_cinder_is_about_to_record_is_waited_for(self):
        volume = self.make()
        self.connect(volume)
        coming = self.world.attach(volume, None, "reserved")
        second = connector(1, mountpoint="/dev/vdc")
        self.driver.initialize_connection(volume, second)
        timer = threading.Timer(0.5, lambda: setattr(coming, "connector", second))
        timer.start()
        try:
            self.assertTrue(self.disconnect(volume))
        finally:
            timer.join()
        self.assertEqual(self.hosts(volume), 1)

    def test_without_a_connector_all_hosts_lose_the_volume(self):
        volume = self.make()
        for number in (1, 2, 3):
            self.connect(volume, number)
        self.assertEqual(self.hosts(volume), 3)
        self.driver.terminate_connection(volume, None, force=True)
        self.assertEqual(self.hosts(volume), 0)


if __name__ == "__main__":
    unittest.main()
