"""Each process reaches each of its servers by a proxy of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from devstack.components import connect, kafka, services, toxiproxy
from devstack.components.stack import Stack
from devstack.stack.links import HOPS, PORT_OF, links, port_names
from devstack.stack.ports import NAMES
from devstack.stack.replicas import processes_of
from devstack.stack.state_folder import State
from devstack.toolchain.install import Toolchain

REPLICAS = 2
PROCESSES = [process for name in HOPS if name != services.SIMULATOR for process in processes_of(name, REPLICAS)]
"""The simulator is given the registry's address, too, and does not use it."""


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    state = State(tmp_path / "state")
    state.prepare()
    tools = Toolchain(**dict.fromkeys(Toolchain.__annotations__, tmp_path) | {"argocd": None, "node": None})
    ports = {name: number for number, name in enumerate(NAMES, 20_000)}
    proxies = {name: number for number, name in enumerate(port_names(), 30_000)}
    for account in ("watcher", "agent", "argocd-simulator"):
        file = state.kubeconfig_of(account)
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump({"clusters": [{"cluster": {"server": "https://127.0.0.1:1"}}]}))
    return Stack(state, ports, state.secrets(), tools, durable=False, replicas=REPLICAS, links=proxies)


async def configuration(stack: Stack, name: str) -> str:
    """All that a process is given."""
    if name == "connect":
        connect._write(stack, stack.state.root / "worker.properties")
        environment = connect.connector_environment(stack.seen_by(name))
        return json.dumps(environment) + (stack.state.root / "worker.properties").read_text()
    process = next(process for process in services.nodes(stack) if process.name == name)
    await process.prepare()
    kubeconfig = process.env.get("KUBECONFIG")
    return json.dumps(dict(process.env)) + (Path(kubeconfig).read_text() if kubeconfig else "")  # noqa: ASYNC240


@pytest.mark.parametrize("name", PROCESSES)
async def test_process_when_there_are_links_then_it_knows_its_own_proxies_and_no_server(
    stack: Stack, name: str
) -> None:
    given = await configuration(stack, name)
    own = {stack.links[link.name] for link in links(REPLICAS, with_argocd=False) if link.process == name}
    foreign = {*stack.links.values(), *(stack.ports[port] for port in PORT_OF.values())} - own
    assert {port for port in {*own, *foreign} if str(port) in given} == own


def test_broker_when_a_process_comes_by_a_proxy_then_its_listener_advertises_that_proxy(stack: Stack) -> None:
    properties = stack.state.root / "server.properties"
    kafka._write(stack, stack.state.root, properties)
    settings = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
    advertised = settings["advertised.listeners"].split(",")
    assert f"KAFKA-PLANNER-2://127.0.0.1:{stack.links['planner-2-kafka']}" in advertised
    assert f"KAFKA-PLANNER-2://127.0.0.1:{stack.links['kafka-planner-2']}" in settings["listeners"].split(",")


async def test_proxies_when_they_are_made_then_each_leads_to_the_server_and_kafkas_to_its_listener(
    stack: Stack,
) -> None:
    (server,) = toxiproxy.nodes(stack)
    await server.prepare()
    made = json.loads(Path(server.argv[-1]).read_text())  # noqa: ASYNC240
    ends = {each["listen"]: each["upstream"] for each in made}
    assert len(ends) == len(links(REPLICAS, with_argocd=False))
    assert ends[f"127.0.0.1:{stack.links['agent-1-registry']}"] == f"127.0.0.1:{stack.ports['registry']}"
    assert ends[f"127.0.0.1:{stack.links['agent-1-kafka']}"] == f"127.0.0.1:{stack.links['kafka-agent-1']}"
