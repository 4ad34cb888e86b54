"""``python -m bench.commits``: what our services cost Argo CD, from a commit to Synced, on one to three instances.

On the same Argo CDs there are two sorts of the same Applications: those that our services have made of tenants'
GitOpsDeployments, and copies of them that none of ours knows, as if applied by hand. A round commits to all
repositories of one sort, tells Argo CD as the webhook of a git server does, and waits until all of its Applications are
in sync with their commits. Rounds come in pairs, one of each sort, and each begins every other pair: what happens
beside them on the machine comes to both. Our services run all the time; what is compared is what they do because
Applications are theirs: watches, and statuses through the whole system to the resources that users see. Those are on an
API server of the users' own, as where workspaces are clusters: only what Argo CD's own API server does is its cost.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

import orjson
import typer
import yaml
from rich.console import Console
from rich.table import Table

from bench.commands import gitopsctl
from bench.processes import cpu_seconds
from bench.side_process import SideProcess, beside
from bench.workload import FIELD_MANAGER, create_namespaces, deployment, tenants
from devstack.components.stack import ENGINE_NAMESPACES, SPARE_NAMESPACES
from devstack.components.steps import FOREIGN_CRDS
from devstack.git.repository import Repository
from devstack.git.site import PUBLIC, site_of
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.mirror import Mirror, Objects, mirrored
from devstack.supervisor.child import tree
from services.common.argocd_names import application_name
from services.common.kubernetes import APP_PROJECT, APPLICATION, KubeClient, Manifest, connect
from services.common.package_data import CRDS
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

PARTS = ("redis", "repo-server", "application-controller")
ARGOCD, CLUSTER = "argocd", ("kube", "etcd")
ENGINES = (ARGOCD, *CLUSTER, "git")
"""How the names of processes begin that are there without us. Both API servers have one etcd."""
WATCHER, BENCH = "watcher", "bench"
SYSTEM_NAMESPACE = "gitops-service"
"""Where the watcher has its Lease."""
OURS, BY_HAND = "commits", "by-hand"
"""How names of tenants begin, by whom their Applications were made."""
REFRESH = {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
"""What Argo CD's own API server writes to an Application when a git server tells it of a commit."""
WRITERS = 8
POLL_SECONDS = 120
"""As Argo CD has it by itself: every few seconds would be a load of its own, and when it looks would decide."""
OVERHEAD = 0.05
"""Of the time that the same Applications take without us."""
ERRORS = 2.0
"""How many standard errors may be chance."""
SYNCED_SECONDS = 300.0
REST_SECONDS = 3.0
"""After a round: what follows from it yet, such as the last statuses, is not to be in the next one."""
PER_TENANT = 10
FOLDERS = range(PER_TENANT)

console = Console(highlight=False)

Key = tuple[str, str]
"""Namespace and name of an Application."""


@dataclass(frozen=True)
class Crowd:
    """Tenants, each with a repository and Applications of its folders."""

    repositories: Mapping[str, Repository]
    """By tenant."""
    applications: Mapping[Key, str]
    """Tenant by Application."""


@dataclass(frozen=True)
class Fleet:
    """Argo CDs, and how they are spoken to."""

    kube: KubeClient
    users: KubeClient
    """The API server of those who write GitOpsDeployments."""
    mirror: Mirror
    """Of all Applications."""
    processes: Mapping[str, int]
    """Ids by name."""

    async def cpu(self) -> tuple[float, float]:
        """Seconds that Argo CD has taken so far, and those of its API server with etcd."""
        spent = await asyncio.to_thread(cpu_seconds, self.processes)
        argocd, cluster = (sum(each for name, each in spent.items() if name.startswith(of)) for of in (ARGOCD, CLUSTER))
        return argocd, cluster


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of one commit to all repositories."""

    mean: float
    """From the commit until an Application is in sync with it."""
    last: float
    """Until all are."""
    argocd_cpu: float
    """That Argo CD took until then, and while the last statuses were shown."""
    cluster_cpu: float
    """That its API server took, and etcd, which is the users', too: their statuses are kept there."""


