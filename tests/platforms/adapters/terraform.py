"""The life of a volume by the real terraform: a configuration that grows, and an apply at each step."""

import json
import os
import shutil
import subprocess

from life import Connection, INITIATOR, LARGER, Platform, SIZE

SECRET = "a secret of terraform"
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../integrations/terraform")

HEAD = """
terraform {
  required_providers { gantry = { source = "gantry/gantry" } }
}
provider "gantry" {
  url        = "%s"
  token_file = "%s"
}
data "gantry_target" "array" {}
output "target" { value = data.gantry_target.array.name }
"""

VOLUME = """
resource "gantry_volume" "v" {
  pool       = "p"
  name       = "v"
  size_bytes = %d
  tags       = { purpose = "conformance" }
}
"""

HOST = """
resource "gantry_host" "h" {
  name         = "h"
  initiators   = ["%s"]
  chap_user    = "%s"
  chap_secret  = "%s"
  chap_version = 1
}
"""

MAPPING = """
resource "gantry_mapping" "m" {
  volume_id = gantry_volume.v.id
  host      = gantry_host.h.name
}
output "lun" { value = gantry_mapping.m.lun }
"""

SNAPSHOT = """
resource "gantry_snapshot" "s" {
  volume_id = gantry_volume.v.id
  name      = "s"
}
"""

CLONE = """
resource "gantry_volume" "c" {
  pool       = "p"
  name       = "c"
  size_bytes = %d
  source_id  = gantry_snapshot.s.id
}
"""


class Terraform(Platform):
    def __init__(self, daemon, folder):
        self.daemon, self.array = daemon, daemon.array
        program = os.environ.get("TF_ACC_TERRAFORM_PATH") or shutil.which("terraform")
        if program is None:
            raise RuntimeError("terraform is not in PATH: install 1.11 or newer, or name it by TF_ACC_TERRAFORM_PATH")
        self.program, self.folder = program, os.path.join(folder, "configuration")
        plugins = os.path.join(folder, "plugins")
        build = ["go", "build", "-C", SOURCE, "-o", os.path.join(plugins, "terraform-provider-gantry")]
        subprocess.run(build, check=True, stdin=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        settings = os.path.join(folder, "terraform.rc")
        with open(settings, "w", encoding="utf-8") as file:
            file.write('provider_installation {\n  dev_overrides { "gantry/gantry" = "%s" }\n  direct {}\n}\n' % plugins)
        kept = dict((name, value) for name, value in os.environ.items() if not name.startswith(("TF_", "GANTRY_")))
        self.environment = dict(kept, TF_CLI_CONFIG_FILE=settings, CHECKPOINT_DISABLE="1", TF_IN_AUTOMATION="1")
        self.parts = {"head": HEAD % (daemon.url, daemon.token_file)}

    def _run(self, *words):
        done = subprocess.run([self.program, "-chdir=" + self.folder] + list(words), env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("terraform %s: %s%s" % (" ".join(words), done.stdout, done.stderr))
        return done.stdout

    def _apply(self):
        with open(os.path.join(self.folder, "main.tf"), "w", encoding="utf-8") as file:
            file.writelines(self.parts.values())
        self._run("apply", "-auto-approve", "-no-color")

    def create(self):
        self.parts["volume"] = VOLUME % SIZE
        self._apply()

    def attach(self):
        self.parts["host"] = HOST % (INITIATOR, INITIATOR, SECRET)
        self.parts["mapping"] = MAPPING
        self._apply()
        told = json.loads(self._run("output", "-json"))
        lun, target = told["lun"]["value"], told["target"]["value"]
        self.connection = Connection(self.daemon.portal, target, int(lun), INITIATOR, SECRET)

    def snapshot(self):
        self.parts["snapshot"] = SNAPSHOT
        self._apply()

    def clone(self):
        self.parts["clone"] = CLONE % SIZE
        self._apply()

    def resize(self):
        self.parts["volume"] = VOLUME % LARGER
        self._apply()

    def detach(self):
        del self.parts["mapping"]
        self._apply()

    def delete(self):
        self._run("destroy", "-auto-approve", "-no-color")
