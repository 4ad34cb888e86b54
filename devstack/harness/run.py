"""One stack from its start to its end: what ``dev up`` does once the toolchain is installed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devstack.components import all_nodes
from devstack.components.stack import POLL_SECONDS, Stack
from devstack.harness import control
from devstack.harness.faulty_links import LINKS
from devstack.node import machine
from devstack.stack.identities import IDENTITIES
from devstack.stack.links import port_names
from devstack.stack.ports import SPARE_NAMES, reserve
from devstack.stack.state_folder import State
from devstack.stack.transport import Transport, make_transport
from devstack.supervisor.privileges import way_to_drop_root
from devstack.supervisor.supervisor import Supervisor
from devstack.toolchain.install import Toolchain
from services.common.errors import InvalidConfiguration

ENVIRONMENT = "environment"
PORTS = "ports"
SERVICES = "services"
OPTIONS = "options"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class StackOptions:
    """What the caller of ``dev up`` asked for."""

    infrastructure_only: bool
    without: tuple[str, ...]
    fresh: bool
    durable: bool
    argocd: bool
    """Real Argo CD, and what it needs, in place of the simulator."""
    argocd_versions: tuple[str, ...] = ()
    """Of the first instance, of the second, …; those left out run the newest."""
    tls: bool = False
    """Nothing travels in clear between the components."""
    pods: bool = False
    """A node, and our services on it as pods."""
    bare: bool = False
    """The servers alone, with nothing in them."""
    replicas: int = 1
    """How many planners and watchers; there are two agents in any case."""
    links: bool = False
    """A proxy in each hop of our services and Connect, so that it can be cut and slowed."""
    git: bool = False
    """Git servers also without Argo CD."""
    clocks: bool = False
    """Those of our services can be set."""
    spares: bool = False
    """Argo CDs besides the first that are prepared, and neither run nor take tenants."""
    poll_seconds: int = POLL_SECONDS
    """How often Argo CD looks for new commits."""
    engine_clusters: int = 1
    """A second one has an API server, an agent and an Argo CD of its own."""
    settings: tuple[str, ...] = ()
    """NAME=VALUE: of our services, in place of their defaults."""
    registry_key: Path | None = None
    """Private key that the registry's tokens are signed with; None: one is made."""


def require_consistent(options: StackOptions) -> None:
    """Raises InvalidConfiguration naming those that do not go together."""
    refused = {
        "--pods and --bare (the node needs what is in the servers)": options.pods and options.bare,
        "--pods and --replicas (of pods there are two in any case)": options.pods and options.replicas > 1,
        "--pods and --argocd-version (pods run the newest Argo CD)": options.pods and bool(options.argocd_versions),
        "--links and --pods": options.links and options.pods,
        "--links and --tls": options.links and options.tls,
        "--spares without --argocd": options.spares and not options.argocd,
        "--poll without --argocd": options.poll_seconds != POLL_SECONDS and not options.argocd,
        "--poll and --pods (pods look as often as their argocd-cm says)": options.poll_seconds != POLL_SECONDS
        and options.pods,
        "--spares and --pods": options.spares and options.pods,
        "--spares and --links": options.spares and options.links,
        "--clocks and --pods": options.clocks and options.pods,
    }
    # Its agent and its Argo CD are processes, and an order to a planner makes it known.
    alone = {"pods": options.pods, "links": options.links}
    alone |= {"bare": options.bare, "infra": options.infrastructure_only}
    refused |= {
        f"--engine-clusters 2 and --{name}": given and options.engine_clusters > 1 for name, given in alone.items()
    }
    if found := [names for names, given in refused.items() if given]:
        raise InvalidConfiguration(f"options that do not go together: {'; '.join(found)}")


def require_same_options(options: StackOptions, state: State) -> None:
    """Raises InvalidConfiguration if the stack that runs is not as it would be if it were started with ``options``."""
    wanted, running = _as_json(options), state.recall(OPTIONS) or {}
    # A fresh stack is no longer fresh.
    running |= {"fresh": False} | {
        name: tuple(running.get(name, ())) for name in ("without", "argocd_versions", "settings")
    }
    other = [name for name, value in wanted.items() if running.get(name) != value]
    if other:
        raise InvalidConfiguration(
            f"a stack is running that was started otherwise ({', '.join(other)}); "
            "end it with 'gitopsctl dev down' first"
        )


