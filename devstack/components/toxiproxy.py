"""Toxiproxy: the proxies between processes and servers, built from its Go module."""

from __future__ import annotations

import json
from pathlib import Path

from devstack.components.stack import Stack
from devstack.stack.links import API, PORT_OF, Link
from devstack.supervisor.health_checks import HOST, http
from devstack.supervisor.process import Process

NAME = API


def nodes(stack: Stack) -> list[Process]:
    """The server with all its proxies; none without links."""
    if stack.tools.toxiproxy is None or not stack.with_links:
        return []
    configuration, port = stack.state.root / "toxiproxy" / "proxies.json", stack.links[API]
    program = str(stack.tools.toxiproxy / "toxiproxy")
    return [
        Process(
            name=NAME,
            argv=(program, "-host", HOST, "-port", str(port), "-config", str(configuration)),
            env=stack.base_environment(),
            ports={"http": port},
            ready=http(port, "/version"),
            prepare=lambda: _prepare(stack, configuration),
        )
    ]


async def _prepare(stack: Stack, configuration: Path) -> None:
    stack.state.folder("toxiproxy")
    ways = [way for server in PORT_OF for way in stack.links_to(server)]
    configuration.write_text(json.dumps([_proxy(stack, way) for way in ways]))  # noqa: ASYNC240 - nothing else waits


def _proxy(stack: Stack, way: Link) -> dict[str, object]:
    end = stack.links[way.listener] if way.server == "kafka" else stack.ports[PORT_OF[way.server]]
    return {
        "name": way.name,
        "listen": f"{HOST}:{stack.links[way.name]}",
        "upstream": f"{HOST}:{end}",
        "enabled": True,
    }