MEAN: Callable[[Round], float] = attrgetter("mean")
FIGURES: Mapping[str, Callable[[Round], float]] = {
    "mean, s": MEAN,
    "all, s": attrgetter("last"),
    "CPU of Argo CD, s": attrgetter("argocd_cpu"),
    "CPU of its API server, s": attrgetter("cluster_cpu"),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rounds, one after the other."""

    ours: Round
    by_hand: Round


Outcome = Literal["kept", "exceeded", "undecided"]
"""Of the bound."""
OUTCOMES: Mapping[Outcome, str] = {
    "kept": f"not more than {OVERHEAD:.0%}",
    "exceeded": f"more than {OVERHEAD:.0%}",
    "undecided": f"undecided, {OVERHEAD:.0%} is within the error: measure more --pairs, four times as many halve it",
}


@dataclass(frozen=True, slots=True)
class Overhead:
    """How much longer ours take, as a share of the time by hand."""

    mean: float
    error: float
    """Standard error of the mean."""

    @property
    def chance(self) -> float:
        """How far the mean may be from the truth."""
        return ERRORS * self.error

    @property
    def outcome(self) -> Outcome:
        """Whether it is what it may be, or more, beyond chance."""
        if self.mean + self.chance <= OVERHEAD:
            return "kept"
        return "exceeded" if self.mean - self.chance > OVERHEAD else "undecided"

    def __str__(self) -> str:
        return f"{self.mean:+.1%} ± {self.chance:.1%}"


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


def by_hand(manifest: Manifest) -> Manifest:
    """The same Application or AppProject for a tenant of the other sort, by another name and without marks of ours."""
    spec: Manifest = orjson.loads(orjson.dumps(manifest["spec"]).replace(f"{OURS}-".encode(), f"{BY_HAND}-".encode()))
    if "project" in spec:
        spec["project"] = f"{BY_HAND}-{spec['project']}"
    meta = {"name": f"{BY_HAND}-{manifest['metadata']['name']}", "namespace": manifest["metadata"]["namespace"]}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": meta, "spec": spec}


async def tell_argocd(kube: KubeClient, applications: Sequence[Key]) -> None:
    """Have these compared, as a webhook does."""
    pending = iter(applications)

    async def write() -> None:
        for namespace, name in pending:
            await kube.patch_object(APPLICATION, namespace, name, REFRESH, field_manager=FIELD_MANAGER)

    await asyncio.gather(*(write() for _ in range(WRITERS)))


async def one_round(crowd: Crowd, fleet: Fleet, value: str) -> Round:
    """Commit to every repository, and wait until all Applications are in sync with it."""
    before = await fleet.cpu()
    made = await asyncio.to_thread(commit_to_all, crowd.repositories, value)
    arrived: dict[Key, float] = {}
    pending = dict(crowd.applications)

    def all_synced(objects: Objects) -> bool:
        now = time.monotonic()
        for key in [*pending]:
            commit, since = made[pending[key]]
            if key in objects and commit_of(objects[key]) == commit:
                arrived[key] = now - since
                del pending[key]
        return not pending

    await asyncio.gather(
        tell_argocd(fleet.kube, [*crowd.applications]),
        fleet.mirror.until(f"all Applications are in sync with '{value}'", all_synced, SYNCED_SECONDS),
    )
    await asyncio.sleep(REST_SECONDS)
    argocd, cluster = (after - so_far for after, so_far in zip(await fleet.cpu(), before, strict=True))
    return Round(statistics.fmean(arrived.values()), max(arrived.values()), argocd, cluster)


async def repositories_of(stack: HostedStack, kube: KubeClient, names: Sequence[str]) -> dict[str, Repository]:
    """One for each tenant, with something to deploy; and their namespaces."""
    site = site_of(stack.environment)
    await create_namespaces(kube, [*names])
    repositories = {name: site.create(name) for name in names}
    await asyncio.to_thread(commit_to_all, repositories, "first")
    return repositories


async def settle(stack: HostedStack, fleet: Fleet, count: int) -> Crowd:
    """Make tenants and their deployments, and wait for the Applications."""
    url, names = f"{site_of(stack.environment).https_url}/{PUBLIC}", tenants(OURS, count // PER_TENANT)
    repositories, of_name = await repositories_of(stack, fleet.kube, names), {}
    await create_namespaces(fleet.users, [*names])
    for name in names:
        for number in FOLDERS:
            manifest = deployment(name, f"app-{number}")
            manifest["spec"]["source"] = {"repoURL": f"{url}/{name}.git", "path": f"app-{number}"}
            created = await fleet.users.create_object(GITOPS_DEPLOYMENT, manifest, field_manager=FIELD_MANAGER)
            of_name[application_name(created["metadata"]["uid"])] = name
    found: dict[Key, str] = {}

    def all_there(objects: Objects) -> bool:
        found.update({key: of_name[key[1]] for key in objects if key[1] in of_name})
        return len(found) == len(of_name)

    await fleet.mirror.until("all deployments have Applications", all_there, SYNCED_SECONDS)
    return Crowd(repositories, found)


async def copy_by_hand(stack: HostedStack, fleet: Fleet, crowd: Crowd) -> Crowd:
    """The same Applications once more, of tenants that our services know nothing of."""
    kube = fleet.kube
    names = {name: name.replace(OURS, BY_HAND, 1) for name in crowd.repositories}
    repositories = await repositories_of(stack, kube, [*names.values()])
    applications = {key: fleet.mirror.objects[key] for key in crowd.applications}
    projects = {(namespace, each["spec"]["project"]) for (namespace, _), each in applications.items()}
    for namespace, name in projects:
        project = await kube.get_object(APP_PROJECT, namespace, name)
        await kube.create_object(APP_PROJECT, by_hand(project), field_manager=FIELD_MANAGER)
    made = {}
    for key, application in applications.items():
        copied = by_hand(application)
        await kube.create_object(APPLICATION, copied, field_manager=FIELD_MANAGER)
        made[key[0], copied["metadata"]["name"]] = names[crowd.applications[key]]
    return Crowd(repositories, made)


def join(stack: HostedStack, number: int) -> None:
    """Start one more Argo CD, and add it to the fleet. Raises RuntimeError if it is refused, or not ready in time."""
    for part in PARTS:
        stack.start(f"argocd-{part}-{number}")
    namespace = (*ENGINE_NAMESPACES, *SPARE_NAMESPACES)[number - 1]
    gitopsctl(stack, "engines", "add", f"instance-{number}", "--namespace", namespace)
    gitopsctl(stack, "engines", "wait", f"instance-{number}")


@contextmanager
def watcher_of_users(stack: HostedStack) -> Iterator[SideProcess]:
    """A watcher of the second cluster, in place of the stack's own. Raises RuntimeError if that has no place for it."""
    users = Path(stack.environment["REMOTE_KUBECONFIG"])
    for source in (CRDS, FOREIGN_CRDS):
        gitopsctl(stack, "crds", "apply", "--kubeconfig", str(users), "--from", str(source))
    asyncio.run(_make_namespace(users))
    given = stack.environment | {"KUBECONFIG": str(users)}
    with beside("services.watcher", given, stack.state.root / "logs" / "watcher-of-users.log") as watcher:
        yield watcher


async def _make_namespace(kubeconfig: Path) -> None:
    async with await connect(kubeconfig) as users:
        await create_namespaces(users, [SYSTEM_NAMESPACE])


def set_apart(stack: HostedStack, watcher: SideProcess, processors: Sequence[int]) -> None:
    """Give Argo CD, its API server and its git server one half of `processors`, and our services the other half.

    This program is with Argo CD, so that it tells of commits and sees what comes of them as fast for either sort. It
    comes first, because it has started the stack: what is said of its tree is said of all.
    """
    half = len(processors) // 2
    for name, pid in ((BENCH, os.getpid()), *stack.pids().items(), (WATCHER, watcher.pid)):
        own = processors[:half] if name.startswith((*ENGINES, BENCH)) else processors[half:]
        for _ in range(2):  # a thread that was started meanwhile has what the one that started it had
            for process in tree(pid):
                _run_on(process, own)


def _run_on(process: int, processors: Sequence[int]) -> None:
    for task in Path(f"/proc/{process}/task").glob("*"):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(task.name), processors)


