"""Configures the Argo CD instances of a stack: config maps, the default project, their secret."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import yaml

from devstack.setup.argocd_requirements import requirements
from devstack.stack.node_addresses import NODE
from devstack.supervisor.health_checks import HOST
from services.common.errors import GitOpsError, Unavailable
from services.common.kubernetes import APP_PROJECT, AlreadyExists, KubeClient, connect
from services.common.kubernetes.builtin_kinds import CONFIG_MAP, SECRET, Manifest
from services.common.settings import parse_engine_namespaces

FIELD_MANAGER = "gitopsctl"
KINDS = {resource.kind: resource for resource in (APP_PROJECT, CONFIG_MAP)}

Trusted = Mapping[str, Mapping[str, str]]
"""Data of config maps by their name."""


def configure(
    kubeconfig: Path, engine_namespaces: str, source: Path, authority: Path | None, known_hosts: Path | None
) -> None:
    """Apply what tenancy needs, the manifests of ``source`` and what names the git servers, in every engine namespace.

    Argo CD's own API server would write the config maps of the git servers, and a pod would have them mounted.

    Raises:
        Unavailable: the API server does not answer, or refuses.
    """
    namespaces = sorted(set(parse_engine_namespaces(engine_namespaces).values()))
    trusted = {
        # Pods see the git server at the node's address.
        "argocd-tls-certs-cm": dict.fromkeys((HOST, NODE), authority.read_text()) if authority else {},
        "argocd-ssh-known-hosts-cm": {"ssh_known_hosts": known_hosts.read_text() if known_hosts else ""},
    }
    found = [manifest for name in namespaces for manifest in manifests(source.read_text(), name, trusted)]
    asyncio.run(_apply(kubeconfig, found, namespaces))


def manifests(source: str, namespace: str, trusted: Trusted) -> list[Manifest]:
    """All of one instance; config maps of one name are one."""
    merged: dict[tuple[str, str], Manifest] = {}
    given = [config_map(name, data) for name, data in trusted.items()]
    for manifest in (*requirements(), *yaml.safe_load_all(source), *given):
        name = manifest["metadata"]["name"]
        place = (manifest["kind"], name)
        data = merged.get(place, {}).get("data", {}) | (manifest.get("data") or {})
        merged[place] = manifest | ({"data": data} if data else {}) | {"metadata": _metadata(namespace, name)}
    return list(merged.values())


def config_map(name: str, data: Mapping[str, str]) -> Manifest:
    """One, in no namespace yet."""
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": name},
        "data": dict(data),
    }


def _metadata(namespace: str, name: str) -> Manifest:
    """With the labels by which Argo CD knows what is its own."""
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"}
    return {"namespace": namespace, "name": name, "labels": labels}


async def _apply(kubeconfig: Path, wanted: Iterable[Manifest], namespaces: Iterable[str]) -> None:
    async with await connect(kubeconfig) as kube:
        try:
            for manifest in wanted:
                await kube.apply_object(KINDS[manifest["kind"]], manifest, field_manager=FIELD_MANAGER)
            for namespace in namespaces:
                await _ensure_secret(kube, namespace)
        except GitOpsError as error:
            raise Unavailable(f"cannot configure Argo CD: {error}") from error


async def _ensure_secret(kube: KubeClient, namespace: str) -> None:
    """Argo CD refuses to start without this key, even where nobody logs in. One that is there stays."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(namespace, "argocd-secret"),
        "stringData": {"server.secretkey": secrets.token_urlsafe(32)},
    }
    with suppress(AlreadyExists):
        await kube.create_object(SECRET, secret, field_manager=FIELD_MANAGER)
