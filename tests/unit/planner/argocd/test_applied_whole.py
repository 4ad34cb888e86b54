"""What the planner compiles into Applications and AppProjects, an agent applies whole: it drops no field silently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from services.agent.objects.desired_objects import desired_object
from services.common.api_resource import GroupKind
from services.common.messages import EngineResource
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.kinds.shared.resource import Cause
from services.planner.engines.argocd.implementation import ArgoCD
from services.planner.engines.interface import (
    LOCAL,
    NOWHERE,
    Confinement,
    Destination,
    Manifest,
    Placement,
    Target,
    engine_row,
)
from services.planner.rows.compiled import Owner
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant
from tests.unit.planner.given import START, spec

PLACEMENT = Placement(
    Tenant(UUID(int=1), "local", "team-a", 3, "engine-1"),
    PlacementCandidate("engine-1", "argocd", accepting=True, engine=DEFAULT_ENGINE),
)
ENVIRONMENT = UUID(int=3)

SPECS: dict[str, dict[str, Any]] = {
    f"{type_}-{extent}": spec(type=type_, **more)
    for type_, (extent, more) in product(
        ("automated", "manual"),
        {
            "least": {},
            "full": {
                "source": {"targetRevision": "main"},
                "destination": {"environment": "prod", "namespace": "web"},
                "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
            },
        }.items(),
    )
}
TARGETS = {
    "local": LOCAL,
    "nowhere": NOWHERE,
    "environment": Target(ENVIRONMENT),
    "cluster-resources": Target(ENVIRONMENT, cluster_resources=True),
}
DESTINATIONS: dict[str, tuple[Destination, ...]] = {
    "none": (),
    "all": (
        Destination(None, ("team-a",)),
        Destination(ENVIRONMENT, ()),
        Destination(UUID(int=4), ("web",), cluster_resources=True),
    ),
}
REFUSED = {"no-kinds": frozenset[GroupKind](), "kinds": frozenset({GroupKind("", "ResourceQuota")})}


def applications() -> Iterator[tuple[str, Manifest]]:
    for (name, content), (where, target) in product(SPECS.items(), TARGETS.items()):
        parsed = GitOpsDeploymentSpec.model_validate(content)
        yield f"{name}-{where}", ArgoCD().deployment(PLACEMENT, UUID(int=2), "uid-1", parsed, target)


def projects() -> Iterator[tuple[str, Manifest]]:
    for (where, destinations), (refused, kinds) in product(DESTINATIONS.items(), REFUSED.items()):
        for project in ArgoCD().projects(PLACEMENT, Confinement({"https://a"}, destinations, kinds)):
            yield f"{where}-{refused}-{project.name}", project


COMPILED = dict([*applications(), *projects()])


@pytest.mark.parametrize("manifest", COMPILED.values(), ids=COMPILED)
def test_object_when_compiled_then_an_agent_applies_every_field_of_it(manifest: Manifest) -> None:
    row = engine_row(
        ArgoCD(), PLACEMENT, manifest, Owner("GitOpsDeployment", UUID(int=2)), "present", Cause(START, "trace")
    )
    streamed = asdict(row) | {"seen_at": row.seen_at.isoformat(), "__deleted": "false"}
    assert desired_object(EngineResource.from_record(streamed)) == json.loads(manifest.text)


def test_specs_when_a_field_is_added_to_the_model_then_one_of_them_has_it() -> None:
    assert not unset(GitOpsDeploymentSpec.model_validate(SPECS["automated-full"]))


def unset(model: BaseModel) -> set[str]:
    """Fields that are left out, in the parts as well."""
    parts = [part for name in type(model).model_fields if isinstance(part := getattr(model, name), BaseModel)]
    return (set(type(model).model_fields) - model.model_fields_set).union(*map(unset, parts))
