"""A gantryd of its own for a platform, with a pool 'p'."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from array_client import Array

# Generous: the machine may be busy.
START_SECONDS = 60
# A file system in memory, and the bytes that it must have left. Durability has tests of its own.
MEMORY = "/dev/shm"
MEMORY_LEAST = 2 << 30


def binary(name):
    return os.path.join(os.environ["GANTRY_BIN_DIR"], name)


def free_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % listener.getsockname()[1]


def cli(data, *words):
    """Runs the command line over the daemon's socket; the answer as an object."""
    command = [binary("gantry"), "--json", "--data", data] + list(words)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError("gantry %s: %s" % (" ".join(words), done.stderr))
    return json.loads(done.stdout) if done.stdout.strip() else None


class Daemon:
    """Starts at 'with', and ends behind it."""

    def __enter__(self):
        quick = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > MEMORY_LEAST
        self.folder = tempfile.mkdtemp(prefix="gantry-platforms", dir=MEMORY if quick else None)
        self.data, self.portal, http = self.folder + "/data", free_address(), free_address()
        self.url = "http://" + http
        words = [binary("gantryd"), "--data", self.data, "--iscsi", self.portal, "--http", http, "--memory", "256M"]
        with open(self.folder + "/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self._wait(http)
            cli(self.data, "pool", "create", "p", "--device", "file:%s/p.img" % self.folder, "--size", "4G")
            self._token()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self, http):
        end = time.monotonic() + START_SECONDS
        host, port = http.split(":")
        while True:
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    with open(self.folder + "/log", encoding="utf-8") as log:
                        raise RuntimeError("gantryd does not answer: " + log.read()) from None
                time.sleep(0.02)

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _token(self):
        secret = cli(self.data, "token", "create", "platform", "--role", "operator")["secret"]
        # A file with a token of the role operator.
        self.token_file = self.folder + "/token"
        with open(self.token_file, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(secret + "\n")
        self.array = Array(self.url, secret)
