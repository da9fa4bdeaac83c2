# Copyright the Gantry maintainers
# SPDX-License-Identifier: Apache-2.0
"""Scenarios with playbooks that are not alone: two at once, and an array that is killed and started in their middle."""

import os
import signal
import time

from daemon import Daemon

# Playbooks that have one another's objects in their hands.
PLAYBOOKS = 2
VOLUMES = 6
KILLS = 4

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  module_defaults:
    group/gantry.array.array:
      url: "{url}"
      token: "{token}"
  tasks:
    - gantry.array.host:
        name: "own{number}"
        initiators: ["iqn.2000-01.org.example:own{number}"]
    - gantry.array.host_group:
        name: everybody
        hosts: ["own{number}"]
        append: true
    - gantry.array.volume:
        pool: p
        name: "shared{{{{ item }}}}"
        size: 2M
      loop: &all {names}
    - gantry.array.volume:
        pool: p
        name: "own{number}-{{{{ item }}}}"
        size: 1M
        tags: {{of: "{number}"}}
      loop: *all
    - gantry.array.lun:
        pool: p
        volume: "shared{{{{ item }}}}"
        host: "own{number}"
      loop: *all
"""


def written(workshop, daemon, number, token):
    path = os.path.join(workshop.folder, "playbook%d.yml" % number)
    text = PLAYBOOK.format(url=daemon.url, token=token, number=number, names=list(range(VOLUMES)))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def finish(process, changed):
    output, unused = process.communicate()
    if process.returncode != 0:
        raise AssertionError("a playbook failed:\n" + output)
    if not changed and "changed=0 " not in output:
        raise AssertionError("a playbook that ran before changed something:\n" + output)


def expect(daemon):
    """What both playbooks asked for is there, once."""
    volumes = dict((volume["name"], volume) for volume in daemon.gantry("volume", "list"))
    shared = ["shared%d" % index for index in range(VOLUMES)]
    own = ["own%d-%d" % (number, index) for number in range(PLAYBOOKS) for index in range(VOLUMES)]
    assert sorted(volumes) == sorted(shared + own), sorted(volumes)
    for name in shared:
        hosts = sorted(entry["host"] for entry in volumes[name]["maps"])
        assert hosts == ["own%d" % number for number in range(PLAYBOOKS)], (name, hosts)
        assert volumes[name]["size_bytes"] == 2 << 20, volumes[name]
    luns = [(entry["host"], entry["lun"]) for name in shared for entry in volumes[name]["maps"]]
    assert len(luns) == len(set(luns)), luns
    for name in own:
        assert volumes[name]["tags"] == {"of": name[3]}, volumes[name]
    groups = daemon.gantry("group", "list")
    assert [sorted(group["hosts"]) for group in groups] == [["own%d" % number for number in range(PLAYBOOKS)]], groups


def together(workshop, disturb):
    """Both playbooks at once, then one after the other: nothing is left to change."""
    with Daemon(os.path.join(workshop.folder, "array")) as daemon:
        token = daemon.token("operator")
        paths = [written(workshop, daemon, number, token) for number in range(PLAYBOOKS)]
        processes = [workshop.playbook(path) for path in paths]
        try:
            disturb(daemon, processes)
            for process in processes:
                finish(process, True)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        expect(daemon)
        for path in paths:
            finish(workshop.playbook(path), False)


def nothing(daemon, processes):
    pass


def kill_and_start(daemon, processes):
    """Kills the array without warning while playbooks are under way, and starts it again."""
    made = 0
    kills = 0
    while kills < KILLS and all(process.poll() is None for process in processes):
        volumes = len(daemon.gantry("volume", "list"))
        if volumes > made:
            made = volumes
            daemon.stop(signal.SIGKILL)
            time.sleep(0.5)
            daemon.start()
            kills += 1
        time.sleep(0.2)
    if kills == 0:
        raise AssertionError("the playbooks ended before the array was killed")


def run(workshop):
    together(workshop, nothing)
    print("two playbooks at once: ok", flush=True)
    together(workshop, kill_and_start)
    print("array killed in the middle: ok", flush=True)
