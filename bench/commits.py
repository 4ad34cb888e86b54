"""``python -m bench.commits``: what our services cost Argo CD, from a commit to Synced, on one to three instances.

Tenants have Applications on real Argo CDs. A commit to each repository changes what each of them deploys, and a watch
of our own says when Argo CD has each in sync with it. Then all of ours is ended (services, Kafka, Connect, the
registry, PostgreSQL), and more commits are made: the same Applications, as if somebody had applied them by hand.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console
from rich.table import Table

from bench.commands import gitopsctl
from bench.workload import FIELD_MANAGER, create_namespaces, deployment, tenants
from devstack.components.stack import ENGINE_NAMESPACES, SPARE_NAMESPACES
from devstack.git.repository import Repository
from devstack.git.site import PUBLIC, site_of
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.mirror import Mirror, Objects, mirrored
from services.common.argocd_names import application_name
from services.common.errors import Unavailable
from services.common.kubernetes import APPLICATION, KubeClient, Manifest, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

PARTS = ("redis", "repo-server", "application-controller")
STAYS = ("kube", "etcd", "argocd", "git", "remote")
"""How the names of processes begin that are not ours."""
OVERHEAD = 0.05
"""Of the time that the same Applications take without us."""
SYNCED_SECONDS = 300.0
ACCEPTING_SECONDS = 120.0
PER_TENANT = 10
FOLDERS = range(PER_TENANT)

console = Console(highlight=False)


@dataclass(frozen=True)
class Crowd:
    """Tenants, each with a repository and Applications of its folders."""

    repositories: Mapping[str, Repository]
    """By tenant."""
    applications: Mapping[str, str]
    """Tenant by the name of its Application."""


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of one commit to all repositories."""

    mean: float
    """From the commit until an Application is in sync with it."""
    last: float
    """Until all are."""


def content(value: str, number: int) -> str:
    """Of one folder: a ConfigMap that says ``value``."""
    meta = {"name": f"settings-{number}"}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"value": value}})


def commit_to_all(repositories: Mapping[str, Repository], value: str) -> dict[str, tuple[str, float]]:
    """What each tenant's Applications shall be in sync with from now on, and since when, in seconds."""
    made = {}
    for tenant, repository in repositories.items():
        commit = repository.commit({f"app-{number}/settings.yaml": content(value, number) for number in FOLDERS})
        made[tenant] = commit, time.monotonic()
    return made


def commit_of(application: Manifest) -> str:
    """That an Application is in sync with, and was synced to; "" if there is none."""
    status = application.get("status", {})
    sync, operation = status.get("sync", {}), status.get("operationState", {})
    is_done = sync.get("status") == "Synced" and operation.get("phase") == "Succeeded"
    synced = operation.get("syncResult", {}).get("revision")
    return str(synced) if is_done and sync.get("revision") == synced else ""


async def one_round(crowd: Crowd, mirror: Mirror, value: str) -> Round:
    """Commit to every repository, and wait until all Applications are in sync with it."""
    made = await asyncio.to_thread(commit_to_all, crowd.repositories, value)
    arrived: dict[str, float] = {}

    def all_synced(objects: Objects) -> bool:
        now = time.monotonic()
        for (_, name), application in objects.items():
            tenant = crowd.applications.get(name)
            if tenant is not None and name not in arrived and commit_of(application) == made[tenant][0]:
                arrived[name] = now - made[tenant][1]
        return len(arrived) == len(crowd.applications)

    await mirror.until(f"all Applications are in sync with '{value}'", all_synced, SYNCED_SECONDS)
    return Round(statistics.fmean(arrived.values()), max(arrived.values()))


