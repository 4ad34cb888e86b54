"""``k8s/argocd`` applied to Argo CD's own manifests: what comes out, and that the local stack has the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.setup.argocd_requirements import (
    CONTROLLER_VARIABLES,
    REPO_SERVER_VARIABLES,
    RIGHTS,
    TIMEOUT,
    controller_environment,
    install_generators,
    repo_server_environment,
    requirements,
)
from devstack.toolchain.gobuild import ARGOCD, Build
from devstack.toolchain.install import ARGOCD_SOURCES
from services.agent.instances.crd_schemas import OPTIONAL, REQUIRED, dropped
from services.agent.instances.engine_requirements import Acceptance, Found, verdicts
from services.agent.instances.workload_requirements import GENERATORS, Workloads
from services.common.argocd_names import CONTROLLER, REPO_SERVER
from services.common.argocd_versions import TESTED
from services.common.kubernetes import Manifest
from services.planner.engines.argocd.applications import SYNC_ACCOUNT
from tests.component.k8s.manifests import built, containers, install_argocd, of_kind, within, workloads

NAMESPACES = ("engine-1", "engine-2")
CONFIG, PARAMETERS = "argocd-cm", "argocd-cmd-params-cm"


@pytest.fixture(scope="module")
def argocd() -> Path:
    """Argo CD's own manifests."""
    return Build(ARGOCD_SOURCES, ARGOCD).source() / "manifests" / "namespace-install.yaml"


@pytest.fixture(scope="module")
def version() -> str:
    """Of the Argo CD whose manifests these are."""
    return (Build(ARGOCD_SOURCES, ARGOCD).source() / "VERSION").read_text().strip()


def test_version_when_it_is_what_is_built_here_then_it_is_said_to_be_tested(version: str) -> None:
    assert version in TESTED


@pytest.fixture(scope="module")
def plain(argocd: Path) -> list[Manifest]:
    """As Argo CD ships them."""
    return [item for item in yaml.safe_load_all(argocd.read_text()) if item]


@pytest.fixture(scope="module")
def installed(kustomize: Path, argocd: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """Two instances."""
    return install_argocd(kustomize, argocd, tmp_path_factory.mktemp("install"), NAMESPACES)


def config_of(namespace: str, installed: list[Manifest], name: str = CONFIG) -> dict[str, str]:
    """Data of one config map."""
    data: dict[str, str] = of_kind("ConfigMap", within(namespace, installed))[name]["data"]
    return data


def excluded(config: dict[str, str]) -> set[tuple[str, str]]:
    """Group and kind of everything that is excluded."""
    entries: list[dict[str, Any]] = yaml.safe_load(config["resource.exclusions"])
    return {(group, kind) for entry in entries for group in entry["apiGroups"] for kind in entry["kinds"]}


def workloads_of(manifests: list[Manifest], generators: dict[str, str] | None) -> Workloads:
    """What an agent would find of them."""
    return Workloads(
        of_kind("Deployment", manifests)[REPO_SERVER],
        of_kind("StatefulSet", manifests)[CONTROLLER],
        of_kind("ConfigMap", manifests)[PARAMETERS].get("data"),
        generators,
    )


def test_instances_when_installed_with_the_component_then_the_agents_find_nothing_missing(
    installed: list[Manifest], version: str
) -> None:
    found = {
        name: Found(
            config_of(name, installed),
            of_kind("AppProject", within(name, installed))["default"],
            workloads_of(within(name, installed), config_of(name, installed, GENERATORS)),
        )
        for name in NAMESPACES
    }
    for verdict in verdicts(found, Acceptance()).values():
        assert (str(verdict.version), verdict.shortcomings, verdict.refusal) == (version, (), "")


def test_instances_when_installed_without_the_component_then_the_agents_do(plain: list[Manifest], version: str) -> None:
    config = of_kind("ConfigMap", plain)[CONFIG]["data"]
    told = verdicts({"one": Found(config, None, workloads_of(plain, None))}, Acceptance())["one"]
    assert len(told.shortcomings) == 20
    assert version in told.refusal


def test_crds_when_they_are_this_versions_then_they_know_every_field_of_ours() -> None:
    folder = Build(ARGOCD_SOURCES, ARGOCD).source() / "manifests" / "crds"
    schemas = {}
    for file in ("application-crd.yaml", "appproject-crd.yaml"):
        definition = yaml.safe_load((folder / file).read_text())["spec"]
        kind = {"x-kubernetes-group-version-kind": [{"kind": definition["names"]["kind"]}]}
        schemas[file] = definition["versions"][0]["schema"]["openAPIV3Schema"] | kind
    document = {"components": {"schemas": schemas}}
    assert [*dropped(document, REQUIRED), *dropped(document, OPTIONAL)] == []


def test_configuration_when_patched_then_what_argo_cd_excludes_by_itself_stays_excluded(
    plain: list[Manifest], installed: list[Manifest]
) -> None:
    own = of_kind("ConfigMap", plain)[CONFIG]["data"]
    for namespace in NAMESPACES:
        patched = config_of(namespace, installed)
        assert own.keys() <= patched.keys()
        assert excluded(own) <= excluded(patched)


def container_of(component: str, namespace: str, installed: list[Manifest]) -> dict[str, Any]:
    """Of that name in the workload of that name."""
    (found,) = [
        item for item in containers(workloads(within(namespace, installed))[component]) if item["name"] == component
    ]
    return found


@pytest.mark.parametrize(
    ("component", "variables", "environment"),
    [
        ("argocd-repo-server", REPO_SERVER_VARIABLES, repo_server_environment()),
        ("argocd-application-controller", CONTROLLER_VARIABLES, controller_environment()),
    ],
)
def test_parameters_when_patched_then_the_container_takes_what_the_local_stack_has(
    installed: list[Manifest], component: str, variables: dict[str, str], environment: dict[str, str]
) -> None:
    for namespace in NAMESPACES:
        parameters = config_of(namespace, installed, PARAMETERS)
        container = container_of(component, namespace, installed)
        sources = {item["name"]: item.get("valueFrom", {}) for item in container["env"]}
        taken = {variable: sources[variable]["configMapKeyRef"] for variable in variables.values()}
        assert {source["name"] for source in taken.values()} == {PARAMETERS}
        found = {variable: parameters[source["key"]] for variable, source in taken.items()}
        assert found == {name: value for name, value in environment.items() if name != TIMEOUT}


def test_repo_server_when_patched_then_it_finds_our_generators_first_and_is_bounded(
    installed: list[Manifest], tmp_path: Path
) -> None:
    install_generators(tmp_path)
    for namespace in NAMESPACES:
        container = container_of("argocd-repo-server", namespace, installed)
        (mount,) = [item for item in container["volumeMounts"] if item["name"] == "generators"]
        variables = {item["name"]: item.get("value") for item in container["env"]}
        assert variables["PATH"].split(":")[0] == mount["mountPath"]
        assert variables[TIMEOUT] == repo_server_environment()[TIMEOUT]
        assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
        scripts = of_kind("ConfigMap", within(namespace, installed))["argocd-generators"]["data"]
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
            ("kustomize", "helm"), scripts["generator.sh"]
        )


