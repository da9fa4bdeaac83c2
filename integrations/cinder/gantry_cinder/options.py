# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Options of a backend in cinder.conf, and what the array is asked with."""

import re

from oslo_config import cfg

from cinder import exception

from gantry_cinder.array import ArrayError, Connection
from gantry_cinder.chap import Keys

OPTIONS = [
    cfg.StrOpt("gantry_url",
               help="Where the array's REST interface is, for example https://array.example.org:8443. Of an array with "
                    "several controllers those of each, separated by commas."),
    cfg.StrOpt("gantry_token", secret=True,
               help="A token of the role operator."),
    cfg.StrOpt("gantry_token_file",
               help="A file with the token, read anew at each request; instead of gantry_token."),
    cfg.StrOpt("gantry_ca_file",
               help="The array's certificate (tls.crt of its data directory), if the system does not trust it."),
    cfg.ListOpt("gantry_pools", default=[],
                help="Pools of the array in which volumes are made; each one is a pool of the scheduler."),
    cfg.StrOpt("gantry_chap_key_file",
               help="A file of keys, one a line, the newest last, from which each host's CHAP secret is derived. "
                    "Without it hosts prove nothing. All cinder-volume services of a cluster need the same."),
    cfg.ListOpt("gantry_portals", default=[],
                help="ADDRESS:PORT of the portals that hosts use; those that the array names when left out."),
    cfg.IntOpt("gantry_timeout", default=60, min=1, max=3600,
               help="Seconds for which a request is tried again while the array does not answer."),
]


# Tags have values of at most 128 characters, of which an id and a slash take 37.
OWNER = re.compile(r"[A-Za-z0-9_.@-]{1,90}")


class Settings:
    """The options of one backend. InvalidConfigurationValue says which one is wrong."""

    def __init__(self, configuration):
        self.configuration = configuration
        self.owner = configuration.safe_get("volume_backend_name") or configuration.config_group or "cinder"
        if not OWNER.fullmatch(self.owner):
            raise invalid("volume_backend_name", self.owner)
        self.pools = configuration.safe_get("gantry_pools") or []
        if not self.pools or len(set(self.pools)) < len(self.pools):
            raise invalid("gantry_pools", ", ".join(self.pools))
        self.portals = configuration.safe_get("gantry_portals") or []
        path = configuration.safe_get("gantry_chap_key_file")
        self.keys = Keys(path) if path else None
        if bool(configuration.safe_get("gantry_token")) == bool(configuration.safe_get("gantry_token_file")):
            raise invalid("gantry_token or gantry_token_file, one of the two", "")

    def connection(self):
        url = self.configuration.safe_get("gantry_url") or ""
        try:
            return Connection(url, self.read_token, self.configuration.safe_get("gantry_ca_file"),
                              self.configuration.safe_get("gantry_timeout"))
        except ArrayError:
            raise invalid("gantry_url", url) from None

    def read_token(self):
        path = self.configuration.safe_get("gantry_token_file")
        token = self.configuration.safe_get("gantry_token")
        if path:
            try:
                with open(path, encoding="utf-8") as file:
                    token = file.readline()
            except (OSError, UnicodeDecodeError) as error:
                raise ArrayError("the token cannot be read from gantry_token_file: %s" % error) from error
        token = token.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ArrayError("the token is not one word of ASCII characters: see how gantry_token was written")
        return token


def invalid(option, value):
    return exception.InvalidConfigurationValue(option=option, value=value)
