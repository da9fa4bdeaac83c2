"""The life of a volume by the CSI driver for Kubernetes: its program, called over its socket."""

import base64
import hmac
import os
import subprocess

from adapters.lines import Lines
from life import Connection, INITIATOR, Platform

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../integrations/kubernetes")
KEY = b"a key of thirty-two bytes at least"


class Csi(Platform):
    def __init__(self, daemon, folder):
        self.array = daemon.array
        for name in ("cmd/gantry-csi", "test/conformance"):
            build = ["go", "build", "-C", MODULE, "-o", os.path.join(folder, os.path.basename(name)), "./" + name]
            subprocess.run(build, check=True, stdin=subprocess.DEVNULL)
        keys, socket = daemon.folder + "/keys", daemon.folder + "/csi.sock"
        os.mkdir(keys)
        with open(keys + "/2026-11", "wb") as file:
            file.write(KEY)
        words = [folder + "/gantry-csi", "-mode", "controller", "-endpoint", "unix://" + socket, "-array-url", daemon.url,
                 "-token-file", daemon.token_file, "-chap-keys", keys]
        with open(folder + "/gantry-csi.log", "w", encoding="utf-8") as log:
            self.driver = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log)
        self.calls = Lines([folder + "/conformance", socket, INITIATOR])

    def attach(self):
        told = self.calls.ask("attach")["context"]
        # The node derives its secret from the key that the publication names.
        digest = hmac.digest(KEY, b"gantry-csi chap " + INITIATOR.encode(), "sha256")
        secret = base64.b32encode(digest).decode().lower()[:32] if told.get("chapKey") == "2026-11" else ""
        portal = told["portals"].split(",")[0]
        self.connection = Connection(portal, told["target"], int(told["lun"]), INITIATOR if secret else "", secret)

    def create(self):
        self.calls.ask("create")

    def snapshot(self):
        self.calls.ask("snapshot")

    def clone(self):
        self.calls.ask("clone")

    def resize(self):
        self.calls.ask("resize")

    def detach(self):
        self.calls.ask("detach")

    def delete(self):
        self.calls.ask("delete")

    def close(self):
        self.calls.close()
        self.driver.terminate()
        self.driver.wait()
