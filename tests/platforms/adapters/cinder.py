"""The life of a volume by the Cinder driver, which cinderlib calls without a Cinder service."""

import os
import subprocess
import sys

from adapters.lines import Lines
from life import Connection, INITIATOR, Platform

SUITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../integrations/cinder/tests/suite")
KEY = "a key of thirty-two characters at least"


def python(folder):
    """Python of the environment with cinderlib and the driver, which the driver's own suite makes."""
    # The suite has modules of its own named as some here.
    script = "import sys; sys.path.insert(0, sys.argv[1]); import os, run; os.makedirs(sys.argv[2], exist_ok=True); " \
             "shop = run.Workshop(sys.argv[2]); shop.library.prepare(shop.package()); print(shop.library.python)"
    done = subprocess.run([sys.executable, "-B", "-c", script, SUITE, folder], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1]


class Cinder(Platform):
    def __init__(self, daemon, folder):
        self.array = daemon.array
        keys = daemon.folder + "/keys"
        with open(keys, "w", encoding="utf-8") as file:
            file.write(KEY + "\n")
        words = [python(os.path.join(os.environ["GANTRY_BIN_DIR"], "cinder")), "-B", "-W", "ignore", SUITE + "/conformance.py",
                 daemon.url, daemon.token_file, keys, INITIATOR]
        with open(folder + "/cinderlib.log", "w", encoding="utf-8") as log:
            self.calls = Lines(words, stderr=log)

    def attach(self):
        data = self.calls.ask("attach")["data"]
        self.connection = Connection(data["target_portal"], data["target_iqn"], data["target_lun"],
                                     data.get("auth_username", ""), data.get("auth_password", ""))

    def close(self):
        self.calls.close()


def step(name):
    return lambda self: self.calls.ask(name) and None


for method in ("create", "snapshot", "clone", "resize", "detach", "revert", "delete"):
    setattr(Cinder, method, step(method))
