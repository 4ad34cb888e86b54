"""What the tests of ``k8s/`` know of manifests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import yaml

from devstack.paths import ROOT
from services.common.kubernetes import Manifest

FOLDER = ROOT / "k8s"
SERVICES = ("watcher", "planner", "agent")
MAKERS = ("Deployment", "StatefulSet", "Job", "CronJob")
"""Kinds that make pods."""
PART = "app.kubernetes.io/name"
SECRETS = {
    ("kafka-watcher", "password"): "a password",
    ("kafka-planner", "password"): "a password",
    ("kafka-agent", "password"): "a password",
    ("registry-watcher", "token"): "a token",
    ("registry-planner", "token"): "a token",
    ("registry-agent", "token"): "a token",
    ("database-planner", "url"): "postgresql://gitops_planner:password@postgres:5432/gitops",
    ("database-owner", "url"): "postgresql://gitops_owner:password@postgres:5432/gitops",
    ("backup-store", "BACKUP_STORE"): "s3://backups/gitops",
    ("backup-store", "AWS_ENDPOINT_URL"): "https://s3.example.com",
    ("backup-store", "AWS_REGION"): "somewhere",
    ("backup-store", "AWS_ACCESS_KEY_ID"): "a name",
    ("backup-store", "AWS_SECRET_ACCESS_KEY"): "a password",
    ("database-backup", "url"): "postgresql://gitops_backup:password@postgres:5432/gitops",
}
"""What a cluster has to bring, by name and key: see k8s/README.md."""


@dataclass(frozen=True)
class Rendered:
    """What kustomize makes of ``k8s/``."""

    base: list[Manifest]
    example: list[Manifest]
    migration: list[Manifest]
    """Of the example."""

    @property
    def everything(self) -> list[Manifest]:
        """All that the example installs."""
        return [*self.example, *self.migration]


def engine_namespaces() -> list[str]:
    """Those of the example, which has a folder for each."""
    folders = (FOLDER / "overlays" / "example" / "engines").glob("*/kustomization.yaml")
    return sorted(yaml.safe_load(path.read_text())["namespace"] for path in folders)


def render(kustomize: Path) -> Rendered:
    """Run ``kustomize`` on each folder that is made to be applied."""
    folders = ("base", "overlays/example", "overlays/example/migration")
    return Rendered(*(built(kustomize, FOLDER / folder) for folder in folders))


def built(kustomize: Path, folder: Path) -> list[Manifest]:
    """What ``kustomize`` makes of one folder."""
    command = [str(kustomize), "build", str(folder)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return list(yaml.safe_load_all(outcome.stdout))


def install_argocd(kustomize: Path, argocd: Path, folder: Path, namespaces: Iterable[str]) -> list[Manifest]:
    """An instance in each of ``namespaces``, by a kustomization as k8s/README.md has it; ``argocd`` is its own file."""
    namespaces = tuple(namespaces)
    for namespace in namespaces:
        place = folder / namespace
        place.mkdir()
        shutil.copyfile(argocd, place / "argocd.yaml")
        component = os.path.relpath(FOLDER / "argocd", place)
        wanted = {"namespace": namespace, "resources": ["argocd.yaml"], "components": [component]}
        (place / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [*namespaces]}))
    return built(kustomize, folder)


def of_kind(kind: str, manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """By name."""
    return {item["metadata"]["name"]: item for item in manifests if item["kind"] == kind}


def within(namespace: str, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Those of one namespace."""
    return [item for item in manifests if item["metadata"].get("namespace") == namespace]


