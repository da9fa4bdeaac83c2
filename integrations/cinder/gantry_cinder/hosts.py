# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Finds or makes the array's host of an initiator, with its CHAP account, and maps volumes to it."""

import hashlib
import re

from gantry_cinder.array import ArrayError, Problem
from gantry_cinder.inventory import pauses

# Begins the names of hosts that the driver makes.
PREFIX = "cinder-"
# The longest name that the array takes.
NAME_MAX = 63


class Hosts:
    """Hosts of one array. 'keys' are those of CHAP, or None: then new hosts have no account."""

    def __init__(self, array, keys):
        self.array = array
        self.keys = keys

    def find(self, initiator):
        """The host that has the initiator, or None."""
        found = self.array.list("hosts", initiators=initiator)
        return found[0] if found else None

    def ensure(self, initiator):
        """The host and the account that it proves, None if it proves nothing."""
        for again in pauses():
            host = self.find(initiator)
            if host is not None:
                expect_alone(host, initiator)
                return host, self.account(host, initiator)
            accounts = self.accounts(initiator)
            body = dict(name=host_name(initiator), initiators=[initiator])
            if accounts:
                body["chap"] = chap_of(accounts[0])
            try:
                return self.array.post(("hosts",), body), accounts[0] if accounts else None
            except Problem as problem:
                # Another cinder-volume may have made it just now, or an attempt whose answer was lost.
                if not problem.is_of("name-taken", "initiator-taken") or not again:
                    raise
        raise ArrayError("the host of %s keeps coming and going: try again" % initiator)

    def accounts(self, initiator):
        return self.keys.accounts(initiator) if self.keys else []

    def account(self, host, initiator):
        """The account that a host has. It gets the newest key's while it uses no volume and has no session."""
        accounts = self.accounts(initiator)
        current = next((each for each in accounts if each.user == host["chap_user"]), None)
        if accounts and current is accounts[0]:
            return current
        foreign = host["chap_user"] is not None and current is None
        if foreign and not host["name"].startswith(PREFIX):
            raise ArrayError("host '%s' of the array has a CHAP account that the driver did not make: remove it with "
                             "'gantry host change %s --no-chap'" % (host["name"], host["name"]))
        if accounts and not self.is_used(host, initiator):
            self.array.patch(("hosts", host["name"]), dict(chap=chap_of(accounts[0])))
            return accounts[0]
        if foreign:
            raise ArrayError("the CHAP account of host '%s' was made with a key that gantry_chap_key_file has no more: put "
                             "it back, or detach all volumes of the host first" % host["name"])
        return current

    def is_used(self, host, initiator):
        """Whether another account would end a session, or keep it from coming back."""
        if self.array.list("volumes", hosts=host["name"]) or self.array.list("snapshots", hosts=host["name"]):
            return True
        return bool(self.array.list("sessions", initiator=initiator))

    def map(self, found, host, read_only=False):
        """The LUN number by which the host sees a volume or snapshot from now on."""
        body = dict(read_only=True) if read_only else {}
        return self.array.put(("volumes", found["pool"], found["name"], "maps", host["name"]), body)["lun"]

    def unmap(self, found, host):
        try:
            self.array.delete(("volumes", found["pool"], found["name"], "maps", host))
        except Problem as problem:
            if not problem.is_of("not-mapped", "not-found"):
                raise

    def unmap_own(self, found):
        """Takes an object away from hosts that the driver made: what interrupted calls left."""
        for host in found["hosts"]:
            if host.startswith(PREFIX):
                self.unmap(found, host)


def chap_of(account):
    return dict(user=account.user, secret=account.secret)


def expect_alone(host, initiator):
    if len(host["initiators"]) > 1:
        raise ArrayError("initiator %s belongs to host '%s' of the array together with others, which would see the volume "
                         "too: give it a host of its own" % (initiator, host["name"]))


def host_name(initiator):
    """Readable at its end, where initiator names differ."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", initiator)
    if len(PREFIX + readable) <= NAME_MAX:
        return PREFIX + readable
    short = hashlib.sha256(initiator.encode()).hexdigest()[:16] + "-"
    return PREFIX + short + readable[len(PREFIX) + len(short) - NAME_MAX:]
