# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""iscsiadm as its manual has it (iscsiadm(8): modes, operations, exit statuses), with logins that libiscsi carries out.

Disks come from what the array then lets the session see, and not from a kernel.
"""

import socket

import wire
from oslo_concurrency import processutils

# Exit statuses of iscsiadm(8).
CONNECTION_TIMEOUT = 8
SESSION_EXISTS = 15
NO_OBJECTS = 21
LOGIN_AUTHENTICATION_FAILED = 24
INVALID = 7


class OpenIscsi:
    """Stands for the programs that os-brick runs; 'ran' are their words."""

    def __init__(self, initiator):
        self.initiator = initiator
        # Settings of node records, by target and portal.
        self.nodes = {}
        # Target and portal, by session identifier.
        self.sessions = {}
        self.logins = 0
        self.ran = []

    def execute(self, *words, check_exit_code=(0,), **unused):
        words = [str(word) for word in words]
        self.ran.append(words)
        status, out, err = self.run(words)
        allowed = [check_exit_code] if type(check_exit_code) is int else check_exit_code
        if allowed is not False and status not in allowed:
            raise processutils.ProcessExecutionError(stdout=out, stderr=err, exit_code=status, cmd=" ".join(words))
        return out, err

    def run(self, words):
        if words[0] != "iscsiadm":
            return 0, "", ""
        if words[1:] == ["-m", "session"]:
            lines = ["tcp: [%d] %s,1 %s (non-flash)\n" % (number, portal, target)
                     for number, (target, portal) in self.sessions.items()]
            return (0, "".join(lines), "") if lines else (NO_OBJECTS, "", "iscsiadm: No active sessions.\n")
        if words[1:] == ["-m", "node"]:
            return 0, "".join("%s,1 %s\n" % (portal, target) for target, portal in self.nodes), ""
        assert words[1:4] == ["-m", "node", "-T"] and words[5] == "-p", words
        return self.node((words[4], words[6]), words[7:])

    def node(self, key, words):
        if words[:2] == ["--interface", "default"] and words[2:] == ["--op", "new"]:
            self.nodes.setdefault(key, {})
            return 0, "", ""
        if key not in self.nodes:
            return NO_OBJECTS, "", "iscsiadm: No records found\n"
        if not words:
            return 0, "# BEGIN RECORD\n# END RECORD\n", ""
        if words[:2] == ["--op", "update"]:
            assert words[2] == "-n" and words[4] == "-v" and len(words) == 6, words
            self.nodes[key][words[3]] = words[5]
            return 0, "", ""
        if words == ["--login"]:
            return self.log_in(key)
        if words == ["--logout"]:
            gone = [number for number, session in self.sessions.items() if session == key]
            for number in gone:
                del self.sessions[number]
            return (0, "", "") if gone else (NO_OBJECTS, "", "iscsiadm: No matching sessions found\n")
        if words == ["--op", "delete"]:
            if key in self.sessions.values():
                return SESSION_EXISTS, "", "iscsiadm: This command will remove the record, but a session is using it.\n"
            del self.nodes[key]
            return 0, "", ""
        return INVALID, "", "iscsiadm: unrecognized\n"

    def log_in(self, key):
        if key in self.sessions.values():
            return SESSION_EXISTS, "", "iscsiadm: session exists\n"
        host, port = key[1].rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), 5).close()
        except OSError:
            return CONNECTION_TIMEOUT, "", "iscsiadm: Could not login: connection timed out\n"
        said = wire.refusal(self.connection(key, 0), self.initiator)
        if "auth" in said.lower():
            return LOGIN_AUTHENTICATION_FAILED, "", "iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)\n"
        self.logins += 1
        self.sessions[self.logins] = key
        return 0, "", ""

    def connection(self, key, lun):
        """What the record of a node says, as connection properties of one path."""
        target, portal = key
        record = self.nodes[key]
        data = dict(target_portals=[portal], target_iqns=[target], target_luns=[lun])
        if record.get("node.session.auth.authmethod") == "CHAP":
            data.update(auth_method="CHAP", auth_username=record["node.session.auth.username"],
                        auth_password=record["node.session.auth.password"])
        return data

    def has_disk(self, session, lun):
        """Whether a scan of that LUN finds a disk."""
        return not wire.is_refused(self.connection(self.sessions[int(session)], lun), self.initiator)
