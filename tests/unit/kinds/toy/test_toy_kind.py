"""A kind is one folder and one entry of the registry: everything that is by kind is derived from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import pytest
import yaml

from devstack.generate.manifests import crd_files, watcher_rules
from devstack.generate.reference import index, limits, page
from services.common.addresses import AddressPolicy
from services.common.messages import ResourceChanged
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.api_group import FINALIZER
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refuse_resource, update_resource
from services.kinds.shared.limits import Claim, Share, over_quota
from services.kinds.shared.resource import Cause, Origin, PlainResource
from services.watcher.commands.translation import Translator, spec_within
from services.watcher.followed_kinds import FollowedKind, access_to, followed
from tests.unit.kinds.given import START, at, conditions, id_of, inputs
from tests.unit.kinds.toy.kind import FREEZE, KIND

WITH_TOY = Registry((*REGISTRY.kinds, KIND))
LIMITS = WITH_TOY.limits()
EXAMPLE = yaml.safe_load(KIND.example.read_text())


def watched() -> FollowedKind:
    """The toy as the watcher follows it."""
    (kind,) = [kind for kind in followed(WITH_TOY) if kind.name == KIND.name]
    return kind


def reported(**spec: Any) -> ResourceChanged:
    """What the watcher's command says of the example; ``spec`` overrides parts of it."""
    metadata = EXAMPLE["metadata"] | {"namespace": "team-a", "uid": "u", "resourceVersion": "7", "generation": 1}
    manifest = EXAMPLE | {"metadata": metadata | {"finalizers": [FINALIZER]}, "spec": EXAMPLE["spec"] | spec}
    command = Translator("local", watched().resource, spec_within(1024)).changed(manifest, 1, START)
    assert isinstance(command.event, ResourceChanged)
    return command.event


def planned(**spec: Any) -> PlainResource:
    """The planner's row of it."""
    origin = Origin(id_of("tenant"), "local", id_of("freeze"))
    return update_resource(WITH_TOY[KIND.name], None, reported(**spec), origin, Cause(START, ""))


def accepted(row: PlainResource) -> PlainResource:
    """The row once its spec was looked at."""
    accept = WITH_TOY[row.kind].accept_spec
    assert accept is not None
    try:
        accept(row, AddressPolicy(), LIMITS)
    except Refused as why:
        return refuse_resource(row, why)
    return refuse_resource(row, None)


def shown(row: PlainResource, previous: str = "{}", second: int = 0) -> str:
    compile_status = WITH_TOY[row.kind].compile_status
    assert compile_status is not None
    return compile_status(inputs(row, previous=previous, second=second))


def test_kind_when_added_then_its_crd_is_generated_with_its_rules_and_columns() -> None:
    files = dict(crd_files(WITH_TOY))
    definition = yaml.safe_load(files[PurePath("gitopsdeploymentfreezes.yaml")])
    version = definition["spec"]["versions"][0]
    rules = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["reason"]
    assert definition["spec"]["names"]["kind"] == "GitOpsDeploymentFreeze"
    assert rules["x-kubernetes-validations"] == [{"rule": "self != ''", "message": "reason must not be empty"}]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == ["Reason", "Age"]
    assert "gitopsdeploymentfreezes.yaml" in yaml.safe_load(files[PurePath("Kustomization")])["resources"]


def test_kind_when_added_then_users_read_of_it() -> None:
    text = page(KIND)
    assert KIND.example.read_text().strip() in text
    assert "| `Frozen` | `False` | `NoReason` |" in text
    assert f"[GitOpsDeploymentFreeze]({KIND.page}.md) | keeps a GitOpsDeployment as it is |" in index(WITH_TOY)
    assert "| GitOpsDeploymentFreezes | 2 |" in limits(WITH_TOY)


def test_kind_when_added_then_the_watcher_may_read_it_and_write_its_status() -> None:
    rules = yaml.safe_load(watcher_rules(WITH_TOY))
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    wanted = {("/".join(filter(None, (FREEZE.plural, of))), verb) for verb, of in access_to(watched()).rights}
    assert wanted <= granted
    assert (f"{FREEZE.plural}/status", "patch") in wanted


def test_kind_when_added_then_the_watcher_follows_it_and_says_what_it_names() -> None:
    assert watched().resource == FREEZE
    assert watched().reference_of(EXAMPLE) == "web"
    event = reported()
    assert (event.kind, event.name, json.loads(event.spec)) == (FREEZE.kind, "holidays", EXAMPLE["spec"])


def test_kind_when_added_then_the_planner_keeps_its_rows() -> None:
    row = planned()
    assert (row.kind, row.refers_to, row.finalizer) == (FREEZE.kind, "web", True)
    assert KIND in WITH_TOY.plain_kinds
    assert FREEZE.kind not in REGISTRY


@pytest.mark.parametrize(
    ("spec", "condition"),
    [
        pytest.param({}, ("True", "Frozen", "nobody is here"), id="valid"),
        pytest.param({"reason": ""}, ("False", "NoReason", "reason must not be empty"), id="refused"),
    ],
)
def test_kind_when_its_spec_is_looked_at_then_its_status_says_what_came_of_it(
    spec: dict[str, str], condition: tuple[str, str, str]
) -> None:
    row = accepted(planned(**spec))
    status = shown(row)
    assert conditions(status) == {"Frozen": condition}
    assert shown(row, status, second=60) == status


def test_kind_when_a_tenant_has_more_than_its_quota_then_the_newest_is_refused() -> None:
    claims = [Claim(id_of(name), FREEZE.kind, second, name, Share(1)) for second, name in enumerate("abc")]
    assert over_quota(claims, LIMITS) == {id_of("c")}
    more = WITH_TOY.limits({FREEZE.kind: 3})
    assert over_quota(claims, more) == frozenset()
    status = shown(accepted(replace(planned(), over_quota=True, seen_at=at(0))))
    assert conditions(status)["Frozen"][2].startswith(
        "quota exceeded: this namespace may have 2 GitOpsDeploymentFreeze"
    )
