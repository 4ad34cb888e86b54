"""The measurements: sequential creations and a burst, each through the product and by a bare client (the floor)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.arrivals import Arrivals
from bench.workload import FIELD_MANAGER, application, create_namespaces, deployment, tenants
from services.common.argocd_names import application_name, uid_of
from services.common.kubernetes import APPLICATION, KubeClient
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

WRITERS = 8
"""More concurrent clients gain nothing at an API server on two cores."""

ARRIVAL_SECONDS = 120
FILLED_AT_ONCE = 2_500
"""Deployments, all of which have their Applications before more are made."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One creation: uid of the CR (or name of the floor), when it was sent and seen; seconds since 1970."""

    uid: str
    sent: float
    seen: float

    @property
    def milliseconds(self) -> float:
        """From sending the CR to seeing the Application."""
        return (self.seen - self.sent) * 1000


@dataclass(frozen=True, slots=True)
class Result:
    """Timings of one measurement, the wall time it took, and what never appeared."""

    timings: list[Timing]
    seconds: float
    missing: list[str]

    @property
    def per_second(self) -> float:
        """Applications per second from the first creation sent to the last Application seen."""
        return len(self.timings) / self.seconds if self.seconds else 0.0


Create = Callable[[str, str], Awaitable[tuple[str, str]]]
"""Create what (tenant, name) asks for; returns its uid and the name of the Application to wait for."""


def through_the_product(kube: KubeClient) -> Create:
    """Creations that the services turn into Applications."""

    async def create(tenant: str, name: str) -> tuple[str, str]:
        stored = await kube.create_object(GITOPS_DEPLOYMENT, deployment(tenant, name), field_manager=FIELD_MANAGER)
        uid = stored["metadata"]["uid"]
        return uid, application_name(uid)

    return create


def by_a_bare_client(kube: KubeClient, engine_namespace: str) -> Create:
    """The same two API writes with nothing in between: what the API server alone takes."""

    async def create(tenant: str, name: str) -> tuple[str, str]:
        await kube.create_object(GITOPS_DEPLOYMENT, deployment(tenant, name), field_manager=FIELD_MANAGER)
        manifest = application(engine_namespace, tenant, name)
        await kube.create_object(APPLICATION, manifest, field_manager=FIELD_MANAGER)
        made = str(manifest["metadata"]["name"])
        return uid_of(made), made

    return create


async def sequential(create: Create, arrivals: Arrivals, names: Iterable[tuple[str, str]]) -> Result:
    """One creation after the other, each waited for."""
    timings, missing, started = [], [], time.time()
    for tenant, name in names:
        sent = time.time()
        uid, awaited = await create(tenant, name)
        missing += await arrivals.wait([awaited], ARRIVAL_SECONDS)
        if awaited in arrivals.seen:
            timings.append(Timing(uid, sent, arrivals.seen[awaited]))
    return Result(timings, time.time() - started, missing)


async def burst(create: Create, arrivals: Arrivals, names: Iterable[tuple[str, str]]) -> Result:
    """All creations as fast as ``WRITERS`` clients can send them; the time until the last Application is there."""
    pending = iter(list(names))
    sent: dict[str, tuple[str, float]] = {}

    async def write() -> None:
        for tenant, name in pending:
            at = time.time()
            uid, awaited = await create(tenant, name)
            sent[awaited] = (uid, at)

    started = time.time()
    await asyncio.gather(*(write() for _ in range(WRITERS)))
    missing = await arrivals.wait(list(sent), ARRIVAL_SECONDS)
    timings = [Timing(uid, at, arrivals.seen[name]) for name, (uid, at) in sent.items() if name in arrivals.seen]
    finished = max((timing.seen for timing in timings), default=started)
    return Result(timings, finished - started, missing)


async def fill(
    create: Create, arrivals: Arrivals, names: Sequence[tuple[str, str]], tell: Callable[[str], None]
) -> list[str]:
    """Make all of these, each with its Application; returns those that never appeared."""
    missing: list[str] = []
    for first in range(0, len(names), FILLED_AT_ONCE):
        filled = await burst(create, arrivals, names[first : first + FILLED_AT_ONCE])
        missing += filled.missing
        tell(f"{first + len(filled.timings)} made, {filled.per_second:.0f} a second, missing {len(filled.missing)}")
    return missing


async def beside_a_noisy_tenant(
    kube: KubeClient, create: Create, arrivals: Arrivals, names: Sequence[tuple[str, str]], noise: tuple[str, int]
) -> Result:
    """Sequential creations while another tenant, ``noise``, creates so many CRs as fast as ``WRITERS`` clients can.

    At least ``names`` are created, and more until the other has written everything.
    """
    noisy, count = noise
    await create_namespaces(kube, [noisy])
    pending = iter(range(count))

    async def write() -> None:
        for number in pending:
            await kube.create_object(
                GITOPS_DEPLOYMENT, deployment(noisy, f"app-{number:05d}"), field_manager=FIELD_MANAGER
            )

    writing = asyncio.gather(*(write() for _ in range(WRITERS)))
    parts = [await sequential(create, arrivals, names)]
    tenant = names[0][0]
    while not writing.done():
        more = [(tenant, f"more-{len(parts):04d}-{number}") for number in range(10)]
        parts.append(await sequential(create, arrivals, more))
    await writing
    timings = [timing for part in parts for timing in part.timings]
    return Result(timings, sum(part.seconds for part in parts), [name for part in parts for name in part.missing])


async def spread(kube: KubeClient, prefix: str, tenant_count: int, count: int) -> list[tuple[str, str]]:
    """``count`` (tenant, name) pairs round robin over fresh tenants, whose namespaces are made."""
    names = tenants(prefix, tenant_count)
    await create_namespaces(kube, names)
    return [(names[number % tenant_count], f"app-{number:05d}") for number in range(count)]
