# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Runs tests as cinder-volume runs drivers: eventlet has replaced sockets, threads and sleep before anything else is imported."""

import eventlet

eventlet.monkey_patch()

import unittest  # noqa: E402

unittest.main(module=None)
