# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""QoS specs of volume types as limits of the array: total_iops_sec, total_bytes_sec, per GiB too, and burst_ms.

The keys are those that Cinder and Nova know for the front end, so that specs with the consumer 'both' say the same to
hypervisor and array. A value that grows with the volume is KEY_per_gb, never below KEY_per_gb_min or above KEY_max.
"""

from cinder import context
from cinder import objects
from cinder.volume import qos_specs

from gantry_cinder.array import ArrayError

# Key of Cinder, name in the array, and range there.
RATES = (("total_iops_sec", "iops", 10, 10_000_000), ("total_bytes_sec", "bytes_per_second", 1 << 20, 1 << 40))
# For how many milliseconds the array saves up what is not used; a key of this driver's own.
BURST, BURST_LEAST, BURST_MOST, BURST_DEFAULT = "burst_ms", 10, 600_000, 100
PER_GB = "_per_gb"


class Qos:
    """What a volume type wants to be limited. ArrayError for what the array cannot do."""

    def __init__(self, specs, for_array_only=True):
        self.specs = specs
        known = {BURST}
        for key, unused, unused, unused in RATES:
            known.update((key, key + PER_GB))
            if key + PER_GB in specs:
                known.update((key + PER_GB + "_min", key + "_max"))
        # What a hypervisor does besides is not for the array.
        unknown = sorted(set(specs) - known) if for_array_only else []
        if unknown:
            raise ArrayError("the array limits reads and writes together, and knows no QoS spec '%s' of the back end, only "
                             "total_iops_sec, total_bytes_sec, each with _per_gb, and burst_ms" % unknown[0])
        # Refuses what is out of range before anything is made.
        self.limits(1)

    @classmethod
    def of(cls, kind):
        """Of a volume type, or None."""
        id = kind.get("qos_specs_id") if kind else None
        if id is None:
            return cls({})
        # A type may bring them, as cinderlib's does; the database is asked as an administrator, who the caller may not be.
        brought = isinstance(kind, objects.VolumeType) and kind.obj_attr_is_set("qos_specs")
        found = kind.qos_specs if brought else qos_specs.get_qos_specs(context.get_admin_context(), id)
        if found["consumer"] == "front-end":
            return cls({})
        return cls(found["specs"] or {}, found["consumer"] == "back-end")

    def grows(self):
        """Whether a larger volume has other limits."""
        return any(key + PER_GB in self.specs for key, unused, unused, unused in RATES)

    def limits(self, size):
        """As the array is asked for them, for a volume of so many GiB; 0 is no limit."""
        asked = dict((name, self.rate(key, least, most, size)) for key, name, least, most in RATES)
        burst = number(self.specs, BURST, BURST_DEFAULT)
        if not BURST_LEAST <= burst <= BURST_MOST:
            raise ArrayError("QoS spec %s is %d to %d, not %d" % (BURST, BURST_LEAST, BURST_MOST, burst))
        asked["burst_ms"] = burst
        return asked

    def rate(self, key, least, most, size):
        if key + PER_GB in self.specs:
            grown = max(number(self.specs, key + PER_GB) * size, number(self.specs, key + PER_GB + "_min", 0))
            # What a small volume would get may be below what the array can do.
            return max(least, min(grown, number(self.specs, key + "_max", most), most))
        value = number(self.specs, key, 0)
        if value != 0 and not least <= value <= most:
            raise ArrayError("QoS spec %s is %d to %d, not %d" % (key, least, most, value))
        return value


def number(specs, key, default=None):
    text = str(specs.get(key, default))
    if not (text.isascii() and text.isdigit()):
        raise ArrayError("QoS spec %s is a number, not '%s'" % (key, text))
    return int(text)
