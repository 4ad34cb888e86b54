"""What is rendered from ``k8s/``: one image, pods that may do nothing they need not, and all that a rollout needs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from devstack.paths import ROOT
from services.cli import __main__ as cli
from services.cli.installation.rbac import ADMISSION, GROUP, placed
from services.cli.sealing import key_rotation, keys
from services.common.kafka import COMMANDS, engine_topic, load_topics
from services.common.kubernetes import Manifest
from services.common.package_data import CRDS, RBAC
from services.common.telemetry.probes import SILENT_SECONDS
from services.planner.settings import PlannerSettings
from services.watcher.settings import WatcherSettings
from tests.component.k8s.manifests import (
    PART,
    SERVICES,
    Rendered,
    containers,
    engine_namespaces,
    of_kind,
    selects,
    workloads,
)

KUSTOMIZED = {PART, "app.kubernetes.io/part-of"}
IN_BASE = {*SERVICES, "connector-keeper"}


def without_labels(manifest: Manifest) -> Manifest:
    """As written: these labels are kustomize's."""
    labels = {name: value for name, value in manifest["metadata"].get("labels", {}).items() if name not in KUSTOMIZED}
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "labels"}
    return manifest | {"metadata": metadata | ({"labels": labels} if labels else {})}


def sorted_by_place(manifests: Any) -> list[Manifest]:
    """In an order of their own."""
    return sorted(manifests, key=lambda item: (item["kind"], item["metadata"].get("namespace", ""), str(item)))


def test_workloads_when_rendered_then_they_are_the_services_and_the_migration(rendered: Rendered) -> None:
    assert workloads(rendered.base).keys() == IN_BASE
    assert workloads(rendered.example).keys() == IN_BASE | {"backup", "key-rotation"}
    assert workloads(rendered.migration).keys() == {"database-upgrade"}


def test_images_when_an_operator_sets_the_release_then_all_are_that_one(rendered: Rendered) -> None:
    images = {item["image"] for template in workloads(rendered.everything).values() for item in containers(template)}
    assert images == {"registry.example.com/gitops-service@sha256:LOOK-IT-UP"}  # refused by every kubelet


@pytest.mark.parametrize("name", ["planner", "database-upgrade", "backup"])
def test_database_when_its_url_does_not_say_how_then_only_over_tls_to_the_right_one(
    rendered: Rendered, name: str
) -> None:
    (container,) = containers(workloads(rendered.everything)[name])
    assert {"name": "PGSSLMODE", "value": "verify-full"} in container["env"]


def test_pods_when_run_then_not_as_root_and_with_a_root_file_system_nobody_can_write(rendered: Rendered) -> None:
    user = re.search(r"useradd .*--uid (\d+)", (ROOT / "compose" / "Containerfile").read_text())
    assert user is not None
    for template in workloads(rendered.everything).values():
        pod = template["spec"]
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": int(user[1]),
            "runAsGroup": int(user[1]),
            "fsGroup": int(user[1]),
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        for container in containers(template):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_volumes_when_mounted_then_only_temporary_files_can_be_written(rendered: Rendered) -> None:
    for template in workloads(rendered.everything).values():
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        for container in containers(template):
            mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
            assert mounts.keys() == volumes.keys()
            writable = {name for name, mount in mounts.items() if not mount.get("readOnly")}
            assert writable == {"tmp"}
            assert volumes["tmp"]["emptyDir"]["sizeLimit"]


def test_containers_when_scheduled_then_they_say_what_they_use(rendered: Rendered) -> None:
    for template in workloads(rendered.everything).values():
        for container in containers(template):
            resources = container["resources"]
            assert resources["requests"].keys() == {"cpu", "memory"}
            assert resources["limits"].keys() == {"memory"}  # a service that is throttled fails its probes


@pytest.mark.parametrize("name", SERVICES)
def test_service_when_deployed_then_it_is_probed_where_it_answers(rendered: Rendered, name: str) -> None:
    (container,) = containers(workloads(rendered.example)[name])
    assert container["ports"] == [{"name": "metrics", "containerPort": 8000}]
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}


