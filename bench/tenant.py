"""``python -m bench.tenant``: what planning one change costs, of a tenant with one of everything and at every quota.

Needs no other process: a plan is a function. Milliseconds of CPU, the median of many; the tenant stays as it was.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from services.common.argocd_names import application_name
from services.common.kafka import DEFAULT_ENGINE_CLUSTER
from services.common.messages import (
    Applied,
    Checked,
    Command,
    Observation,
    ResourceChanged,
    ResourceGone,
    StatusReported,
    SyncMoved,
)
from services.common.messages.command import CommandEvent
from services.common.messages.compiled import RowKind
from services.common.messages.observation import ObservationEvent
from services.planner.domain.events import Event
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.ids import tenant_id
from services.planner.domain.plan import plan
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INSTANCE = PlacementCandidate(
    "one", "argocd", accepting=True, engine=DEFAULT_ENGINE, engine_cluster=DEFAULT_ENGINE_CLUSTER
)
FLEET = PlacementView({INSTANCE.id: INSTANCE}, ENGINES)
POLICY = Policy()
DEPLOYMENT = "GitOpsDeployment"
ENVIRONMENT = "GitOpsDeploymentManagedEnvironment"
CREDENTIAL = "GitOpsDeploymentRepositoryCredential"
RUN = "GitOpsDeploymentSyncRun"
KUBECONFIG = "kubeconfig"
LOGIN = "login"
SEALED = 4000
"""Characters of a sealed Secret."""
SYNCED = {"sync": {"status": "Synced"}}
MOVED = SyncMoved(f"uid-{RUN}-0", "Running", "syncing", "", "", "")
CHECKED: Mapping[str, str] = {
    RowKind.CLUSTER_SECRET: "Succeeded",
    RowKind.REPOSITORY_SECRET: "RepositoryCredentialUpToDate",
}
"""Reasons of checks that have succeeded, by kind of row."""


def seen(kind: str, number: int, *, epoch: int = 1, generation: int = 1, **changed: Any) -> Event:
    """A resource as it is; with ``changed`` fields of its spec if ``generation`` is another one."""
    where = f"https://git.example.com/team/{number}"
    specs: dict[str, dict[str, Any]] = {
        DEPLOYMENT: {"source": {"repoURL": where, "path": "apps"}, "type": "manual"},
        ENVIRONMENT: {"apiURL": f"https://c{number}.example.com", "credentialsSecret": f"{KUBECONFIG}-{number}"}
        | {"allowInsecureSkipTLSVerify": False},
        CREDENTIAL: {"repository": where, "secret": f"{LOGIN}-{number}"},
        RUN: {"gitopsDeploymentName": f"{DEPLOYMENT.lower()}-{number}"},
        KUBECONFIG: {"type": "managed-gitops.redhat.com/managed-environment"},
        LOGIN: {"type": "managed-gitops.redhat.com/repository-credential"},
    }
    spec, is_secret = specs[kind] | changed, kind in {KUBECONFIG, LOGIN}
    event = ResourceChanged(
        api_version="v1" if is_secret else "managed-gitops.redhat.com/v1alpha1",
        kind="Secret" if is_secret else kind,
        name=f"{kind.lower()}-{number}",
        uid=f"uid-{kind}-{number}",
        resource_version=str(4 + generation),
        generation=0 if is_secret else generation,
        epoch=epoch,
        deleting=False,
        finalizers=(),
        actor="bench",
        spec=json.dumps(spec | ({"sealed": "x" * SEALED, "keyId": "k"} if is_secret else {})),
        created_at=1000 * number,
    )
    return command(event)


def command(event: CommandEvent) -> Event:
    """As a watcher sends it."""
    return Event(Command("local", "local", "team", NOW, event), 0, "")


def reported(kind: RowKind, name: str, event: ObservationEvent) -> Event:
    """As an agent sends it."""
    return Event(Observation("local", "team", "one", kind.value, name, NOW, event), 0, "")


def filled(counts: Mapping[str, int]) -> TenantState:
    """A tenant with so many resources, each with a repository or a Secret of its own, as agents left it."""
    state = TenantState(Tenant(tenant_id("local", "team"), "local", "team", 0, ""))
    for kind, count in counts.items():
        state = taken(state, [seen(kind, number) for number in range(count)])
    return taken(state, outcomes(state))


def taken(state: TenantState, batch: Sequence[Event]) -> TenantState:
    """The tenant after these events."""
    planned = plan(state, batch, FLEET, POLICY, NOW).state or state
    planned.reset_baseline()
    return planned


def outcomes(state: TenantState) -> list[Event]:
    """Everything is in force: applied, in sync, and checked."""
    checked = [
        reported(RowKind(kind), name, Checked(held.digest, CHECKED[kind], ""))
        for (kind, name), held in state.objects.items()
        if kind in CHECKED
    ]
    applied = [
        reported(RowKind.APPLICATION, application_name(each.uid), event)
        for each in state.deployments.values()
        for event in (Applied(each.digest or ""), StatusReported(json.dumps(SYNCED), "1"))
    ]
    return checked + applied


def changes(state: TenantState) -> Iterator[tuple[str, Event]]:
    """What is measured: one change of each kind."""
    name, held = next((key[1], held) for key, held in state.objects.items() if key[0] == RowKind.REPOSITORY_SECRET)
    application = application_name(f"uid-{DEPLOYMENT}-0")
    yield "sync run: new", seen(RUN, 999)
    yield "sync run: moved", reported(RowKind.APPLICATION, application, MOVED)
    yield "sync run: ended", reported(RowKind.APPLICATION, application, replace(MOVED, phase="Succeeded"))
    yield "sync run: gone", command(ResourceGone(RUN, f"{RUN.lower()}-0", f"uid-{RUN}-0", "9"))
    yield "environment: new", seen(ENVIRONMENT, 999)
    yield "environment: changed", seen(ENVIRONMENT, 0, generation=2, namespaces=["a"])
    yield (
        "environment: gone",
        command(ResourceGone(ENVIRONMENT, f"{ENVIRONMENT.lower()}-0", f"uid-{ENVIRONMENT}-0", "9")),
    )
    yield "environment: seen again", seen(ENVIRONMENT, 0, epoch=2)
    yield "credential: new", seen(CREDENTIAL, 999)
    yield "credential: changed", seen(CREDENTIAL, 0, generation=2, repository="https://git.example.com/other")
    yield (
        "credential: checked",
        reported(RowKind.REPOSITORY_SECRET, name, Checked(held.digest, "InvalidCredentials", "")),
    )
    yield "Secret: new", seen(KUBECONFIG, 999)
    yield "Secret: changed", seen(KUBECONFIG, 0, generation=2)
    yield "Secret: gone", command(ResourceGone("Secret", f"{KUBECONFIG}-0", f"uid-{KUBECONFIG}-0", "9"))
    yield "Secret: seen again", seen(KUBECONFIG, 0, epoch=2)
    yield "deployment: new", seen(DEPLOYMENT, 9999)
    yield "deployment: changed", seen(DEPLOYMENT, 0, generation=2, type="automated")
    yield "deployment: gone", command(ResourceGone(DEPLOYMENT, f"{DEPLOYMENT.lower()}-0", f"uid-{DEPLOYMENT}-0", "9"))
    yield "deployment: seen again", seen(DEPLOYMENT, 0, epoch=2)
    yield "status", reported(RowKind.APPLICATION, application, StatusReported(json.dumps(SYNCED | {"health": {}}), "2"))


def batches() -> Iterator[tuple[str, list[Event]]]:
    """What is measured besides: many changes of one tenant in one batch, in milliseconds for each of them."""
    yield "300 deployments: changed", [seen(DEPLOYMENT, each, generation=2, type="automated") for each in range(300)]
    yield "300 deployments: seen again", [seen(DEPLOYMENT, each, epoch=2) for each in range(300)]


def cost(state: TenantState, events: Sequence[Event], times: int) -> float:
    """Median milliseconds of CPU of planning ``events``, for each of them."""
    spent = []
    for _ in range(times):
        started = time.process_time()
        plan(state, events, FLEET, POLICY, NOW)
        spent.append((time.process_time() - started) * 1000 / len(events))
    return statistics.median(spent)


def main(times: int = 50) -> None:
    """Measure both tenants, print a table."""
    kinds = (DEPLOYMENT, KUBECONFIG, LOGIN, ENVIRONMENT, CREDENTIAL, RUN)
    small = filled(dict.fromkeys(kinds, 1))
    full = filled(dict(zip(kinds, (1000, 100, 100, 100, 100, 200), strict=True)))
    table = Table("milliseconds of CPU", "small", "full", "more")
    for (name, event), (_, same) in zip(changes(small), changes(full), strict=True):
        one, other = cost(small, [event], times), cost(full, [same], times)
        table.add_row(name, f"{one:.2f}", f"{other:.2f}", f"{other - one:.2f}")
    for name, batch in batches():
        one, other = cost(small, batch, times // 10), cost(full, batch, times // 10)
        table.add_row(name, f"{one:.2f}", f"{other:.2f}", f"{other - one:.2f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
