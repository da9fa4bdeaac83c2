# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Driver by which OpenStack Cinder makes, attaches and deletes volumes of a Gantry array over iSCSI."""

__version__ = "0.1.0"
