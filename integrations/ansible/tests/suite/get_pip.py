# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Installation of pip into a virtual environment by what Python itself brings along.

ansible-test downloads a script for that from a machine of its own unless it finds one in its cache; the
suite puts this one there, so that packages come from the package index only.
"""

import subprocess
import sys

IGNORED = ("--no-setuptools", "--no-wheel")

options = [option for option in sys.argv[1:] if option not in IGNORED]
subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"])
subprocess.check_call([sys.executable, "-m", "pip", "install"] + options)