def workloads(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """Pod templates by the name of what makes pods of them."""
    made_by = [item for item in manifests if item["kind"] in MAKERS]
    specs = {item["metadata"]["name"]: item["spec"].get("jobTemplate", item)["spec"] for item in made_by}
    return {name: spec["template"] for name, spec in specs.items()}


def containers(template: Manifest) -> Iterator[Manifest]:
    """Every container of a pod template, by whatever name it is declared."""
    for field in ("containers", "initContainers", "ephemeralContainers"):
        yield from template["spec"].get(field, [])


def differences(before: Iterable[Manifest], after: Iterable[Manifest]) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Where manifests of the same objects differ: paths, by kind, namespace and name. Each has to be in both."""
    old, new = ({_place(item): item for item in manifests} for manifests in (before, after))
    assert old.keys() == new.keys()
    found = {place: {path for path, _ in {*_leaves(old[place])} ^ {*_leaves(new[place])}} for place in old}
    return {place: paths for place, paths in found.items() if paths}


def _place(manifest: Manifest) -> tuple[str, ...]:
    meta = manifest["metadata"]
    return manifest["kind"], meta.get("namespace", ""), meta["name"]


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What a manifest says, by where; what is in a list by the name that it has, or else by its number."""
    match value:
        case dict():
            items = [(str(name), each) for name, each in value.items()]
        case list():
            items = [(_name(each, number), each) for number, each in enumerate(value)]
        case _:
            yield path, value
            return
    for name, each in items:
        yield from _leaves(each, (*path, name))


def _name(item: Any, number: int) -> str:
    return str(item["name"]) if isinstance(item, dict) and "name" in item else str(number)


def selects(selector: Manifest, template: Manifest) -> bool:
    """Whether a label selector, of those operators that are used here, takes pods of ``template``."""
    labels = template["metadata"]["labels"]
    assert {item["operator"] for item in selector.get("matchExpressions", [])} <= {"In"}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(item["key"]) in item["values"] for item in selector.get("matchExpressions", [])
    )


@dataclass(frozen=True)
class Pod:
    """What network policies know of a pod."""

    namespace: str
    labels: dict[str, str]


def may_reach(source: Pod, target: Pod, port: int | str, policies: Iterable[Manifest]) -> bool:
    """Whether one pod may connect to another: the policies of both have to let it. Blocks of addresses hold no pod."""
    policies = list(policies)
    return _passes("Egress", source, target, port, policies) and _passes("Ingress", target, source, port, policies)


def _passes(direction: str, pod: Pod, peer: Pod, port: int | str, policies: list[Manifest]) -> bool:
    peers = {"Ingress": "from", "Egress": "to"}[direction]
    own = [
        item
        for item in policies
        if item["metadata"]["namespace"] == pod.namespace
        and direction in item["spec"]["policyTypes"]
        and selects(item["spec"]["podSelector"], {"metadata": {"labels": pod.labels}})
    ]
    return not own or any(
        (peers not in rule or any(_is_peer(entry, pod.namespace, peer) for entry in rule[peers]))
        and ("ports" not in rule or any(entry["port"] == port for entry in rule["ports"]))
        for policy in own
        for rule in policy["spec"].get(direction.lower(), [])
    )


def _is_peer(entry: Manifest, namespace: str, peer: Pod) -> bool:
    if "ipBlock" in entry:
        return False
    names = {"metadata": {"labels": {"kubernetes.io/metadata.name": peer.namespace}}}
    there = selects(entry["namespaceSelector"], names) if "namespaceSelector" in entry else namespace == peer.namespace
    return there and selects(entry.get("podSelector", {}), {"metadata": {"labels": peer.labels}})


def allowed(address: str, policy: Manifest) -> bool:
    """Whether a block of a network policy holds ``address``."""
    blocks = [peer["ipBlock"] for rule in policy["spec"].get("egress", []) for peer in rule["to"] if "ipBlock" in peer]
    target = ip_address(address)
    return any(
        target in ip_network(block["cidr"]) and not any(target in ip_network(item) for item in block.get("except", []))
        for block in blocks
    )


def environment(name: str, manifests: list[Manifest]) -> dict[str, str]:
    """What a container of one workload finds in its environment."""
    maps = of_kind("ConfigMap", manifests)
    (container,) = containers(workloads(manifests)[name])
    return variables(container, lambda name: maps[name].get("data", {}), lambda name, key: SECRETS[name, key])


def variables(
    container: Manifest, config_map: Callable[[str], Mapping[str, str]], secret: Callable[[str, str], str]
) -> dict[str, str]:
    """A container's environment; ``config_map`` and ``secret`` tell what those hold, by name, and by name and key."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        found |= config_map(source["configMapRef"]["name"])
    return found | {item["name"]: _value(item, secret) for item in container.get("env", [])}


def _value(item: Manifest, secret: Callable[[str, str], str]) -> str:
    if "value" in item:
        return str(item["value"])
    match item["valueFrom"]:
        case {"secretKeyRef": reference}:
            return secret(reference["name"], reference["key"])
        case {"fieldRef": {"fieldPath": "metadata.namespace"}}:
            return "gitops-service"
        case {"fieldRef": {"fieldPath": "metadata.name"}}:
            return "agent-6d5f8-x2v9k"
        case other:
            raise AssertionError(f"not to be told here: {other}")
