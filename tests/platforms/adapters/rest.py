"""The life of a volume by plain requests to the REST interface: what the others are compared with."""

from life import Connection, INITIATOR, LARGER, Platform, SIZE, TAGS

SECRET = "a secret of rest"


class Rest(Platform):
    def __init__(self, daemon, unused):
        self.portal, self.array, self.ask = daemon.portal, daemon.array, daemon.array.ask

    def create(self):
        self.ask("POST", "/volumes", {"pool": "p", "name": "v", "size_bytes": SIZE, "tags": TAGS})

    def attach(self):
        if not self.array.list("hosts"):
            chap = {"user": INITIATOR, "secret": SECRET}
            self.ask("POST", "/hosts", {"name": "h", "initiators": [INITIATOR], "chap": chap})
        made = self.ask("PUT", "/volumes/p/v/maps/h", {"read_only": False})
        target = self.ask("GET", "/target")["name"]
        self.connection = Connection(self.portal, target, made["lun"], INITIATOR, SECRET)

    def snapshot(self):
        self.ask("POST", "/snapshots", {"pool": "p", "snapshots": [{"volume": "v", "name": "s"}]})

    def clone(self):
        self.ask("POST", "/volumes/p/s/clones", {"name": "c"})

    def resize(self):
        self.ask("PATCH", "/volumes/p/v", {"size_bytes": LARGER})

    def detach(self):
        self.ask("DELETE", "/volumes/p/v/maps/h")

    def revert(self):
        self.ask("POST", "/volumes/p/v/revert", {"snapshot": "s"})

    def delete(self):
        for path in ("/volumes/p/c", "/snapshots/p/s", "/volumes/p/v", "/hosts/h"):
            self.ask("DELETE", path)
