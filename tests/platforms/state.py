"""What an array has, as a flat mapping of paths to values, without what every run or platform names otherwise.

Objects are known by the part that they play: the first volume is 'volume', the first snapshot 'snapshot', the
next volume 'clone'; whatever comes besides is 'extra'. A part stays with the NAA identifier, so that a platform
that renames an object, or replaces it, is told apart.
"""

# Parts in the order in which objects of a kind appear.
PARTS = {"volume": ["volume", "clone"], "snapshot": ["snapshot"]}


class Observer:
    def __init__(self, array):
        self.array = array
        self.parts = {}

    def look(self):
        volumes = [found for found in self.array.list("volumes") if not found["snapshot"]]
        snapshots = self.array.list("snapshots")
        hosts, groups = self.array.list("hosts"), self.array.list("groups")
        for kind, objects in (("volume", volumes), ("snapshot", snapshots)):
            self._cast(kind, objects)
        names = {"%s/%s" % (found["pool"], found["name"]): self.parts[found["naa"]] for found in volumes + snapshots}
        state = {}
        for found in volumes:
            self._volume(state, found, names)
        for found in snapshots:
            part = self.parts[found["naa"]]
            state[part + ".size"] = found["size_bytes"]
            state[part + ".of"] = self._source(found, names)
            self._tags(state, part, found)
        for number, found in enumerate(sorted(hosts, key=lambda host: host["name"])):
            part = "host" if number == 0 else "extra.host%d" % number
            state[part + ".initiators"] = sorted(found["initiators"])
            state[part + ".chap"] = found["chap_user"] is not None
            state[part + ".mutual"] = found["mutual_chap"]
            self._tags(state, part, found)
        for found in groups:
            state["extra.group"] = found["name"]
        space = self.array.ask("GET", "/pools/p")["space"]
        state["pool.data"], state["pool.shared"] = space["data_bytes"], space["shared_bytes"]
        return state

    def _cast(self, kind, objects):
        """Gives new objects their parts; those that are gone keep theirs, so that nobody takes it."""
        for found in objects:
            if found["naa"] not in self.parts:
                free = [part for part in PARTS[kind] if part not in self.parts.values()]
                taken = sum(part.startswith("extra.") for part in self.parts.values())
                self.parts[found["naa"]] = free[0] if free else "extra.%s%d" % (kind, taken)

    def _volume(self, state, found, names):
        part = self.parts[found["naa"]]
        state[part + ".size"] = found["size_bytes"]
        state[part + ".thick"] = found["thick"]
        state[part + ".block_size"] = found["block_size"]
        state[part + ".mapped"] = found["mapped_bytes"]
        state[part + ".snapshots"] = found["snapshots"]
        state[part + ".origin"] = names.get(found["origin"]) if found["origin"] else None
        state[part + ".maps"] = ["read-only" if entry["read_only"] else "writable" for entry in found["maps"]]
        self._tags(state, part, found)

    @staticmethod
    def _source(found, names):
        return names.get("%s/%s" % (found["pool"], found["volume"])) if found["volume"] else None

    @staticmethod
    def _tags(state, part, found):
        for key, value in found["tags"].items():
            state["%s.tags.%s" % (part, key)] = value


def differences(expected, found):
    """Paths with what was expected and what was found; None for what is not there."""
    paths = sorted(set(expected) | set(found))
    return [(path, expected.get(path), found.get(path)) for path in paths if expected.get(path) != found.get(path)]
