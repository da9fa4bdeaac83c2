"""Differences from REST that are meant, and steps that a platform does not have, each with its reason.

What is not here fails; and what is here and was not met fails as well, so that the table stays true.
"""

from collections import namedtuple
from fnmatch import fnmatchcase

# Steps: those at which it is met, all for None. Path: of the state, with * for any characters.
Allowed = namedtuple("Allowed", "platform steps path reason")

# Platform and step, and why there is none.
MISSING = {
    ("csi", "revert"): "CSI has no such call: a volume is made from the snapshot instead",
    ("terraform", "revert"): "a resource has a state, and going back is an action: 'gantry volume revert' does it",
    ("ansible", "revert"): "a play describes a state, and going back is an action: 'gantry volume revert' does it",
}

ALLOWED = [
    Allowed("csi", None, "*.tags.csi.*", "the driver's own tags: by them it knows what is its own, and the key of a node's CHAP account"),
    Allowed("csi", None, "*.tags.purpose", "a storage class has no tags for the array"),
    Allowed("csi", ("delete",), "host.*", "the host of a node stays: its volumes come and go"),
    Allowed("terraform", None, "*.tags.terraform.created", "the provider's mark: by it a creation whose answer was lost is found"),
    Allowed("proxmox", None, "*.tags.pve.*", "the plugin's own tags: by them it knows what is its own"),
    Allowed("proxmox", None, "*.tags.purpose", "a disk of a guest has no tags for the array"),
    Allowed("proxmox", ("delete",), "host.*", "the host of a node stays: its volumes come and go"),
    Allowed("cinder", None, "*.tags.cinder.*", "the driver's own tags: by them it knows what is its own"),
    Allowed("cinder", None, "*.tags.purpose", "a volume of Cinder has its metadata in Cinder"),
    Allowed("cinder", ("revert", "attach again", "read at the end", "detach at the end"), "volume.size",
            "a volume keeps the size that Cinder's database has of it: after a revert it is enlarged again"),
    Allowed("cinder", ("delete",), "host.*", "the host of a node stays: its volumes come and go"),
]


def judge(platform, step, found, met):
    """The differences that are not in the table; those that are go into 'met'."""
    left = []
    for difference in found:
        entry = next((entry for entry in ALLOWED if entry.platform == platform and fits(entry, step, difference[0])), None)
        if entry is None:
            left.append(difference)
        else:
            met.add(entry)
    return left


def fits(entry, step, path):
    return (entry.steps is None or step in entry.steps) and fnmatchcase(path, entry.path)


def unmet(platform, met):
    return [entry for entry in ALLOWED if entry.platform == platform and entry not in met]
