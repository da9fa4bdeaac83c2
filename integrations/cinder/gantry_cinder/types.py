# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Extra specs of volume types: provisioning:type (thin, thick) and gantry:block_size (512, 512e, 4096)."""

from gantry_cinder.array import ArrayError
from gantry_cinder.qos import Qos

PROVISIONING = "provisioning:type"
BLOCK_SIZE = "gantry:block_size"
BLOCK_SIZES = ("512", "512e", "4096")
SCOPE = "gantry:"


class Wish:
    """What a volume type wants of a volume. ArrayError for a spec that the driver does not know."""

    def __init__(self, specs, qos):
        self.qos = qos
        unknown = [name for name in specs if name.startswith(SCOPE) and name != BLOCK_SIZE]
        if unknown:
            raise ArrayError("the driver knows no extra spec '%s', only %s and %s" % (unknown[0], PROVISIONING, BLOCK_SIZE))
        provisioning = specs.get(PROVISIONING, "thin")
        if provisioning not in ("thin", "thick"):
            raise ArrayError("%s is thin or thick, not '%s'" % (PROVISIONING, provisioning))
        self.thick = provisioning == "thick"
        # None is what the array takes.
        self.block_size = specs.get(BLOCK_SIZE)
        if self.block_size not in (None,) + BLOCK_SIZES:
            raise ArrayError("%s is one of %s, not '%s'" % (BLOCK_SIZE, ", ".join(BLOCK_SIZES), self.block_size))

    @classmethod
    def of(cls, volume):
        return cls.of_type(volume.volume_type if volume.volume_type_id else None)

    @classmethod
    def of_type(cls, kind):
        return cls((kind.get("extra_specs") if kind else None) or {}, Qos.of(kind))

    def fits(self, found):
        return found["thick"] == self.thick and self.block_size in (None, found["block_size"])
