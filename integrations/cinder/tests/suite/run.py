#!/usr/bin/env python3
# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Suite of the driver: Cinder's compliance tests, life and faults under Cinder 23 and 29, cinderlib, os-brick and cinder-volume itself,
against a real gantryd.

Needs GANTRY_BIN_DIR, the folder with gantryd and gantry, and qemu-io with iSCSI. Makes virtual environments in
the folder that the first argument names. Further arguments choose parts; all of them when left out.
"""

import os
import shutil
import subprocess
import sys
import time

SUITE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(SUITE))
# Cinder looks for drivers below its own folder only, so the compliance tests find ours by this module.
COMPLIANCE_MODULE = "cinder/volume/drivers/gantry.py"
COMPLIANCE_LINE = "from gantry_cinder.driver import GantryISCSIDriver  # noqa: F401\n"


class Environment:
    """A virtual environment with pinned packages and the driver, installed from its package."""

    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        self.pins = os.path.join(SUITE, name + ".txt")
        self.python = os.path.join(self.folder, "bin/python")
        self.prepared = False

    def prepare(self, package):
        if self.prepared:
            return
        stamp = os.path.join(self.folder, "complete")
        with open(self.pins, encoding="utf-8") as file:
            pins = file.read()
        if not os.path.exists(stamp) or open(stamp, encoding="utf-8").read() != pins:
            subprocess.check_call([sys.executable, "-m", "venv", "--clear", self.folder])
            self.pip("--requirement", self.pins)
            with open(stamp, "w", encoding="utf-8") as file:
                file.write(pins)
        self.pip("--force-reinstall", "--no-deps", package)
        self.prepared = True

    def pip(self, *words):
        subprocess.check_call([self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words])

    def packages(self):
        return subprocess.check_output([self.python, "-c", "import cinder, os; print(os.path.dirname(os.path.dirname(cinder.__file__)))"],
                                       text=True, stderr=subprocess.DEVNULL).strip()

    def run(self, *words, folder=SUITE):
        print("$ python " + " ".join(words), flush=True)
        done = subprocess.run([self.python, "-W", "ignore", *words], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout, flush=True)
        if done.returncode != 0:
            raise SystemExit("python %s failed" % " ".join(words))
        return done.stdout


class Workshop:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.service = Environment(self.folder, "service")
        self.library = Environment(self.folder, "library")

    def package(self):
        """The driver's wheel, as an administrator installs it, built from a copy so that nothing stays in the work tree."""
        copy = os.path.join(self.folder, "source")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("tests", "build", "*.egg-info", "__pycache__"))
        wheels = os.path.join(self.folder, "wheels")
        shutil.rmtree(wheels, ignore_errors=True)
        subprocess.check_call([self.service.python if os.path.exists(self.service.python) else sys.executable,
                               "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
                               "--wheel-dir", wheels, copy])
        name, = os.listdir(wheels)
        return os.path.join(wheels, name)


def compliance(workshop):
    packages = workshop.service.packages()
    with open(os.path.join(packages, COMPLIANCE_MODULE), "w", encoding="utf-8") as file:
        file.write(COMPLIANCE_LINE)
    workshop.service.run("-m", "unittest", "cinder.tests.compliance.test_volume_drivers", folder=packages)
    found = workshop.service.run("-c", "from cinder.tests.compliance import test_volume_drivers as t; print(*t.VOLUME_DRIVERS)",
                                 folder=packages)
    if "GantryISCSIDriver" not in found.split():
        raise SystemExit("the compliance tests did not find the driver")


def driver(workshop):
    for environment in (workshop.service, workshop.library):
        environment.run("green.py", "test_life", "test_qos", "test_faults", "test_images")


def cinderlib(workshop):
    workshop.library.run("-m", "unittest", "test_cinderlib")


def brick(workshop):
    workshop.service.run("green.py", "test_brick")


def service(workshop):
    workshop.service.run("-m", "unittest", "test_service")
    workshop.service.run("green.py", "test_manager")


PARTS = dict(compliance=compliance, driver=driver, cinderlib=cinderlib, brick=brick, service=service)


def main():
    if len(sys.argv) < 2 or "GANTRY_BIN_DIR" not in os.environ:
        sys.exit("usage: GANTRY_BIN_DIR=FOLDER run.py WORKFOLDER [%s]..." % "|".join(PARTS))
    unknown = [part for part in sys.argv[2:] if part not in PARTS]
    if unknown:
        sys.exit("there is no part '%s': %s" % (unknown[0], ", ".join(PARTS)))
    workshop = Workshop(sys.argv[1])
    os.makedirs(workshop.folder, exist_ok=True)
    package = workshop.package()
    for environment in (workshop.service, workshop.library):
        environment.prepare(package)
    for part in sys.argv[2:] or PARTS:
        started = time.monotonic()
        PARTS[part](workshop)
        print("== %s: ok, %.0f s" % (part, time.monotonic() - started), flush=True)


if __name__ == "__main__":
    main()