async def measure(stack: HostedStack, count: int, pairs: int) -> list[Pair]:
    """Rounds of both sorts by turns."""
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        await connect(Path(stack.environment["REMOTE_KUBECONFIG"])) as users,
        mirrored(kube, APPLICATION) as mirror,
    ):
        fleet = Fleet(kube, users, mirror, stack.pids())
        ours = await settle(stack, fleet, count)
        copies = await copy_by_hand(stack, fleet, ours)
        for crowd in (ours, copies):
            await one_round(crowd, fleet, "settled")
        found = []
        for number in range(pairs):
            sorts = (ours, copies) if number % 2 else (copies, ours)
            rounds = {id(each): await one_round(each, fleet, f"commit {number}") for each in sorts}
            found.append(Pair(rounds[id(ours)], rounds[id(copies)]))
            console.print(f"pair {number}: by hand {found[-1].by_hand.mean:.2f} s, ours {found[-1].ours.mean:.2f} s")
    return found


def overhead(pairs: Sequence[Pair], of: Callable[[Round], float] = MEAN) -> Overhead:
    """By what the two rounds of each pair differ."""
    base = statistics.fmean(of(each.by_hand) for each in pairs)
    more = [(of(each.ours) - of(each.by_hand)) / base for each in pairs]
    return Overhead(statistics.fmean(more), statistics.stdev(more) / len(more) ** 0.5)