def test_controller_when_patched_then_it_is_bounded(installed: list[Manifest]) -> None:
    for namespace in NAMESPACES:
        container = container_of("argocd-application-controller", namespace, installed)
        assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()


def test_controller_when_patched_then_it_has_the_rights_of_the_local_stacks_and_makes_no_application(
    installed: list[Manifest],
) -> None:
    wanted = yaml.safe_load((RIGHTS / "role.yaml").read_text())
    for namespace in NAMESPACES:
        role = of_kind("Role", within(namespace, installed))[wanted["metadata"]["name"]]
        assert role["rules"] == wanted["rules"]
        assert not {"create", "delete", "*"} & {verb for rule in role["rules"][:1] for verb in rule["verbs"]}


def test_rights_when_installed_then_nothing_can_be_written_that_gives_rights_or_confines_a_namespace(
    kustomize: Path,
) -> None:
    roles = of_kind("ClusterRole", built(kustomize, RIGHTS))
    impersonated = roles.pop("gitops-service-impersonator")
    assert [rule["resourceNames"] for rule in impersonated["rules"]] == [[SYNC_ACCOUNT]]
    rules = [rule for role in roles.values() for rule in role["rules"]]
    written = [rule for rule in rules if not {*rule["verbs"]} <= {"get", "list", "watch"}]
    assert {"", "apps"} <= {group for rule in written for group in rule["apiGroups"]}
    for rule in written:
        assert not {"*", "rbac.authorization.k8s.io", "operators.coreos.com", "argoproj.io"} & {*rule["apiGroups"]}
        assert not {"*", "networkpolicies", "resourcequotas", "limitranges", "namespaces"} & {*rule["resources"]}
        assert not {"*", "bind", "escalate", "impersonate"} & {*rule["verbs"]}


def test_local_stack_when_it_configures_argo_cd_then_as_the_component_does(installed: list[Manifest]) -> None:
    for namespace in NAMESPACES:
        for manifest in requirements():
            name = manifest["metadata"]["name"]
            there = of_kind(manifest["kind"], within(namespace, installed))[name]
            assert manifest.get("data", {}).items() <= there.get("data", {}).items()
            assert manifest.get("spec") == there.get("spec")
    assert {item["metadata"]["name"] for item in requirements()} == {
        CONFIG, PARAMETERS, "default", "argocd-generators",
    }  # fmt: skip