async def settle(stack: HostedStack, kube: KubeClient, count: int) -> Crowd:
    """Make the tenants, and their deployments."""
    site, names = site_of(stack.environment), tenants("commits", count // PER_TENANT)
    await create_namespaces(kube, names)
    repositories = {name: site.create(name) for name in names}
    await asyncio.to_thread(commit_to_all, repositories, "first")
    applications = {}
    for name in names:
        for number in FOLDERS:
            manifest = deployment(name, f"app-{number}")
            manifest["spec"]["source"] = {
                "repoURL": f"{site.https_url}/{PUBLIC}/{name}.git",
                "path": f"app-{number}",
            }
            created = await kube.create_object(GITOPS_DEPLOYMENT, manifest, field_manager=FIELD_MANAGER)
            applications[application_name(created["metadata"]["uid"])] = name
    return Crowd(repositories, applications)


def join(stack: HostedStack, number: int) -> None:
    """Start one more Argo CD, and add it to the fleet. Raises Unavailable, or RuntimeError if it is refused."""
    for part in PARTS:
        stack.start(f"argocd-{part}-{number}")
    namespace = (*ENGINE_NAMESPACES, *SPARE_NAMESPACES)[number - 1]
    gitopsctl(stack, "engines", "add", f"instance-{number}", "--namespace", namespace)
    deadline = time.monotonic() + ACCEPTING_SECONDS
    while "accepting" not in gitopsctl(stack, "engines", "show", f"instance-{number}"):
        if time.monotonic() > deadline:
            raise Unavailable(f"instance-{number} accepts no tenants after {ACCEPTING_SECONDS:.0f} s")
        time.sleep(0.5)


def end_ours(stack: HostedStack) -> None:
    """Leave Argo CD alone with its API server and its repositories."""
    for name in stack.pids():
        if not name.startswith(STAYS):
            stack.kill(name)


async def measure(stack: HostedStack, count: int, rounds: int) -> tuple[list[Round], list[Round]]:
    """With our services, and without."""
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        mirrored(kube, APPLICATION) as mirror,
    ):
        crowd = await settle(stack, kube, count)
        await one_round(crowd, mirror, "settled")
        ours = [await one_round(crowd, mirror, f"ours {number}") for number in range(rounds)]
        await asyncio.to_thread(end_ours, stack)
        await one_round(crowd, mirror, "alone")
        by_hand = [await one_round(crowd, mirror, f"by hand {number}") for number in range(rounds)]
    return ours, by_hand


def overhead(ours: Sequence[Round], by_hand: Sequence[Round]) -> float:
    """Ours as a share of what it takes by hand: of the medians of the rounds' means."""
    with_us, without = (statistics.median(each.mean for each in rounds) for rounds in (ours, by_hand))
    return with_us / without - 1


def rows(found: Mapping[int, tuple[Sequence[Round], Sequence[Round]]]) -> Iterator[tuple[str, ...]]:
    """One for each number of instances."""
    for instances, (ours, by_hand) in found.items():
        figures = [
            f"{statistics.median(getattr(each, field) for each in rounds):.2f}"
            for field in ("mean", "last")
            for rounds in (ours, by_hand)
        ]
        yield (str(instances), *figures, f"{overhead(ours, by_hand):+.1%}")


def main(
    applications: Annotated[int, typer.Option(help="How many, ten of each tenant.")] = 200,
    instances: Annotated[int, typer.Option(help="Argo CDs at most.", min=1, max=3)] = 3,
    rounds: Annotated[int, typer.Option(help="Commits with our services, and as many without.")] = 5,
) -> None:
    """Measure on one instance, on two, … each time on a new stack; exits with 1 if we cost more than 5 %."""
    found = {}
    for number in range(1, instances + 1):
        with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
            console.print(f"starting a stack with {number} Argo CD …")
            output = Path(folder) / "stack.out"
            with hosted(Path(folder) / "stack", "--argocd", "--spares", output=output) as stack:
                for added in range(2, number + 1):
                    join(stack, added)
                found[number] = asyncio.run(measure(stack, applications, rounds))
    table = Table("instances", "ours, mean s", "by hand", "ours, all s", "by hand", "overhead")
    for row in rows(found):
        table.add_row(*row)
    console.print(table)
    if max(overhead(*each) for each in found.values()) > OVERHEAD:
        console.print(f"more than {OVERHEAD:.0%}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
