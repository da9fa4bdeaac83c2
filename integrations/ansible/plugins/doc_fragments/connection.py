# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the options that all modules share: where the array is, and who asks."""

from __future__ import annotations


class ModuleDocFragment(object):
    DOCUMENTATION = r"""
options:
  url:
    description:
      - Address of the array's management interface, for example C(https://array.example.org:8443).
      - C(http) is taken for loopback addresses only, because anybody on the way could read the token.
      - When left out, the environment variable E(GANTRY_URL) of the machine on which the module runs.
    type: str
    required: true
  token:
    description:
      - A token of the array. Each module says which role its work needs.
      - When left out, the environment variable E(GANTRY_TOKEN), else O(token_file).
    type: str
  token_file:
    description:
      - A file with the token on its first line, on the machine on which the module runs.
      - When left out, the environment variable E(GANTRY_TOKEN_FILE).
    type: path
  ca_path:
    description:
      - A file with certificates (PEM) by which the array is trusted, for example C(tls.crt) of its data directory.
      - When left out, the environment variable E(GANTRY_CA), else those that the machine trusts.
    type: path
  timeout:
    description:
      - For how many seconds a request is sent again while the array does not answer, starts, or is busy; 1 to 3600.
    type: int
    default: 60
notes:
  - Modules run where Ansible sends them; with C(hosts=localhost) the controller asks the array.
  - The group C(gantry.array.array) of C(module_defaults) sets these options for all modules.
"""
