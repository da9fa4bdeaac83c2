#!/usr/bin/env python3
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Suite of the collection: ansible-test sanity, ansible-test integration and scenarios against a real gantryd.

Needs GANTRY_BIN_DIR, the folder with gantryd and gantry, and makes a virtual environment with ansible-core in
the folder that the first argument names, where everything else goes as well. Further arguments choose parts:
sanity, integration, scenarios; all of them when left out.
"""

import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import scenarios
from daemon import Daemon

ANSIBLE_CORE = "ansible-core==2.19.14"
# ansible-test of that version keeps the script that installs pip under this name.
GET_PIP = ".ansible/test/cache/get_pip_24_2.py"
# What the tests of ansible-test would download as programs instead of packages.
SKIPPED_SANITY = ("pslint", "shellcheck")
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The one that runs the suite: others on the machine may be shims that do not start.
PYTHON = "%d.%d" % sys.version_info[:2]
TARGETS = ("volume", "mapping", "pool", "access")


class Workshop:
    """The folder in which the suite works: ansible-core, and the collection where Ansible looks for it."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.environment = os.path.join(self.folder, "venv")
        self.collection = os.path.join(self.folder, "collections/ansible_collections/gantry/array")

    def prepare(self):
        python = os.path.join(self.environment, "bin/python")
        if not os.path.exists(os.path.join(self.environment, "complete")):
            subprocess.check_call([sys.executable, "-m", "venv", "--clear", self.environment])
            subprocess.check_call([python, "-m", "pip", "install", "--quiet", ANSIBLE_CORE])
            open(os.path.join(self.environment, "complete"), "w").close()
        shutil.rmtree(self.collection, ignore_errors=True)
        shutil.copytree(SOURCE, self.collection, ignore=shutil.ignore_patterns("output", "__pycache__", "suite"))
        cached = os.path.join(self.folder, "home", GET_PIP)
        os.makedirs(os.path.dirname(cached), exist_ok=True)
        shutil.copy(os.path.join(SOURCE, "tests/suite/get_pip.py"), cached)

    def variables(self):
        """The environment for Ansible's programs: nothing of the user's own configuration, no token of the caller."""
        kept = dict((name, value) for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GANTRY_")))
        kept.update(
            PATH=os.path.join(self.environment, "bin") + os.pathsep + os.environ["PATH"],
            HOME=os.path.join(self.folder, "home"),
            ANSIBLE_COLLECTIONS_PATH=os.path.join(self.folder, "collections"),
            ANSIBLE_LOCALHOST_WARNING="false",
            ANSIBLE_INVENTORY_UNPARSED_WARNING="false",
            ANSIBLE_NOCOLOR="1",
        )
        return kept

    def run(self, *words):
        print("$ " + " ".join(words), flush=True)
        subprocess.check_call(words, cwd=self.collection, env=self.variables(), stdin=subprocess.DEVNULL)

    def playbook(self, path):
        """Starts a playbook; its output comes through the pipe."""
        words = [os.path.join(self.environment, "bin/ansible-playbook"), path]
        return subprocess.Popen(words, cwd=self.folder, env=self.variables(), text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def sanity(workshop):
    words = ["ansible-test", "sanity", "--venv", "--python", PYTHON, "--color", "no"]
    for test in SKIPPED_SANITY:
        words += ["--skip-test", test]
    workshop.run(*words)


def integration(workshop):
    with Daemon(os.path.join(workshop.folder, "array")) as daemon:
        config = os.path.join(workshop.collection, "tests/integration/integration_config.yml")
        values = dict(
            gantry_url=daemon.url,
            gantry_https=daemon.https,
            folder=daemon.folder,
            operator_token=daemon.token("operator"),
            admin_token=daemon.token("admin"),
            viewer_token=daemon.token("viewer"),
            # Longer than the busiest machine takes: the pool is thrown away with its locked snapshot.
            lock_until=int(time.time()) + 6 * 3600,
        )
        with open(config, "w", encoding="utf-8") as file:
            file.writelines("%s: %s\n" % (name, quoted(value)) for name, value in sorted(values.items()))
        workshop.run("ansible-test", "integration", "--venv", "--python", PYTHON, "--color", "no", *TARGETS)
        daemon.expect_empty()


def quoted(value):
    return value if isinstance(value, int) else '"%s"' % value


def main():
    if len(sys.argv) < 2 or "GANTRY_BIN_DIR" not in os.environ:
        sys.exit("usage: GANTRY_BIN_DIR=FOLDER run.py WORKFOLDER [sanity|integration|scenarios]...")
    workshop = Workshop(sys.argv[1])
    workshop.prepare()
    parts = dict(sanity=sanity, integration=integration, scenarios=scenarios.run)
    for part in sys.argv[2:] or parts:
        if part not in parts:
            sys.exit("there is no part '%s': sanity, integration, scenarios" % part)
        started = time.monotonic()
        parts[part](workshop)
        print("== %s: ok, %.0f s" % (part, time.monotonic() - started), flush=True)


if __name__ == "__main__":
    main()
