# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Counts who else uses a volume on a host, so that the end of one attachment does not take it from another.

Cinder asks the driver to end a connection without saying which attachment it was of, and records that an
attachment is of a host only after the driver has answered.
"""

import time

from cinder import objects

# Seconds in which Cinder records an attachment after the driver has answered.
SETTLE_SECONDS = 5
SETTLE_PAUSE = 0.1


class Shares:
    """What this process has connected lately, and what Cinder's database says."""

    def __init__(self):
        # When a volume was last given to an initiator.
        self.given = {}

    def give(self, volume, initiator):
        now = time.monotonic()
        self.given = dict((key, then) for key, then in self.given.items() if now - then < SETTLE_SECONDS)
        self.given[volume.id, initiator] = now

    def is_recent(self, volume, initiator):
        then = self.given.get((volume.id, initiator))
        return then is not None and time.monotonic() - then < SETTLE_SECONDS

    def has_other(self, context, volume, connector):
        """Whether another attachment than the one that ends is of the same initiator."""
        while True:
            attachments = objects.VolumeAttachmentList.get_all_by_volume_id(context, volume.id).objects
            unsettled = [each for each in attachments if not each.connector and is_coming(each)]
            if not unsettled or not self.is_recent(volume, connector["initiator"]):
                return is_shared(attachments, connector)
            time.sleep(SETTLE_PAUSE)


def is_coming(attachment):
    return attachment.attach_status in ("attaching", "reserved")


def is_shared(attachments, connector):
    """A connection that Cinder makes for itself is in no attachment, so that one other is enough for it."""
    here = [each.connector for each in attachments
            if each.connector and each.connector.get("initiator") == connector["initiator"]
            and each.attach_status != "detached"]
    if connector in here:
        here.remove(connector)
    return bool(here)
