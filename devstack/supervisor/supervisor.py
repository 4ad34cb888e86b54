"""Runs processes and steps in the order of their dependencies, and ends them in the opposite order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from devstack.supervisor.child import Child, Phase, describe_exit, spawn, tail_of
from devstack.supervisor.process import Node, Process, Step
from services.common.errors import GitOpsError, InvalidConfiguration, Unavailable

Announce = Callable[[str], None]
"""Shows a person one event."""


class Supervisor:
    """The stack's processes. All methods are to be called from one event loop."""

    def __init__(self, nodes: Sequence[Node], log_of: Callable[[str], Path], drop: str, announce: Announce) -> None:
        """``log_of`` gives the log of a process or step by name.

        ``drop`` is how unprivileged processes give up root, one of ``trampoline.DROPS``.
        """
        self._nodes = list(nodes)
        self._log_of = log_of
        self._announce = announce
        self._children = {
            node.name: Child(node, log_of(node.name), drop) for node in nodes if isinstance(node, Process)
        }
        self._done = {node.name: asyncio.Event() for node in nodes}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._deaths: asyncio.Queue[str] = asyncio.Queue()
        self.ready = False

    async def up(self) -> None:
        """Bring everything up, independent parts side by side. Raises Unavailable naming the first that failed."""
        rise = asyncio.create_task(self._bring_up_all())
        death = asyncio.create_task(self._deaths.get())
        try:
            await asyncio.wait({rise, death}, return_when=asyncio.FIRST_COMPLETED)
            if not rise.done():
                raise Unavailable(death.result())
            rise.result()
        finally:
            rise.cancel()
            death.cancel()
            await asyncio.wait({rise, death})
        self.ready = True

    async def _bring_up_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for node in self._nodes:
                    if not (isinstance(node, Process) and node.held):
                        group.create_task(self._bring_up(node))
        except* GitOpsError as failures:
            raise failures.exceptions[0] from None

    async def down(self) -> None:
        """End everything: each process once all that depend on it have ended."""
        self.ready = False
        ended = {name: asyncio.Event() for name in self._children}
        async with asyncio.TaskGroup() as group:
            for child in self._children.values():
                group.create_task(self._take_down(child, ended))

    async def start(self, name: str) -> None:
        """Start one process that is not running. Raises InvalidConfiguration, Unavailable."""
        child = self._child(name)
        if child.pid is not None:
            raise InvalidConfiguration(f"{name} is running already (pid {child.pid})")
        await self._start(child)

    async def kill(self, name: str) -> None:
        """SIGKILL one process. Raises InvalidConfiguration if it does not run."""
        child = self._child(name)
        if child.pid is None:
            raise InvalidConfiguration(f"{name} is not running")
        await child.kill()
        self._announce(f"{name} killed")

    def freeze(self, name: str) -> None:
        """SIGSTOP one process. Raises InvalidConfiguration unless it is ready."""
        self._child_in(Phase.READY, name).freeze()
        self._announce(f"{name} frozen")

    def thaw(self, name: str) -> None:
        """SIGCONT one process that was frozen. Raises InvalidConfiguration if it was not."""
        self._child_in(Phase.FROZEN, name).thaw()
        self._announce(f"{name} thawed")

    async def stop_now(self) -> None:
        """SIGKILL everything, for whoever cannot wait."""
        await asyncio.gather(*(child.kill() for child in self._children.values()))

    def status(self) -> list[dict[str, Any]]:
        """Every process and step, in the order they were declared."""
        return [self._status_of(node) for node in self._nodes]

    def _status_of(self, node: Node) -> dict[str, Any]:
        if isinstance(node, Process):
            return self._children[node.name].status()
        done = self._done[node.name].is_set()
        return {
            "name": node.name,
            "kind": "step",
            "phase": "done" if done else "waiting",
            "ready": done,
            "pid": None,
            "ports": {},
            "memory": 0,
            "exit_code": 0 if done else None,
        }

    async def _bring_up(self, node: Node) -> None:
        for name in node.depends_on:
            await self._done[name].wait()
        if isinstance(node, Process):
            await self._start(self._children[node.name])
        else:
            await self._run(node)
        self._done[node.name].set()

    async def _start(self, child: Child) -> None:
        began = time.monotonic()
        try:
            await child.start()
        except Unavailable:
            self._show_end_of(child.log)
            raise
        self._watches[child.name] = asyncio.create_task(self._watch(child))
        self._announce(f"{child.name} ready after {time.monotonic() - began:.1f} s")

    async def _run(self, step: Step) -> None:
        began = time.monotonic()
        log = self._log_of(step.name)
        command = await spawn(step.argv, step.env, log)
        try:
            code = await asyncio.wait_for(command.wait(), step.start_seconds)
        except asyncio.CancelledError:
            command.kill()
            raise
        except TimeoutError:
            command.kill()
            self._show_end_of(log)
            raise Unavailable(f"'{step.name}' took longer than {step.start_seconds:.0f} s") from None
        if code != 0:
            self._show_end_of(log)
            raise Unavailable(f"'{step.name}' {describe_exit(code)}")
        self._announce(f"{step.name} done after {time.monotonic() - began:.1f} s")

    async def _watch(self, child: Child) -> None:
        """Name a process that ends without being asked to; the others go on, which is what drills are for."""
        code = await child.exited()
        if child.phase in {Phase.READY, Phase.FROZEN}:
            child.phase = Phase.DIED
            self._announce(f"{child.name} {describe_exit(code)}")
            self._show_end_of(child.log)
            self._deaths.put_nowait(f"{child.name} {describe_exit(code)}")

    def _show_end_of(self, log: Path) -> None:
        self._announce(f"the end of {log}:\n{tail_of(log)}")

    async def _take_down(self, child: Child, ended: dict[str, asyncio.Event]) -> None:
        for name in self._dependents(child.name):
            await ended[name].wait()
        try:
            await child.stop()
        finally:
            ended[child.name].set()

    def _dependents(self, name: str) -> Iterable[str]:
        """The processes that need ``name``, directly or through steps."""
        direct = [node for node in self._nodes if name in node.depends_on]
        for node in direct:
            if isinstance(node, Process):
                yield node.name
            else:
                yield from self._dependents(node.name)

    def _child_in(self, phase: Phase, name: str) -> Child:
        child = self._child(name)
        if child.phase is not phase:
            raise InvalidConfiguration(f"{name} is not {phase} but {child.phase}")
        return child

    def _child(self, name: str) -> Child:
        if name not in self._children:
            raise InvalidConfiguration(f"there is no process '{name}'; there are {', '.join(self._children)}")
        return self._children[name]
