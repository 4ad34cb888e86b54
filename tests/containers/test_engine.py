"""The Docker engine that ``make containers`` starts: the machine is as before when it has ended.

Without one, or without what a node takes, nothing is tested, and one line says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from devstack.paths import ROOT

pytestmark = pytest.mark.short

RUN_ONE = """
import json, subprocess
from pathlib import Path
from devstack.containers.engine import engine

def shown(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()

def network():
    rules = {table: shown("iptables", "--table", table, "--list-rules") for table in ("filter", "nat")}
    links = [line.split()[0] for line in shown("ip", "-brief", "link")]
    return {"rules": rules, "links": links, "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text()}

subprocess.run(["iptables", "--append", "FORWARD", "--source", "192.0.2.1", "--jump", "ACCEPT"], check=True)
Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
before = network()
with engine():
    while_it_runs = network()
print(json.dumps([before, while_it_runs, network()]))
"""
"""In a network of its own, which is as any machine's that does not forward."""


def test_network_when_an_engine_has_ended_then_it_is_as_before(tmp_path: Path) -> None:
    command = ["unshare", "--net", sys.executable, "-c", RUN_ONE]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    before, while_it_ran, after = json.loads(outcome.stdout)
    assert [part for part in before if while_it_ran[part] == before[part]] == []
    assert after == before


@pytest.mark.parametrize(
    "tests", [["--testcontainers", "tests/component/planner/test_migrations.py"], ["tests/containers"]]
)
def test_tests_when_no_engine_answers_then_they_end_with_one_line(tests: list[str], tmp_path: Path) -> None:
    outcome = run_tests(*tests, DOCKER_HOST=f"unix://{tmp_path}/nothing.sock")
    assert outcome.returncode == 2
    (said,) = [line for line in outcome.stdout.splitlines() if "Docker engine" in line]
    assert "no Docker engine answers at DOCKER_HOST: run 'make containers'" in said
    assert "Traceback" not in outcome.stdout + outcome.stderr


def test_tests_of_a_node_when_packages_are_missing_then_each_fails_with_one_line() -> None:
    outcome = run_tests("tests/node/test_deployed.py", PATH="/nowhere")
    assert outcome.returncode == 1
    assert "a node needs packages that are not here: conntrack, containerd" in outcome.stdout
    assert "Traceback" not in outcome.stdout


def run_tests(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | settings
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
