"""Operators of a running stack: what they type about the fleet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from typer.testing import CliRunner, Result

from devstack.harness.hosted import HostedStack
from services.cli.fleet import engine_clusters, engines

SEEN_SECONDS = 240.0
LOOK_SECONDS = 0.1
Seen = TypeVar("Seen")

OPEN = ("shared", "accepting")
"""Class and state of an instance that any new tenant may be placed on."""


def of_instances(stack: HostedStack, *arguments: str) -> Result:
    """``gitopsctl engines``, as an operator types it."""
    return CliRunner(env=stack.environment).invoke(engines.app, list(arguments))


async def typed(stack: HostedStack, *arguments: str) -> str:
    """What a command about instances tells that is carried out."""
    result = await asyncio.to_thread(of_instances, stack, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


async def add_ready_instance(stack: HostedStack, name: str, *options: str) -> None:
    """Add an instance, and wait until its agent has told that it works: tenants are placed on it from then on."""
    await typed(stack, "add", name, *options)
    await typed(stack, "wait", name)


async def until_seen(look: Callable[[], Awaitable[Seen]], holds: Callable[[Seen], bool]) -> Seen:
    """What an operator sees once it ``holds``; looks again until then.

    Raises AssertionError that has what was seen last if that takes too long.
    """
    over = asyncio.get_running_loop().time() + SEEN_SECONDS
    while not holds(seen := await look()):
        assert asyncio.get_running_loop().time() < over, seen
        await asyncio.sleep(LOOK_SECONDS)
    return seen


async def listed(stack: HostedStack, *arguments: str) -> list[dict[str, Any]]:
    """What a command about instances lists."""
    found: list[dict[str, Any]] = json.loads(await typed(stack, *arguments, "-o", "json"))
    return found


async def until_drained(stack: HostedStack, name: str) -> None:
    """Until nothing is left on an instance that drains. If its agent went before, a rebalance would move what is left.

    Such a move would never end.
    """
    await until_seen(lambda: states(stack), lambda found: found[name] == "drained")


async def retire(stack: HostedStack, name: str) -> None:
    """Give an instance up: what its refusal names is typed again while there is one.

    A tenant of another test was perhaps on its way there when the fleet was evened out, and is left alone then.
    """

    async def answer() -> str:
        ordered = await asyncio.to_thread(of_instances, stack, "retire", name)
        if "still has" in ordered.output:
            await asyncio.to_thread(of_instances, stack, "rebalance")
        return ordered.output

    last = await until_seen(answer, lambda answered: "still has" not in answered)
    assert last == f"{name}: accepted\n"


async def states(stack: HostedStack) -> dict[str, str]:
    """Of all instances that there are and were, by their ids."""
    return {each["id"]: each["state"] for each in await listed(stack, "list", "--retired")}


def of_clusters(stack: HostedStack, *arguments: str) -> Result:
    """``gitopsctl engine-clusters``, as an operator types it."""
    return CliRunner(env=stack.environment).invoke(engine_clusters.app, list(arguments))


@contextmanager
def sole_instance(stack: HostedStack, name: str) -> Iterator[None]:
    """Meanwhile new tenants are placed on this instance, and on no other shared one."""
    listed = json.loads(of_instances(stack, "list", "-o", "json").stdout)
    others = [each["id"] for each in listed if each["id"] != name and (each["class"], each["state"]) == OPEN]
    try:
        for other in others:
            _carried_out(of_instances(stack, "drain", other))
        yield
    finally:
        for other in others:
            _carried_out(of_instances(stack, "undrain", other))


def _carried_out(result: Result) -> None:
    assert result.exit_code == 0, result.output
