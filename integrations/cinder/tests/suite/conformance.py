# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Calls the driver through cinderlib for the conformance driver of tests/platforms: a step per line of standard input, an
answer in JSON per line of standard output.

Arguments: the array's URL, a file with a token, a file with CHAP keys, and the initiator name of the host.
"""

import json
import sys

import cinderlib


class Life:
    """What cinderlib gave in earlier steps."""

    def __init__(self, url, token_file, keys, initiator):
        cinderlib.setup(disable_logs=True, root_helper="")
        self.backend = cinderlib.Backend(
            volume_backend_name="conformance", volume_driver="gantry_cinder.driver.GantryISCSIDriver", gantry_url=url,
            gantry_token_file=token_file, gantry_pools="p", gantry_chap_key_file=keys)
        # What os-brick says of a host.
        self.connector = dict(initiator=initiator, host="h", ip="127.0.0.1", multipath=True)

    def create(self):
        self.volume = self.backend.create_volume(size=1, name="v")

    def attach(self):
        self.connection = self.volume.connect(self.connector)
        return self.connection.connection_info["conn"]["data"]

    def snapshot(self):
        self.taken = self.volume.create_snapshot("s")

    def clone(self):
        self.cloned = self.taken.create_volume()

    def resize(self):
        self.volume.extend(2)

    def detach(self):
        self.connection.disconnect()

    def revert(self):
        # cinderlib has no call for it; Cinder's volume manager makes this one.
        self.backend.driver.revert_to_snapshot(None, self.volume._ovo, self.taken._ovo)

    def delete(self):
        self.cloned.delete()
        self.taken.delete()
        self.volume.delete()


STEPS = ("create", "attach", "snapshot", "clone", "resize", "detach", "revert", "delete")


def main():
    life = Life(*sys.argv[1:])
    for line in sys.stdin:
        name, answer = line.strip(), {}
        try:
            if name not in STEPS:
                raise ValueError("there is no step '%s'" % name)
            answer["data"] = getattr(life, name)()
        except Exception as error:
            answer["error"] = "%s: %s" % (type(error).__name__, error)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
