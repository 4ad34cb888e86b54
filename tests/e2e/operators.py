"""Operators of a running stack: what they type about the fleet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

from typer.testing import CliRunner, Result

from devstack.harness.hosted import HostedStack
from services.cli.fleet import engine_clusters, engines

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
