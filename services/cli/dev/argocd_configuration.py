"""Configures the Argo CD instances of a stack: config maps, the default project, their secret."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import yaml

from services.cli.dev.probes import HOST
from services.common.errors import GitOpsError, Unavailable
from services.common.kube import APP_PROJECT, AlreadyExists, KubeClient, connect
from services.common.kube.resources import SECRET, Manifest, Resource
from services.common.settings import parse_engine_namespaces

FIELD_MANAGER = "gitopsctl"
PART_OF = "app.kubernetes.io/part-of"
KINDS = {
    "AppProject": APP_PROJECT,
    "ConfigMap": Resource("", "v1", "ConfigMap", "configmaps"),
}


def configure(kubeconfig: Path, engine_namespaces: str, source: Path, authority: Path, known_hosts: Path) -> None:
    """Apply the manifests of ``source`` in every engine namespace, and what names the git servers. Raises Unavailable.

    Argo CD's own API server would write the last two config maps, and a pod would have them mounted.
    """
    namespaces = sorted(set(parse_engine_namespaces(engine_namespaces).values()))
    trusted = {
        "argocd-tls-certs-cm": {HOST: authority.read_text()},
        "argocd-ssh-known-hosts-cm": {"ssh_known_hosts": known_hosts.read_text()},
    }
    manifests = [manifest for name in namespaces for manifest in _manifests(source.read_text(), name, trusted)]
    asyncio.run(_apply(kubeconfig, manifests, namespaces))


def _manifests(source: str, namespace: str, trusted: Mapping[str, Mapping[str, str]]) -> Iterator[Manifest]:
    for manifest in yaml.safe_load_all(source.replace("${NAMESPACE}", namespace)):
        yield manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
    for name, data in trusted.items():
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(namespace, name), "data": dict(data)}


def _metadata(namespace: str, name: str) -> Manifest:
    return {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/name": name, PART_OF: "argocd"}}


async def _apply(kubeconfig: Path, manifests: Iterable[Manifest], namespaces: Iterable[str]) -> None:
    async with await connect(kubeconfig) as kube:
        try:
            for manifest in manifests:
                await kube.apply(KINDS[manifest["kind"]], manifest, field_manager=FIELD_MANAGER)
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
        await kube.create(SECRET, secret, field_manager=FIELD_MANAGER)