def rows(found: Mapping[int, Sequence[Pair]]) -> Iterator[tuple[str, ...]]:
    """One for each number of instances and each figure."""
    for instances, pairs in found.items():
        for name, of in FIGURES.items():
            sorts = [each.by_hand for each in pairs], [each.ours for each in pairs]
            yield (
                str(instances),
                name,
                *(_spread([of(each) for each in sort]) for sort in sorts),
                str(overhead(pairs, of)),
            )


def tell_outcomes(found: Mapping[int, Overhead]) -> int:
    """Say for each number of instances what became of the bound. Returns the exit code: 0 if it is always kept."""
    for instances, each in found.items():
        console.print(f"{instances} Argo CD, {each}: {OUTCOMES[each.outcome]}", soft_wrap=True)
    return 0 if all(each.outcome == "kept" for each in found.values()) else 1


def _spread(seconds: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{statistics.fmean(seconds):.2f} ± {statistics.stdev(seconds):.2f}"


def main(
    applications: Annotated[int, typer.Option(help="Of each sort, ten of each tenant.")] = 200,
    instances: Annotated[int, typer.Option(help="Argo CDs at most.", min=1, max=3)] = 3,
    first: Annotated[int, typer.Option(help="Argo CDs at first.", min=1, max=3)] = 1,
    pairs: Annotated[int, typer.Option(help="Commits to each sort.", min=2)] = 10,
    apart: Annotated[
        bool,
        typer.Option(
            "--apart", help="Argo CD and its API server on one half of the processors, our services on the other."
        ),
    ] = False,
) -> None:
    """Measure on one instance, on two, … each on a new stack; exits with 1 unless we cost at most 5 % beyond chance."""
    found = {}
    processors = sorted(os.sched_getaffinity(0))  # before this program sets itself apart, too
    for number in range(first, instances + 1):
        with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
            console.print(f"starting a stack with {number} Argo CD …")
            options = ("--argocd", "--spares", "--without", WATCHER, "--poll", str(POLL_SECONDS))
            running = hosted(Path(folder) / "stack", *options, output=Path(folder) / "stack.out")
            with running as stack, watcher_of_users(stack) as watcher:
                for added in range(2, number + 1):
                    join(stack, added)
                if apart:
                    set_apart(stack, watcher, processors)
                found[number] = asyncio.run(measure(stack, applications, pairs))
                watcher.require_running()
    table = Table("instances", "", "by hand", "ours", f"overhead ± {ERRORS:.0f} errors")
    for row in rows(found):
        table.add_row(*row)
    console.print(table)
    raise typer.Exit(tell_outcomes({number: overhead(each) for number, each in found.items()}))


if __name__ == "__main__":
    typer.run(main)