def run(
    state: State, tools: Toolchain, options: StackOptions, announce: Callable[[str], None], ready: Callable[[], None]
) -> None:
    """Bring the stack up, call ``ready``, and keep it until a signal or ``dev down`` ends it.

    Raises:
        InvalidConfiguration: a stack is running in this folder already.
        Unavailable: a process or step failed; everything has been taken down again.
    """
    with ExitStack() as held:
        state.prepare()
        held.enter_context(state.sole_owner())
        if options.fresh:
            # What a node that was killed has mounted is not to be deleted with the folder.
            machine.clear(state.root / "node")
            state.wipe()
        state.begin_logs()
        state.remember(OPTIONS, _as_json(options))
        remembered = state.recall(PORTS) or {}
        ports = held.enter_context(reserve(preferred=min(remembered.values(), default=None)))
        state.remember(PORTS, ports)
        proxies = held.enter_context(reserve(names=port_names())) if options.links else {}
        state.remember(LINKS, proxies)
        spares = held.enter_context(reserve(names=SPARE_NAMES)) if options.spares else {}
        secrets = state.secrets()
        transport = _transport(state, secrets["connect-stores"], options.registry_key) if options.tls else None
        stack = Stack(
            state, {**ports, **spares}, secrets, tools, options.durable, transport, options.replicas, proxies,
            settings=parse_settings(options.settings), git=options.git, clocks=options.clocks,
            engine_clusters=options.engine_clusters, spares=options.spares, poll_seconds=options.poll_seconds,
        )  # fmt: skip
        state.remember(ENVIRONMENT, stack.environment())
        state.remember(SERVICES, {service: stack.environment_of(service) for service in IDENTITIES})
        asyncio.run(_Session(stack, options, announce).run(ready))


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """By name. Raises InvalidConfiguration for what is not NAME=VALUE."""
    named = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.isupper():
            raise InvalidConfiguration(f"--set {setting}: write NAME=VALUE, with a name of docs/settings.md")
        named[name] = value
    return named


def _as_json(options: StackOptions) -> dict[str, Any]:
    """As it is remembered, and compared with what is."""
    return asdict(options) | {"registry_key": options.registry_key and str(options.registry_key)}


def _transport(state: State, store_password: str, registry_key: Path | None) -> Transport:
    signing = registry_key.read_bytes() if registry_key else None
    return make_transport(state.folder("transport"), (*IDENTITIES, "connect"), store_password, signing)


class _Session:
    """A supervisor with its control socket and its signals."""

    def __init__(self, stack: Stack, options: StackOptions, announce: Callable[[str], None]) -> None:
        nodes = all_nodes(
            stack, infrastructure_only=options.infrastructure_only, bare=options.bare, without=options.without
        )
        self._announce = announce
        self._stack = stack
        self._supervisor = Supervisor(nodes, stack.state.log, way_to_drop_root(), announce)
        self._end = asyncio.Event()
        self._signals = 0

    async def run(self, ready: Callable[[], None]) -> None:
        """See :func:`run`."""
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)
        server = await control.serve(self._stack.state.control_socket, self._handle)
        try:
            if await self._up_or_end():
                ready()
                await self._end.wait()
        finally:
            server.close()
            self._stack.state.control_socket.unlink(missing_ok=True)
            await self._down()

    async def _up_or_end(self) -> bool:
        """Bring everything up; False if the end was asked for meanwhile. Raises Unavailable."""
        up = asyncio.create_task(self._supervisor.up())
        end = asyncio.create_task(self._end.wait())
        await asyncio.wait({up, end}, return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if up.done():
            up.result()
            return True
        up.cancel()
        await asyncio.gather(up, return_exceptions=True)
        return False

    async def _down(self) -> None:
        began = time.monotonic()
        await self._supervisor.down()
        self._announce(f"everything ended within {time.monotonic() - began:.1f} s")

    def _on_signal(self) -> None:
        self._signals += 1
        self._end.set()
        if self._signals > 1:
            self._announce("asked again: killing everything")
            self._killing = asyncio.create_task(self._supervisor.stop_now())

    async def _handle(self, request: dict[str, Any]) -> Any:
        match request:
            case {"do": "status"}:
                return {
                    "pid": os.getpid(),
                    "ready": self._supervisor.ready,
                    "state": str(self._stack.state.root),
                    "processes": self._supervisor.status(),
                }
            case {"do": "kill", "name": str(name)}:
                await self._supervisor.kill(name)
            case {"do": "start", "name": str(name)}:
                await self._supervisor.start(name)
            case {"do": "freeze", "name": str(name)}:
                self._supervisor.freeze(name)
            case {"do": "thaw", "name": str(name)}:
                self._supervisor.thaw(name)
            case {"do": "down"}:
                self._end.set()
            case _:
                raise InvalidConfiguration(f"the stack does not know how to do {request}")
        return None