@pytest.mark.parametrize("name", SERVICES)
def test_service_when_it_is_unhealthy_then_it_has_a_minute_more_before_it_is_replaced(
    rendered: Rendered, name: str
) -> None:
    (container,) = containers(workloads(rendered.example)[name])
    liveness, readiness = container["livenessProbe"], container["readinessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] == 60
    assert liveness["timeoutSeconds"] < liveness["periodSeconds"] < SILENT_SECONDS
    assert readiness["periodSeconds"] < SILENT_SECONDS


@pytest.mark.parametrize("name", SERVICES)
def test_start_when_dependencies_are_silent_then_the_process_speaks_before_it_is_killed(
    rendered: Rendered, name: str
) -> None:
    (container,) = containers(workloads(rendered.example)[name])
    probe = container["startupProbe"]
    dependencies = 4
    gives_up = dependencies * PlannerSettings.model_fields["start_timeout_seconds"].default
    assert probe["periodSeconds"] * probe["failureThreshold"] > gives_up


@pytest.mark.parametrize("name", SERVICES)
def test_service_when_nodes_are_drained_then_its_own_budget_keeps_all_but_one_pod(
    rendered: Rendered, name: str
) -> None:
    budgets = of_kind("PodDisruptionBudget", rendered.example)
    templates = workloads(rendered.everything)
    taken = {pod for pod, template in templates.items() if selects(budgets[name]["spec"]["selector"], template)}
    assert taken == {name}
    assert budgets[name]["spec"]["maxUnavailable"] == 1
    assert of_kind("Deployment", rendered.example)[name]["spec"]["replicas"] >= 2


@pytest.mark.parametrize(("name", "topic"), [("planner", COMMANDS), ("agent", engine_topic("default"))])
def test_service_when_updated_then_there_are_partitions_for_every_pod(
    rendered: Rendered, name: str, topic: str
) -> None:
    declared = (*load_topics(), *load_topics(engine_cluster="default"))
    (partitions,) = [item.partitions for item in declared if item.name == topic]
    spec = of_kind("Deployment", rendered.example)[name]["spec"]
    assert spec["replicas"] + spec["strategy"]["rollingUpdate"]["maxSurge"] <= partitions


def test_watchers_when_there_are_several_then_they_elect_a_leader_where_their_account_may(rendered: Rendered) -> None:
    spec = of_kind("Deployment", rendered.example)["watcher"]["spec"]
    names = {source["configMapRef"]["name"] for source in spec["template"]["spec"]["containers"][0]["envFrom"]}
    data = {name: item["data"] for name, item in of_kind("ConfigMap", rendered.example).items() if name in names}
    assert any(values.get("LEADER_ELECTION") == "true" for values in data.values())
    role = of_kind("Role", rendered.base)["gitops-service-watcher"]
    assert role["metadata"]["namespace"] == WatcherSettings.model_fields["leader_election_namespace"].default


def test_rights_when_rendered_then_they_are_those_that_gitopsctl_installs(rendered: Rendered) -> None:
    wanted = [*placed(RBAC, engine_namespaces())]
    accounts = {item["metadata"]["name"] for item in wanted if item["kind"] == "ServiceAccount"}
    found = [
        without_labels(item)
        for item in rendered.example
        if (
            item["apiVersion"].startswith((GROUP, ADMISSION)) and not item["metadata"]["name"].endswith("-key-rotation")
        )
        or (item["kind"] == "ServiceAccount" and item["metadata"]["name"] in accounts)
    ]
    assert sorted_by_place(found) == sorted_by_place(wanted)


def test_accounts_when_a_service_does_not_speak_to_the_api_server_then_it_has_no_token(rendered: Rendered) -> None:
    accounts = of_kind("ServiceAccount", rendered.everything)
    templates = workloads(rendered.everything)
    assert {template["spec"]["serviceAccountName"] for template in templates.values()} == accounts.keys()
    with_token = {name for name, item in templates.items() if item["spec"]["automountServiceAccountToken"]}
    assert with_token == {"watcher", "agent", "key-rotation"}
    without = {name for name, item in accounts.items() if item.get("automountServiceAccountToken") is False}
    assert without == accounts.keys() - with_token


def test_key_rotation_when_rendered_then_its_account_may_read_and_change_the_two_secrets_alone(
    rendered: Rendered,
) -> None:
    (rule,) = of_kind("Role", rendered.example)["gitops-service-key-rotation"]["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [key_rotation.PRIVATE, key_rotation.PUBLIC],
        "verbs": ["get", "patch"],
    }


def test_key_rotation_when_it_runs_then_by_a_command_that_there_is(rendered: Rendered) -> None:
    (container,) = containers(workloads(rendered.example)["key-rotation"])
    module, *arguments = container["args"]
    assert module == "services.cli"
    outcome = CliRunner().invoke(keys.app, [*arguments[1:], "--kubeconfig", "no-such-file"])
    assert "no-such-file" in str(outcome.exception)  # all but this is accepted


def test_backup_when_rendered_then_it_is_given_the_database_as_a_reader_and_nothing_else_of_ours(
    rendered: Rendered,
) -> None:
    (container,) = containers(workloads(rendered.example)["backup"])
    module, name = container["args"]
    assert module == "services.cli"
    assert name in cli.COMMANDS
    named = {item["valueFrom"]["secretKeyRef"]["name"] for item in container["env"] if "valueFrom" in item}
    assert named == {"database-backup", "backup-store"}


def test_crds_when_rendered_then_they_are_the_generated_ones(rendered: Rendered) -> None:
    wanted = [yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml")]
    found = [without_labels(item) for item in of_kind("CustomResourceDefinition", rendered.base).values()]
    assert sorted_by_place(found) == sorted_by_place(wanted)


def test_secrets_when_rendered_then_none_is_contained_and_only_agents_are_given_private_keys(
    rendered: Rendered,
) -> None:
    assert of_kind("Secret", rendered.everything) == {}
    sealing = {
        name: [volume["secret"]["secretName"] for volume in template["spec"]["volumes"] if volume["name"] == "sealing"]
        for name, template in workloads(rendered.everything).items()
    }
    holders = {name: secrets for name, secrets in sealing.items() if secrets}
    assert holders == {"agent": ["sealing-keys-private"], "watcher": ["sealing-keys-public"]}


def test_labels_when_rendered_then_each_workload_goes_by_its_name(rendered: Rendered) -> None:
    for name, template in workloads(rendered.everything).items():
        assert template["metadata"]["labels"] == {PART: name, "app.kubernetes.io/part-of": "gitops-service"}
