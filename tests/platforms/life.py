"""The life of a volume: the steps that every platform takes, and what is written and read between them.

A platform is a class with a method for each step; 'attach' returns the Connection by which the driver writes and
reads as a host does. It may have 'write' and 'read' of its own instead.
"""

import subprocess
from collections import namedtuple

from daemon import binary

GIB = 1 << 30
SIZE, LARGER = GIB, 2 * GIB
# The name that the Proxmox node of the plugin's tests has.
INITIATOR = "iqn.1993-08.org.debian:01:pve1"
TAGS = {"purpose": "conformance"}
# What is written at once, from the start of the volume.
WRITTEN = 4096

# As a platform tells a host to log in; user and password are empty without CHAP.
Connection = namedtuple("Connection", "portal target lun user password")

# The step's name, and the platform's method with its arguments.
STEPS = [
    ("create", "create", ()),
    ("attach", "attach", ()),
    ("write", "write", (1,)),
    ("snapshot", "snapshot", ()),
    ("clone", "clone", ()),
    ("write again", "write", (2,)),
    ("read", "read", (2,)),
    ("resize", "resize", ()),
    ("detach", "detach", ()),
    ("revert", "revert", ()),
    ("attach again", "attach", ()),
    ("read at the end", "read", (1,)),
    ("detach at the end", "detach", ()),
    ("delete", "delete", ()),
]


class Platform:
    """What platforms share: writing and reading by the connection that they return."""

    # The array, which the platform sets; whether the driver starts one.
    array = None
    needs_daemon = True

    def write(self, content):
        self._kit("fill", content)

    def read(self, content):
        self._kit("check", content)

    def _kit(self, word, content):
        at = self.connection
        account = "%s%%%s@" % (at.user, at.password) if at.user else ""
        url = "iscsi://%s%s/%s/%d" % (account, at.portal, at.target, at.lun)
        words = [binary("gantry-host"), word, url, "--length", str(WRITTEN), "--seed", str(content), "--initiator", INITIATOR]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("%s of content %d: %s" % (word, content, done.stderr))

    def close(self):
        """Ends what the platform started."""


def steps_without(missing):
    """The steps, without those that are missing; without a revert the volume has its second content."""
    for name, method, words in STEPS:
        if name in missing:
            continue
        if name == "read at the end" and "revert" in missing:
            words = (2,)
        yield name, method, words
