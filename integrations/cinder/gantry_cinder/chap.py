# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Derives each host's CHAP account (RFC 7143 12.1.3) from a file of keys: one key a line, the last one is the newest.

The secret is HMAC-SHA256(key, initiator name), so every cinder-volume with the file has it, and neither the
array nor Cinder's database need to give it back. The account's name says which key it was made with.
"""

import hashlib
import hmac

from gantry_cinder.array import ArrayError

# The least length of a key in characters.
KEY_LEAST = 32
# Characters of a derived secret; RFC 7143 wants 12 at least, and some initiators take 32 at most.
SECRET_LENGTH = 32
USER_PREFIX = "cinder-"


class Account:
    """What a host proves."""

    def __init__(self, key, initiator):
        self.secret = digest(key, "secret " + initiator)[:SECRET_LENGTH]
        # Tells keys apart, and nothing about them.
        self.user = USER_PREFIX + digest(key, "user " + initiator)[:16]


def digest(key, text):
    return hmac.new(key.encode(), ("gantry-cinder " + text).encode(), hashlib.sha256).hexdigest()


class Keys:
    """The file of keys. It is read at every attachment, so that a key is added without a restart."""

    def __init__(self, path):
        self.path = path

    def accounts(self, initiator):
        """The accounts that a host may have, the newest first."""
        return [Account(key, initiator) for key in reversed(self.read())]

    def read(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                keys = [line.strip() for line in file if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise ArrayError("the CHAP keys cannot be read from gantry_chap_key_file: %s" % error) from error
        if not keys or min(len(key) for key in keys) < KEY_LEAST:
            raise ArrayError("gantry_chap_key_file: one key of at least %d characters a line: 'openssl rand -hex 32' makes one"
                             % KEY_LEAST)
        return keys
