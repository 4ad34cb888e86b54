"""A node's smaller parts: what it needs, its images, which processes make it up."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from devstack.components import all_nodes
from devstack.components.stack import Stack
from devstack.node import requirements
from devstack.stack.ports import NAMES
from devstack.stack.state_folder import State
from devstack.supervisor.process import Process
from devstack.toolchain import image_archive
from devstack.toolchain.image_archive import Image
from devstack.toolchain.install import NodeTools, Toolchain
from services.common.errors import InvalidConfiguration, NoPermission

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


def test_services_when_there_is_a_node_then_they_are_no_processes_and_installed_by_a_step(stack: Stack) -> None:
    names = {item.name for item in all_nodes(stack, infrastructure_only=False)}
    assert names.isdisjoint(OUR_SERVICES)
    assert {"kubelet", "services", "argocd-simulator"} <= names


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


def test_requirements_when_not_root_then_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NoPermission, match="root"):
        requirements.require()


def test_requirements_when_programs_are_missing_then_their_packages_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if name in {"ctr", "containerd", "nft"} else f"/bin/{name}")
    monkeypatch.setattr("pathlib.Path.exists", lambda _: True)
    with pytest.raises(InvalidConfiguration, match="not here: containerd nftables;"):
        requirements.require()


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
