"""A node's smaller parts: what it needs, its images, which processes make it up."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from devstack.components import all_nodes
from devstack.components.pods import installation_environment
from devstack.components.stack import Stack
from devstack.harness.run import StackOptions, require_consistent
from devstack.node import machine, services
from devstack.stack.identities import IDENTITIES
from devstack.stack.node_addresses import name_in_cluster
from devstack.stack.ports import NAMES
from devstack.stack.state_folder import State
from devstack.stack.transport import make_transport
from devstack.supervisor.process import Process
from devstack.toolchain import image_archive
from devstack.toolchain.argocd_images import ArgocdImages, image_of
from devstack.toolchain.image_archive import Image
from devstack.toolchain.install import NodeTools, Toolchain
from services.common.errors import InvalidConfiguration, Unavailable
from tests.component.k8s.readme import secrets_of_the_table

OUR_SERVICES = {"watcher", "planner", "agent-1", "agent-2", "connector-keeper"}


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    folders = dict.fromkeys(("java", "postgres", "kafka", "debezium", "converter", "registry"), tmp_path)
    node = NodeTools(tmp_path, tmp_path, tmp_path, tmp_path / "image.tar")
    tools = Toolchain(**folders, kubernetes=tmp_path, valkey=tmp_path, node=node)
    state = State(tmp_path / "state")
    state.prepare()
    ports = {name: number for number, name in enumerate(NAMES, 20_000)}
    return Stack(state, ports, state.secrets(), tools, durable=False)


@pytest.fixture
def with_argocd(stack: Stack, tmp_path: Path) -> Stack:
    """The same with Argo CD."""
    node = stack.tools.node
    assert node is not None
    node = replace(node, argocd=ArgocdImages((tmp_path / "argocd.tar",), tmp_path / "manifests.yaml"))
    tools = replace(stack.tools, node=node, argocd=tmp_path, generators=tmp_path)
    return replace(stack, tools=tools)


def test_services_when_there_is_a_node_then_they_are_no_processes_and_installed_by_a_step(stack: Stack) -> None:
    names = {item.name for item in all_nodes(stack, infrastructure_only=False)}
    assert names.isdisjoint(OUR_SERVICES)
    assert {"kubelet", "services", "argocd-simulator"} <= names


def test_machine_when_it_is_a_node_of_another_cluster_then_it_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "PROCESSES", tmp_path)
    for pid, program in (("1", "systemd"), ("23", "containerd")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{program}\n")
    machine.require_only_kubelet()
    (tmp_path / "23" / "comm").write_text("kubelet\n")
    with pytest.raises(Unavailable, match="a node of another cluster: kubelet runs, pid 23"):
        machine.require_only_kubelet()


def test_secrets_when_nothing_travels_in_clear_then_they_are_those_that_operators_bring(
    stack: Stack, tmp_path: Path
) -> None:
    transport = make_transport(tmp_path, (*IDENTITIES, "connect"), "password")
    encrypted = replace(stack, transport=transport)
    for keys in encrypted.state.sealing_keys:
        keys.parent.mkdir(parents=True, exist_ok=True)
        keys.write_text("{}")
    made = services.secrets(installation_environment(encrypted))["items"]
    of_backups = {"database-backup", "backup-store"}
    table = {name: set(keys) for name, keys in secrets_of_the_table().items() if name not in of_backups}
    assert {secret["metadata"]["name"]: set(secret["stringData"]) for secret in made} == table


def test_certificates_when_made_then_servers_are_called_as_pods_call_them(tmp_path: Path) -> None:
    transport = make_transport(tmp_path, (), "password")
    certificate = x509.load_pem_x509_certificate(transport.server("registry")[0].read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert name_in_cluster("registry") in names.get_values_for_type(x509.DNSName)


def test_services_when_only_infrastructure_is_wanted_then_the_node_is_there_without_them(stack: Stack) -> None:
    names = {item.name for item in all_nodes(stack, infrastructure_only=True)}
    assert "kubelet" in names
    assert "services" not in names


def test_kubelet_when_it_starts_then_network_policies_are_enforced_already(stack: Stack) -> None:
    (kubelet,) = [item for item in all_nodes(stack, infrastructure_only=True) if item.name == "kubelet"]
    assert "network-policies" in kubelet.depends_on


def test_api_server_when_there_is_a_node_then_it_admits_and_authorizes_as_with_pods(stack: Stack) -> None:
    (server,) = [item for item in all_nodes(stack, infrastructure_only=True) if item.name == "kube-apiserver"]
    assert isinstance(server, Process)
    assert "--authorization-mode=Node,RBAC" in server.argv
    assert "--disable-admission-plugins=ServiceAccount" not in server.argv


def test_argocd_when_there_is_a_node_then_it_is_no_process_and_there_before_agents_look_for_it(
    with_argocd: Stack,
) -> None:
    nodes = {item.name: item for item in all_nodes(with_argocd, infrastructure_only=False)}
    assert {name for name in nodes if name.startswith("argocd-")} == {
        "argocd-apply", "argocd-crds-apply", "argocd-pods", "argocd-rbac-apply"
    }  # fmt: skip
    assert "argocd-pods" in nodes["services"].depends_on


def test_argocd_when_there_is_a_node_then_whatever_a_process_waits_for_exists(with_argocd: Stack) -> None:
    nodes = all_nodes(with_argocd, infrastructure_only=False)
    names = {item.name for item in nodes}
    assert [(item.name, name) for item in nodes for name in item.depends_on if name not in names] == []


def test_argocd_when_there_is_a_node_then_its_images_are_brought_there(with_argocd: Stack) -> None:
    (images,) = [item for item in all_nodes(with_argocd, infrastructure_only=True) if item.name == "node-images"]
    assert any(word.endswith("/argocd.tar") for word in images.argv)


def test_image_when_manifests_call_two_so_then_it_is_refused(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text("  image: quay.io/a/argocd:v1\n  image: quay.io/a/argocd:v1\n  image: b/redis:1\n")
    assert image_of("argocd", manifests) == "quay.io/a/argocd:v1"
    manifests.write_text("  image: quay.io/a/argocd:v1\n  image: quay.io/a/argocd:v2\n")
    with pytest.raises(InvalidConfiguration, match="argocd:v2"):
        image_of("argocd", manifests)


def test_image_when_written_then_it_is_a_chain_of_digests_from_its_name_to_its_program(tmp_path: Path) -> None:
    program, archive = tmp_path / "pause", tmp_path / "pause.tar"
    program.write_bytes(b"static")
    image_archive.write_programs(Image("localhost/pause:1", ["/pause"]), {"pause": program}, archive)
    with tarfile.open(archive) as tar:
        blobs = {item.name: tar.extractfile(item).read() for item in tar.getmembers()}  # type: ignore[union-attr]
    found = {f"sha256:{hashlib.sha256(content).hexdigest()}": content for content in blobs.values()}
    (named,) = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(found[named["digest"]])
    (layer,) = manifest["layers"]
    assert named["annotations"] == {"io.containerd.image.name": "localhost/pause:1"}
    assert json.loads(found[manifest["config"]["digest"]])["rootfs"]["diff_ids"] == [layer["digest"]]
    assert b"static" in found[layer["digest"]]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("--pods and --bare", {"bare": True}),
        ("--pods and --replicas", {"replicas": 2}),
        ("--pods and --argocd-version", {"argocd_versions": ("3.1",)}),
        ("--links and --pods", {"links": True}),
    ],
)
def test_options_when_they_do_not_go_with_pods_then_they_are_refused_by_name(name: str, other: dict[str, Any]) -> None:
    options = StackOptions(infrastructure_only=False, without=(), fresh=False, durable=False, argocd=True, pods=True)
    require_consistent(options)
    with pytest.raises(InvalidConfiguration, match=name):
        require_consistent(replace(options, **other))
