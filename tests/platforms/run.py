#!/usr/bin/env python3
"""Conformance driver: the same life of a volume through each platform's integration, and what the array then has.

usage: GANTRY_BIN_DIR=FOLDER run.py WORKFOLDER [PLATFORM]...

Each platform has a gantryd of its own. After each step the array's state is compared with that after the same
step by REST; differences that are meant are in allowed.py, and everything else fails.
"""

import os
import sys
import time
import traceback
from contextlib import nullcontext

# The work tree stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import allowed
from adapters.rest import Rest
from daemon import Daemon
from life import steps_without
from state import Observer, differences


def platforms():
    """Names and classes; imported when they are wanted, since each needs the tools of its platform."""
    from adapters.ansible import Ansible
    from adapters.cinder import Cinder
    from adapters.csi import Csi
    from adapters.proxmox import Proxmox
    from adapters.terraform import Terraform
    return {"csi": Csi, "proxmox": Proxmox, "terraform": Terraform, "ansible": Ansible, "cinder": Cinder}


def live(platform_class, folder, missing):
    """Lives a life; yields each step with the state behind it."""
    os.makedirs(folder, exist_ok=True)
    with Daemon() if platform_class.needs_daemon else nullcontext() as daemon:
        platform = platform_class(daemon, folder)
        try:
            observer = Observer(platform.array)
            for name, method, words in steps_without(missing):
                try:
                    getattr(platform, method)(*words)
                except Exception as error:
                    raise RuntimeError("step '%s': %s" % (name, error)) from error
                yield name, observer.look()
        finally:
            platform.close()


class Comparison:
    def __init__(self, folder):
        self.folder = folder
        # States of lives by REST, by the steps that they go without.
        self.baselines = {}

    def baseline(self, missing):
        if missing not in self.baselines:
            self.baselines[missing] = dict(live(Rest, os.path.join(self.folder, "rest"), missing))
        return self.baselines[missing]

    def problems(self, name, platform_class):
        """What is wrong with a platform, as lines."""
        missing = frozenset(step for platform, step in allowed.MISSING if platform == name)
        for step in missing:
            if hasattr(platform_class, step):
                yield "it has the step '%s', and allowed.py says that it has not" % step
        expected, met = self.baseline(missing), set()
        for step, state in live(platform_class, os.path.join(self.folder, name), missing):
            for path, wanted, found in allowed.judge(name, step, differences(expected[step], state), met):
                yield "after '%s': %s is %r, by REST %r" % (step, path, found, wanted)
        for entry in allowed.unmet(name, met):
            yield "the difference %s (%s) was not met: take it out of allowed.py" % (entry.path, entry.reason)


def main():
    if len(sys.argv) < 2 or "GANTRY_BIN_DIR" not in os.environ:
        sys.exit("usage: GANTRY_BIN_DIR=FOLDER run.py WORKFOLDER [PLATFORM]...")
    comparison, failed = Comparison(os.path.abspath(sys.argv[1])), []
    known = platforms()
    for name in sys.argv[2:] or known:
        if name not in known:
            sys.exit("there is no platform '%s': %s" % (name, ", ".join(known)))
        started = time.monotonic()
        try:
            problems = list(comparison.problems(name, known[name]))
        except Exception:
            problems = [traceback.format_exc()]
        for problem in problems:
            print("%s: %s" % (name, problem), flush=True)
        print("== %s: %s, %.0f s" % (name, "FAILED" if problems else "as by REST", time.monotonic() - started), flush=True)
        if problems:
            failed.append(name)
    if failed:
        sys.exit("not as by REST: " + ", ".join(failed))


if __name__ == "__main__":
    main()
