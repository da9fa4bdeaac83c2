# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Documentation of what all modules that change something share: attributes, and the option state."""

from __future__ import annotations


class ModuleDocFragment(object):
    DOCUMENTATION = r"""
options:
  state:
    description:
      - Whether the object is there with what the options say, or is not there.
      - What no option says stays as it is.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Says what would be changed, and changes nothing.
    support: full
    details:
      - The array has no trial run, so a refusal that depends on its state (no space, a taken LUN number) is found when the change is made.
  diff_mode:
    description: Shows what is different before and after, without secrets.
    support: full
"""
