# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes volumes by libiscsi (qemu-io) with nothing but the connection properties that the driver gives."""

import subprocess

# A key of CHAP.
KEY = "0123456789abcdef0123456789abcdef"


def connector(number=1, **more):
    """What os-brick says of a host."""
    return dict(initiator="iqn.1993-08.org.debian:01:host%d" % number, host="host%d" % number, ip="127.0.0.1",
                multipath=True, **more)


def images(data, initiator):
    """Image options of QEMU, one for each path."""
    for portal, iqn, lun in zip(data["target_portals"], data["target_iqns"], data["target_luns"]):
        options = dict(driver="iscsi", transport="tcp", portal=portal, target=iqn, lun=lun)
        options["initiator-name"] = initiator
        if "auth_method" in data:
            assert data["auth_method"] == "CHAP"
            options.update({"user": data["auth_username"], "password-secret": "chap"})
        yield ",".join("%s=%s" % (key, str(value).replace(",", ",,")) for key, value in options.items())


def io(data, initiator, command, path=0):
    """Runs one command of qemu-io; its words, or AssertionError with what it says."""
    words = ["qemu-io", "--image-opts", "-c", command, list(images(data, initiator))[path]]
    if command.startswith("read"):
        words.insert(1, "-r")
    if "auth_password" in data:
        words[1:1] = ["--object", "secret,id=chap,data=" + data["auth_password"]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    if done.returncode != 0 or "failed" in said:
        raise AssertionError("qemu-io '%s': %s" % (command, said))
    return said


def write(data, initiator, pattern, offset="0", length="1M", path=0):
    io(data, initiator, "write -P %d %s %s" % (pattern, offset, length), path)


def expect(data, initiator, pattern, offset="0", length="1M", path=0):
    """Every byte is so."""
    io(data, initiator, "read -P %d %s %s" % (pattern, offset, length), path)


def size(data, initiator):
    said = io(data, initiator, "length")
    return said.split()[0]


def refusal(data, initiator, path=0):
    """What libiscsi says when it reads; nothing if it may."""
    try:
        io(data, initiator, "read 0 4k", path)
    except AssertionError as error:
        return str(error)
    return ""


def is_refused(data, initiator, path=0):
    """Whether the host is not let in, or does not see the LUN."""
    return refusal(data, initiator, path) != ""
