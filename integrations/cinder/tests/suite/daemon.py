# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""A gantryd of a test's own, with pools 'p' and 'q', two portals and a token of the role operator."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# Generous: the machine may be busy.
START_SECONDS = 60
# A file system in memory, and the bytes that it must have left. Durability has tests of its own.
MEMORY = "/dev/shm"
MEMORY_LEAST = 2 << 30


def free_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % listener.getsockname()[1]


class Daemon:
    def __init__(self, pool_size="2G"):
        quick = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > MEMORY_LEAST
        self.folder = tempfile.mkdtemp(prefix="gantry-cinder", dir=MEMORY if quick else None)
        self.http, self.https = free_address(), free_address()
        self.portals = [free_address(), free_address()]
        self.url = "http://" + self.http
        self.process = None
        try:
            self.start()
            for pool in ("p", "q"):
                self.gantry("pool", "create", pool, "--device", "file:%s/%s.img" % (self.folder, pool), "--size", pool_size)
            self.token = self.new_token("operator")
        except BaseException:
            self.end()
            raise

    def end(self):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        words = [binary("gantryd"), "--data", self.folder + "/data", "--http", self.http, "--https", self.https,
                 "--memory", "256M"]
        for portal in self.portals:
            words += ["--iscsi", portal]
        with open(self.folder + "/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                host, port = self.http.split(":")
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    with open(self.folder + "/log", encoding="utf-8") as log:
                        raise RuntimeError("gantryd does not answer: " + log.read()) from None
                time.sleep(0.02)

    def stop(self, number=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def kill_and_start(self):
        self.stop(signal.SIGKILL)
        self.start()

    def gantry(self, *words):
        done = subprocess.run([binary("gantry"), "--json", "--data", self.folder + "/data"] + list(words),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("gantry %s: %s" % (" ".join(words), done.stderr))
        return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout

    def new_token(self, role):
        return self.gantry("token", "create", "suite-" + role, "--role", role)["secret"]

    def volumes(self):
        """Volumes and their hosts, by name."""
        return dict((volume["name"], sorted(volume["hosts"])) for volume in self.gantry("volume", "list"))

    def volume(self, name, pool="p"):
        return self.gantry("volume", "show", "%s/%s" % (pool, name))

    def snapshots(self):
        return sorted(snapshot["name"] for snapshot in self.gantry("snapshot", "list"))


def binary(name):
    return os.path.join(os.environ["GANTRY_BIN_DIR"], name)
