"""``python -m bench.tenant``: what planning one event costs, of a tenant with one of everything and of a full one.

Needs no other process: a plan is a function. Milliseconds of CPU, the median of many; the tenant stays as it was.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from services.common.messages import Checked, Command, Observation, ResourceChanged, ResourceGone
from services.common.messages.command import CommandEvent
from services.common.messages.compiled import RowKind
from services.planner.domain.events import Event
from services.planner.domain.fleet import FleetView
from services.planner.domain.ids import tenant_id
from services.planner.domain.plan import plan
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.engines.registry import ENGINES
from services.planner.rows import Instance, Tenant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FLEET = FleetView({"one": Instance("one", "argocd", accepting=True)}, ENGINES)
POLICY = Policy()
DEPLOYMENT = "GitOpsDeployment"
ENVIRONMENT = "GitOpsDeploymentManagedEnvironment"
CREDENTIAL = "GitOpsDeploymentRepositoryCredential"
RUN = "GitOpsDeploymentSyncRun"
SEALED = 4000
"""Characters of a sealed Secret."""


def seen(kind: str, number: int, epoch: int = 1, repository: int | None = None) -> Event:
    """A resource as a list shows it."""
    where = f"https://git.example.com/team/{number if repository is None else repository}"
    specs: dict[str, dict[str, Any]] = {
        DEPLOYMENT: {"source": {"repoURL": where, "path": "apps"}, "type": "manual"},
        ENVIRONMENT: {"apiURL": f"https://c{number}.example.com", "credentialsSecret": f"secret-{number}"}
        | {"allowInsecureSkipTLSVerify": False},
        CREDENTIAL: {"repository": where, "secret": f"login-{number}"},
        RUN: {"gitopsDeploymentName": f"{DEPLOYMENT.lower()}-{number}"},
        "secret": {"type": "managed-gitops.redhat.com/managed-environment"},
        "login": {"type": "managed-gitops.redhat.com/repository-credential"},
    }
    spec, is_secret = specs[kind], kind in {"secret", "login"}
    event = ResourceChanged(
        api_version="v1" if is_secret else "managed-gitops.redhat.com/v1alpha1",
        kind="Secret" if is_secret else kind,
        name=f"{kind.lower()}-{number}",
        uid=f"uid-{kind}-{number}",
        resource_version="5",
        generation=0 if is_secret else 1,
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


def filled(counts: Mapping[str, int]) -> TenantState:
    """A tenant with so many resources, each with a repository or a Secret of its own."""
    state = TenantState(Tenant(tenant_id("local", "team"), "local", "team", 0, ""))
    for kind, count in counts.items():
        planned = plan(state, [seen(kind, number) for number in range(count)], FLEET, POLICY, NOW)
        state = planned.state or state
    return state


def events(state: TenantState) -> Iterator[tuple[str, Event]]:
    """What is measured."""
    yield "new run", command_of_new_run()
    yield "run gone", command(ResourceGone(RUN, f"{RUN.lower()}-0", f"uid-{RUN}-0", "9"))
    name, held = next((key[1], held) for key, held in state.objects.items() if key[0] == RowKind.REPOSITORY_SECRET)
    checked = Checked(held.digest, "RepositoryCredentialUpToDate", "")
    yield (
        "credential checked",
        Event(Observation("local", "team", "one", RowKind.REPOSITORY_SECRET.value, name, NOW, checked), 0, ""),
    )
    yield "Secret seen again", seen("secret", 0, epoch=2)
    yield "environment seen again", seen(ENVIRONMENT, 0, epoch=2)
    yield "deployment seen again", seen(DEPLOYMENT, 0, epoch=2)


def command_of_new_run() -> Event:
    """One more than any tenant here has."""
    return seen(RUN, 999)


def cost(state: TenantState, event: Event, times: int) -> float:
    """Median milliseconds of CPU of planning ``event``."""
    spent = []
    for _ in range(times):
        started = time.process_time()
        plan(state, [event], FLEET, POLICY, NOW)
        spent.append((time.process_time() - started) * 1000)
    return statistics.median(spent)


def main(times: int = 50) -> None:
    """Measure both tenants, print a table."""
    kinds = (DEPLOYMENT, "secret", "login", ENVIRONMENT, CREDENTIAL, RUN)
    tiny = filled(dict.fromkeys(kinds, 1))
    full = filled(dict(zip(kinds, (1000, 100, 100, 100, 100, 200), strict=True)))
    table = Table("milliseconds of CPU", "tiny", "full")
    for (name, event), (_, same) in zip(events(tiny), events(full), strict=True):
        table.add_row(name, f"{cost(tiny, event, times):.2f}", f"{cost(full, same, times):.2f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
