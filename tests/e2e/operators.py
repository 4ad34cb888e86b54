"""Operators of a running stack: what they type about the fleet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

from typer.testing import CliRunner, Result

from devstack.harness.hosted import HostedStack
from services.cli.fleet import engine_clusters, engines

DRAINED_SECONDS = 60
LOOK_SECONDS = 0.1

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


async def until_drained(stack: HostedStack, name: str) -> None:
    """Until nothing is left on an instance that drains. If its agent went before, a rebalance would move what is left.

    Such a move would never end. Raises AssertionError that has the states of all if that takes too long.
    """
    over = asyncio.get_running_loop().time() + DRAINED_SECONDS
    while (found := await _states(stack))[name] != "drained":
        assert asyncio.get_running_loop().time() < over, found
        await asyncio.sleep(LOOK_SECONDS)


async def _states(stack: HostedStack) -> dict[str, str]:
    """Of all instances, by their ids."""
    return {each["id"]: each["state"] for each in json.loads(await typed(stack, "list", "-o", "json"))}


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
