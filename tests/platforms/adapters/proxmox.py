"""The life of a volume by the Proxmox VE plugin in the real PVE::Storage. Its node is the one of the plugin's own
tests, which keeps its kernel in memory and logs in and writes over the wire."""

import json
import os

from adapters.lines import Lines
from array_client import Array
from life import Platform

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../integrations/proxmox/t/conformance.pl")
# Folders of PVE's base classes, as the plugin's tests are told them.
TREES = ("GANTRY_PVE_COMMON", "GANTRY_PVE_STORAGE")


class Proxmox(Platform):
    # Its tests start an array of their own.
    needs_daemon = False

    def __init__(self, unused, also_unused):
        for name in TREES:
            if name not in os.environ:
                raise RuntimeError("%s names a work tree of Proxmox VE's: 'cargo xtask test --integrations' sets it" % name)
        environment = dict((name, value) for name, value in os.environ.items() if name != "GANTRY_TRANSCRIPTS")
        self.calls = Lines(["perl", PROGRAM], env=environment)
        told = json.loads(self.calls.process.stdout.readline())
        self.array = Array(told["url"], told["token"])

    def close(self):
        self.calls.close()


def step(name):
    return lambda self, *words: self.calls.ask(" ".join([name] + [str(word) for word in words])) and None


for method in ("create", "attach", "write", "read", "snapshot", "clone", "resize", "detach", "revert", "delete"):
    setattr(Proxmox, method, step(method))
