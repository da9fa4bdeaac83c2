# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""cinder-volume itself, started with the configuration of the README, a database of its own and no message broker."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

from daemon import Daemon
from wire import KEY

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../README.md")
# Generous: the machine may be busy.
START_SECONDS = 300
AROUND = """
[DEFAULT]
transport_url = fake:/
state_path = {folder}/state
host = node
[database]
connection = sqlite:///{folder}/cinder.sqlite
[oslo_concurrency]
lock_path = {folder}/locks
[coordination]
backend_url = file://{folder}/coordination
"""


class Service(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.end)
        self.folder = tempfile.mkdtemp(prefix="gantry-cinder-service")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def configured(self):
        """The README's configuration, with this array's address and pool."""
        with open(README, encoding="utf-8") as file:
            text = re.search(r"```ini\n(.*?)```", file.read(), re.DOTALL).group(1)
        shutil.copy(self.daemon.folder + "/data/tls.crt", self.folder)
        self.write("gantry.token", self.daemon.token + "\n")
        self.write("gantry.keys", KEY + "\n")
        text = text.replace("https://192.0.2.10:8443", "https://" + self.daemon.https)
        text = text.replace("= fast", "= p").replace("/etc/cinder/", self.folder + "/")
        for folder in ("state", "locks", "coordination"):
            os.mkdir(os.path.join(self.folder, folder))
        return ["--config-file", self.write("around.conf", AROUND.format(folder=self.folder)),
                "--config-file", self.write("cinder.conf", text)]

    def program(self, name):
        return os.path.join(os.path.dirname(sys.executable), name)

    def test_the_service_takes_the_readmes_configuration_and_says_that_the_backend_is_up(self):
        options = self.configured()
        subprocess.run([self.program("cinder-manage"), *options, "db", "sync"], check=True, timeout=START_SECONDS,
                       stdin=subprocess.DEVNULL, capture_output=True)
        log = os.path.join(self.folder, "log")
        with open(log, "w", encoding="utf-8") as file:
            service = subprocess.Popen([self.program("cinder-volume"), *options], stdin=subprocess.DEVNULL, stdout=file,
                                       stderr=file, start_new_session=True)
        try:
            said = self.wait_for(service, log, "Driver initialization completed successfully")
            self.assertIn("Starting volume driver GantryISCSIDriver (%s)" % "0.1.0", said)
            self.assertNotIn("Traceback", said)
            for secret in (self.daemon.token, KEY):
                self.assertNotIn(secret, said)
        finally:
            # The service and its worker are a process group of their own.
            os.killpg(service.pid, 9)
            service.wait()
        with sqlite3.connect(os.path.join(self.folder, "cinder.sqlite")) as database:
            self.assertIn(("node@gantry",), database.execute("select host from services").fetchall())

    def wait_for(self, service, log, line):
        end = time.monotonic() + START_SECONDS
        while True:
            with open(log, encoding="utf-8") as file:
                said = file.read()
            if line in said:
                return said
            if service.poll() is not None or time.monotonic() > end:
                self.fail("cinder-volume: " + said)
            time.sleep(0.2)


if __name__ == "__main__":
    unittest.main()
