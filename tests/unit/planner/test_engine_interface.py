"""Another engine is one more folder: this one compiles, is placed and reports, and the planner does not notice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from devstack.paths import ROOT
from services.kinds.gitops_deployment.status import EngineReport
from services.kinds.shared.connections import Cluster, Connection, Repository
from services.kinds.shared.resource import PlainResource
from services.planner.engines.interface import DEPLOYMENT_LOAD, Confinement, Manifest, Placement, Target
from services.planner.rows.compiled import EngineObjectKey
from services.planner.rows.fleet import PlacementCandidate
from tests.unit.planner.given import (
    Applied,
    Checked,
    Removed,
    changed,
    credential,
    environment,
    gone,
    observed,
    secret,
    status,
    sync_run,
)
from tests.unit.planner.tenant import MANUAL, REMOTE, moved
from tests.unit.planner.world import World

KINDS = ("Release", "Fence", "Cluster", "Login", "Order")


@dataclass(frozen=True)
class Flux:
    """An engine that names its objects by what they are for, and whose status is one word."""

    def lane(self, tenant: UUID) -> str:
        return f"flux/{tenant}"

    def load_of(self, kind: str) -> int:
        return DEPLOYMENT_LOAD if kind == "Release" else 0

    def deployment_key(self, uid: str) -> EngineObjectKey:
        return ("Release", uid)

    def deployment_uid(self, key: EngineObjectKey) -> str | None:
        return key[1] if key[0] == "Release" else None

    def deployment(self, placement: Placement, deployment: UUID, uid: str, spec: Any, target: Target) -> Manifest:
        goes_to = "here" if target.is_local else str(target.environment or "nowhere")
        return _manifest("Release", uid, 1, repository=spec.source.repo_url, to=goes_to)

    def projects(self, placement: Placement, confinement: Confinement) -> tuple[Manifest, ...]:
        return (_manifest("Fence", "all", 0, repositories=sorted(confinement.repositories)),)

    def objects(
        self, placement: Placement, resource: PlainResource, connection: Connection, *, cluster_resources: bool
    ) -> tuple[Manifest, ...]:
        match connection:
            case Cluster(api_url=url):
                return (_manifest("Cluster", str(resource.id), 0, url=url),)
            case Repository(url=url):
                return (_manifest("Login", str(resource.id), 0, repository=url),)

    def sync_request(
        self, placement: Placement, deployment_uid: str, run_uid: str, run: Any, revision: str
    ) -> Manifest:
        return _manifest("Order", deployment_uid, 2, run=run_uid, revision=revision)

    def released(self, manifest: Manifest, *, at_once: bool) -> Manifest:
        return _manifest(*manifest.key, manifest.wave, **json.loads(manifest.text), suspended=True)

    def handed_over(self, manifest: Manifest) -> Manifest:
        return manifest

    def read_status(self, status: str, sync_error: str | None, environments: Mapping[UUID, str]) -> EngineReport:
        word = json.loads(status).get("word", "") if status else ""
        return EngineReport(
            {"health": {"status": word}} if word else {}, {"Sick": ("Sick", "!")} if word == "bad" else {}
        )

    def with_last_operation(self, status: str, before: str) -> str:
        return status

    def is_syncing(self, status: str) -> bool:
        return False

    def knows_version(self, version: str) -> bool:
        return version == "1.0.0"

    def is_tested(self, version: str) -> bool:
        return version == "1.0.0"

    def needs_login(self, failure: str) -> bool:
        return False


def _manifest(kind: str, name: str, wave: int, **content: Any) -> Manifest:
    return Manifest(kind, name, wave, json.dumps(content))


@pytest.fixture
def world() -> World:
    fleet = (PlacementCandidate("flux-1", "flux-system", accepting=True, engine="flux", engine_cluster="default"),)
    return World(fleet=fleet, engines={"flux": Flux()})


def held(world: World) -> dict[str, str]:
    return {row.kind: row.desired for row in world.engine.values()}


def says(world: World, second: int, kind: str, event: Any, name: str = "") -> None:
    (row,) = [row for row in world.engine.values() if row.kind == kind and name in row.name]
    world.take(observed(second, event, instance="flux-1", kind=kind, name=row.name))


def test_engine_when_it_is_another_one_then_all_kinds_are_compiled_in_its_words(world: World) -> None:
    world.take(secret(1), environment(2), secret(3, "login", "repository-credential"), credential(4))
    (cluster,) = [row for row in world.engine.values() if row.kind == "Cluster"]
    says(world, 5, "Cluster", Checked(cluster.digest, "Succeeded", ""))
    world.take(
        changed(6, content=REMOTE), changed(7, "manual", uid="uid-2", content=MANUAL), sync_run(8, "now", "manual")
    )
    assert held(world) == dict.fromkeys(KINDS, "present")
    releases = {row.name: json.loads(row.manifest)["to"] for row in world.engine.values() if row.kind == "Release"}
    assert releases == {"uid-1": cluster.name, "uid-2": "here"}
    assert {row.lane for row in world.engine.values()} == {f"flux/{tenant}" for tenant in world.tenants}
    says(world, 9, "Order", moved("now", "Succeeded", finished="2026-05-04T12:00:01Z"))
    assert "Order" not in held(world)


def test_engine_when_its_agents_report_then_that_is_shown_and_a_deletion_is_finished(world: World) -> None:
    world.take(changed(1))
    says(world, 2, "Release", Applied(next(row.digest for row in world.engine.values() if row.kind == "Release")))
    says(world, 3, "Release", status(3, word="bad"))
    (shown,) = [json.loads(row.status) for row in world.workspace.values()]
    assert (shown["health"], [each["type"] for each in shown["conditions"]]) == ({"status": "bad"}, ["Sick"])
    world.take(gone(4))
    says(world, 5, "Release", Removed(forced=False))
    says(world, 6, "Fence", Removed(forced=False))
    assert (world.engine, world.deployments, world.tenants) == ({}, {}, {})


def test_argo_cd_when_named_then_only_in_its_own_folder() -> None:
    """Kinds, labels, prefixes and texts of its JSON; a docstring may speak of it."""
    words = ("Application'", '"Application"', "AppProject", "ClusterSecret", "RepositorySecret", "SyncOperation",
             "app-project-", "managed-env-", "repo-cred-", "gitopsdepl-", "databaseID", "in-cluster", "argoproj",
             "operationState", "comparedTo", "RowKind")  # fmt: skip
    folders = (ROOT / "services" / "planner", ROOT / "services" / "kinds")
    files = [path for folder in folders for path in folder.rglob("*.py") if "argocd" not in path.parts]
    found = {(path.name, word) for path in files for word in words if word in _code(path.read_text())}
    # A field of our own API, too; and the heading of a column about AppStudio's kind of that name.
    assert found <= {("model.py", "operationState"), ("status.py", "operationState"), ("kind.py", '"Application"')}


def _code(text: str) -> str:
    """Without docstrings and comments, those of columns too."""
    text = re.sub(r'comment="[^"]*"', "", text)
    lines = [line for line in "".join(text.split('"""')[::2]).splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines)
