"""What an agent tells of an Argo CD that is not as tenancy needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import structlog
import yaml
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from devstack.setup.argocd_requirements import requirements
from services.agent.instances.engine_inspection import EngineInspection
from services.agent.instances.engine_requirements import Found, unmet
from services.common.errors import Retry
from services.common.kubernetes import APP_PROJECT, CONFIG_MAP, ApiResource, Manifest, NotFound, Rejected
from tests.unit.fake_clock import FakeClock

SHIPPED = {item["metadata"]["name"]: item for item in requirements("argocd")}
CONFIG: dict[str, str] = SHIPPED["argocd-cm"]["data"]
PROJECT: Manifest = SHIPPED["default"]
NEEDED = (
    "resource.exclusions", "installationID", "application.resourceTrackingMethod", "resource.respectRBAC",
    "jsonnet.enable", "helm.valuesFileSchemes",
)  # fmt: skip
ALL = "Application, ApplicationSet, AppProject"
PERMISSIVE = {"spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}}


def exclusions(*entries: Mapping[str, Any]) -> str:
    return yaml.safe_dump([*entries])


def of_one(config: Mapping[str, str] | None = CONFIG, project: Manifest | None = PROJECT) -> list[str]:
    return unmet({"one": Found(config, project)})["one"]


def test_engine_when_it_has_what_is_shipped_then_it_lacks_nothing() -> None:
    assert of_one() == []


@pytest.mark.parametrize("missing", NEEDED)
def test_engine_when_a_setting_is_missing_then_it_is_named(missing: str) -> None:
    (told,) = of_one({name: value for name, value in CONFIG.items() if name != missing})
    assert told.startswith(missing)


@pytest.mark.parametrize("text", [
    exclusions({"apiGroups": ["argoproj.io"], "kinds": ["*"]}),
    exclusions({"apiGroups": ["argoproj.*"]}),
    exclusions({"apiGroups": ["argoproj.io"], "kinds": ["Application", "AppProject"]}, {"kinds": ["ApplicationSet"]}),
])  # fmt: skip
def test_exclusions_when_they_cover_every_kind_in_other_words_then_that_will_do(text: str) -> None:
    assert of_one(CONFIG | {"resource.exclusions": text}) == []


@pytest.mark.parametrize(("text", "kinds"), [
    (exclusions({"apiGroups": ["argoproj.io"], "kinds": ["Application"]}), "ApplicationSet, AppProject"),
    (exclusions({"apiGroups": ["argoproj.io"], "clusters": ["https://one"]}), ALL),
    ("{", ALL),
    ("word", ALL),
    ("[word]", ALL),
    (exclusions({"apiGroups": "argoproj.io", "kinds": 5}), ALL),
])  # fmt: skip
def test_exclusions_when_they_leave_a_kind_out_then_it_is_named(text: str, kinds: str) -> None:
    (told,) = of_one(CONFIG | {"resource.exclusions": text})
    assert f" {kinds} of argoproj.io" in told


def test_installation_ids_when_two_instances_have_the_same_then_both_are_told_of() -> None:
    found = unmet({name: Found(CONFIG, PROJECT) for name in ("one", "two")})
    assert [told.split(" ")[0] for told in (*found["one"], *found["two"])] == ["installationID"] * 2


@pytest.mark.parametrize(("name", "value"), [
    ("jsonnet.enable", "true"),
    ("helm.valuesFileSchemes", "https"),
    ("kustomize.buildOptions", "--enable-helm"),
    ("kustomize.buildOptions.v5.8.1", "--enable-exec"),
    ("kustomize.path.v4.0.0", "/custom/kustomize"),
])  # fmt: skip
def test_generators_when_a_repository_may_have_more_done_then_the_setting_is_named(name: str, value: str) -> None:
    (told,) = of_one(CONFIG | {name: value})
    assert told.startswith(name)


def test_config_when_there_is_none_then_that_is_all_that_is_said_of_it() -> None:
    assert of_one(None) == ["there is no ConfigMap argocd-cm"]


@pytest.mark.parametrize(("project", "word"), [(None, "there is no AppProject"), (PERMISSIVE, "permits")])
def test_default_project_when_it_is_not_one_that_permits_nothing_then_it_is_told(
    project: Manifest | None, word: str
) -> None:
    (told,) = of_one(project=project)
    assert word in told


class FakeCluster:
    """Has the two objects that are read."""

    def __init__(self) -> None:
        self.config: Any = SHIPPED["argocd-cm"]
        self.project: Any = PROJECT

    async def get_object(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest:
        found = {(CONFIG_MAP, "argocd-cm"): self.config, (APP_PROJECT, "default"): self.project}[resource, name]
        if isinstance(found, Exception):
            raise found
        manifest: Manifest = found
        return manifest


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def inspection(cluster: FakeCluster) -> EngineInspection:
    structlog.reset_defaults()
    api: Any = cluster
    return EngineInspection(api, {"one": "argocd"}, FakeClock())


def gauge() -> float | None:
    return REGISTRY.get_sample_value("gitops_engine_unmet_requirements", {"instance": "one"})


async def test_inspection_when_a_requirement_is_not_met_then_it_warns_once_and_counts_it(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.project = PERMISSIVE
    with capture_logs() as logs:
        await inspection.inspect_engines()
        await inspection.inspect_engines()
    assert [(line["log_level"], line["instance"]) for line in logs] == [("warning", "one")]
    assert gauge() == 1


async def test_inspection_when_the_operator_has_mended_it_then_it_says_so(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.config = NotFound("404")
    await inspection.inspect_engines()
    cluster.config = SHIPPED["argocd-cm"]
    with capture_logs() as logs:
        await inspection.inspect_engines()
    assert [line["log_level"] for line in logs] == ["info"]
    assert gauge() == 0


async def test_inspection_when_the_role_is_older_and_forbids_it_then_that_is_told(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.config = Rejected("API server answered 403 Forbidden: no", 403)
    with capture_logs() as logs:
        await inspection.inspect_engines()
    assert ["403" in line["lacks"] for line in logs] == [True]


async def test_inspection_when_the_api_server_is_away_then_the_last_verdict_stands(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.project = PERMISSIVE
    await inspection.inspect_engines()
    cluster.config = Retry("away")
    with capture_logs() as logs:
        await inspection.inspect_engines()
    assert logs == []
    assert gauge() == 1
