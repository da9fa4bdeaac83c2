# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""A gantryd of a test's own, with a pool 'p' of 4 GiB and tokens of each role."""

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
    def __init__(self, folder):
        quick = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > MEMORY_LEAST
        os.makedirs(folder, exist_ok=True)
        self.folder = tempfile.mkdtemp(prefix="gantry-ansible", dir=MEMORY if quick else folder)
        self.http, self.https_address, self.portal = free_address(), free_address(), free_address()
        self.url = "http://" + self.http
        self.https = "https://" + self.https_address
        self.process = None

    def __enter__(self):
        try:
            self.start()
            self.gantry("pool", "create", "p", "--device", "file:%s/p.img" % self.folder, "--size", "4G")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self.stop(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        words = [binary("gantryd"), "--data", self.folder + "/data", "--iscsi", self.portal, "--http", self.http,
                 "--https", self.https_address, "--memory", "256M"]
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

    def stop(self, number):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def gantry(self, *words):
        done = subprocess.run([binary("gantry"), "--json", "--data", self.folder + "/data"] + list(words),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("gantry %s: %s" % (" ".join(words), done.stderr))
        return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout

    def token(self, role):
        return self.gantry("token", "create", "suite-" + role, "--role", role)["secret"]

    def expect_empty(self):
        """Everything that the tests made is gone; locked snapshots stay until their time is over."""
        volumes = [volume["name"] for volume in self.gantry("volume", "list")]
        hosts = [host["name"] for host in self.gantry("host", "list")]
        pools = [pool["name"] for pool in self.gantry("pool", "list")]
        if volumes or hosts or pools != ["p"]:
            raise AssertionError("left over: volumes %s, hosts %s, pools %s" % (volumes, hosts, pools))


def binary(name):
    return os.path.join(os.environ["GANTRY_BIN_DIR"], name)
