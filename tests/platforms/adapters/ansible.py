"""The life of a volume by the Ansible collection: a play with one task at each step."""

import json
import os
import subprocess
import sys

from life import Connection, INITIATOR, LARGER, Platform, SIZE, TAGS

SECRET = "a secret of ansible"
SUITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../integrations/ansible/tests/suite")


def workshop(folder):
    """The folder of the collection's own suite, which makes the environment with ansible-core."""
    # The suite has modules of its own named as some here.
    script = "import sys; sys.path.insert(0, sys.argv[1]); import run; shop = run.Workshop(sys.argv[2]); shop.prepare(); " \
             "import json; print(json.dumps(dict(environment=shop.environment, variables=shop.variables())))"
    done = subprocess.run([sys.executable, "-c", script, SUITE, folder], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


class Ansible(Platform):
    def __init__(self, daemon, folder):
        self.daemon, self.array, self.folder = daemon, daemon.array, folder
        self.workshop = workshop(os.path.join(os.environ["GANTRY_BIN_DIR"], "ansible"))
        
    def _task(self, module, **arguments):
        arguments.update(url=self.daemon.url, token_file=self.daemon.token_file)
        path, told = os.path.join(self.folder, "play.yml"), os.path.join(self.folder, "told.json")
        # No callback of ansible-core prints JSON alone, so the answer goes into a file.
        tasks = [{"gantry.array." + module: arguments, "register": "answer"},
                 {"ansible.builtin.copy": {"content": "{{ answer | to_json }}", "dest": told, "mode": "0600"}}]
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump(play, file)  # JSON is YAML
        done = subprocess.run([self.workshop["environment"] + "/bin/ansible-playbook", path], env=self.workshop["variables"],
                              cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("%s: %s%s" % (module, done.stdout, done.stderr))
        with open(told, encoding="utf-8") as file:
            return json.load(file)

    def create(self):
        self._task("volume", pool="p", name="v", size=str(SIZE), tags=TAGS)

    def attach(self):
        self._task("host", name="h", initiators=[INITIATOR], chap={"user": INITIATOR, "secret": SECRET})
        mapped = self._task("lun", pool="p", volume="v", host="h")
        target = self._task("info", gather=["target"])["array"]
        self.connection = Connection(self.daemon.portal, target["target"]["name"], mapped["lun"]["lun"], INITIATOR, SECRET)

    def snapshot(self):
        self._task("snapshot", pool="p", volume="v", name="s")

    def clone(self):
        self._task("volume", pool="p", name="c", source="s")

    def resize(self):
        self._task("volume", pool="p", name="v", size=str(LARGER))

    def detach(self):
        self._task("lun", pool="p", volume="v", host="h", state="absent")

    def delete(self):
        self._task("volume", pool="p", name="c", state="absent")
        self._task("snapshot", pool="p", name="s", state="absent")
        self._task("volume", pool="p", name="v", state="absent")
        self._task("host", name="h", state="absent")
